"""The warnings about delivery, ignored options and settings: each is logged once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock import StreamingQuery, StreamingQueryException, read_stream, write_stream
from penstock.api import advice
from penstock.api.process import PROCESS
from penstock.engine.faults import FaultPoint
from tests.streams import Numbers, write_struck

PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.fixture(autouse=True)
def _nothing_said_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROCESS, "advice_given", set())


def test_a_sink_that_delivers_at_least_once_is_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for kind in ("foreachBatch", "foreachBatch", "parquet", "Kafka"):
        advice.warn_of_delivery(kind)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "foreachBatch function delivers at least once" in caplog.records[0].message
    assert "Kafka sink delivers at least once" in caplog.records[1].message


def test_an_option_without_effect_is_warned_of_once(
    session: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    for value in ("false", "true", "true"):
        writer = write_stream(read_stream(Numbers(1), session)).format("noop").trigger(once=True)
        writer.option("asyncProgressTrackingEnabled", value).start().awaitTermination()
    warnings = [record.message for record in caplog.records if "asyncProgress" in record.message]
    assert len(warnings) == 1
    assert "asyncProgressTrackingEnabled has no effect" in warnings[0]


def counted(session: SparkSession) -> DataFrame:
    return read_stream(Numbers(3), session).groupBy("n").count()


def run(frame: DataFrame, checkpoint: Path) -> None:
    writer = write_stream(frame).format("noop").outputMode("complete").trigger(once=True)
    query: StreamingQuery = writer.start(checkpointLocation=str(checkpoint))
    query.awaitTermination()


def test_default_state_partitions_and_frozen_settings(
    session: SparkSession, checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session.conf.set(PARTITIONS, "2")
    run(counted(session), checkpoint)
    assert "state partitions" not in caplog.text
    session.conf.set(PARTITIONS, "3")
    run(counted(session), checkpoint)
    assert f"The session's {PARTITIONS} had no effect" in caplog.text
    assert f"Updating the value of conf '{PARTITIONS}' in current session from '3'" in caplog.text


def test_default_state_partitions_are_warned_of_before_the_first_batch(
    session: SparkSession, checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session.conf.unset(PARTITIONS)

    def die_before_the_first_batch() -> None:
        writer = write_stream(counted(session)).format("noop").outputMode("complete")
        write_struck(writer, FaultPoint.AFTER_SOURCES, -1)
        with pytest.raises(StreamingQueryException):
            writer.start(checkpointLocation=str(checkpoint)).awaitTermination()

    die_before_the_first_batch()
    assert "is about to get 200 state partitions" in caplog.text
    caplog.clear()
    session.conf.set(PARTITIONS, "200")
    die_before_the_first_batch()
    assert "state partitions" not in caplog.text


def test_a_read_limit_does_not_apply_to_a_planned_batch(
    session: SparkSession, checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = write_stream(read_stream(Numbers(9), session)).format("noop").trigger(once=True)
    write_struck(first, FaultPoint.AFTER_OFFSET_LOG, 0)
    with pytest.raises(StreamingQueryException):
        first.start(checkpointLocation=str(checkpoint)).awaitTermination()
    assert "applies from the next batch on" not in caplog.text
    writer = write_stream(read_stream(Numbers(9, at_most=2), session)).format("noop").stepped()
    query = writer.start(checkpointLocation=str(checkpoint))
    progress = query.step()
    assert progress is not None
    assert progress.numInputRows == 9
    [warning] = [r.message for r in caplog.records if "planned by an earlier run" in r.message]
    assert "Batch 0 was planned" in warning
    assert "the read limit MaxRows: 2 of Numbers[python] applies from the next batch on" in warning
