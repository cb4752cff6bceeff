"""When the sinks of Delta and Iceberg look for a batch in their table."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.sinks import iceberg_sink
from penstock.sinks.iceberg_sink import IcebergSink
from penstock.sinks.identity import Identity


class Table(list[int]):
    """The batches of a query in a table, in the order of its snapshots."""

    def properties(
        self, _spark: object, _table: str, names: tuple[str, ...]
    ) -> tuple[str | None, ...] | None:
        if not self:
            return None
        summary = {
            "penstock.query-id": "q",
            "penstock.sink": "-",
            "penstock.batch-id": str(self[-1]),
        }
        return tuple(summary.get(name) for name in names)


class Sink(IcebergSink):
    """A sink on such a table, that notes the batches it looks for."""

    def __init__(self, table: Table) -> None:
        super().__init__("t", "append", (), {}, None, "fail")
        self.table = table
        self.looks: list[int] = []

    def write(self, batch_id: int) -> bool:
        unused: Any = type("Rows", (), {"sparkSession": None})
        return self._write_new(Identity("q", "-", batch_id), unused, is_kept=False)

    def _is_there(self, df: object, identity: Identity) -> bool:
        self.looks.append(identity.batch_id)
        return identity.batch_id in self.table

    def _commit(self, identity: Identity, df: object) -> None:
        self._latest.forget(identity)
        self.table.append(identity.batch_id)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    table = Table()
    monkeypatch.setattr(iceberg_sink, "current_properties", table.properties)
    return table


def test_an_iceberg_table_is_looked_into_once_a_run(table: Table) -> None:
    for run in range(2):
        sink = Sink(table)
        assert [sink.write(batch) for batch in range(3 * run, 3 * run + 3)] == [True] * 3
        assert sink.looks == [3 * run]


def test_an_iceberg_table_that_another_process_has_written_is_looked_into_again(
    table: Table,
) -> None:
    asleep, successor = Sink(table), Sink(table)
    asleep.write(0)
    asleep.write(1)
    for batch in (2, 3, 4):
        successor.write(batch)
    assert not asleep.write(2)
    assert table == [0, 1, 2, 3, 4]
    assert asleep.looks == [0, 2]


def test_an_iceberg_table_whose_snapshot_cannot_be_read_is_looked_into_always(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg_sink, "current_properties", lambda *_: None)
    sink = Sink(table)
    assert [sink.write(batch) for batch in (0, 1)] == [True, True]
    assert sink.looks == [0, 1]
