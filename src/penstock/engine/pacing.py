"""Sets the read limits of a query's sources so that its batches take about a given time."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from penstock.checkpoint.known_offsets import KafkaOffset, parse_known
from penstock.engine.data_stream import DataStream, UniqueSource
from penstock.engine.pace_controller import PaceController
from penstock.engine.progress import SourceProgress, StreamingQueryProgress
from penstock.engine.read_limit import LimitUnit
from penstock.engine.source_pace import PaceReason, SourcePace
from penstock.engine.triggers import Schedule
from penstock.errors import PaceError

_logger = logging.getLogger(__name__)

_FIRST_SIZE = {LimitUnit.ROWS: 1000, LimitUnit.FILES: 1, LimitUnit.BYTES: 1 << 20}
_TAKEN_SHARE = 0.9
"""A source that returned less than this share of its limit had no more."""
_EXCESS = 2.0
"""A source that returned more than this many times its limit does not follow it."""


class Pacing:
    """The limits of one run, which starts with small ones. Used by the query's thread only.

    A limit applies when a batch is constructed, before it is written to the offset log. A batch
    that is in the log, of this run or an earlier one, is read as recorded.
    """

    def __init__(self, target_ms: int, sources: Sequence[UniqueSource]) -> None:
        """Raises PaceError if none of the sources can be limited; warns if one cannot."""
        self._target_ms = target_ms
        self._controller = PaceController(target_ms)
        self._paced = [_Paced(one, unit) for one in sources if (unit := one.stream.limit_unit)]
        limited = {paced.unique.original for paced in self._paced}
        others = [str(one.original) for one in sources if one.original not in limited]
        if not self._paced:
            raise PaceError(
                f"pace() cannot set the size of batches: {', '.join(others) or 'no source'} takes "
                "no read limit from the engine. Remove pace(), or use a source that has limits, "
                "such as files, Kafka or a PythonSource."
            )
        for other in others:
            _logger.warning(
                "pace() has no effect on source %s, which takes no read limit from the engine: "
                "each batch reads all that it has. The limits of the other sources are set.",
                other,
            )

    def states(self) -> Mapping[DataStream, SourcePace]:
        """The current limits, with which the next batch is constructed."""
        return {
            paced.unique.original: SourcePace(self._target_ms, paced.size, paced.unit, paced.reason)
            for paced in self._paced
        }

    def count(self, source: DataStream, data: object) -> None:
        """Called with the data of each source in a batch, before the batch runs."""
        for paced in self._paced:
            if paced.unique.original is source:
                paced.counted = source.count_in(data, paced.unit)

    def observe(
        self, sources: Sequence[DataStream], progress: StreamingQueryProgress, duration_ms: float
    ) -> None:
        """Called after each batch that was constructed with these limits, to set those of the next.

        `sources` are those of the plan. `duration_ms` is measured with a monotonic clock: the
        duration in the progress record is wrong if the time of the machine was changed.
        """
        records = dict(zip(dict.fromkeys(sources), progress.sources, strict=True))
        read = [paced.read_in(records[paced.unique.original]) for paced in self._paced]
        if not any(read):
            return
        work = float(read[0]) if len(self._paced) == 1 else None
        factor = self._controller.observe(work, duration_ms)
        for paced, size in zip(self._paced, read, strict=True):
            paced.adjust(size, factor)


class _Paced:
    """One source whose limit is set."""

    def __init__(self, unique: UniqueSource, unit: LimitUnit) -> None:
        self.unique = unique
        self.unit = unit
        self.counted: int | None = None
        self.reason = PaceReason.START
        self._own = unique.limit
        self._most = unit.most_of(unique.limit)
        self._has_warned = False
        self._set(_FIRST_SIZE[unit])

    def read_in(self, record: SourceProgress) -> int:
        """How much of the unit the batch has read."""
        counted, self.counted = self.counted, None
        if record.start_offset == record.end_offset:
            return 0
        if counted is not None:
            return counted
        if self.unit is LimitUnit.ROWS:
            rows = _records_between(record.start_offset, record.end_offset)
            return record.num_input_rows if rows is None else rows
        return self.size

    def adjust(self, read: int, factor: float) -> None:
        """Set the limit of the next batch."""
        if read > _EXCESS * self.size:
            self._warn_of_excess(read)
        had_more = read >= _TAKEN_SHARE * self.size
        used = min(read, self.size)
        wanted = max(round(used * factor), 1)
        if factor < 1 and read:
            self.reason = PaceReason.SHRINK
            self._set(wanted)
        elif wanted > self.size and had_more:
            self.reason = PaceReason.GROW
            self._set(wanted)
        elif factor > 1 and self.size == self._most and had_more:
            self.reason = PaceReason.JOB_LIMIT
        else:
            self.reason = PaceReason.HOLD if had_more else PaceReason.NO_BACKLOG

    def _set(self, size: int) -> None:
        if self._most is not None and size >= self._most:
            size = self._most
            if self.reason is PaceReason.GROW:
                self.reason = PaceReason.JOB_LIMIT
        self.size = size
        self.unique.limit = self.unit.replaced_in(self._own, size)

    def _warn_of_excess(self, read: int) -> None:
        if not self._has_warned:
            self._has_warned = True
            _logger.warning(
                "pace() has no effect on source %s: it read %s %s with a limit of %s. It does not "
                "follow the read limits of the engine.",
                self.unique.original,
                read,
                self.unit.value,
                self.size,
            )


def pacing_of(schedule: Schedule, target_ms: int) -> Pacing:
    """The pacing of a run. Raises PaceError if its trigger ignores limits, or no source has any."""
    if not schedule.has_limits:
        raise PaceError(
            "pace() cannot set the size of batches: this trigger reads all available data in one "
            "batch. With availableNow, every source has to support it, or "
            "spark.sql.streaming.triggerAvailableNowWrapper.enabled has to be set."
        )
    return Pacing(target_ms, schedule.sources)


def _records_between(start: str | None, end: str | None) -> int | None:
    """The number of Kafka offsets in a batch, gaps included, which its limit counts too."""
    first, last = parse_known(start), parse_known(end)
    if not isinstance(first, KafkaOffset) or not isinstance(last, KafkaOffset):
        return None
    return sum(to - first.partitions.get(p, to) for p, to in last.partitions.items())
