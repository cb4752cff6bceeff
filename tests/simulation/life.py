"""One process of the simulation, with the faults that are injected into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.engine.faults import FaultInjector, FaultPoint
from tests.memory_world.session import InterruptedCallError
from tests.simulation.schedule import Fault, FaultKind, Run

if TYPE_CHECKING:
    from penstock.engine.stream_execution import StreamExecution


class Killed(BaseException):
    """The end of the process. It is not an Exception, so the engine does not catch it."""


class InjectedError(Exception):
    """Raised by a call at which the fault RAISE is injected."""


_SITES = {point.name: point.value for point in FaultPoint}


class Life(FaultInjector):
    """The process of one run.

    When it is `dead`, every further call into the world raises Killed again, so that nothing the
    engine does to clean up has an effect.
    """

    def __init__(self, number: int, run: Run, *, is_last: bool = False) -> None:
        self.number = number
        self.run = run
        self.is_last = is_last
        self.dead = False
        self.stopped = False
        self.sees_stale_listing = False
        self.has_tried = False
        self.fails_of_poison = False
        self.take_checkpoint_away: Callable[[Fault], None] = lambda fault: None
        self.execution: StreamExecution | None = None
        self.injected: list[Fault] = []
        self.passed: list[tuple[str, int]] = []
        self._times: dict[str, int] = {}
        self._faults = {(f.site, f.occurrence): f for f in run.faults}

    def reach(self, point: FaultPoint, batch_id: int) -> None:
        if point is FaultPoint.BEFORE_TRIALS:
            self.has_tried = True
        self.cross(_SITES[point._name_])

    def cross(self, site: str) -> FaultKind | None:
        """Pass a site. Injects its fault, or returns it if the file layer has to inject it."""
        if self.dead:
            raise Killed
        occurrence = self._times[site] = self._times.get(site, 0) + 1
        passed = site, occurrence
        self.passed.append(passed)
        if passed in self._faults:
            return self._strike(self._faults[passed])
        return None

    def die(self) -> Killed:
        """End the process; raise what this returns."""
        self.dead = True
        return Killed()

    def stop_query(self, *, graceful: bool) -> None:
        """Stop the query, as another thread would at this moment."""
        self.stopped = True
        if self.execution is not None:
            self.execution.stop(graceful=graceful)

    def _strike(self, fault: Fault) -> FaultKind | None:
        self.injected.append(fault)
        if fault.kind.takes_checkpoint_away:
            self.take_checkpoint_away(fault)
            return None
        match fault.kind:
            case FaultKind.RAISE:
                raise InjectedError(f"injected at {fault.site}")
            case FaultKind.KILL:
                raise self.die()
            case FaultKind.HANG:
                self.stop_query(graceful=False)
                raise InterruptedCallError(f"stopped while waiting at {fault.site}")
            case FaultKind.STOP | FaultKind.STOP_GRACEFULLY:
                self.stop_query(graceful=fault.kind is FaultKind.STOP_GRACEFULLY)
                return None
        return fault.kind
