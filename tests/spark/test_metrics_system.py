"""`spark.sql.streaming.metricsEnabled`: the gauges of Spark's engine in its metrics system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import write_stream
from penstock.spark.jvm.gateway import Jvm
from tests.streams import LineFiles

ENGINES = ["spark", "penstock"]


def gauges(session: SparkSession, source: str) -> dict[str, Any]:
    """The gauges of a metrics source: for each the value and its class in the JVM."""
    jvm = Jvm.of(session)
    system = jvm.java.start.metricsSystem(session.sparkContext._jsc.sc())
    sources = system.getSourcesByName(source)
    found: dict[str, Any] = {}
    for registered in jvm.to_list(sources):
        for name, gauge in registered.metricRegistry().getGauges().items():
            boxed = jvm.cls("java.util.List").of(jvm.call_default(_GAUGE, "getValue", gauge))
            found[name] = (boxed.get(0), type(boxed.get(0)).__name__)
    return found


_GAUGE = "com.codahale.metrics.Gauge"


def windows(session: SparkSession, files: LineFiles) -> DataFrame:
    times = files.stream(session).select(F.to_timestamp("value").alias("at"))
    return times.withWatermark("at", "1 minute").groupBy(F.window("at", "1 minute")).count()


@pytest.mark.parametrize("engine", ENGINES)
def test_the_gauges_show_the_last_record_and_go_with_the_query(
    session: SparkSession, tmp_path: Path, engine: str
) -> None:
    session.conf.set("spark.sql.streaming.metricsEnabled", "true")
    files = LineFiles(tmp_path / "in")
    frame = windows(session, files)
    writer = frame.writeStream if engine == "spark" else write_stream(frame)
    name = f"measured_by_{engine}"
    query = writer.format("noop").outputMode("update").queryName(name).start()
    files.add("2024-01-01 00:00:10", "2024-01-01 00:05:10")
    query.processAllAvailable()
    files.add("2024-01-01 00:06:10")
    query.processAllAvailable()
    query_gauges = gauges(session, f"spark.streaming.{name}")
    last = query.lastProgress
    query.stop()
    assert set(query_gauges) == {
        "inputRate-total",
        "processingRate-total",
        "latency",
        "eventTime-watermark",
        "states-rowsTotal",
        "states-usedBytes",
    }
    kinds = {key: kind for key, (_, kind) in query_gauges.items()}
    assert {key for key, kind in kinds.items() if kind == "float"} == {
        "inputRate-total",
        "processingRate-total",
    }
    assert last is not None
    figures = {key: value for key, (value, _) in query_gauges.items()}
    assert figures["eventTime-watermark"] == 1704067510000
    assert figures["states-rowsTotal"] == last["stateOperators"][0]["numRowsTotal"]
    assert figures["states-usedBytes"] == last["stateOperators"][0]["memoryUsedBytes"]
    assert figures["latency"] == last["durationMs"]["triggerExecution"]
    assert gauges(session, f"spark.streaming.{name}") == {}


def test_a_query_without_a_name_is_registered_under_its_id(session: SparkSession) -> None:
    session.conf.set("spark.sql.streaming.metricsEnabled", "true")
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = write_stream(rows).format("noop").start()
    assert len(gauges(session, f"spark.streaming.{query.id}")) == 6
    query.stop()


def test_nothing_is_registered_by_default(session: SparkSession) -> None:
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = write_stream(rows).format("noop").queryName("unmeasured").start()
    assert gauges(session, "spark.streaming.unmeasured") == {}
    query.stop()
