"""Requests to an object store with `obstore`, which speaks to S3, GCS and Azure without a JVM."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from penstock.checkpoint.object_store import missing
from penstock.checkpoint.store_path import ObjectStatus
from penstock.errors import CheckpointError

MARK = "penstock-writer"
"""The metadata of an object that has its mark; the same as that of a running query."""

_LISTED_AT_ONCE = 1000
_COPIED_AT_ONCE = 8 * 1024 * 1024
_HINTS = {
    "169.254.169.254": "No credentials were found. Set AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY or AWS_PROFILE, or give --option access_key_id=... --option "
    "secret_access_key=..., or --option profile=NAME.",
    "metadata.google.internal": "No credentials were found. Set GOOGLE_APPLICATION_CREDENTIALS, or "
    "give --option service_account=FILE.",
    "incorrectly configured region": "Set AWS_REGION, or give --option region=NAME.",
    "ExpiredToken": "The credentials have expired: renew them and repeat the command.",
    "NoSuchBucket": "There is no such bucket.",
    "URL scheme is not allowed": "Give --option allow_http=true for an endpoint without TLS.",
}


class ObstoreClient:
    """Keeps the contract of StoreClient with a store of `obstore`."""

    def __init__(self, store: Any, identity: tuple[str, str]) -> None:
        """`store` has the methods of `obstore.store.S3Store` and begins at the bucket's top."""
        self._store = store
        self.identity = identity

    def list(self, prefix: str) -> Mapping[str, ObjectStatus]:
        with self._errors(prefix):
            return {
                str(found["path"]): _status(found)
                for page in self._store.list(prefix or None, chunk_size=_LISTED_AT_ONCE)
                for found in page
            }

    def head(self, name: str) -> ObjectStatus:
        with self._errors(name):
            return _status(self._store.head(name))

    def get(self, name: str) -> bytes:
        with self._errors(name):
            return bytes(self._store.get(name).bytes())

    def mark(self, name: str) -> str | None:
        with self._errors(name):
            mark = self._store.get(name).attributes.get(MARK)
            return None if mark is None else str(mark)

    def create(self, name: str, data: bytes, mark: str) -> None:
        with self._errors(name):
            self._store.put(name, data, mode="create", attributes={MARK: mark})

    def put(self, name: str, data: bytes) -> None:
        with self._errors(name):
            self._store.put(name, data)

    def copy(self, name: str, target: str) -> None:
        with self._errors(name):
            self._store.copy(name, target)

    def upload(self, file: Path, name: str) -> None:
        with self._errors(name):
            self._store.put(name, file)

    def download(self, name: str, file: Path) -> None:
        with self._errors(name):
            found = self._store.get(name)
            with file.open("xb") as target:
                for piece in found.stream(min_chunk_size=_COPIED_AT_ONCE):
                    target.write(piece)

    def delete(self, names: Sequence[str]) -> None:
        if not names:
            return
        with self._errors(names[0]):
            try:
                self._store.delete(list(names))
            except FileNotFoundError:  # S3 ignores a missing object, GCS and Azure do not
                for name in names:
                    with suppress(FileNotFoundError):
                        self._store.delete(name)

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        """Translate the exceptions of `obstore` to OSErrors, with what to do about them."""
        where = f"{self.identity[0]}://{self.identity[1]}/{name}"
        try:
            yield
        except FileNotFoundError as exc:
            raise missing(where) from exc
        except _errors_of("BaseError") as exc:
            if isinstance(exc, _errors_of("AlreadyExistsError")):
                raise FileExistsError(f"{where} exists") from exc
            raise OSError(f"{where}: {_described(str(exc))}") from exc


def connect(url: str, options: Mapping[str, Any], client: Mapping[str, Any], provider: Any) -> Any:
    """A store of `obstore` for a URL without a path.

    Raises CheckpointError if `obstore` is not installed or does not accept an option.
    """
    require_obstore(url)
    store = importlib.import_module("obstore.store")
    given: dict[str, Any] = {"config": dict(options), "client_options": dict(client)}
    if provider is not None:
        given["credential_provider"] = provider
    try:
        return store.from_url(url, **given)
    except (ValueError, TypeError, _errors_of("BaseError")) as exc:
        raise CheckpointError(f"{url} cannot be opened: {_described(str(exc))}") from exc


def require_obstore(uri: str) -> None:
    """Raise CheckpointError, with the command that installs it, if `obstore` is missing."""
    if importlib.util.find_spec("obstore") is None:
        raise CheckpointError(
            f"{uri} is in an object store, and the library for it is not installed: "
            "pip install 'penstock[s3]'"
        )


def _errors_of(name: str) -> type[Exception]:
    """A class of `obstore.exceptions`."""
    kind = getattr(importlib.import_module("obstore.exceptions"), name)
    assert isinstance(kind, type)
    return kind


def _status(found: Mapping[str, Any]) -> ObjectStatus:
    return ObjectStatus(int(found["size"]), found["last_modified"].timestamp())


def _described(text: str) -> str:
    """The message of an error without the structure that follows it, and a hint if there is one."""
    message = text.partition("\n\nDebug source")[0].strip()
    hints = [hint for sign, hint in _HINTS.items() if sign in text]
    return f"{message.rstrip('.')}. {hints[0]}" if hints else message
