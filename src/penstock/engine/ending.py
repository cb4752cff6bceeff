"""The steps that end a run of a query, whether it was stopped, has finished or has failed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from penstock.checkpoint import CheckpointDirectory
from penstock.engine.data_stream import DataStream
from penstock.engine.error_text import error_text, or_else, shown
from penstock.engine.events import QueryTerminatedEvent
from penstock.engine.faults import FaultInjector, FaultPoint
from penstock.engine.progress_reporter import ProgressReporter
from penstock.engine.run_state import RunState
from penstock.engine.seam import QueryIdentity, StreamSession

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ending:
    """Ends one run. Call `run` once, on the query's thread."""

    identity: QueryIdentity
    session: StreamSession
    checkpoint: CheckpointDirectory
    life: RunState
    reporter: ProgressReporter
    faults: FaultInjector

    def run(
        self,
        sources: Sequence[DataStream],
        notify_observers: Callable[[], None],
        *,
        error_class: str | None,
        delete_checkpoint: bool,
    ) -> None:
        """Release what the run holds and report its end. A step that fails is logged, not raised.

        1. No interruption reaches the thread any more.
        2. The sources are stopped; the checkpoint's directories are closed.
        3. The state becomes TERMINATED, and the observers are notified.
        4. The thread leaves the session, which releases the lock on the checkpoint.
        5. The listeners get `QueryTerminatedEvent`, with `error_class` if the run failed.
        6. A temporary checkpoint is deleted, if `delete_checkpoint` says that it is one.
        """
        self._attempt(self.session.shield)
        self._attempt(lambda: self._stop_sources(sources))
        self._attempt(self.checkpoint.release)
        self.life.terminate()
        self.reporter.update_status(is_data_available=False, is_trigger_active=False)
        notify_observers()
        self._attempt(lambda: self.session.leave(self.identity))
        self._attempt(lambda: self._post_terminated(error_class))
        if delete_checkpoint:
            self._attempt(self._delete_checkpoint)

    def _attempt(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception:
            _logger.warning("A step of ending query %s failed", self.identity, exc_info=True)

    def _stop_sources(self, sources: Sequence[DataStream]) -> None:
        self.faults.reach(FaultPoint.BEFORE_STOP_SOURCES, -1)
        for source in sources:
            try:
                source.stop()
            except Exception:
                _logger.warning(
                    "Failed to stop streaming source: %s. Resources may have leaked.",
                    shown(source),
                    exc_info=True,
                )
        self.faults.reach(FaultPoint.AFTER_STOP_SOURCES, -1)

    def _post_terminated(self, error_class: str | None) -> None:
        cause = self.life.failure.__cause__ if self.life.failure else None
        self.session.post_event(
            QueryTerminatedEvent(
                self.identity.id,
                self.identity.run_id,
                None if cause is None else self._describe(cause),
                error_class,
            )
        )

    def _describe(self, cause: BaseException) -> str:
        return or_else(partial(self.session.describe_error, cause), error_text(cause))

    def _delete_checkpoint(self) -> None:
        """Delete it; after a failure only if `forceDeleteTempCheckpointLocation` is set now."""
        settings_now = self.session.settings_now
        if self.life.failure and not settings_now().force_delete_temporary_checkpoint:
            return
        _logger.info("Deleting checkpoint %s.", self.checkpoint.root)
        try:
            self.checkpoint.files.delete_all()
        except OSError:
            _logger.warning("Cannot delete %s", self.checkpoint.root, exc_info=True)
