"""The in-memory world with a record of calls, for the engine's tests.

Sources of numbers, a plan and a session implement the engine's interfaces on `tests/memory_world`.
They append every call to `World.calls`, so that a test can check the order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.checkpoint import (
    CheckpointDirectory,
    CheckpointFiles,
    CommitMetadata,
    OffsetSeq,
    OffsetSeqMetadata,
)
from penstock.engine.clock import Clock
from penstock.engine.data_stream import DataStream
from penstock.engine.events import QueryEvent
from penstock.engine.faults import NO_FAULTS, FaultInjector, FaultPoint
from penstock.engine.hooks import Hooks
from penstock.engine.opening import open_checkpoint
from penstock.engine.progress_reporter import ProgressReporter
from penstock.engine.quarantine import QuarantineRules
from penstock.engine.run_observer import RunObserver
from penstock.engine.runtime import QueryRuntime
from penstock.engine.seam import QueryIdentity
from penstock.engine.settings import Settings
from penstock.engine.stream_execution import StreamExecution
from penstock.engine.triggers import ProcessingTimeTrigger, Trigger
from penstock.engine.unique_sources import with_own_limits
from penstock.engine.watermark import DEFAULT_POLICY, WatermarkTracker
from tests.engine.numbers import FileNumbers, NumberPlan, NumberSource, NumberStream
from tests.memory_world.files import MemoryFiles
from tests.memory_world.session import (
    PARTITIONS_KEY,
    POLICY_KEY,
    InterruptedCallError,
    MemorySession,
)
from tests.memory_world.sources import Abilities

PATIENCE = 30.0
"""Seconds after which a wait fails its test."""

ENDING = ["session.shield", "a.stop", "session.leave", "event QueryTerminatedEvent"]
"""The last calls of every query of the one source `a`."""

CONF = {PARTITIONS_KEY: "3", POLICY_KEY: "min"}


def failing(message: str = "boom") -> None:
    raise RuntimeError(message)


class ManualClock(Clock):
    """A clock that advances when a test calls `advance` or the engine waits."""

    def __init__(self, now_ms: int = 1_000) -> None:
        self.now_ms = now_ms
        self.awaited: list[int] = []
        self._set_back_ms = 0

    def time_millis(self) -> int:
        return self.now_ms

    def elapsed_millis(self) -> float:
        return float(self.now_ms + self._set_back_ms)

    def advance(self, millis: int) -> None:
        self.now_ms += millis

    def set_back(self, millis: int) -> None:
        """Set the time back, as on a machine whose clock was wrong."""
        self.now_ms -= millis
        self._set_back_ms += millis

    def wait_till_time(self, target_ms: int, wake: threading.Event) -> int:
        self.awaited.append(target_ms)
        if not wake.is_set():
            self.now_ms = max(self.now_ms, target_ms)
        return self.now_ms


class Gate:
    """Blocks the query's thread until the gate is opened or the thread interrupted."""

    def __init__(self, *, interruptible: bool = True) -> None:
        self.entered = threading.Event()
        self._released = threading.Event()
        self._interruptible = interruptible
        self._interrupted = False

    def __call__(self) -> None:
        self.entered.set()
        assert self._released.wait(PATIENCE)
        if self._interrupted:
            raise InterruptedCallError("cancelled")

    def wait_entered(self) -> None:
        assert self.entered.wait(PATIENCE)

    def open(self) -> None:
        self._released.set()

    def interrupt(self) -> None:
        if self._interruptible:
            self._interrupted = True
            self._released.set()


class NumberSession(MemorySession):
    """Records every call that the engine makes."""

    def __init__(self, calls: list[str], settings: Settings) -> None:
        super().__init__(settings, CONF)
        self.calls = calls
        self.events: list[QueryEvent] = []
        self.cancelled: list[str] = []
        self.gates: list[Gate] = []
        self.descriptions: list[str] = []
        self.stopped = False
        self.on_enter: Callable[[], None] = lambda: None
        self.on_event: Callable[[QueryEvent], None] = lambda event: None

    @property
    def is_stopped(self) -> bool:
        return self.stopped

    def enter(self, identity: QueryIdentity, description: str) -> None:
        self.calls.append("session.enter")
        self.descriptions.append(description)
        self.on_enter()

    def leave(self, identity: QueryIdentity) -> None:
        self.calls.append("session.leave")

    def shield(self) -> None:
        super().shield()
        self.calls.append("session.shield")

    def describe_jobs(self, batch_id: int, description: str) -> None:
        self.calls.append(f"session.describe_jobs {batch_id}")
        self.descriptions.append(description)

    def post_event(self, event: QueryEvent) -> None:
        self.calls.append(f"event {type(event).__name__}")
        self.events.append(event)
        self.on_event(event)

    def cancel_jobs(self, identity: QueryIdentity, reason: str) -> None:
        self.cancelled.append(reason)
        for gate in self.gates:
            gate.interrupt()


