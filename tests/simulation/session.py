"""The simulated session: settings that differ from run to run, and the ear of the listeners."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.checkpoint import OffsetSeqMetadata
from penstock.engine.events import QueryEvent, QueryProgressEvent
from penstock.engine.seam import QueryIdentity, StreamSession
from penstock.engine.settings import Settings
from tests.simulation.life import InterruptedCallError, Life
from tests.simulation.schedule import TriggerKind
from tests.simulation.sites import PROGRESS_REPORT
from tests.simulation.world import World

POLICY_KEY = "spark.sql.streaming.multipleWatermarkPolicy"
PARTITIONS_KEY = "spark.sql.shuffle.partitions"
_MANY_TRIGGERS = 80


class SimulatedSession(StreamSession):
    """The session of one process.

    Each process comes with settings of its own. If the engine does not let the recorded ones win,
    the logs show it. It also stops a processing-time query whose triggers are used up, and lets
    rows arrive between triggers.
    """

    def __init__(self, world: World, life: Life) -> None:
        self._world = world
        self._life = life
        shape = world.shape
        self._settings = Settings(
            polling_delay_ms=0,
            no_data_batches=shape.no_data_batches,
            min_batches_to_retain=shape.retained_batches,
            available_now_wrapper=shape.available_now_wrapper,
        )
        other = "max" if shape.watermark_policy == "min" else "min"
        policy = (shape.watermark_policy or "min") if life.number == 0 else other
        self._conf = {POLICY_KEY: policy, PARTITIONS_KEY: str(5 + life.number)}
        self._triggers = 0

    @property
    def settings(self) -> Settings:
        return self._settings

    def enter(self, identity: QueryIdentity, description: str) -> None:
        """There is no thread to adopt."""

    def leave(self, identity: QueryIdentity) -> None:
        """There is no thread to let go."""

    def set_job_description(self, description: str) -> None:
        """The first the world hears of a new trigger."""
        self._triggers += 1
        life = self._life
        if self._triggers > _MANY_TRIGGERS:
            self._world.checker.never_rests(life, self._triggers)
        runs_on = life.run.trigger in (TriggerKind.PROCESSING, TriggerKind.INTERVAL)
        if runs_on and not life.is_last and self._triggers >= life.run.triggers:
            life.stop_query(graceful=True)
        self._world.let_rows_arrive()

    def set_batch_id(self, batch_id: int) -> None:
        """There are no tasks."""

    def recordable_conf(self) -> Mapping[str, str]:
        return self._conf

    def apply_recorded_conf(self, metadata: OffsetSeqMetadata) -> None:
        self._conf = {**self._conf, **metadata.conf}

    @property
    def watermark_policy(self) -> str:
        return self._conf[POLICY_KEY]

    def post_event(self, event: QueryEvent) -> None:
        if isinstance(event, QueryProgressEvent):
            self._life.cross(PROGRESS_REPORT)
            self._world.checker.progress_reported(self._life, event.progress.batch_id)

    def cancel_jobs(self, identity: QueryIdentity, reason: str) -> None:
        """There are no jobs."""

    def is_interruption(self, error: BaseException) -> bool:
        return isinstance(error, InterruptedCallError)

    def describe_error(self, error: BaseException) -> str:
        return repr(error)
