"""The credentials and settings of an AWS profile, from the files that the AWS tools share."""

from __future__ import annotations

import configparser
import importlib
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.errors import CheckpointError

_DEFAULT = "default"
_SETTINGS = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
    "region": "region",
    "endpoint_url": "endpoint",
}
"""What a profile calls a setting, and what `obstore` calls it."""

_FROM_ELSEWHERE = ("role_arn", "credential_process", "sso_session", "sso_start_url")
"""Settings of a profile whose credentials have to be fetched."""

_IN_ENVIRONMENT = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
)


def profile_settings(name: str | None) -> tuple[dict[str, str], Any]:
    """The settings of a profile for `obstore`, and a provider of credentials or None.

    Without a name it is the profile that AWS_PROFILE names, or the default one; then the
    environment comes first, and it may be missing. The provider is that of boto3, for a profile
    whose credentials have to be fetched (a role, single sign-on, a process). Raises
    CheckpointError if a profile that is named does not exist, or if it needs boto3.
    """
    named = name or os.environ.get("AWS_PROFILE")
    if name is None and any(os.environ.get(variable) for variable in _IN_ENVIRONMENT):
        return {}, None
    profile = _read(named or _DEFAULT)
    if not profile:
        if named:
            raise CheckpointError(
                f"There is no AWS profile {named!r} in {_credentials_file()} or {_config_file()}."
            )
        return {}, None
    settings = {ours: profile[theirs] for theirs, ours in _SETTINGS.items() if theirs in profile}
    if "access_key_id" not in settings and any(key in profile for key in _FROM_ELSEWHERE):
        return settings, _boto3_provider(named or _DEFAULT)
    return settings, None


def _read(profile: str) -> dict[str, str]:
    """The settings of a profile in both files; empty if neither has it."""
    found: dict[str, str] = {}
    in_config = profile if profile == _DEFAULT else f"profile {profile}"
    for file, section in ((_config_file(), in_config), (_credentials_file(), profile)):
        parser = configparser.RawConfigParser()
        try:
            parser.read(file)
        except (configparser.Error, UnicodeDecodeError) as exc:
            raise CheckpointError(f"{file} cannot be read: {exc}") from exc
        if parser.has_section(section):
            found.update(_without_nested(parser[section]))
    return found


def _without_nested(section: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in section.items() if value and "\n" not in value}


def _boto3_provider(profile: str) -> Any:
    if importlib.util.find_spec("boto3") is None:
        raise CheckpointError(
            f"The credentials of the AWS profile {profile!r} have to be fetched, which needs "
            "boto3: pip install boto3. Or export them to the environment: "
            f"eval $(aws configure export-credentials --profile {profile} --format env)"
        )
    session = importlib.import_module("boto3").Session(profile_name=profile)
    return importlib.import_module("obstore.auth.boto3").Boto3CredentialProvider(session)


def _credentials_file() -> Path:
    return Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or Path.home() / ".aws/credentials")


def _config_file() -> Path:
    return Path(os.environ.get("AWS_CONFIG_FILE") or Path.home() / ".aws/config")
