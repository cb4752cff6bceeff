"""A schedule: a query, its input, its runs and the faults in them.

A schedule has a text form of one line, which can be replayed:

    sources=v1-limit:2,v2-now:1 plan=min retain=2 flags=nodata arrivals=2/0,1/1
    runs=processing*4!kill@after_sink#2;once;available!eio@create_offsets#1

(in one line). `kill@after_sink#2` is a kill when the run passes `after_sink` for the second time. A
query with two named sinks has `sinks=2` after its sources. `after=1 poison=0.2,1.0` is one with a
quarantine after one failure, which cannot process row 2 of source 0 and row 0 of source 1.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from enum import Enum


class FaultKind(str, Enum):
    """The faults that can be injected."""

    RAISE = "raise"  # the call raises
    KILL = "kill"  # the process ends here and has no further effect
    HANG = "hang"  # the call blocks until the query is stopped
    STOP = "stop"  # the query is stopped now, and the call returns normally
    STOP_GRACEFULLY = "stop-gracefully"  # the same, with `graceful`
    EIO = "eio"  # the file operation fails and has had no effect
    EIO_AFTER = "eio-after"  # it fails but has had its effect: the outcome is unknown
    ENOSPC = "enospc"  # the disk is full: only a temporary file is left
    TORN = "torn"  # the process ends, and the file has half of its content
    EMPTY = "empty"  # the process ends, and the file is empty
    TORN_TEMPORARY = "torn-temporary"  # the process ends with half a temporary file
    STALE = "stale"  # the listing is outdated
    RIVAL = "rival"  # another run of the query has just written the file
    REPEATED = "repeated"  # a store's client repeats a request that was done, and is refused
    RIVAL_UNANSWERED = "rival-unanswered"  # as rival, and the store's answer is lost
    STORM = "storm"  # from here on no request of this process is done
    STORM_AFTER = "storm-after"  # this request is done, and none after it; no answer comes
    KILL_AFTER = "kill-after"  # the request is done, and the process ends before the answer
    GONE = "gone"  # the checkpoint's directory is missing until the end of the run
    EMPTIED = "emptied"  # it is replaced by an empty directory
    OLDER = "older"  # it is replaced by a copy without the newest batch
    FOREIGN = "foreign"  # it is replaced by the checkpoint of another query

    @property
    def takes_checkpoint_away(self) -> bool:
        return self in (FaultKind.GONE, FaultKind.EMPTIED, FaultKind.OLDER, FaultKind.FOREIGN)


@dataclass(frozen=True)
class Fault:
    """A fault when its run passes a site for the n-th time, counted from 1."""

    kind: FaultKind
    site: str
    occurrence: int = 1


class TriggerKind(str, Enum):
    """The triggers; PROCESSING has no interval, INTERVAL has one."""

    PROCESSING = "processing"
    INTERVAL = "interval"
    ONCE = "once"
    AVAILABLE = "available"


@dataclass(frozen=True)
class Run:
    """One process that runs the query.

    A processing-time query is stopped gracefully after `triggers` triggers, or earlier when all
    rows are processed. Before the run the clock jumps by `clock_jump_ms`.
    """

    trigger: TriggerKind = TriggerKind.PROCESSING
    triggers: int = 20
    faults: tuple[Fault, ...] = ()
    clock_jump_ms: int = 0


class SourceKind(str, Enum):
    """The API of a source and its optional features: read limits, support for AvailableNow.

    `v2-now` also accepts the latest seen offset.
    """

    V1 = "v1"
    V1_LIMIT = "v1-limit"
    V1_NOW = "v1-now"
    V2 = "v2"
    V2_LIMIT = "v2-limit"
    V2_NOW = "v2-now"

    @property
    def is_v1(self) -> bool:
        return self.value.startswith("v1")

    @property
    def has_limit(self) -> bool:
        return self not in (SourceKind.V1, SourceKind.V2)

    @property
    def supports_available_now(self) -> bool:
        return self in (SourceKind.V1_NOW, SourceKind.V2_NOW)


@dataclass(frozen=True)
class SourceShape:
    """A source; if its kind has limits, with at most `max_rows` rows per batch."""

    kind: SourceKind
    max_rows: int = 2


@dataclass(frozen=True)
class QueryShape:
    """The query and its settings.

    `watermark_policy` is None for a stateless query. `repeats_first` puts the first source into
    the plan a second time, as a self-union does. `on_object_store` is where its checkpoint is.
    """

    sources: tuple[SourceShape, ...]
    watermark_policy: str | None = None
    retained_batches: int = 100
    no_data_batches: bool = True
    available_now_wrapper: bool = False
    repeats_first: bool = False
    on_object_store: bool = False
    sinks: int = 0
    """The number of named sinks; 0 for a query with one sink. Every second one is parallel."""

    after: int = 0
    """The failures after which parts of a batch are put aside; 0: the query has no quarantine."""
    poison: tuple[tuple[int, int], ...] = ()
    """The rows that the query cannot process: the number of the source, and of the row in it."""

    @functools.cached_property
    def sink_names(self) -> tuple[str, ...]:
        return tuple(f"sink-{number}" for number in range(self.sinks))

    @property
    def is_stateful(self) -> bool:
        return self.watermark_policy is not None

    @functools.cached_property
    def plan_order(self) -> tuple[int, ...]:
        """The numbers of the sources in the order of the plan."""
        numbers = tuple(range(len(self.sources)))
        return (*numbers, 0) if self.repeats_first else numbers


@dataclass(frozen=True)
class Schedule:
    """A query, the rows that arrive for each of its sources, and its runs.

    The rows of `arrivals[0]` are there at the start. The others arrive one after another, between
    two triggers and while the sink is writing. After the runs there is a last one without faults.
    """

    shape: QueryShape
    arrivals: tuple[tuple[int, ...], ...]
    runs: tuple[Run, ...] = ()

    def __str__(self) -> str:
        shape = self.shape
        sources = ",".join(f"{s.kind.value}:{s.max_rows}" for s in shape.sources)
        flags = [name for name, field in _FLAGS.items() if getattr(shape, field)]
        arrivals = ",".join("/".join(map(str, rows)) for rows in self.arrivals)
        sinks = f"sinks={shape.sinks} " if shape.sinks else ""
        poison = ",".join(f"{source}.{row}" for source, row in shape.poison)
        sinks += f"after={shape.after} poison={poison} " if shape.after else ""
        return (
            f"sources={sources} {sinks}plan={shape.watermark_policy or 'stateless'} "
            f"retain={shape.retained_batches} flags={','.join(flags)} arrivals={arrivals} "
            f"runs={';'.join(map(_run_text, self.runs))}"
        )

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Parse the text form. Raises ValueError."""
        try:
            parts = dict(part.split("=", 1) for part in text.split())
            return cls(_parse_shape(parts), _parse_arrivals(parts["arrivals"]), _parse_runs(parts))
        except (KeyError, ValueError) as exc:
            raise ValueError(f"not a schedule ({exc!r}): {text}") from exc


