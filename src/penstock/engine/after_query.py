"""A trigger that runs a batch when another query has committed one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from penstock.engine.data_stream import DataStream
from penstock.engine.error_text import error_text, one_line
from penstock.engine.following import Followed, Follower, Followers
from penstock.engine.triggers import (
    BatchRunner,
    Schedule,
    Surroundings,
    Trigger,
    TriggerExecutor,
)
from penstock.errors import FollowedQueryFailedError


class AfterQuery(Trigger):
    """Runs a batch when another query has committed one, to read what the other has written.

    The first batch of a run is due at once, and takes what the other query wrote before. If the
    other query commits several batches during one of this query, one batch follows for all. When
    the other query ends, this one runs until a trigger finds no new data and then ends too. If the
    other query failed, this one then fails with FollowedQueryFailedError. A query that is
    restarted after a failure, with `restart()`, has not ended. While a thread waits in
    `processAllAvailable`, batches do not wait for the other query.

    `query` is the query that `start()` returned; it may have ended already. Raises TypeError if it
    is not a query that Penstock runs.
    """

    def __init__(self, query: Followed) -> None:
        if not isinstance(getattr(query, "followers", None), Followers):
            raise TypeError(
                f"AfterQuery needs a query that Penstock runs, not {query!r}: start the other "
                "query with penstock.write_stream(df), or call penstock.install() before"
            )
        self._query = query

    def __repr__(self) -> str:
        return f"AfterQuery({self._query!r})"

    def schedule(self, sources: Sequence[DataStream], surroundings: Surroundings) -> Schedule:
        return Schedule.of(sources, AfterQueryExecutor(self._query, surroundings.batches))


class AfterQueryExecutor(TriggerExecutor, Follower):
    """Runs a batch for each commit of another query; `batches` counts those of this one."""

    def __init__(self, query: Followed, batches: Callable[[], int]) -> None:
        self._query = query
        self._batches = batches
        self._changed = threading.Event()
        self._has_ended = False
        self._failure: BaseException | None = None

    def execute(self, batch_runner: BatchRunner) -> None:
        self._query.followers.add(self)
        try:
            # Cleared before each batch: what the other query commits during it is not lost.
            while batch_runner() and not self._has_ended:
                self._changed.wait()
                self._changed.clear()
            if self._has_ended:
                self._run_to_the_end(batch_runner)
        finally:
            self._query.followers.remove(self)

    def on_committed(self) -> None:
        self._changed.set()

    def on_ended(self, failure: BaseException | None) -> None:
        self._failure = failure
        self._has_ended = True
        self._changed.set()

    def wake(self) -> None:
        self._changed.set()

    def nudge(self) -> None:
        self._changed.set()

    def _run_to_the_end(self, batch_runner: BatchRunner) -> None:
        """Run batches until one finds no data; then fail if the other query has failed."""
        before = -1
        goes_on = True
        while goes_on and before != self._batches():
            before = self._batches()
            goes_on = batch_runner()
        if goes_on and self._failure is not None:
            raise FollowedQueryFailedError(
                f"This query runs after each batch of {self._query!r}, which has failed: "
                f"{one_line(error_text(self._failure))}. All data that there was is processed. "
                "Start both queries again when the cause is fixed."
            ) from self._failure
