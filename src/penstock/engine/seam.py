"""What the engine asks of the world it runs in. Spark answers, or a simulation does.

Beside these there are the sources, in `data_stream`.
"""

from __future__ import annotations

import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock.checkpoint import CommitMetadata, OffsetSeqMetadata
from penstock.engine.data_stream import DataStream
from penstock.engine.error_text import error_text
from penstock.engine.events import QueryEvent
from penstock.engine.progress import ExecutionStats
from penstock.engine.settings import Settings
from penstock.engine.watermark import EventTimeStats, WatermarkOperator


@dataclass(frozen=True)
class BatchRequest:
    """A batch that is decided and is now to be run.

    `data` has, for each source with new data, what its `get_batch` returned. The watermark and
    timestamp in `metadata` are the ones on disk: a re-run gets the same.
    """

    batch_id: int
    metadata: OffsetSeqMetadata
    previous_metadata: OffsetSeqMetadata | None
    data: Mapping[DataStream, object]
    is_first_in_run: bool


class BatchExecution(ABC):
    """One batch, planned and ready. Run once; questions about it are answered after that."""

    @abstractmethod
    def run(self) -> int | None:
        """Compute the batch and hand it to the sink; the rows the sink counted, if it counts."""

    @abstractmethod
    def event_time_stats(self) -> Sequence[EventTimeStats]:
        """What each watermark operator saw."""

    @abstractmethod
    def commit_metadata(self, next_watermark_ms: int) -> CommitMetadata:
        """What the commit log is to record of the batch."""

    @abstractmethod
    def should_run_another_batch(self, metadata: OffsetSeqMetadata) -> bool:
        """Whether a batch without new data would have state to emit or to clean up."""

    @abstractmethod
    def explain(self, *, extended: bool) -> str:
        """The physical plan as text."""

    @abstractmethod
    def statistics(self, *, has_new_data: bool) -> ExecutionStats:
        """The figures of the batch for progress, without event-time watermark and output rows."""


class QueryPlan(ABC):
    """The query bound to its sources. Made on the query's own thread, once."""

    @property
    @abstractmethod
    def sources(self) -> Sequence[DataStream]:
        """The sources in the order of the plan; one that is used twice is there twice."""

    @property
    def source_ids(self) -> Sequence[str] | None:
        """The names of the sources where the offset log is to record names."""
        return None

    @property
    @abstractmethod
    def sink_description(self) -> str:
        """How the sink is called in progress."""

    def latest_batch_of_sink(self) -> int | None:
        """The newest batch in a log of its own that the sink skips batches by; None if it has none.

        Asked once, before the first batch of a run. None also where the user lets it skip them.
        """
        return None

    def sink_metrics(self) -> Mapping[str, str]:
        """The sink's own figures for progress."""
        return {}

    @property
    @abstractmethod
    def watermark_operators(self) -> Sequence[str]:
        """The ids of the operators that define a watermark."""

    def describe_watermarks(self) -> Sequence[WatermarkOperator]:
        """What is to be told of these operators to people; asked from any thread."""
        return [WatermarkOperator(operator_id) for operator_id in self.watermark_operators]

    @abstractmethod
    def prepare(self, request: BatchRequest) -> BatchExecution:
        """Plan a batch; nothing runs yet."""

    def resume_after_commit(self, commit: CommitMetadata) -> None:
        """Told once on a restart what the commit log's latest entry records."""

    def forget_before(self, batch_id: int) -> None:
        """Nothing will be asked about batches before this one any more."""

    @abstractmethod
    def __str__(self) -> str:
        """The plan as text, for the log and for the message of a query that died."""


@dataclass(frozen=True)
class QueryIdentity:
    """Who a query is: its name, the id that outlives restarts, and the id of this run."""

    id: str
    run_id: str
    name: str | None

    def __str__(self) -> str:
        return f"{self.name + ' ' if self.name else ''}[id = {self.id}, runId = {self.run_id}]"

    def describe(self, batch: int | str) -> str:
        """What the jobs of a batch are called in Spark's UI; `init` before the first."""
        return f"{self.name or ''}\nid = {self.id}\nrunId = {self.run_id}\nbatch = {batch}"


class StreamSession(ABC):
    """The session that a query runs in: its settings, its jobs, its listeners."""

    @property
    @abstractmethod
    def settings(self) -> Settings:
        """The engine's settings as they were when the query started."""

    def settings_now(self) -> Settings:
        """The settings as they are now in the session that the query was started from."""
        return self.settings

    @property
    def progress_retention(self) -> int:
        """How many records a query keeps, plus one: as it was when the last one was posted."""
        return self.settings.progress_retention

    @property
    def is_stopped(self) -> bool:
        """Whether no query can run in it any more."""
        return False

    def create_thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        """The thread the query will run on, not yet started."""
        return threading.Thread(target=target, name=name, daemon=True)

    @abstractmethod
    def enter(self, identity: QueryIdentity, description: str) -> None:
        """Called first on the query's thread: from here its jobs are the query's."""

    @abstractmethod
    def leave(self, identity: QueryIdentity) -> None:
        """Called once on the query's thread when it ends, however it does: its tasks are over."""

    def shield(self) -> None:
        """Called on the query's thread when it begins to end: nothing interrupts it any more."""

    @abstractmethod
    def set_job_description(self, description: str) -> None:
        """What jobs submitted from now on are shown as."""

    @abstractmethod
    def set_batch_id(self, batch_id: int) -> None:
        """Which batch tasks submitted from now on belong to."""

    @abstractmethod
    def recordable_conf(self) -> Mapping[str, str]:
        """The settings that the offset log freezes, with their values now, in Spark's order."""

    @abstractmethod
    def apply_recorded_conf(self, metadata: OffsetSeqMetadata) -> None:
        """Let the settings of a checkpoint win over those of the session, with a warning each."""

    @property
    @abstractmethod
    def watermark_policy(self) -> str:
        """How several watermarks become one: `min` or `max`."""

    @abstractmethod
    def post_event(self, event: QueryEvent) -> None:
        """Tell the listeners. Never raises: a listener's trouble is not the query's."""

    @abstractmethod
    def cancel_jobs(self, identity: QueryIdentity, reason: str) -> None:
        """Cancel what the query runs and whatever its thread is blocked in. Any thread."""

    @abstractmethod
    def is_interruption(self, error: BaseException) -> bool:
        """Whether an error is but the echo of `cancel_jobs`."""

    def translated(self, error: BaseException) -> BaseException:
        """What a query is said to have died of: the error itself, or ours that it amounts to."""
        return error

    def error_message(self, error: BaseException) -> str:
        """The text of an error in the query's own failure and in its status."""
        return error_text(error)

    def describe_error(self, error: BaseException) -> str:
        """The full text of an error for listeners."""
        return "".join(traceback.format_exception(error))

    def error_class(self, error: BaseException) -> str | None:
        """The name Spark's error framework has for an error, if it has one."""
        return None
