"""How a store is reached: options, environment, profile, and what errors say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from obstore.exceptions import GenericError
from obstore.store import LocalStore, MemoryStore

from penstock.checkpoint.store_path import ObjectStatus, StorePath, StoreTree
from penstock.checkpoint.tools import store_client
from penstock.checkpoint.tools.aws_profile import profile_settings
from penstock.checkpoint.tools.locations import location_of, open_client, parse_options
from penstock.checkpoint.tools.store_client import ObstoreClient
from penstock.errors import CheckpointError


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home directory without a profile, and an environment without credentials."""
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "PROFILE", "ENDPOINT_URL", "REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    return tmp_path


def with_profiles(home: Path) -> None:
    (home / ".aws/credentials").write_text(
        "[default]\naws_access_key_id = one\naws_secret_access_key = two\n"
        "[ops]\naws_access_key_id = three\naws_secret_access_key = four%\n"
        "aws_session_token = five\n"
    )
    (home / ".aws/config").write_text(
        "[default]\nregion = eu-west-1\n[profile ops]\nendpoint_url = http://store:9000\n"
        "s3 =\n  addressing_style = path\n[profile sso]\nsso_session = corporate\n"
    )


def test_the_default_profile_is_read(home: Path) -> None:
    assert profile_settings(None) == ({}, None)
    with_profiles(home)
    settings = {"access_key_id": "one", "secret_access_key": "two", "region": "eu-west-1"}
    assert profile_settings(None) == (settings, None)


def test_a_profile_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_profiles(home)
    settings = {
        "access_key_id": "three",
        "secret_access_key": "four%",
        "session_token": "five",
        "endpoint": "http://store:9000",
    }
    assert profile_settings("ops") == (settings, None)
    monkeypatch.setenv("AWS_PROFILE", "ops")
    assert profile_settings(None) == (settings, None)
    with pytest.raises(CheckpointError, match="There is no AWS profile 'gone'"):
        profile_settings("gone")


def test_the_environment_comes_before_the_profile(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_profiles(home)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "six")
    assert profile_settings(None) == ({}, None)
    assert profile_settings("ops")[0]["access_key_id"] == "three"


def test_a_profile_whose_credentials_are_fetched_needs_boto3(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_profiles(home)
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(CheckpointError, match="pip install boto3"):
        profile_settings("sso")


def test_a_damaged_profile_is_named(home: Path) -> None:
    (home / ".aws/config").write_text("region = nowhere")
    with pytest.raises(CheckpointError, match="config cannot be read"):
        profile_settings(None)


def connected(monkeypatch: pytest.MonkeyPatch, *options: str) -> tuple[Any, Any]:
    """What a client is opened with."""
    given: list[Any] = []

    def connect(*what: Any) -> MemoryStore:
        given[:] = what
        return MemoryStore()

    monkeypatch.setattr(store_client, "connect", connect)
    open_client("s3", "s3a", "bucket", parse_options(options))
    assert given[0] == "s3a://bucket"
    return given[1], given[2]


def test_options_and_profile(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_profiles(home)
    settings, client = connected(monkeypatch, "profile=ops", "region=us-west-2", "timeout=10s")
    assert settings["secret_access_key"] == "four%"
    assert settings["region"] == "us-west-2"
    assert client == {"timeout": "10s", "allow_http": True}
    settings, client = connected(monkeypatch, "access_key_id=x", "secret_access_key=a=b")
    assert settings == {"access_key_id": "x", "secret_access_key": "a=b"}
    assert client == {}


def test_an_endpoint_without_tls_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:9000")
    assert connected(monkeypatch)[1] == {"allow_http": True}
    assert connected(monkeypatch, "allow_http=false")[1] == {"allow_http": False}


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        ("s3://bucket/x", {"access_key_id": "a", "secret_access_key": "b"}),
        ("gs://bucket/x", {"skip_signature": "true"}),
        ("abfss://c@account.dfs.core.windows.net/x", {"account_key": "YQ=="}),
        ("az://container/x", {"account_name": "a", "account_key": "YQ=="}),
    ],
)
def test_every_kind_of_store_is_opened(uri: str, options: dict[str, str]) -> None:
    path = location_of(uri, options)
    assert isinstance(path, StorePath)
    assert str(path) == uri
    assert path.tree.prefix == "x"


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(CheckpointError, match="'nonsense' is not valid"):
        location_of("s3://bucket/x", {"access_key_id": "a", "nonsense": "1"})


