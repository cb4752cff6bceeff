"""Snapshots of queries that need not run, for tests of what is drawn from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.engine.read_limit import LimitUnit
from penstock.engine.source_pace import PaceReason, SourcePace
from penstock.engine.watermark import WatermarkOperator
from penstock.observe.histogram import Histogram
from penstock.observe.snapshot import BatchSnapshot, QuerySnapshot, SourceSnapshot, Totals
from penstock.observe.watermark_report import WatermarkReport, make_report

NOW = 1_700_000_000.0

PHASES = {
    "latestOffset": 4,
    "walCommit": 6,
    "getBatch": 2,
    "queryPlanning": 8,
    "addBatch": 70,
    "commitOffsets": 10,
}


def batch(batch_id: int, **changes: Any) -> BatchSnapshot:
    values: dict[str, Any] = {
        "batch_id": batch_id,
        "timestamp": f"2023-11-14T22:{batch_id // 60 % 60:02d}:{batch_id % 60:02d}.000Z",
        "duration_ms": 102,
        "phases": PHASES,
        "input_rows": 1000,
        "output_rows": 900,
    }
    return BatchSnapshot(**(values | changes))


def watermark(first: int | None = 1_699_999_000_000, second: int | None = None) -> WatermarkReport:
    """A watermark of two inputs."""
    operators = [
        WatermarkOperator("a", "clicked_at", 60_000, ("Kafka[clicks]",)),
        WatermarkOperator("b", "seen_at", 5_000, ("Kafka[views]",)),
    ]
    reached = min(first or 0, second or 0)
    return make_report("min", reached, operators, {"a": first, "b": second})


def totals() -> Totals:
    whole, phase = Histogram(), Histogram()
    for _ in range(8):
        whole.observe(0.102)
        phase.observe(0.07)
    phases = {"addBatch": phase.snapshot()}
    return Totals(8, 8000, 7200, 3, 0, whole.snapshot(), phases, quarantined_parts=2)


def snapshot(**changes: Any) -> QuerySnapshot:
    """A query that has run eight batches and goes on."""
    values: dict[str, Any] = {
        "id": "5a0e4ac1-9df3-4c1e-8f5c-0d1a5c5e8b11",
        "run_id": "0f3c2b6e-31c7-4d0c-a7ab-6f7f6e9b1d22",
        "name": "clicks",
        "condition": "running",
        "status": "Waiting for next trigger",
        "started_at": NOW - 60,
        "taken_at": NOW,
        "last_progress_at": NOW - 2,
        "batch_id": 7,
        "batch_duration_ms": 102,
        "phases": PHASES,
        "input_rows": 1000,
        "output_rows": 900,
        "input_rows_per_second": 980.5,
        "processed_rows_per_second": 12_345.0,
        "sources": (
            SourceSnapshot(
                "Kafka[clicks]", '{"t":{"0":5}}', '{"t":{"0":9}}', "12", 9, 42, 12.5, 3.5
            ),
        ),
        "sink": "MemorySink",
        "checkpoint": "file:/checkpoints/clicks",
        "totals": totals(),
        "batches": tuple(batch(number) for number in range(8)),
    }
    return QuerySnapshot(**(values | changes))


def paced() -> QuerySnapshot:
    """The query of `snapshot` with a pace of ten seconds."""
    query = snapshot()
    pace = SourcePace(10_000, 1200, LimitUnit.ROWS, PaceReason.GROW)
    return replace(query, sources=(replace(query.sources[0], pace=pace), *query.sources[1:]))
