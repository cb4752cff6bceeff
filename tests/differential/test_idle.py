"""What a query reports of its state while no data arrives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.differential.inputs import arrive
from tests.differential.program import Input, Program
from tests.differential.programs.data import EVENTS_ONLY
from tests.differential.runs import Engine, Run
from tests.streams import eventually, progress_fields

INTERVAL = "spark.sql.streaming.noDataProgressEventInterval"


def counts(source: Input) -> DataFrame:
    events = source.stream().withWatermark("time", "10 seconds")
    return events.groupBy(F.window("time", "10 seconds")).count()


PROGRAM = Program("idle", counts, EVENTS_ONLY, conf={INTERVAL: "1ms"}, stateful=True)


def test_the_same_figures_are_0_without_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    for key, value in PROGRAM.conf.items():
        session.conf.set(key, value)
    arrive(tmp_path / "input", PROGRAM.inputs, PROGRAM.format, 0, PROGRAM.rounds)
    of_spark, of_penstock = (
        _figures_before_and_after(Run(PROGRAM, session, tmp_path / "input", tmp_path / e.name), e)
        for e in (Engine.SPARK, Engine.PENSTOCK)
    )
    assert of_spark.keys() == of_penstock.keys()
    told_apart = {name for name in of_spark if of_spark[name][0] and of_penstock[name][0]}
    assert {"numRowsTotal", "numRowsRemoved"} <= told_apart
    assert {name for name in told_apart if not of_penstock[name][1]} == {
        name for name in told_apart if not of_spark[name][1]
    }


def _figures_before_and_after(run: Run, engine: Engine) -> dict[str, tuple[int, int]]:
    """The figures of the stateful operator in the last batch, and when there was none any more."""
    query = run.start(engine, processingTime="0 seconds")
    try:
        query.processAllAvailable()
        eventually(lambda: _is_idle(_progress(query)[-1]), "a report without a batch")
        reports = _progress(query)
    finally:
        query.stop()
    busy = [report for report in reports if not _is_idle(report)]
    before, after = _flat(busy[-1]), _flat(reports[-1])
    return {name: (before[name], after[name]) for name in before}


def _progress(query: Any) -> list[dict[str, Any]]:
    return [progress_fields(report) for report in query.recentProgress]


def _is_idle(report: Mapping[str, Any]) -> bool:
    return "addBatch" not in report["durationMs"]


def _flat(report: Mapping[str, Any]) -> dict[str, int]:
    (operator,) = report["stateOperators"]
    figures = {**operator, **operator["customMetrics"]}
    return {name: value for name, value in figures.items() if isinstance(value, int)}
