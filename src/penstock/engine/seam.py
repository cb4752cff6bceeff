"""The interfaces of the engine that Spark implements; in tests, an in-memory world does.

The interface of the sources is in `data_stream`.
"""

from __future__ import annotations

import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from penstock.checkpoint import CommitMetadata, OffsetSeqMetadata
from penstock.checkpoint.quarantine_log import QuarantineRecord
from penstock.checkpoint.timestamps import format_timestamp
from penstock.engine.batch_parts import SourcePart
from penstock.engine.data_stream import DataStream
from penstock.engine.error_text import error_text
from penstock.engine.events import QueryEvent
from penstock.engine.named_sinks import NamedSink, SinkWriter
from penstock.engine.progress import ExecutionStats
from penstock.engine.settings import Settings
from penstock.engine.watermark import EventTimeStats, WatermarkOperator


@dataclass(frozen=True)
class BatchRequest:
    """A batch that is in the offset log and is to be run now.

    `data` has the result of `get_batch` for each source with new data; `Pieces` if parts are left
    out. The watermark and the timestamp in `metadata` are those in the offset log: a re-run gets
    the same.
    """

    batch_id: int
    metadata: OffsetSeqMetadata
    previous_metadata: OffsetSeqMetadata | None
    data: Mapping[DataStream, object]
    is_first_in_run: bool


class BatchExecution(ABC):
    """One planned batch. `run` or `run_for_sinks` is called once; the other methods are valid then.

    For a plan with named sinks it is `run_for_sinks`, or neither, unless `has_other_effects`.
    """

    @abstractmethod
    def run(self) -> int | None:
        """Compute the batch and write it to the sink; returns the number of rows, if counted."""

    @property
    def has_other_effects(self) -> bool:
        """Whether running it does more than writing to sinks: state, event times, observations."""
        return True

    def run_for_sinks(self, deliver: Callable[[SinkWriter], None], *, is_wanted: bool) -> int:
        """Compute the batch once, completely, and keep its rows while `deliver` runs.

        `deliver` is called, on this thread, with a function that writes the rows to a sink of the
        plan, by name. The rows are released at the end, also after an error of `deliver`, which is
        raised. Unless `is_wanted`, the rows are not kept, and `deliver` does not write them.
        Returns the number of rows.
        """
        raise NotImplementedError("this plan has no named sinks")

    @abstractmethod
    def event_time_stats(self) -> Sequence[EventTimeStats]:
        """The event-time statistics of each watermark operator."""

    @abstractmethod
    def commit_metadata(self, next_watermark_ms: int) -> CommitMetadata:
        """The batch's entry for the commit log."""

    @abstractmethod
    def should_run_another_batch(self, metadata: OffsetSeqMetadata) -> bool:
        """Whether a batch without new data would emit or remove state."""

    @abstractmethod
    def explain(self, *, extended: bool) -> str:
        """The physical plan as text."""

    @abstractmethod
    def statistics(self, *, has_new_data: bool) -> ExecutionStats:
        """The statistics for progress, without the watermark and the number of output rows."""


class Trials(ABC):
    """Runs parts of a batch to see whether they fail."""

    @abstractmethod
    def run(self, request: BatchRequest) -> None:
        """Compute all rows of a batch, without calling a sink and without changing its state.

        Raises the error with which the batch fails.
        """


@dataclass(frozen=True)
class PutAside:
    """The parts that a batch leaves out, which are to be copied; `request` is without data."""

    record: QuarantineRecord
    parts: tuple[SourcePart, ...]
    request: BatchRequest


class QueryPlan(ABC):
    """The query with its sources. Created once per run, on the query's thread."""

    @property
    @abstractmethod
    def sources(self) -> Sequence[DataStream]:
        """The sources in the order of the plan; a source that is used twice occurs twice."""

    @property
    def source_ids(self) -> Sequence[str] | None:
        """The names of the sources, if the offset log is to record names; else None."""
        return None

    @property
    def names_new_log(self) -> bool:
        """Whether the offset log of a new query records `source_ids`."""
        return self.source_ids is not None

    @property
    def refuses_log_by_position(self) -> bool:
        """Whether an offset log that has no names of sources is an error."""
        return False

    @property
    @abstractmethod
    def sink_description(self) -> str:
        """The description of the sink in progress."""

    @property
    def named_sinks(self) -> Sequence[NamedSink]:
        """The sinks of a query with many, in order; empty if the query has one sink."""
        return ()

    def latest_batch_of_sink(self) -> int | None:
        """The newest batch in the sink's own log, if the sink has one and skips batches in it.

        Called once, before the first batch of a run. None also if the user has allowed the sink to
        skip batches.
        """
        return None

    def sink_metrics(self) -> Mapping[str, str]:
        """The sink's own metrics for progress."""
        return {}

    @property
    @abstractmethod
    def watermark_operators(self) -> Sequence[str]:
        """The ids of the operators that define a watermark."""

    def describe_watermarks(self) -> Sequence[WatermarkOperator]:
        """Descriptions of these operators for users. May be called from any thread."""
        return [WatermarkOperator(operator_id) for operator_id in self.watermark_operators]

    @abstractmethod
    def prepare(self, request: BatchRequest) -> BatchExecution:
        """Plan a batch without running it."""

    def trials(self) -> AbstractContextManager[Trials]:
        """Trials of one batch, before it is prepared. Their resources are released at the end."""
        raise NotImplementedError("this plan has no trials")

    def copy_aside(self, aside: PutAside) -> None:
        """Copy the parts that a batch leaves out, durably, to the directory in their record.

        It may be called again for the same batch, and then replaces the earlier copy.
        """
        raise NotImplementedError("this plan cannot copy parts")

    def resume_after_commit(self, commit: CommitMetadata) -> None:
        """Called once on a restart with the latest entry of the commit log."""

    @abstractmethod
    def __str__(self) -> str:
        """The plan as text, for the log and for the error of a failed query."""


