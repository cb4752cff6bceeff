"""The simulated session."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.engine.events import QueryEvent, QueryProgressEvent
from penstock.engine.settings import Settings
from tests.memory_world.session import PARTITIONS_KEY, POLICY_KEY, MemorySession
from tests.simulation.life import Life
from tests.simulation.schedule import TriggerKind
from tests.simulation.sites import PROGRESS_REPORT
from tests.simulation.world import World

_MANY_TRIGGERS = 80
_NEVER_STARTED = threading.Thread()


class _InlineThread(threading.Thread):
    """Runs its target when it is started, on the thread that starts it."""

    def __init__(self, target: Callable[[], None]) -> None:
        super().__init__()
        self._work = target

    def start(self) -> None:
        self._work()

    def join(self, timeout: float | None = None) -> None:
        """It has ended."""


class SimulatedSession(MemorySession):
    """The session of one process.

    Each process has different settings: if the engine did not apply the recorded ones, the logs
    would show it. The session also counts triggers, to stop a processing-time query, and lets rows
    arrive between triggers.
    """

    def __init__(self, world: World, life: Life) -> None:
        self._world = world
        self._life = life
        shape = world.shape
        settings = Settings(
            polling_delay_ms=0,
            no_data_batches=shape.no_data_batches,
            min_batches_to_retain=shape.retained_batches,
            available_now_wrapper=shape.available_now_wrapper,
        )
        other = "max" if shape.watermark_policy == "min" else "min"
        policy = (shape.watermark_policy or "min") if life.number == 0 else other
        super().__init__(settings, {POLICY_KEY: policy, PARTITIONS_KEY: str(5 + life.number)})
        self._triggers = 0

    def describe_jobs(self, batch_id: int, description: str) -> None:
        """The first call of every trigger."""
        self._triggers += 1
        life = self._life
        if self._triggers > _MANY_TRIGGERS:
            self._world.checker.never_rests(life, self._triggers)
        runs_on = life.run.trigger in (TriggerKind.PROCESSING, TriggerKind.INTERVAL)
        if runs_on and not life.is_last and self._triggers >= life.run.triggers:
            life.stop_query(graceful=True)
        self._world.let_rows_arrive()

    def create_thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        """The query runs on the thread of the caller, which starts no other."""
        return _NEVER_STARTED

    def create_sink_thread(self, target: Callable[[], None], sink: str) -> threading.Thread:
        return _InlineThread(target)

    def post_event(self, event: QueryEvent) -> None:
        if isinstance(event, QueryProgressEvent):
            self._life.cross(PROGRESS_REPORT)
            self._world.checker.progress_reported(self._life, event.progress.batch_id)

    def describe_error(self, error: BaseException) -> str:
        return repr(error)
