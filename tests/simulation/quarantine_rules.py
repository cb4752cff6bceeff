"""The rules for what is recorded about rows that make a batch fail."""

from __future__ import annotations

from typing import Any

from tests.simulation.ledger import rows_left
from tests.simulation.life import Life
from tests.simulation.rulebook import Rulebook
from tests.simulation.schedule import FaultKind


def failed(book: Rulebook, life: Life, number: int, fields: dict[str, Any]) -> None:
    """A failure is recorded: it must be of the batch that is planned and not committed."""
    ledger, batch_id = book.ledger, fields["batch"]
    if not book.shape.after:
        raise book.violated(life, "a failure is recorded without a quarantine")
    if batch_id != ledger.latest_decision or batch_id == ledger.latest_commit:
        raise book.violated(
            life, f"a failure of batch {batch_id} is recorded, which is not running"
        )
    if fields["batchTimestampMs"] != ledger.decisions[batch_id].timestamp_ms:
        raise book.violated(life, f"a failure is recorded of another plan of batch {batch_id}")
    ledger.failures[number] = batch_id, fields["batchTimestampMs"]


def forgotten(book: Rulebook, life: Life, number: int) -> None:
    """A recorded failure is removed: its batch must be committed."""
    batch_id, _ = book.ledger.failures.pop(number)
    if batch_id > book.ledger.latest_commit:
        raise book.violated(life, f"a failure of batch {batch_id} is removed before its commit")


def left_out(book: Rulebook, life: Life, batch_id: int, fields: dict[str, Any]) -> None:
    """A decision is recorded: about rows that fail, of a batch that has failed often enough."""
    ledger = book.ledger
    if batch_id != ledger.latest_decision or batch_id == ledger.latest_commit:
        raise book.violated(life, f"rows of batch {batch_id} are left out, which is not running")
    if fields["batchTimestampMs"] != ledger.decisions[batch_id].timestamp_ms:
        raise book.violated(life, f"rows are left out of another plan of batch {batch_id}")
    if ledger.failures_of_plan < book.shape.after:
        raise book.violated(
            life, f"rows are left out after {ledger.failures_of_plan} failures of batch {batch_id}"
        )
    if batch_id in ledger.first_runs:
        raise book.violated(life, f"rows are left out of batch {batch_id}, which a sink has seen")
    if book.nothing_passes(batch_id):
        raise book.violated(life, f"all rows of batch {batch_id} are left out")
    rows = frozenset(_rows_of(fields["parts"]))
    transient = [fault for fault in life.injected if fault.kind is FaultKind.RAISE]
    if not rows <= set(book.shape.poison) and len(transient) < 2:
        raise book.violated(life, f"rows {sorted(rows)} are left out, and not all of them fail")
    _check_kept(book, life, batch_id, rows, fields["kept"])
    ledger.left_out[batch_id] = rows


def _check_kept(
    book: Rulebook,
    life: Life,
    batch_id: int,
    rows: frozenset[tuple[int, int]],
    kept: list[dict[str, Any]],
) -> None:
    expected = rows_left(book.ranges_of(batch_id), rows)
    for source in {source for source, _ in rows}:
        found = tuple(
            (int(part["start"] or 0), int(part["end"]))
            for part in kept
            if part["source"] == str(source)
        )
        if found != expected[source]:
            raise book.violated(life, f"batch {batch_id} keeps {found}, not {expected[source]}")


def _rows_of(parts: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [
        (int(part["source"]), row)
        for part in parts
        for row in range(int(part.get("start", 0)), int(part["end"]))
    ]
