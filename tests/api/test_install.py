"""`install` and `uninstall`: which engine runs the queries of `df.writeStream`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession, SQLContext
from pyspark.sql.streaming.query import StreamingQuery as PySparkStreamingQuery

import penstock
from tests.streams import eventually


@pytest.fixture
def installed() -> Iterator[None]:
    penstock.install()
    yield
    penstock.uninstall()


def _rates(session: SparkSession) -> DataFrame:
    return session.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()


def test_a_program_runs_on_penstock_after_install_and_on_spark_after_uninstall(
    session: SparkSession,
) -> None:
    penstock.install()
    try:
        query = _rates(session).writeStream.format("noop").start()
        try:
            assert isinstance(query, penstock.StreamingQuery)
            assert session.streams.active == [query]
        finally:
            query.stop()
    finally:
        penstock.uninstall()
    spark_s_own = _rates(session).writeStream.format("noop").start()
    try:
        assert not isinstance(spark_s_own, penstock.StreamingQuery)
        assert [q.id for q in session.streams.active] == [spark_s_own.id]
    finally:
        spark_s_own.stop()


def test_installing_twice_has_no_effect(installed: None, session: SparkSession) -> None:
    penstock.install()
    penstock.uninstall()
    assert not isinstance(_rates(session).writeStream, penstock.DataStreamWriter)


def test_a_query_is_an_instance_of_pysparks_class(installed: None, session: SparkSession) -> None:
    query = _rates(session).writeStream.format("noop").queryName("numbers").start()
    try:
        assert isinstance(query, PySparkStreamingQuery)
        assert session.streams.get(query.id) is query
        assert query.name == "numbers"
        eventually(lambda: query.lastProgress is not None)
    finally:
        query.stop()


@pytest.mark.filterwarnings("ignore:Deprecated:FutureWarning")
def test_streams_of_a_sql_context_lists_the_queries(installed: None, session: SparkSession) -> None:
    context = SQLContext(session.sparkContext, session)
    query = _rates(session).writeStream.format("noop").start()
    try:
        assert context.streams.active == [query]
    finally:
        query.stop()
    assert context.streams.awaitAnyTermination(30) is True


def test_to_table_and_foreach_batch_run_on_penstock(
    installed: None, session: SparkSession, tmp_path: Path
) -> None:
    seen: list[tuple[int, int]] = []

    def remember(batch: DataFrame, batch_id: int) -> None:
        seen.append((batch_id, batch.count()))

    query = (
        _rates(session)
        .writeStream.foreachBatch(remember)
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    try:
        eventually(lambda: len(seen) >= 2)
    finally:
        query.stop()
    assert seen[:2] == [(0, 3), (1, 3)]
