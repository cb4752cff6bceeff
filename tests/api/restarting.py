"""A restarting query on the in-memory engine, with failures injected by the test."""

from __future__ import annotations

from collections.abc import Callable

from penstock.api.query import StreamingQuery
from penstock.api.restart import RestartingQuery
from penstock.api.restart_policy import RestartPolicy
from penstock.engine.clock import Clock
from penstock.engine.read_limit import ReadMaxRows
from penstock.engine.settings import Settings
from penstock.engine.stream_execution import StreamExecution
from penstock.engine.triggers import AvailableNowTrigger, Trigger
from tests.engine.world import ManualClock, World
from tests.memory_world.sources import Abilities


class Restarting:
    """A query over the numbers 0 to 4, one per batch, that fails with the given errors.

    Each batch raises the next of `errors`, each opening of a run the next of `start_errors`.
    `on_prepare` is called before each run but the first is opened, `on_start` before it is started
    and after the query has adopted it.
    """

    def __init__(
        self,
        policy: RestartPolicy,
        clock: Clock | None = None,
        trigger: Trigger | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.world = World() if settings is None else World(settings)
        one_a_batch = Abilities(admission_control=True, available_now=True, limit=ReadMaxRows(1))
        self.stream = self.world.add_stream(rows=range(5), abilities=one_a_batch)
        self.clock = clock or ManualClock()
        self.trigger = trigger or AvailableNowTrigger()
        self.errors: list[Exception] = []
        self.start_errors: list[Exception] = []
        self.on_prepare: Callable[[], None] = lambda: None
        self.on_start: Callable[[], None] = lambda: None
        self.ends: list[StreamingQuery] = []
        self.runs: list[StreamExecution] = []
        self.world.plan.on_run = self._fail
        self.query = RestartingQuery(
            self._execution(), policy, self._open_next, self.ends.append, self.clock
        )

    def start(self) -> RestartingQuery:
        self.query.begin()
        return self.query

    def _fail(self) -> None:
        if self.errors:
            raise self.errors.pop(0)

    def _execution(self) -> StreamExecution:
        def on_terminated(ended: StreamExecution) -> None:
            if self.query.ends_with(ended):
                self.ends.append(self.query)

        self.runs.append(self.world.query(self.trigger, on_terminated=on_terminated))
        return self.runs[-1]

    def _open_next(self) -> StreamExecution:
        self.on_prepare()
        if self.start_errors:
            raise self.start_errors.pop(0)
        execution = self._execution()
        start = execution.start

        def start_noticed() -> None:
            self.on_start()
            start()

        execution.start = start_noticed  # type: ignore[method-assign]  # calls on_start first
        return execution
