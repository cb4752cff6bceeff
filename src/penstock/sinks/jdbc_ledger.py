"""The table that records which batches are in a database."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.sinks.identity import Identity
from penstock.sinks.jdbc_sql import Dialect
from penstock.spark.sinks.jdbc_session import JdbcSession

KEPT_BATCHES = 10_000
"""How many batches of a sink the ledger keeps. A checkpoint keeps far fewer."""


@dataclass(frozen=True)
class Entry:
    """A batch that is in the ledger, and the newest one of the same sink."""

    planned_at_ms: int | None
    newest: int


class Ledger:
    """The ledger of one target table, in a database session."""

    def __init__(self, session: JdbcSession, dialect: Dialect, name: str, target: str) -> None:
        self._session = session
        self._dialect = dialect
        self._name = name
        self._target = target

    def create_if_missing(self) -> None:
        if self._session.columns(self._name) is not None:
            return
        try:
            self._session.update(self._dialect.create_ledger(self._name))
        except Exception:
            if self._session.columns(self._name) is None:  # nobody else has created it either
                raise

    def find(self, identity: Identity) -> Entry | None:
        """The entry of a batch, under a former name only if it has the same target."""
        rows = self._session.query(
            f"SELECT sink, target, planned_at FROM {self._name} "
            "WHERE query_id = ? AND batch_id = ?",
            identity.query_id,
            identity.batch_id,
        )
        for sink, target, planned_at in rows:
            is_former = sink in identity.former and target == self._target
            if sink is not None and (sink == identity.sink or is_former):
                newest = self._newest(identity.query_id, sink)
                return Entry(None if planned_at is None else int(planned_at), newest)
        return None

    def _newest(self, query_id: str, sink: str) -> int:
        [[newest]] = self._session.query(
            f"SELECT MAX(batch_id) FROM {self._name} WHERE query_id = ? AND sink = ?",
            query_id,
            sink,
        )
        return int(newest or 0)

    def add(self, identity: Identity, row_count: int, written_at_ms: int) -> bool:
        """Add a batch; False if it is there. Another transaction that adds it is waited for."""
        return self._session.insert(
            f"INSERT INTO {self._name} (query_id, sink, batch_id, target, planned_at, row_count, "
            "written_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
            identity.query_id,
            identity.sink,
            identity.batch_id,
            self._target,
            identity.planned_at_ms,
            row_count,
            written_at_ms,
        )

    def purge(self, identity: Identity) -> None:
        """Delete the entries that are older than the last KEPT_BATCHES."""
        self._session.update(
            f"DELETE FROM {self._name} WHERE query_id = ? AND sink = ? AND batch_id < ?",
            identity.query_id,
            identity.sink,
            identity.batch_id - KEPT_BATCHES + 1,
        )