@dataclass(frozen=True)
class QueryIdentity:
    """The name of a query, its id, which is the same in every run, and the id of this run."""

    id: str
    run_id: str
    name: str | None

    def __str__(self) -> str:
        return f"{self.name + ' ' if self.name else ''}[id = {self.id}, runId = {self.run_id}]"

    def describe(self, batch: int | str) -> str:
        """The job description of a batch in Spark's UI; `init` before the first batch."""
        return f"{self.name or ''}\nid = {self.id}\nrunId = {self.run_id}\nbatch = {batch}"


class StreamSession(ABC):
    """The session that a query runs in, with its settings, jobs and listeners."""

    @property
    @abstractmethod
    def settings(self) -> Settings:
        """The engine's settings at the start of the query."""

    def settings_now(self) -> Settings:
        """The current settings of the session that the query was started from."""
        return self.settings

    @property
    def progress_retention(self) -> int:
        """`numRecentProgressUpdates` when the last record was posted; one record less is kept."""
        return self.settings.progress_retention

    @property
    def reports_first_watermark(self) -> bool:
        """Whether a trigger without a batch reports the watermark before any batch has run."""
        return False

    def event_time_text(self, millis: int) -> str:
        """An event time, which may be any, as Spark writes it in progress."""
        return format_timestamp(millis)

    @property
    def shows_batch_duration(self) -> bool:
        """Whether the JSON of a record has the duration of the batch."""
        return True

    @property
    def rounds_rates(self) -> bool:
        """Whether rates have one decimal in the JSON of a record."""
        return True

    @property
    def is_stopped(self) -> bool:
        """Whether the session is stopped, so that no query can run in it."""
        return False

    def create_thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        """Create the thread that the query will run on, without starting it."""
        return threading.Thread(target=target, name=name, daemon=True)

    def create_sink_thread(self, target: Callable[[], None], sink: str) -> threading.Thread:
        """Create a thread that writes to one of many sinks. Called on the query's thread.

        Its jobs belong to the query, and are scheduled in a pool of the sink's own.
        """
        return threading.Thread(target=target, name=f"sink {sink}", daemon=True)

    @abstractmethod
    def enter(self, identity: QueryIdentity, description: str) -> None:
        """Called first on the query's thread: jobs of this thread then belong to the query."""

    @abstractmethod
    def leave(self, identity: QueryIdentity) -> None:
        """Called once on the query's thread at its end, also after a failure: release resources."""

    def shield(self) -> None:
        """Called on the query's thread before it ends: `cancel_jobs` no longer interrupts it."""

    @abstractmethod
    def describe_jobs(self, batch_id: int, description: str) -> None:
        """Called first in every trigger: the batch to which jobs belong from now on."""

    @abstractmethod
    def recordable_conf(self) -> Mapping[str, str]:
        """The settings that the offset log records, with current values, in Spark's order."""

    @abstractmethod
    def apply_recorded_conf(self, metadata: OffsetSeqMetadata) -> None:
        """Apply the settings recorded in a checkpoint; log a warning for each that differs."""

    @property
    @abstractmethod
    def watermark_policy(self) -> str:
        """How several watermarks are combined: `min` or `max`."""

    @abstractmethod
    def post_event(self, event: QueryEvent) -> None:
        """Post an event to the listeners. Never raises: errors of a listener are logged."""

    @abstractmethod
    def cancel_jobs(self, identity: QueryIdentity, reason: str) -> None:
        """Cancel the query's jobs and interrupt its thread. May be called from any thread.

        If it raises, the error is logged, and the thread is waited for.
        """

    @abstractmethod
    def is_interruption(self, error: BaseException) -> bool:
        """Whether an error may be the result of `cancel_jobs`. Asked after a stop has begun.

        The same error may come without a stop, as from a socket that times out.
        """

    def translated(self, error: BaseException) -> BaseException:
        """The cause to report for a failed query: the error, or Penstock's own error for it."""
        return error

    def error_message(self, error: BaseException) -> str:
        """The text of an error in the query's exception and in its status."""
        return error_text(error)

    def describe_error(self, error: BaseException) -> str:
        """The full text of an error for listeners."""
        return "".join(traceback.format_exception(error))

    def error_class(self, error: BaseException) -> str | None:
        """The error's condition name in Spark's error framework, if it has one."""
        return None
