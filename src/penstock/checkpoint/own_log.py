"""The common format of the logs below `.penstock/`: a version, then a line of JSON."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic, TypeVar

from penstock.checkpoint.json_text import object_from_json, to_json
from penstock.checkpoint.metadata_log import MetadataLog
from penstock.checkpoint.versions import parse_version
from penstock.errors import IncompleteLogError

_VERSION = 1

T = TypeVar("T")


class OwnLog(MetadataLog[T], Generic[T]):
    """A log below `.penstock/`. Its entries are not expected to be there before each write.

    A file is two lines, with no newline at the end: `v1`, and the fields as a JSON object.
    """

    what = ""
    """The subject of error messages."""

    def serialize(self, entry: T) -> bytes:
        return f"v{_VERSION}\n{to_json(self.fields_of(entry))}".encode()

    def deserialize(self, data: bytes) -> T:
        version, newline, text = data.decode().partition("\n")
        if not newline or not text.endswith("}"):
            raise IncompleteLogError(f"{self.what} is empty or truncated.")
        parse_version(version, _VERSION)
        return self.from_fields(object_from_json(text, self.what))

    @abstractmethod
    def fields_of(self, entry: T) -> dict[str, Any]:
        """The JSON fields of an entry."""

    @abstractmethod
    def from_fields(self, fields: dict[str, Any]) -> T:
        """The entry with these JSON fields. Raises MalformedLogError."""

    def _remember(self, batch_id: int, data: bytes) -> None:
        """Checking all of these files before each write would cost more than it is worth."""
