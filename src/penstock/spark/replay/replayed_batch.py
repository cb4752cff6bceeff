"""Reads a past batch again from its recorded offsets. Nothing is written."""

from __future__ import annotations

import uuid
from typing import Any

from pyspark.sql import DataFrame

from penstock.checkpoint import (
    CheckpointDirectory,
    CheckpointFiles,
    LocalFiles,
    OffsetSeq,
    OffsetSeqMetadata,
)
from penstock.checkpoint.stream_metadata import StreamMetadata
from penstock.engine.data_stream import DataStream
from penstock.engine.seam import BatchRequest, QueryIdentity
from penstock.engine.stream_progress import StreamProgress
from penstock.errors import MissingBatchError, UnsupportedError
from penstock.spark.batch.query_plan import QuerySpec, SparkQueryPlan
from penstock.spark.jvm.support import require_supported
from penstock.spark.plan.plan_description import describe
from penstock.spark.session.stream_session import SparkStreamSession
from penstock.spark.sinks.batch_sinks import OrdinaryFrames, PythonBatchSink
from penstock.spark.sources.python_source import PythonSourceStream
from penstock.spark.start import checkpoint_files


class ReplayedBatch:
    """A batch bound to its sources and its recorded offsets, with the settings of the batch.

    It covers the data after `start` up to and including `end`. DataFrames are created on the
    calling thread.
    """

    def __init__(self, df: DataFrame, location: str, batch_id: int | None) -> None:
        require_supported(df.sparkSession)
        self._spark = df.sparkSession
        self.session = SparkStreamSession(df.sparkSession)
        files = files_of(self.session, location)
        self.checkpoint = CheckpointDirectory(files, self.session.log_versions())
        self.batch_id, entry, before = _entries(self.checkpoint, batch_id)
        self.metadata = entry.metadata or OffsetSeqMetadata()
        if entry.metadata is not None:
            self.session.apply_recorded_conf(entry.metadata)
        analyzed = df._jdf.queryExecution().analyzed()
        description = describe(self.session.jvm.java.start.plan(analyzed))
        self.is_stateful = bool(description.stateful_kinds)
        self.plan = self._bind(analyzed)
        self.start = StreamProgress() if before is None else self._progress(before)
        self.end = self._progress(entry)
        self._data: dict[DataStream, object] | None = None

    @property
    def sources(self) -> list[DataStream]:
        """The distinct sources, in plan order."""
        return list(dict.fromkeys(self.plan.sources))

    def range_of(self, source: DataStream) -> tuple[str | None, str | None]:
        """The offsets of a source: the batch starts after the first and ends at the second."""
        start, end = self.start.get(source), self.end.get(source)
        return start.json if start else None, end.json if end else None

    def input(self, source: DataStream) -> DataFrame:
        """The rows that the batch reads from one source; empty if it had no new data."""
        leaf = next(leaf for leaf in self.plan.leaves if leaf.source is source)
        data = self._read()
        execution = self.plan.execution_of(leaf, self._request(data))
        return OrdinaryFrames(self._spark, execution).of(execution)

    def output(self) -> DataFrame:
        """The rows that the batch writes to its sink. UnsupportedError for a stateful query."""
        if self.is_stateful:
            raise UnsupportedError(
                f"Batch {self.batch_id} is of a query that keeps state: its output depends on the "
                "batches before it, and running it would write to the state of its checkpoint. "
                "Its input can be replayed. For its output, fork the checkpoint with `penstock "
                f"checkpoint fork DIR NEW --at {self.batch_id - 1}` and run the query on the fork."
            )
        execution = self.plan.prepare(self._request(self._read())).jvm_execution
        return OrdinaryFrames(self._spark, execution).of(execution)

    def close(self) -> None:
        """Stop Spark's sources. A Python source may be in use elsewhere, so it is not stopped."""
        for source in self.sources:
            if not isinstance(source, PythonSourceStream):
                source.stop()

    def _bind(self, analyzed: Any) -> SparkQueryPlan:
        jvm = self.session.jvm
        if isinstance(self.checkpoint.files, LocalFiles):
            self.session.use_direct_files()
        spec = QuerySpec(
            analyzed=analyzed,
            sink=PythonBatchSink(self._spark, lambda frame, batch_id: None),
            output_mode=jvm.cls("org.apache.spark.sql.streaming.OutputMode").Append(),
            options=jvm.scala_map({}),
            is_terminating=False,
        )
        known = StreamMetadata.read(self.checkpoint.files)
        run_id = str(uuid.uuid4())
        identity = QueryIdentity(known.id if known else run_id, run_id, None)
        return SparkQueryPlan(self.session, identity, self.checkpoint, spec)

    def _progress(self, entry: OffsetSeq) -> StreamProgress:
        return StreamProgress.from_offset_seq(entry, self.plan.sources, self.plan.source_ids)

    def _read(self) -> dict[DataStream, object]:
        if self._data is None:
            self._data = {
                source: source.get_batch(self.start.get(source), end)
                for source, end in self.end.items()
                if self.start.get(source) != end
            }
        return self._data

    def _request(self, data: dict[DataStream, object]) -> BatchRequest:
        return BatchRequest(
            batch_id=self.batch_id,
            metadata=self.metadata,
            previous_metadata=None,
            data=data,
            is_first_in_run=True,
        )


def files_of(session: SparkStreamSession, location: str) -> CheckpointFiles:
    """The files below a location, which may be relative, as in Spark's readers and writers."""
    path = session.jvm.cls("org.apache.hadoop.fs.Path")(location)
    system = path.getFileSystem(session.hadoop_conf())
    return checkpoint_files(session, str(system.makeQualified(path).toString()))


def _entries(
    checkpoint: CheckpointDirectory, batch_id: int | None
) -> tuple[int, OffsetSeq, OffsetSeq | None]:
    """The id, the entry and the previous entry of a batch, by default the last planned one."""
    log = checkpoint.offset_log
    known = log.list_batches()
    if not known and StreamMetadata.read(checkpoint.files) is None:
        raise MissingBatchError(
            f"{checkpoint.root} is not a checkpoint: it has neither the file metadata nor a batch "
            "in offsets. Give the directory that the query has as its checkpointLocation; below "
            "spark.sql.streaming.checkpointLocation, that of the query's name."
        )
    if not known:
        raise MissingBatchError(
            f"The checkpoint {checkpoint.root} has no batch yet: its query has planned none."
        )
    wanted = known[-1] if batch_id is None else batch_id
    entry = log.get(wanted)
    if entry is None:
        raise _missing(checkpoint, f"batch {wanted} is not planned", known)
    if wanted == 0:
        return wanted, entry, None
    before = log.get(wanted - 1)
    if before is None:
        problem = f"batch {wanted} starts at the end of batch {wanted - 1}, which is missing"
        raise _missing(checkpoint, problem, known)
    return wanted, entry, before


def _missing(checkpoint: CheckpointDirectory, problem: str, known: list[int]) -> MissingBatchError:
    return MissingBatchError(
        f"{problem}: {checkpoint.files.path('offsets')} has batches {known[0]} to {known[-1]}."
    )
