"""A session without Spark: settings, a SQL configuration in a dictionary, no jobs."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.checkpoint import OffsetSeqMetadata
from penstock.engine.events import QueryEvent
from penstock.engine.seam import QueryIdentity, StreamSession
from penstock.engine.settings import Settings

POLICY_KEY = "spark.sql.streaming.multipleWatermarkPolicy"
PARTITIONS_KEY = "spark.sql.shuffle.partitions"


class InterruptedCallError(Exception):
    """Raised by a blocked call when the query is stopped, or when it times out."""


class MemorySession(StreamSession):
    """Implements what both worlds need. A subclass overrides the calls that it observes."""

    def __init__(self, settings: Settings, conf: Mapping[str, str]) -> None:
        self.current_settings = settings
        self.conf = dict(conf)

    @property
    def settings(self) -> Settings:
        return self.current_settings

    def enter(self, identity: QueryIdentity, description: str) -> None:
        """There are no thread-local properties to set."""

    def leave(self, identity: QueryIdentity) -> None:
        """There are no thread-local properties to remove."""

    def describe_jobs(self, batch_id: int, description: str) -> None:
        """There are no jobs."""

    def recordable_conf(self) -> Mapping[str, str]:
        return dict(self.conf)

    def apply_recorded_conf(self, metadata: OffsetSeqMetadata) -> None:
        self.conf.update(metadata.conf)

    @property
    def watermark_policy(self) -> str:
        return self.conf[POLICY_KEY]

    def post_event(self, event: QueryEvent) -> None:
        """There are no listeners."""

    def cancel_jobs(self, identity: QueryIdentity, reason: str) -> None:
        """There are no jobs."""

    def is_interruption(self, error: BaseException) -> bool:
        return isinstance(error, InterruptedCallError)
