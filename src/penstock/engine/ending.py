"""What is done when a query ends, however it ended."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from penstock.checkpoint import CheckpointDirectory
from penstock.engine.data_stream import DataStream
from penstock.engine.events import QueryTerminatedEvent
from penstock.engine.faults import FaultInjector, FaultPoint
from penstock.engine.seam import QueryIdentity, StreamSession
from penstock.errors import StreamFailedError

_logger = logging.getLogger(__name__)


class Ending:
    """The last steps of a query. Each is tried whatever became of the ones before."""

    def __init__(
        self,
        identity: QueryIdentity,
        session: StreamSession,
        checkpoint: CheckpointDirectory,
        faults: FaultInjector,
    ) -> None:
        self._identity = identity
        self._session = session
        self._checkpoint = checkpoint
        self._faults = faults

    def attempt(self, step: Callable[[], None]) -> None:
        """Do a step. One that fails is reported, and the next one comes."""
        try:
            step()
        except Exception:
            _logger.warning("A step of ending query %s failed", self._identity, exc_info=True)

    def stop_sources(self, streams: Sequence[DataStream]) -> None:
        self._faults.reach(FaultPoint.BEFORE_STOP_SOURCES, -1)
        for stream in streams:
            try:
                stream.stop()
            except Exception:
                _logger.warning(
                    "Failed to stop streaming source: %s. Resources may have leaked.",
                    stream,
                    exc_info=True,
                )
        self._faults.reach(FaultPoint.AFTER_STOP_SOURCES, -1)

    def tell_listeners(self, failure: StreamFailedError | None, error_class: str | None) -> None:
        cause = failure.__cause__ if failure else None
        self._session.post_event(
            QueryTerminatedEvent(
                self._identity.id,
                self._identity.run_id,
                None if cause is None else self._session.describe_error(cause),
                error_class,
            )
        )

    def delete_checkpoint(self, failure: StreamFailedError | None) -> None:
        """Remove a temporary checkpoint; that of a query that failed only if it is asked for."""
        settings_now = self._session.settings_now
        if failure is not None and not settings_now().force_delete_temporary_checkpoint:
            return
        _logger.info("Deleting checkpoint %s.", self._checkpoint.root)
        try:
            self._checkpoint.files.delete_all()
        except OSError:
            _logger.warning("Cannot delete %s", self._checkpoint.root, exc_info=True)