class StrikeError(Exception):
    """The default error of `RecordingFaults`."""


class RecordingFaults(FaultInjector):
    """Records every fault point that is reached, and raises an error at `strike_at`."""

    def __init__(
        self, strike_at: tuple[FaultPoint, int] | None = None, error: BaseException | None = None
    ) -> None:
        self.reached: list[tuple[FaultPoint, int]] = []
        self._strike_at = strike_at
        self._error = error or StrikeError("struck")

    def reach(self, point: FaultPoint, batch_id: int) -> None:
        self.reached.append((point, batch_id))
        if (point, batch_id) == self._strike_at:
            raise self._error


class EndObserver(RunObserver):
    """Calls a function when a run has ended."""

    def __init__(self, on_ended: Callable[[StreamExecution], None]) -> None:
        self._on_ended = on_ended

    def on_ended(self, run: StreamExecution) -> None:
        self._on_ended(run)


@dataclass
class World:
    """One process with its sources, plan and session. `files` may be shared with others."""

    settings: Settings = field(default_factory=lambda: Settings(polling_delay_ms=1))
    files: CheckpointFiles = field(default_factory=MemoryFiles)
    clock: ManualClock = field(default_factory=ManualClock)
    calls: list[str] = field(default_factory=list)
    sources: list[DataStream] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.session = NumberSession(self.calls, self.settings)
        self.plan = NumberPlan(self.sources, self.calls)
        self.checkpoint = CheckpointDirectory(self.files)

    def add_source(self, name: str = "a", rows: Iterable[int] = ()) -> NumberSource:
        source = NumberSource(name, rows, self.calls)
        self.sources.append(source)
        return source

    def add_files(self, name: str = "a", rows: Iterable[int] = ()) -> FileNumbers:
        source = FileNumbers(name, rows, self.calls)
        self.sources.append(source)
        return source

    def add_stream(
        self, name: str = "a", rows: Iterable[int] = (), abilities: Abilities | None = None
    ) -> NumberStream:
        stream = NumberStream(name, rows, self.calls, abilities)
        self.sources.append(stream)
        return stream

    def gate(self, *, interruptible: bool = True) -> Gate:
        gate = Gate(interruptible=interruptible)
        self.session.gates.append(gate)
        return gate

    def query(
        self,
        trigger: Trigger | None = None,
        *,
        name: str | None = None,
        faults: FaultInjector = NO_FAULTS,
        delete_checkpoint_on_stop: bool = False,
        options: Mapping[str, str] | None = None,
        observers: Sequence[RunObserver] = (),
        pace_ms: int | None = None,
        on_terminated: Callable[[StreamExecution], None] | None = None,
        quarantine: QuarantineRules | None = None,
        hooks: Hooks | None = None,
    ) -> StreamExecution:
        if on_terminated is not None:
            observers = [*observers, EndObserver(on_terminated)]
        return StreamExecution(
            identity=open_checkpoint(self.checkpoint, name, faults),
            session=self.session,
            checkpoint=self.checkpoint,
            plan_factory=lambda identity: self.plan,
            trigger=trigger or ProcessingTimeTrigger(),
            clock=self.clock,
            faults=faults,
            delete_checkpoint_on_stop=delete_checkpoint_on_stop,
            pace_ms=pace_ms,
            options=options,
            observers=observers,
            quarantine=quarantine,
            hooks=hooks,
        )

    def runtime(self, faults: FaultInjector = NO_FAULTS) -> QueryRuntime:
        """The runtime of a query, to call one step of the engine on this thread."""
        self.checkpoint.offset_log.make_directory()
        self.checkpoint.commit_log.make_directory()
        identity = QueryIdentity("the-id", "the-run", "numbers")
        return QueryRuntime(
            identity=identity,
            session=self.session,
            checkpoint=self.checkpoint,
            clock=self.clock,
            reporter=ProgressReporter(identity, self.session, self.clock),
            plan=self.plan,
            unique_sources=with_own_limits(self.sources),
            watermark=WatermarkTracker(DEFAULT_POLICY, self.plan.operators),
            faults=faults,
        )

    def log_offsets(
        self,
        batch_id: int,
        *offsets: str | None,
        watermark_ms: int = 0,
        timestamp_ms: int = 0,
        conf: Mapping[str, str] | None = None,
    ) -> None:
        """Write an entry of the offset log, as an earlier run would have."""
        metadata = OffsetSeqMetadata(watermark_ms, timestamp_ms, CONF if conf is None else conf)
        earlier = CheckpointDirectory(self.files)
        earlier.offset_log.make_directory()
        assert earlier.offset_log.add(batch_id, OffsetSeq(offsets, metadata))

    def log_commit(self, batch_id: int, next_watermark_ms: int = 0) -> None:
        """Write an entry of the commit log, as an earlier run would have."""
        earlier = CheckpointDirectory(self.files)
        earlier.commit_log.make_directory()
        assert earlier.commit_log.add(batch_id, CommitMetadata(next_watermark_ms))
