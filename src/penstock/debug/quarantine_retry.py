"""Runs what batches have left out through the current version of a query.

The parts are read from their sources again. No sink is called and the checkpoint is not changed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from penstock.api.query_start import QueryStart
from penstock.api.spark_options import NO_OPTIONS, SparkOptions
from penstock.checkpoint import CheckpointFiles, OffsetSeqMetadata
from penstock.checkpoint.quarantine_log import LeftOutPart
from penstock.checkpoint.tools.locations import local_path
from penstock.checkpoint.tools.quarantine_files import (
    QuarantinedBatch,
    quarantine_report,
    quarantined_batch,
)
from penstock.checkpoint.tools.view import CheckpointView
from penstock.debug.bisect_report import brief
from penstock.debug.script_query import in_place_of_query
from penstock.engine.batch_parts import FilesPart, SourcePart
from penstock.engine.data_stream import DataStream
from penstock.engine.left_out import part_of
from penstock.engine.seam import BatchRequest
from penstock.errors import CheckpointError, ExecutionError, UnsupportedError
from penstock.spark.replay.replayed_batch import ReplayedBatch, files_of
from penstock.spark.sinks.batch_sinks import OrdinaryFrames


@dataclass(frozen=True)
class RetriedPart:
    """A part that was run: the number of its result rows, or its error."""

    batch_id: int
    number: int
    part: LeftOutPart
    rows: int | None
    error: str | None

    def __str__(self) -> str:
        outcome = f"fails: {self.error}" if self.rows is None else f"passes: {self.rows} rows"
        return f"Batch {self.batch_id}, part {self.number}, {self.part} - {outcome}"


@dataclass(frozen=True)
class RetryReport:
    """The parts that were run. Their result rows are in `output`, if it was given."""

    parts: tuple[RetriedPart, ...]
    output: str | None

    @property
    def has_passed(self) -> bool:
        """Whether parts were run and none has failed."""
        return bool(self.parts) and all(part.error is None for part in self.parts)

    def __str__(self) -> str:
        lines = [str(part) for part in self.parts]
        if self.output is not None and any(part.rows is not None for part in self.parts):
            lines.append(f"The rows are in {self.output}. The sink of the query was not called.")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        return {
            "parts": [
                {
                    "batch": part.batch_id,
                    "part": part.number,
                    "input": str(part.part),
                    "rows": part.rows,
                    "error": part.error,
                }
                for part in self.parts
            ],
            "output": self.output,
        }


def retry_script(
    checkpoint: str,
    script: str | os.PathLike[str],
    arguments: Sequence[str] = (),
    options: SparkOptions = NO_OPTIONS,
    *,
    batch_id: int | None = None,
    output: str | None = None,
) -> RetryReport:
    """Run a script until it starts the query of a checkpoint, and retry what it has left out.

    By default all batches of the checkpoint; otherwise `batch_id`. Raises PenstockError if that is
    not possible, as for a stateful query or a record that cannot be read, and what
    `in_place_of_query` raises.
    """
    root = local_path(checkpoint)
    view = CheckpointView(root)
    batches = quarantine_report(view).batches
    if batch_id is not None:
        batches = (quarantined_batch(view, batch_id),)
    if not batches:
        raise CheckpointError(f"No batch of {view.root} leaves anything out.")
    for batch in batches:
        if batch.record is None:
            raise CheckpointError(
                f"It is unknown what batch {batch.batch_id} leaves out: {batch.problem} Retry the "
                "others one at a time, with --batch."
            )

    def retry(start: QueryStart) -> RetryReport:
        return _retry(start.df, view, batches, output)

    failed = "What was left out could not be run"
    return in_place_of_query(root, retry, script, arguments, options, failed=failed)


def _retry(
    df: DataFrame, view: CheckpointView, batches: Sequence[QuarantinedBatch], output: str | None
) -> RetryReport:
    with contextlib.closing(ReplayedBatch(df, f"file:{view.root}", None)) as replayed:
        if replayed.is_stateful:
            raise UnsupportedError(
                "A query that keeps state cannot be retried: its results depend on the batches "
                "before and after. Read the copies, and correct its results by hand."
            )
        if output is not None:
            _require_own(files_of(replayed.session, output), output)
        parts = [
            _run(replayed, view, batch.batch_id, number, part, output)
            for batch in batches
            for number, part in enumerate(batch.parts)
        ]
    return RetryReport(tuple(parts), output)


def _run(
    replayed: ReplayedBatch,
    view: CheckpointView,
    batch_id: int,
    number: int,
    part: LeftOutPart,
    output: str | None,
) -> RetriedPart:
    source_part = part_of(_source_of(replayed, part), part)
    try:
        _require_file(source_part)
        data: dict[DataStream, object] = {source_part.source: source_part.read()}
        metadata = _metadata(view, batch_id) or replayed.metadata
        request = BatchRequest(batch_id, metadata, None, data, is_first_in_run=True)
        execution = replayed.plan.prepare(request).jvm_execution
        frame = OrdinaryFrames(replayed.session.spark, execution).of(execution)
        if output is not None:
            target = f"{output}/batch={batch_id}/part={number}"
            frame.write.mode("overwrite").parquet(target)
            frame = replayed.session.spark.read.schema(frame.schema).parquet(target)
        return RetriedPart(batch_id, number, part, frame.count(), None)
    except Exception as exc:
        return RetriedPart(batch_id, number, part, None, brief(exc))


def _require_file(part: SourcePart) -> None:
    """Raise ExecutionError for a file that is gone, which Spark would read as an empty one."""
    if isinstance(part, FilesPart) and part.missing:
        raise ExecutionError(
            "the file does not exist any more. Put it back; the column `copy` of the quarantine's "
            "table says where its copy is."
        )


def _require_own(files: CheckpointFiles, output: str) -> None:
    """Raise ExecutionError if an output has anything else than what a retry writes."""
    foreign = files.list_names("")
    for directory in files.list_directories(""):
        if not directory.startswith("batch="):
            foreign.append(directory)
            continue
        parts = [name for name in files.list_directories(directory) if name.startswith("part=")]
        if not parts or files.list_names(directory):
            foreign.append(directory)
    if foreign:
        raise ExecutionError(
            f"{output} is not the output of a retry: it has {sorted(foreign)[0]}. Nothing was "
            "written. Give a new or an empty directory to --output."
        )


def _source_of(replayed: ReplayedBatch, part: LeftOutPart) -> DataStream:
    """The source of a part, by the name in the offset log or by its position in the plan."""
    plan = replayed.plan
    by_key = {str(position): source for position, source in enumerate(plan.sources)}
    by_key.update(zip(plan.source_ids or (), plan.sources, strict=False))
    if part.source not in by_key:
        raise CheckpointError(
            f"{part} is of the source {part.source!r}, which the query does not have; it has "
            f"{', '.join(map(str, replayed.sources))}."
        )
    return by_key[part.source]


def _metadata(view: CheckpointView, batch_id: int) -> OffsetSeqMetadata | None:
    """The timestamp and settings of a batch, if the offset log still has it."""
    entry = view.offsets.entries.get(batch_id)
    return entry.metadata if entry else None
