"""The newest batch that a sink knows to be in its table, to look into the table only once a run."""

from __future__ import annotations

import threading

from penstock.sinks.identity import Identity


class LatestBatches:
    """By query and sink: the newest batch that this process has written, or found in the table."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[tuple[str, str], int] = {}

    def has_passed(self, identity: Identity) -> bool:
        """Whether the batch follows one that is known to be in the table, so that it is new."""
        newest = self.newest(identity)
        return newest is not None and identity.batch_id > newest

    def newest(self, identity: Identity) -> int | None:
        """The newest batch of the same sink that is known to be in the table."""
        with self._lock:
            return self._newest.get((identity.query_id, identity.sink))

    def remember(self, identity: Identity) -> None:
        """The batch is in the table."""
        with self._lock:
            self._newest[identity.query_id, identity.sink] = identity.batch_id

    def forget(self, identity: Identity) -> None:
        """Whether the batch is in the table is unknown."""
        with self._lock:
            self._newest.pop((identity.query_id, identity.sink), None)
