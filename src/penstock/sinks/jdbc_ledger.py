"""The table that records which batches are in a database."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import ExecutionError
from penstock.sinks.identity import Identity
from penstock.sinks.jdbc_sql import Dialect
from penstock.spark.sinks.jdbc_session import JdbcSession

KEPT_BATCHES = 10_000
"""How many batches of a sink the ledger keeps. A checkpoint keeps far fewer."""


@dataclass(frozen=True)
class Entry:
    """A batch of `rows` rows that is in the ledger, and the newest one of the same sink."""

    sink: str
    planned_at_ms: int | None
    rows: int
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
        """The entry of a batch in the target, under the present or a former name of the sink.

        Raises ExecutionError if the batch is recorded under the present name for another target.
        """
        rows = self._session.query(
            f"SELECT sink, target, planned_at, row_count FROM {self._name} "
            "WHERE query_id = ? AND batch_id = ?",
            identity.query_id,
            identity.batch_id,
        )
        for sink, target, planned_at, count in rows:
            is_known = sink is not None and sink in (identity.sink, *identity.former)
            if is_known and target == self._target:
                newest = self._newest(identity.query_id, str(sink))
                planned_at_ms = None if planned_at is None else int(planned_at)
                return Entry(str(sink), planned_at_ms, int(count or 0), newest)
        for sink, target, *_ in rows:
            if sink == identity.sink:
                raise ExecutionError(self._of_another_target(identity, str(target)))
        return None

    def _of_another_target(self, identity: Identity, target: str) -> str:
        recorded = f"query_id = '{identity.query_id}' AND sink = '{identity.sink}'"
        return (
            f"Batch {identity.batch_id} of query {identity.query_id} is to be written to the table "
            f"{self._target}, but the ledger {self._name} has it under the same name of a sink, "
            f"{identity.sink!r}, for the table {target}. Nothing was written to {self._target}. If "
            "several sinks of the query use the ledger, as in one function of foreachBatch, each "
            f'needs a name of its own: give the one of {self._target} the argument name="...". If '
            f"{self._target} is a new table of the same sink, give it a new name as well. If it is "
            f"{target} under a new name, with the rows of the batch, tell the ledger: UPDATE "
            f"{self._name} SET target = '{self._target}' WHERE {recorded} AND "
            f"target = '{target}'."
        )

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
