"""Runs a schedule: the real engine, one process after another, in one world."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from penstock.checkpoint import CheckpointDirectory, CheckpointFiles
from penstock.engine.cron import Cron
from penstock.engine.opening import open_checkpoint
from penstock.engine.quarantine import QuarantineRules
from penstock.engine.seam import QueryPlan
from penstock.engine.stream_execution import StreamExecution
from penstock.engine.triggers import (
    AvailableNowTrigger,
    OneTimeTrigger,
    ProcessingTimeTrigger,
    Trigger,
)
from penstock.engine.when_backlog import WhenBacklog
from tests.simulation.files import SimulatedFiles
from tests.simulation.ledger import Ledger
from tests.simulation.life import Killed, Life
from tests.simulation.outcome_rules import is_of_poison
from tests.simulation.plan import SimulatedPlan
from tests.simulation.schedule import Fault, Run, Schedule, TriggerKind
from tests.simulation.session import SimulatedSession
from tests.simulation.store import SimulatedStore, SimulatedStoreFiles
from tests.simulation.world import World

_TRIGGERS: dict[TriggerKind, tuple[Trigger, ...]] = {
    TriggerKind.PROCESSING: (ProcessingTimeTrigger(),),
    TriggerKind.INTERVAL: (
        ProcessingTimeTrigger(1000),
        Cron("* * * * *"),
        WhenBacklog(rows=2, or_after="2 seconds"),
    ),
    TriggerKind.ONCE: (OneTimeTrigger(),),
    TriggerKind.AVAILABLE: (AvailableNowTrigger(),),
}
"""The triggers of a kind: the runs of a schedule take them in turn."""

_PACE_MS = 1
_LAST_RUN = Run()


class SimulatedExecution(StreamExecution):
    """Runs the engine on the caller's thread, since starting a thread takes longer than a run."""

    @property
    def logical_plan(self) -> QueryPlan:
        if self._plan is None:
            self._plan = self._plan_factory(self.identity)
        return self._plan

    def run_here(self, on_idle: Callable[[], None]) -> None:
        """Run the query from start to end. `on_idle` is called instead of a wait for data."""
        self.life.nudge = _IdleSignal(on_idle)
        self._run_stream()


class _IdleSignal(threading.Event):
    """Replaces the event on which an idle query waits."""

    def __init__(self, on_idle: Callable[[], None]) -> None:
        super().__init__()
        self._on_idle = on_idle

    def wait(self, timeout: float | None = None) -> bool:
        self._on_idle()
        return self.is_set()


@dataclass(frozen=True)
class Outcome:
    """The result of a schedule. `passed` has the sites that each run passed, in order.

    `simulated` is the number of runs that were simulated for this schedule alone. The others are
    also runs of another schedule, and were simulated for that one.
    """

    violations: list[str]
    injected: list[Fault]
    passed: list[list[tuple[str, int]]]
    ledger: Ledger
    simulated: int = field(default=0, compare=False)


def simulate(schedule: Schedule) -> Outcome:
    """Run the schedule, then a last run without faults; stops at the first violation."""
    return Simulation(World(schedule)).finish(schedule.runs)


class Simulation:
    """A world and its processes so far. `simulated` does not count those before a fork."""

    def __init__(self, world: World, lives: Sequence[Life] = ()) -> None:
        self._world = world
        self._lives = list(lives)
        self.simulated = 0

    @property
    def has_violation(self) -> bool:
        return bool(self._world.checker.violations)

    @property
    def now_ms(self) -> int:
        return self._world.now_ms

    @property
    def injected(self) -> list[Fault]:
        return [fault for life in self._lives for fault in life.injected]

    @property
    def passed(self) -> list[list[tuple[str, int]]]:
        return [life.passed for life in self._lives]

    def fork(self) -> Simulation:
        """A copy, to continue in another way."""
        return Simulation(self._world.fork(), self._lives)

    def is_in_same_state(self, other: Simulation) -> bool:
        """Whether the same runs have the same outcome after both, which have as many processes."""
        return self._world.is_in_same_state(other._world)

    def live(self, run: Run, *, is_last: bool = False) -> Life:
        """Run one more process."""
        life = _live(self._world, Life(len(self._lives), run, is_last=is_last))
        self._lives.append(life)
        self.simulated += 1
        return life

    def finish(self, runs: Sequence[Run] = ()) -> Outcome:
        """Run these and then the last one without faults; stops at a violation."""
        world = self._world
        for run in runs:
            if not world.checker.violations:
                self.live(run)
        if not world.checker.violations:
            # With a torn file there is one more run, which refuses it.
            for _ in range(1 + bool(world.torn)):
                last = self.live(_LAST_RUN, is_last=True)
            while last.fails_of_poison and not world.checker.violations:
                world.query_is_fixed = world.checker.book.is_stuck
                last = self.live(_LAST_RUN, is_last=True)
            world.checker.all_over(last)
        return Outcome(
            world.checker.violations,
            self.injected,
            self.passed,
            world.checker.ledger,
            self.simulated,
        )


@contextlib.contextmanager
def quiet_engine() -> Iterator[None]:
    """Disable the engine's log: most of a simulation is intended failures."""
    loggers = [logging.getLogger(name) for name in ("penstock.engine", "penstock.checkpoint")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _live(world: World, life: Life) -> Life:
    """Run one process."""
    world.now_ms += life.run.clock_jump_ms
    refuses_torn_files = bool(world.torn)
    world.checker.run_starts(life)
    life.take_checkpoint_away = world.take_checkpoint_away
    failure = _run_query(world, life)
    life.execution = None
    life.fails_of_poison = is_of_poison(failure)
    world.bring_checkpoint_back()
    world.checker.run_ends(life, failure, refuses_torn_files=refuses_torn_files)
    if refuses_torn_files:
        world.move_torn_files_away()
    return life


def _rest(world: World, life: Life) -> None:
    """Stop an idle query when all rows have arrived."""
    if world.all_arrived and not life.dead:
        life.stop_query(graceful=True)


def _files(world: World, life: Life) -> CheckpointFiles:
    if world.shape.on_object_store:
        return SimulatedStoreFiles(SimulatedStore(world, life))
    return SimulatedFiles(world, life)


def _trigger(life: Life) -> Trigger:
    triggers = _TRIGGERS[life.run.trigger]
    return triggers[life.number % len(triggers)]


def _pace_ms(world: World, life: Life) -> int | None:
    """Every second run is paced, if a source of it has a limit. The rules are the same."""
    book = world.checker.book
    numbers = range(len(world.shape.sources))
    has_limit = any(book.limit_of(number) is not None for number in numbers)
    return _PACE_MS if has_limit and life.number % 2 else None


def _quarantine(world: World) -> QuarantineRules | None:
    after = world.shape.after
    return QuarantineRules("memory:/aside", after) if after else None


def _run_query(world: World, life: Life) -> BaseException | None:
    """Returns the error of the query; None if it did not fail or its process was killed."""
    try:
        checkpoint = CheckpointDirectory(_files(world, life), now=lambda: world.now_ms / 1000)
        execution = SimulatedExecution(
            identity=open_checkpoint(checkpoint, faults=life),
            session=SimulatedSession(world, life),
            checkpoint=checkpoint,
            plan_factory=lambda identity: SimulatedPlan(world, life),
            trigger=_trigger(life),
            clock=world,
            faults=life,
            pace_ms=_pace_ms(world, life),
            quarantine=_quarantine(world),
        )
        life.execution = execution
        execution.run_here(lambda: _rest(world, life))
    except Killed:
        return None
    except Exception as exc:
        return exc
    return execution.failure.__cause__ if execution.failure else None
