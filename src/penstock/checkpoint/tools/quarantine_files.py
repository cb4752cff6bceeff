"""The quarantine of a checkpoint, for the commands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.checkpoint.commands import command_line
from penstock.checkpoint.quarantine_log import (
    FAILURES,
    QUARANTINE,
    BatchFailure,
    LeftOutPart,
    QuarantineRecord,
)
from penstock.checkpoint.timestamps import format_timestamp
from penstock.checkpoint.tools.changes import Change, delete_files
from penstock.checkpoint.tools.findings import Finding, Severity, remedy_of_intact
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import CheckpointError, MissingBatchError


@dataclass(frozen=True)
class QuarantinedBatch:
    """What one batch leaves out, or the reason why its record cannot be read.

    `is_committed` says whether the batch has run without these parts to its end.
    """

    batch_id: int
    is_committed: bool
    record: QuarantineRecord | None
    error: CheckpointError | OSError | None = None

    @property
    def problem(self) -> str | None:
        """The reason why the record cannot be read, in one line."""
        return None if self.error is None else _first_line(self.error)

    @property
    def parts(self) -> tuple[LeftOutPart, ...]:
        return self.record.parts if self.record else ()

    @property
    def time(self) -> str:
        return format_timestamp(self.record.time_ms) if self.record else ""

    def to_dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"batch": self.batch_id, "isCommitted": self.is_committed}
        if self.record is None:
            return fields | {"problem": self.problem}
        return fields | {
            "time": self.time,
            "path": self.record.path,
            "parts": [_part_fields(part) for part in self.record.parts],
        }


@dataclass(frozen=True)
class QuarantineReport:
    """The batches that leave something out, oldest first, and the failures that are counted.

    `problems` are the errors of the entries of failures that cannot be read.
    """

    root: str
    query_id: str | None
    batches: tuple[QuarantinedBatch, ...]
    failures: tuple[BatchFailure, ...]
    problems: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "checkpoint": self.root,
            "id": self.query_id,
            "batches": [batch.to_dict() for batch in self.batches],
            "failures": [
                {
                    "batch": failure.batch_id,
                    "time": format_timestamp(failure.time_ms),
                    "error": failure.error,
                }
                for failure in self.failures
            ],
            "problems": list(self.problems),
        }


def quarantine_report(view: CheckpointView) -> QuarantineReport:
    """All that a checkpoint has recorded about its quarantine."""
    failures = [found for _, found in _failures(view)]
    return QuarantineReport(
        str(view.root),
        view.query_id,
        tuple(_batch(view, batch_id) for batch_id in view.directory.quarantine.list_batches()),
        tuple(found for found in failures if isinstance(found, BatchFailure)),
        tuple(found for found in failures if isinstance(found, str)),
    )


def quarantined_batch(view: CheckpointView, batch_id: int) -> QuarantinedBatch:
    """What one batch leaves out. Raises MissingBatchError if it leaves out nothing."""
    known = view.directory.quarantine.list_batches()
    if batch_id not in known:
        others = f"those that do are {', '.join(map(str, known))}" if known else "no batch does"
        raise MissingBatchError(f"Batch {batch_id} of {view.root} leaves out nothing; {others}.")
    return _batch(view, batch_id)


def cut_quarantine(view: CheckpointView, batch: int) -> list[Change]:
    """Delete the records and failures of batches later than `batch`, which are planned anew.

    A failure that cannot be read, and that may be of such a batch, is deleted too.
    """
    report = quarantine_report(view)
    records = [
        view.root / QUARANTINE / str(later.batch_id)
        for later in reversed(report.batches)
        if later.batch_id > batch
    ]
    failures = [
        view.root / FAILURES / str(number)
        for number, found in _failures(view)
        if isinstance(found, str) or found.batch_id > batch
    ]
    return delete_files(view.root, [*records, *failures])


def check_quarantine(view: CheckpointView) -> Iterator[Finding]:
    """The record of the planned batch must be readable, and should be of its plan."""
    batch_id = view.newest_batch
    if not view.is_planned or batch_id not in view.directory.quarantine.list_batches():
        return
    assert batch_id is not None
    found = _batch(view, batch_id)
    file = view.root / QUARANTINE / str(batch_id)
    planned = view.offsets.entries.get(batch_id)
    metadata = planned.metadata if planned else None
    if found.record is None:
        restoring = f"restore {file}, or remove it: batch {batch_id} then runs with all of its data"
        yield Finding(
            Severity.ERROR,
            view.relative(file),
            found.problem or "The record cannot be read.",
            "runs the batch with all of its data",
            "refuses to start",
            (found.error and remedy_of_intact(found.error, file)) or restoring,
        )
    elif metadata and found.record.batch_timestamp_ms != metadata.batch_timestamp_ms:
        yield Finding(
            Severity.WARNING,
            view.relative(file),
            f"The record is of another plan of batch {batch_id}.",
            "does not know it",
            "ignores it, with a warning, and cannot put anything aside in this batch",
            f"remove {file}",
        )
    else:
        yield Finding(
            Severity.INFO,
            view.relative(file),
            f"Batch {batch_id} leaves out {len(found.parts)} parts that make it fail.",
            "runs the batch with all of its data",
            "runs the batch without these parts",
            command_line("penstock", "quarantine", "show", view.root, batch_id),
        )


def _failures(view: CheckpointView) -> list[tuple[int, BatchFailure | str]]:
    """The recorded failures with their numbers; the error of an entry that cannot be read."""
    log = view.directory.failures
    found: list[tuple[int, BatchFailure | str]] = []
    for number in log.list_batches():
        try:
            failure = log.get(number)
        except (CheckpointError, OSError) as exc:
            found.append((number, _first_line(exc)))
            continue
        if failure is not None:
            found.append((number, failure))
    return found


def _batch(view: CheckpointView, batch_id: int) -> QuarantinedBatch:
    committed = view.commits.newest
    is_committed = committed is not None and batch_id <= committed
    try:
        return QuarantinedBatch(batch_id, is_committed, view.directory.quarantine.get(batch_id))
    except (CheckpointError, OSError) as exc:
        return QuarantinedBatch(batch_id, is_committed, None, exc)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _part_fields(part: LeftOutPart) -> dict[str, Any]:
    fields = {
        "source": part.description,
        "file": part.file,
        "bytes": part.bytes,
        "startOffset": part.start,
        "endOffset": part.end,
        "size": part.size,
        "unit": part.unit,
        "error": part.error,
    }
    return {name: value for name, value in fields.items() if value is not None}