class Failing:
    """A store whose every request fails."""

    def __init__(self, message: str) -> None:
        self._message = message

    def __getattr__(self, name: str) -> Any:
        def fail(*_: Any, **__: Any) -> None:
            raise GenericError(self._message)

        return fail


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("PUT http://169.254.169.254/latest/api/token", "AWS_PROFILE"),
        ("<Code>ExpiredToken</Code>", "renew them"),
        ("<Code>NoSuchBucket</Code>", "no such bucket"),
        ("an incorrectly configured region", "AWS_REGION"),
        ("something else\n\nDebug source:\nGeneric {}", "something else"),
    ],
)
def test_an_error_says_what_to_do(message: str, hint: str) -> None:
    client = ObstoreClient(Failing(message), ("s3", "bucket"))
    with pytest.raises(OSError, match=hint) as caught:
        client.get("offsets/0")
    assert str(caught.value).startswith("s3://bucket/offsets/0: ")
    assert "Debug source" not in str(caught.value)


def test_missing_objects_are_not_deleted(tmp_path: Path) -> None:
    """Some stores refuse to delete an object that does not exist."""
    store = LocalStore(tmp_path)
    for name in ("a", "b"):
        store.put(name, b"x")
    with pytest.raises(FileNotFoundError):
        store.delete(["none", "none either"])
    ObstoreClient(store, ("gs", "bucket")).delete(["a", "none", "b"])
    assert list(ObstoreClient(store, ("gs", "bucket")).list("")) == []


class Marked(ObstoreClient):
    """A bucket in which a connector of Hadoop has marked directories."""

    marks: tuple[str, ...] = ("query/state", "query/state/0/1", "query")

    def list(self, prefix: str) -> Any:
        return {**super().list(prefix), **dict.fromkeys(self.marks, EMPTY)}


EMPTY = ObjectStatus(0, 0.0)


@pytest.fixture
def marked() -> StorePath:
    store = MemoryStore()
    store.put("query/state/0/0/1.delta", b"x")
    store.put("query/offsets/0", b"")
    store.put("queryish", b"elsewhere")

    def elsewhere(uri: str) -> StorePath:
        raise AssertionError(uri)

    tree = StoreTree(Marked(store, ("s3", "bucket")), "query", "s3://bucket/query", elsewhere)
    return StorePath(tree)


def test_marks_of_directories_are_no_files(marked: StorePath) -> None:
    assert [path.name for path in marked.iterdir()] == ["offsets", "state"]
    assert sorted(map(str, marked.files_below())) == [
        "s3://bucket/query/offsets/0",
        "s3://bucket/query/state/0/0/1.delta",
    ]
    assert (marked / "state/0/1").is_dir()
    assert not (marked / "state/0/1").is_file()
    assert list((marked / "state/0/1").iterdir()) == []
    assert (marked / "offsets/0").is_file()
    assert (marked / "offsets/0").stat().st_size == 0
    with pytest.raises(FileNotFoundError):
        (marked / "state/0/1").stat()
    marked.tree.delete(["state/0/0/1.delta"])
    assert (marked / "state").is_dir()
    marked.tree.put("state", b"now a file")
    assert (marked / "state").is_file()


def test_paths(marked: StorePath) -> None:
    file = marked / "state" / "0/0" / "1.delta"
    assert (file.name, file.suffix, file.parent.name) == ("1.delta", ".delta", "0")
    assert marked.name == "query"
    assert file.with_name(".1.delta.crc") == marked / "state/0/0/.1.delta.crc"
    assert str(file.relative_to(marked)) == "state/0/0/1.delta"
    assert not marked.is_relative_to(file)
    assert file in {marked / "state/0/0/1.delta"}
    assert [str(p.relative_to(marked)) for p in marked.glob("state/*/*/*.delta")] == [
        "state/0/0/1.delta"
    ]
    assert repr(marked) == "StorePath('s3://bucket/query')"
    assert (marked / "state").as_root().tree.prefix == "query/state"
