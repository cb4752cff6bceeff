"""The interface between the engine and the sources of a query.

There are two kinds, as in Spark's two data source APIs. A `Source` (V1) returns its offset and
returns the data of a range as a plan. A `MicroBatchStream` (V2) returns its latest offset and reads
a range on the executors. The `supports_...` and `accepts_...` properties are optional features.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from penstock.engine.offsets import Offset, SerializedOffset
from penstock.engine.read_limit import ALL_AVAILABLE, LimitUnit, ReadLimit, unit_of


@dataclass(frozen=True)
class SourceFile:
    """A file in the log of a file source."""

    path: str
    timestamp: int


class DataStream(ABC):
    """A source of a running query. Equal to itself only; `str()` names it in logs and progress."""

    options: Mapping[str, str] = MappingProxyType({})
    """The options that the source was read with, for observers. They may contain secrets."""

    @property
    def supports_admission_control(self) -> bool:
        """Whether `latest_offset` takes the start offset and the read limit into account."""
        return False

    @property
    def supports_trigger_available_now(self) -> bool:
        """Whether `prepare_for_trigger_available_now` is implemented."""
        return False

    @property
    def accepts_latest_seen_offset(self) -> bool:
        """Whether `set_latest_seen_offset` is to be called on a restart."""
        return False

    def deserialize_offset(self, json: str) -> Offset:
        """Parse an offset from the log. Raises if the JSON is not an offset of this stream."""
        return SerializedOffset(json)

    def default_read_limit(self) -> ReadLimit:
        """The limit the stream was configured with."""
        return ALL_AVAILABLE

    @abstractmethod
    def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset | None:
        """The end of the next batch that starts after `start`; None if there is no data yet.

        A stream without admission control ignores both arguments.
        """

    def report_latest_offset(self) -> Offset | None:
        """The end of all available data, for progress only; None if it is not reported."""
        return None

    def backlog_rows(self, start: Offset | None) -> int | None:
        """The number of rows after `start`; None if it is not known. Reads nothing."""
        return None

    @property
    def limit_unit(self) -> LimitUnit | None:
        """The unit in which `latest_offset` can be limited; None if it cannot."""
        if not self.supports_admission_control:
            return None
        return unit_of(self.default_read_limit(), LimitUnit.ROWS)

    def count_in(self, data: object, unit: LimitUnit) -> int | None:
        """How much of a unit the result of `get_batch` has; None if it is not known."""
        return None

    def on_new_data(self, nudge: Callable[[], None]) -> None:
        """Called once, before the first batch. The stream may call `nudge` from any thread when it
        has new data: the query then ends its wait and requests offsets at once."""

    def prepare_for_trigger_available_now(self) -> None:
        """From now on `latest_offset` never returns an offset after what is available now."""
        raise NotImplementedError(f"{self} does not support Trigger.AvailableNow")

    def set_latest_seen_offset(self, offset: Offset) -> None:
        """Called once on a restart, before the first batch, with the last offset in the log.

        Only if `accepts_latest_seen_offset`.
        """

    @abstractmethod
    def get_batch(self, start: Offset | None, end: Offset) -> object:
        """The data after `start` up to and including `end`, in the form that the plan expects.

        The same two offsets return the same data in every run.
        """

    def files_between(self, start: Offset | None, end: Offset) -> Sequence[SourceFile] | None:
        """The files that `get_batch` reads; None if the source does not read files."""
        return None

    def get_files(self, files: Sequence[SourceFile]) -> object:
        """The data of some files of a range, in the form that `get_batch` returns.

        Only for a source that has `files_between`. There is at least one file.
        """
        raise NotImplementedError(f"{self} does not read files")

    def size_of(self, file: SourceFile) -> int | None:
        """The size of a file in bytes; None if it is not known, as of a file that is gone."""
        return None

    @abstractmethod
    def commit(self, end: Offset) -> None:
        """Everything up to `end` is processed and will not be requested again."""

    @abstractmethod
    def stop(self) -> None:
        """Release the stream's resources. No method is called after this."""

    def metrics(self, latest_consumed: Offset | None) -> Mapping[str, str]:
        """The stream's own metrics for progress."""
        return {}


class Source(DataStream):
    """A stream of Spark's first data source API.

    After a restart `get_batch` is called once for the last batch even if it is committed, because
    some sources of this kind depend on it.
    """

    @abstractmethod
    def get_offset(self) -> Offset | None:
        """The end of the available data; None if there has never been any data."""

    def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset | None:
        return self.get_offset()


class MicroBatchStream(DataStream):
    """A stream of Spark's second data source API. It always has an initial offset."""

    @abstractmethod
    def initial_offset(self) -> Offset:
        """The start offset of a query without a checkpoint."""


class UniqueSource:
    """A distinct source of a query with the read limit that the trigger assigned to it.

    `stream` is `original`, or a wrapper around it; offsets are kept by `original`.
    """

    def __init__(self, stream: DataStream, limit: ReadLimit, original: DataStream) -> None:
        self.stream = stream
        self.limit = limit
        self.original = original
