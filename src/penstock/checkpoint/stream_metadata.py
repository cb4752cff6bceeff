"""The `metadata` file: the query id, which never changes for a checkpoint."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from penstock.checkpoint.files import CheckpointFiles
from penstock.checkpoint.json_text import object_from_json, to_json
from penstock.errors import ConcurrentUpdateError, MalformedLogError

FILE_NAME = "metadata"


@dataclass(frozen=True)
class StreamMetadata:
    """The id of a query, which is the same in every run."""

    id: str

    @property
    def json(self) -> str:
        return to_json({"id": self.id})

    @classmethod
    def new(cls) -> StreamMetadata:
        return cls(str(uuid.uuid4()))

    @classmethod
    def read(cls, files: CheckpointFiles) -> StreamMetadata | None:
        """The metadata of a checkpoint; None if there is no file.

        Raises MalformedLogError if the file has no query id; the message says what to do.
        """
        try:
            data = files.read(FILE_NAME)
        except FileNotFoundError:
            return None
        try:
            fields = object_from_json(data.decode(), "The stream metadata")
            return cls(str(uuid.UUID(fields["id"])))
        except (MalformedLogError, ValueError, KeyError, AttributeError, TypeError) as exc:
            raise MalformedLogError(
                f"Error reading stream metadata from {files.path(FILE_NAME)}: {exc}. "
                'It should hold {"id":"<uuid>"}. Restore it from a backup; the id is also in the '
                "query's progress and in the logs of every earlier run."
            ) from exc

    def write(self, files: CheckpointFiles) -> None:
        """Write the file of a new checkpoint and create its root if necessary.

        Raises ConcurrentUpdateError if the file exists.
        """
        files.make_directory("")
        if not files.create_if_absent(FILE_NAME, self.json.encode()):
            raise ConcurrentUpdateError(
                f"Multiple streaming queries are concurrently using {files.path(FILE_NAME)}."
            )
