"""Simulates what follows from a state of the world once, for all schedules that reach the state."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.schedule import Run
from tests.simulation.simulator import Outcome, Simulation

_Key = tuple[int, int, tuple[Run, ...]]


class Futures:
    """The outcomes of schedules of one query, by the state after their first runs.

    A process knows nothing of the processes before it but the state of the world. Two kills with no
    effect and no reading of the clock between them leave the same state, and if the same runs
    follow, these are the same too: they are simulated once.
    """

    def __init__(self) -> None:
        self._known: dict[_Key, list[tuple[Simulation, Outcome]]] = {}

    def finish(self, past: Simulation, runs: tuple[Run, ...] = ()) -> Outcome:
        """The outcome of `past.finish(runs)`. Call no method of `past` afterwards but `fork`."""
        if past.has_violation:
            return past.finish(runs)
        key = len(past.passed), past.now_ms, runs
        known = self._known.setdefault(key, [])
        for other, outcome in known:
            if other.is_in_same_state(past):
                return _continued(past, other, outcome)
        outcome = self._simulate(past.fork(), runs)
        known.append((past, outcome))
        return replace(outcome, simulated=past.simulated + outcome.simulated)

    def _simulate(self, simulation: Simulation, runs: tuple[Run, ...]) -> Outcome:
        if not runs:
            return simulation.finish()
        simulation.live(runs[0])
        return self.finish(simulation, runs[1:])


def _continued(past: Simulation, other: Simulation, outcome: Outcome) -> Outcome:
    """The outcome of `other` with its first runs replaced by those of `past`."""
    return Outcome(
        outcome.violations,
        past.injected + outcome.injected[len(other.injected) :],
        past.passed + outcome.passed[len(other.passed) :],
        outcome.ledger,
        past.simulated,
    )
