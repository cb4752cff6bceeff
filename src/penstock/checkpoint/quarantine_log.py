"""What Penstock records about input that makes a batch fail, below `.penstock/`.

    .penstock/failures/<number>     a batch has failed; the number is a running one
    .penstock/quarantine/<batch>    what the batch leaves out, written before it runs without that

The fields of the first are those of `BatchFailure`, the fields of the second:

    {"batchTimestampMs":1502872590006,"timeMs":1502872599006,"path":"/data/quarantine",
     "parts":[{"source":"0","description":"KafkaV2[Subscribe[t]]","start":"{\\"t\\":{\\"0\\":7}}",
               "end":"{\\"t\\":{\\"0\\":8}}","size":1,"unit":"record","error":"KeyError: 'id'"},
              {"source":"1","description":"FileStreamSource[/in]","file":"file:///in/7.json",
               "modifiedMs":1502872580000,"bytes":1234,"unit":"file","error":"..."}],
     "kept":[{"source":"0","start":"{\\"t\\":{\\"0\\":0}}","end":"{\\"t\\":{\\"0\\":7}}"}]}

Offsets are texts, exactly as in the offset log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.checkpoint.files import CheckpointFiles
from penstock.checkpoint.json_text import integer_field
from penstock.checkpoint.known_files import KnownFiles
from penstock.checkpoint.own_files import OWN_DIRECTORY
from penstock.checkpoint.own_log import OwnLog
from penstock.errors import MalformedLogError

FAILURES = f"{OWN_DIRECTORY}/failures"
"""The directory of the failures, relative to the checkpoint's root."""

QUARANTINE = f"{OWN_DIRECTORY}/quarantine"
"""The directory of the records, relative to the checkpoint's root."""


@dataclass(frozen=True)
class BatchFailure:
    """A failure of a batch, as planned at `batch_timestamp_ms`."""

    batch_id: int
    batch_timestamp_ms: int
    time_ms: int
    error: str


@dataclass(frozen=True)
class LeftOutPart:
    """A part of a batch that is left out: a file, or the offsets after `start` up to `end`.

    `source` is the name of the source in the offset log, or its position in the plan. `size` is
    the number of units (records, offsets), None if it is not known. `bytes` is the file's size.
    """

    source: str
    description: str
    error: str
    unit: str = ""
    file: str | None = None
    modified_ms: int | None = None
    bytes: int | None = None
    start: str | None = None
    end: str | None = None
    size: int | None = None

    def __str__(self) -> str:
        if self.file is not None:
            size = "" if self.bytes is None else f" ({self.bytes} bytes)"
            return f"the file {self.file}{size} of {self.description}"
        units = "" if self.size is None else f" ({self.size} {self.unit}{'s' * (self.size != 1)})"
        start = "the beginning" if self.start is None else self.start
        return f"what follows {start} up to {self.end}{units} of {self.description}"


@dataclass(frozen=True)
class KeptRange:
    """Offsets of a source that the batch keeps. Sources without a part left out have none."""

    source: str
    start: str | None
    end: str


@dataclass(frozen=True)
class QuarantineRecord:
    """What a batch, as planned at `batch_timestamp_ms`, leaves out, and what it keeps of these
    sources; for a source of files, that is all files but those left out.

    `path` is the directory that the parts are copied to.
    """

    batch_timestamp_ms: int
    time_ms: int
    path: str
    parts: tuple[LeftOutPart, ...]
    kept: tuple[KeptRange, ...] = ()


class FailureLog(OwnLog[BatchFailure]):
    """The failures of batches. The key of an entry is a running number, not a batch id."""

    what = "The entry of a failure"

    def __init__(self, files: CheckpointFiles, known: KnownFiles | None = None) -> None:
        super().__init__(files, FAILURES, known)

    def fields_of(self, entry: BatchFailure) -> dict[str, Any]:
        return {
            "batch": entry.batch_id,
            "batchTimestampMs": entry.batch_timestamp_ms,
            "timeMs": entry.time_ms,
            "error": entry.error,
        }

    def from_fields(self, fields: dict[str, Any]) -> BatchFailure:
        return BatchFailure(
            integer_field(fields, "batch", self.what),
            integer_field(fields, "batchTimestampMs", self.what),
            integer_field(fields, "timeMs", self.what),
            str(fields.get("error", "")),
        )

    def _remedy_of_damaged(self, path: str) -> str:
        return f"Move {path} away and start the query again: this failure is then not counted."

    def of_plan(self, batch_id: int, batch_timestamp_ms: int) -> list[BatchFailure]:
        """The failures of a batch as it was planned at this time, oldest first."""
        entries = [self._get_existing(number) for number in self.list_batches()]
        plan = batch_id, batch_timestamp_ms
        return [e for e in entries if (e.batch_id, e.batch_timestamp_ms) == plan]

    def append(self, failure: BatchFailure) -> None:
        """Add a failure, and remove those of earlier batches, which are committed."""
        numbers = self.list_batches()
        old = [n for n in numbers if self._get_existing(n).batch_id < failure.batch_id]
        number = max(numbers, default=-1) + 1
        while not self.add(number, failure):  # a listing may be outdated
            number += 1
        self._remove(old)


class QuarantineLog(OwnLog[QuarantineRecord]):
    """The records of what batches leave out."""

    what = "A record of the quarantine"

    def __init__(self, files: CheckpointFiles, known: KnownFiles | None = None) -> None:
        super().__init__(files, QUARANTINE, known)

    def fields_of(self, entry: QuarantineRecord) -> dict[str, Any]:
        return {
            "batchTimestampMs": entry.batch_timestamp_ms,
            "timeMs": entry.time_ms,
            "path": entry.path,
            "parts": [_fields_of_part(part) for part in entry.parts],
            "kept": [{"source": k.source, "start": k.start, "end": k.end} for k in entry.kept],
        }

    def from_fields(self, fields: dict[str, Any]) -> QuarantineRecord:
        try:
            return QuarantineRecord(
                integer_field(fields, "batchTimestampMs", self.what),
                integer_field(fields, "timeMs", self.what),
                str(fields["path"]),
                tuple(_part_from(part) for part in fields["parts"]),
                tuple(KeptRange(k["source"], k["start"], k["end"]) for k in fields["kept"]),
            )
        except (KeyError, TypeError, AttributeError) as exc:
            raise MalformedLogError(f"{self.what} has missing or wrong fields: {exc!r}") from exc

    def _remedy_of_damaged(self, path: str) -> str:
        return (
            f"Restore {path}, or move it away and start the query again: if its batch is planned, "
            "it then runs with all of its data."
        )

    def parts_since(self, time_ms: int) -> int:
        """The number of parts in all records that were written at this time or later."""
        records = [self._get_existing(batch_id) for batch_id in self.list_batches()]
        return sum(len(record.parts) for record in records if record.time_ms >= time_ms)


_PART_FIELDS = {
    "source": "source",
    "description": "description",
    "file": "file",
    "modifiedMs": "modified_ms",
    "bytes": "bytes",
    "start": "start",
    "end": "end",
    "size": "size",
    "unit": "unit",
    "error": "error",
}
"""The names of the fields of a part in JSON and in Python."""


def _fields_of_part(part: LeftOutPart) -> dict[str, Any]:
    values = {name: getattr(part, field) for name, field in _PART_FIELDS.items()}
    return {name: value for name, value in values.items() if value is not None}


def _part_from(fields: dict[str, Any]) -> LeftOutPart:
    known = {field: fields[name] for name, field in _PART_FIELDS.items() if name in fields}
    return LeftOutPart(**known)
