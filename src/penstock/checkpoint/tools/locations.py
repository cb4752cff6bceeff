"""Where a checkpoint is: a local directory, or a location in an object store."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from penstock.checkpoint.files import CheckpointFiles
from penstock.checkpoint.local_files import LocalFiles
from penstock.checkpoint.object_store import ObjectStoreFiles
from penstock.checkpoint.paths import CheckpointPath
from penstock.checkpoint.store_lock import STORE_SCHEMES
from penstock.checkpoint.store_path import StoreClient, StorePath, StoreTree
from penstock.checkpoint.tools import store_client
from penstock.checkpoint.tools.aws_profile import profile_settings
from penstock.errors import CheckpointError

NO_OPTIONS: Mapping[str, str] = {}

_CLIENT_OPTIONS = {
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "proxy_url",
    "timeout",
    "user_agent",
}
_WITHOUT_HOST = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""The beginning of a URI without a host, such as `hdfs:/x`."""
_S3_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


def parse_options(texts: Sequence[str]) -> dict[str, str]:
    """Parse `key=value` texts. Raises CheckpointError."""
    options = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not key or not sign:
            raise CheckpointError(f"{key!r} is not an option: give --option KEY=VALUE.")
        options[key.strip().lower()] = value
    return options


def location_of(
    location: str | CheckpointPath, options: Mapping[str, str] = NO_OPTIONS
) -> CheckpointPath:
    """The path of a local directory or of a location in an object store.

    `options` are the settings of the store's client, such as `endpoint`; what they do not say comes
    from the environment and, for S3, from the AWS profile. Raises CheckpointError for other file
    systems, and if the library for object stores is not installed.
    """
    if isinstance(location, Path):
        return location.absolute()
    if not isinstance(location, str):
        return location
    parts = urlsplit(location)
    kind = STORE_SCHEMES.get(parts.scheme)
    if kind is None or "://" not in location:
        return local_path(location)
    if not parts.netloc:
        raise CheckpointError(f"{location} has no bucket: give it as {parts.scheme}://BUCKET/PATH.")
    path = location.split("://", 1)[1].partition("/")[2].strip("/")
    uri = f"{parts.scheme}://{parts.netloc}/{path}".rstrip("/")
    client = open_client(kind, parts.scheme, parts.netloc, options)

    def elsewhere(other: str) -> StorePath:
        """The path of an object that another location has: its directory is listed."""
        directory, _, name = other.rpartition("/")
        found = location_of(directory, options)
        if not isinstance(found, StorePath):
            raise CheckpointError(f"{other} is not in an object store, as {uri} is.")
        return found / name

    return StorePath(StoreTree(client, path, uri, elsewhere))


def open_client(
    kind: str, scheme: str, bucket: str, options: Mapping[str, str] = NO_OPTIONS
) -> StoreClient:
    """A client of a bucket. Raises CheckpointError if there is no library for it."""
    url = f"{scheme}://{bucket}"
    given = dict(options)
    provider = None
    if kind == "s3":
        store_client.require_obstore(url)
        if "access_key_id" not in given:
            settings, provider = profile_settings(given.pop("profile", None))
            given = {**settings, **given}
    client_options: dict[str, Any] = {k: given.pop(k) for k in _CLIENT_OPTIONS & given.keys()}
    if kind == "s3" and _endpoint(given).startswith("http://"):
        client_options.setdefault("allow_http", "true")
    client_options = {k: _flag(v) for k, v in client_options.items()}
    store = store_client.connect(url, given, client_options, provider)
    return store_client.ObstoreClient(store, (kind, bucket))


def _endpoint(options: Mapping[str, str]) -> str:
    named = options.get("endpoint") or options.get("endpoint_url")
    return named or next((v for k in _S3_ENDPOINTS if (v := os.environ.get(k))), "")


def _flag(value: str) -> str | bool:
    return {"true": True, "false": False}.get(value.lower(), value)


def files_at(root: CheckpointPath) -> CheckpointFiles:
    """The file layer for a checkpoint at a path."""
    if isinstance(root, StorePath):
        return ObjectStoreFiles(root.tree)
    return LocalFiles(Path(str(root)))


def _schemes() -> str:
    return ", ".join(f"{scheme}://" for scheme in STORE_SCHEMES)


def local_path(location: str | Path) -> Path:
    """The directory of a path or `file:` URI. Raises CheckpointError for other file systems."""
    text = str(location)
    if text.startswith("file:"):
        text = "/" + text[len("file:") :].lstrip("/")
    elif "://" in text or (_WITHOUT_HOST.match(text) and not os.path.lexists(text)):
        raise CheckpointError(
            f"{text} is not a local path. Without a JVM, Penstock reads local directories and, "
            f"with `penstock checkpoint`, {_schemes()}. Copy the checkpoint to this machine, with "
            "`penstock checkpoint fork` from a store, and back after a change."
        )
    return Path(text).absolute()