_FLAGS = {
    "nodata": "no_data_batches",
    "wrapper": "available_now_wrapper",
    "twice": "repeats_first",
    "store": "on_object_store",
}


def _run_text(run: Run) -> str:
    jump = f"~{run.clock_jump_ms}" if run.clock_jump_ms else ""
    faults = "".join(f"!{f.kind.value}@{f.site}#{f.occurrence}" for f in run.faults)
    return f"{run.trigger.value}*{run.triggers}{jump}{faults}"


def _parse_shape(parts: dict[str, str]) -> QueryShape:
    sources = [source.split(":") for source in parts["sources"].split(",")]
    flags = {_FLAGS[flag] for flag in parts["flags"].split(",") if flag}
    return QueryShape(
        tuple(SourceShape(SourceKind(kind), int(rows)) for kind, rows in sources),
        None if parts["plan"] == "stateless" else parts["plan"],
        int(parts["retain"]),
        sinks=int(parts.get("sinks", 0)),
        after=int(parts.get("after", 0)),
        poison=_parse_poison(parts.get("poison", "")),
        **{field: field in flags for field in _FLAGS.values()},
    )


def _parse_poison(text: str) -> tuple[tuple[int, int], ...]:
    pairs = [pair.split(".") for pair in text.split(",") if pair]
    return tuple((int(source), int(row)) for source, row in pairs)


def _parse_arrivals(text: str) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(int, rows.split("/"))) for rows in text.split(","))


def _parse_runs(parts: dict[str, str]) -> tuple[Run, ...]:
    return tuple(_parse_run(text) for text in parts["runs"].split(";") if text)


def _parse_run(text: str) -> Run:
    head, *faults = text.split("!")
    head, _, jump = head.partition("~")
    trigger, _, triggers = head.partition("*")
    return Run(
        TriggerKind(trigger),
        int(triggers or Run.triggers),
        tuple(_parse_fault(fault) for fault in faults),
        int(jump or 0),
    )


def _parse_fault(text: str) -> Fault:
    kind, _, where = text.partition("@")
    site, _, occurrence = where.partition("#")
    return Fault(FaultKind(kind), site, int(occurrence or 1))
