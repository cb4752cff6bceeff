"""Sources as the engine sees them: one side of the seam to Spark.

Two kinds, as in Spark's two data source APIs. A `Source` (V1) is asked for its offset and hands
out the data of a range as a plan. A `MicroBatchStream` (V2) is asked for its latest offset and
reads a range on the executors. Both may support more, which they say by the properties below.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from penstock.engine.offsets import Offset, SerializedOffset
from penstock.engine.read_limit import ALL_AVAILABLE, ReadLimit


class DataStream(ABC):
    """A source of a running query. Equal to itself only; `str()` names it in logs and progress."""

    @property
    def supports_admission_control(self) -> bool:
        """Whether `latest_offset` heeds a start and a read limit."""
        return False

    @property
    def supports_trigger_available_now(self) -> bool:
        """Whether the stream can hold still at what it has, for `prepare_for_trigger_...`."""
        return False

    @property
    def accepts_latest_seen_offset(self) -> bool:
        """Whether the stream wants to know, on a restart, the last offset of the log."""
        return False

    def deserialize_offset(self, json: str) -> Offset:
        """The offset whose JSON was logged. Raises if it is none of this stream's."""
        return SerializedOffset(json)

    def default_read_limit(self) -> ReadLimit:
        """The limit the stream was configured with."""
        return ALL_AVAILABLE

    @abstractmethod
    def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset | None:
        """The end of the next batch that starts after `start`; None if there is nothing yet.

        Start and limit mean nothing to a stream without admission control.
        """

    def report_latest_offset(self) -> Offset | None:
        """The end of all that is available, for progress only; None if the stream won't say."""
        return None

    def on_new_data(self, nudge: Callable[[], None]) -> None:
        """Told once, before the first batch: `nudge` may be called, from any thread and whenever
        there is new data, to be asked for it at once. A stream that cannot know ignores it."""

    def prepare_for_trigger_available_now(self) -> None:
        """From now on never return an offset beyond what is available at this moment."""
        raise NotImplementedError(f"{self} does not support Trigger.AvailableNow")

    def set_latest_seen_offset(self, offset: Offset) -> None:
        """Told once before the first batch of a restart, if `accepts_latest_seen_offset`."""

    @abstractmethod
    def get_batch(self, start: Offset | None, end: Offset) -> object:
        """The data after `start` up to and including `end`, in a form the query plan takes.

        The same two offsets give the same data, in this run and in the next.
        """

    @abstractmethod
    def commit(self, end: Offset) -> None:
        """Everything up to `end` is processed and will never be asked for again."""

    @abstractmethod
    def stop(self) -> None:
        """Free what the stream holds. Nothing is called after this."""

    def metrics(self, latest_consumed: Offset | None) -> Mapping[str, str]:
        """The stream's own figures for progress."""
        return {}


class Source(DataStream):
    """A stream of Spark's first data source API.

    After a restart `get_batch` is called for the last batch once more even if it is committed:
    some sources of this kind expect it.
    """

    @abstractmethod
    def get_offset(self) -> Offset | None:
        """The end of what is available; None if there has never been any data."""

    def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset | None:
        return self.get_offset()


class MicroBatchStream(DataStream):
    """A stream of Spark's second data source API. It always has a first offset."""

    @abstractmethod
    def initial_offset(self) -> Offset:
        """Where a query without a checkpoint begins."""


class UniqueSource:
    """A distinct source of a query with the read limit its trigger gives it."""

    def __init__(self, stream: DataStream, limit: ReadLimit, original: DataStream) -> None:
        self.stream = stream
        self.limit = limit
        self.original = original
