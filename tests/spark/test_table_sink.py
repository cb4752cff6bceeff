"""Streaming into a table: new, existing, partitioned, and the rejected cases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import StreamingQuery, read_stream, write_stream
from tests.streams import LineFiles, Numbers, column


@pytest.fixture
def table(session: SparkSession) -> Iterator[str]:
    """The name of a table that does not exist yet; dropped after the test."""
    name = "streamed"
    yield name
    session.sql(f"DROP TABLE IF EXISTS {name}")


def run_to_table(df: DataFrame, checkpoint: Path, table: str, **options: str) -> StreamingQuery:
    writer = write_stream(df).option("checkpointLocation", str(checkpoint)).trigger(once=True)
    query = writer.toTable(table, **options)
    query.awaitTermination()
    return query


def test_a_new_table_is_made_and_goes_on_after_a_restart(
    session: SparkSession, checkpoint: Path, table: str
) -> None:
    numbers = Numbers(2)
    rows = read_stream(numbers, session)
    run_to_table(rows, checkpoint, table)
    numbers.available = 5
    run_to_table(rows, checkpoint, table)
    assert column(session.table(table)) == [0, 1, 2, 3, 4]


def test_a_new_table_is_partitioned_as_asked(
    session: SparkSession, checkpoint: Path, table: str
) -> None:
    rows = read_stream(Numbers(4), session).withColumn("odd number", F.col("n") % 2)
    run_to_table(rows, checkpoint, table, partitionBy="odd number", format="json")
    described = session.sql(f"DESCRIBE TABLE EXTENDED {table}")
    names = [row.col_name for row in described.collect()]
    assert "# Partition Information" in names
    assert column(session.table(table).where("`odd number` = 1"), "n") == [1, 3]


@pytest.mark.parametrize("type", ["TIMESTAMP_LTZ", "TIMESTAMP_NTZ"])
def test_a_new_table_has_the_timestamps_of_the_stream(
    session: SparkSession, checkpoint: Path, table: str, type: str
) -> None:
    session.conf.set("spark.sql.timestampType", type)
    zoned, local = "cast(null as timestamp_ltz)", "cast(null as timestamp_ntz)"
    rows = read_stream(Numbers(1), session).selectExpr(
        f"{zoned} as TIMESTAMP",
        f"{zoned} as `a TIMESTAMP, b`",
        f"named_struct('TIMESTAMP', {zoned}, 'l', array({local})) as s",
        f"{local} as l",
    )
    run_to_table(rows, checkpoint, table)
    assert session.table(table).schema.simpleString() == rows.schema.simpleString()


def test_a_new_table_lies_where_its_path_says(
    session: SparkSession, checkpoint: Path, tmp_path: Path, table: str
) -> None:
    place = tmp_path / "it's here"
    run_to_table(read_stream(Numbers(2), session), checkpoint, table, path=str(place))
    assert list(place.glob("*.parquet"))
    assert column(session.table(table)) == [0, 1]


def test_a_table_that_is_there_is_appended_to(
    session: SparkSession, checkpoint: Path, table: str
) -> None:
    session.sql(f"CREATE TABLE {table} (n BIGINT) USING json")
    run_to_table(read_stream(Numbers(3), session), checkpoint, table, format="json")
    assert column(session.table(table)) == [0, 1, 2]


def test_another_format_than_the_table_s_is_refused(
    session: SparkSession, checkpoint: Path, table: str
) -> None:
    session.sql(f"CREATE TABLE {table} (n BIGINT) USING json")
    with pytest.raises(AnalysisException, match=r"input source\(parquet\) is different"):
        run_to_table(read_stream(Numbers(3), session), checkpoint, table)


def test_a_view_is_refused(session: SparkSession, checkpoint: Path, table: str) -> None:
    session.sql("CREATE VIEW a_view AS SELECT 1 AS n")
    try:
        with pytest.raises(AnalysisException, match="a_view"):
            run_to_table(read_stream(Numbers(3), session), checkpoint, "a_view")
    finally:
        session.sql("DROP VIEW a_view")


def test_a_temporary_view_is_refused(session: SparkSession, checkpoint: Path) -> None:
    session.range(1).createOrReplaceTempView("a_temporary_view")
    with pytest.raises(AnalysisException, match="a_temporary_view"):
        run_to_table(read_stream(Numbers(3), session), checkpoint, "a_temporary_view")


def test_a_table_can_be_streamed_from_and_to(
    session: SparkSession, checkpoint: Path, tmp_path: Path, table: str
) -> None:
    session.range(3).withColumnRenamed("id", "n").write.format("parquet").saveAsTable(
        "source_table"
    )
    try:
        run_to_table(session.readStream.table("source_table"), checkpoint, table)
        assert column(session.table(table)) == [0, 1, 2]
    finally:
        session.sql("DROP TABLE source_table")


@pytest.mark.parametrize("engine", ["spark", "penstock"])
def test_a_session_that_has_read_the_table_sees_what_is_written_to_it_afterwards(
    session: SparkSession, checkpoint: Path, tmp_path: Path, table: str, engine: str
) -> None:
    session.sql(f"CREATE TABLE {table} (value STRING) USING parquet")
    files = LineFiles(tmp_path / "in")
    rows = files.stream(session)
    writer = rows.writeStream if engine == "spark" else write_stream(rows)
    query = writer.option("checkpointLocation", str(checkpoint)).toTable(table)
    seen = [column(session.table(table))]
    for word in ("a", "b"):
        files.add(word)
        query.processAllAvailable()
        seen.append(column(session.table(table)))
    query.stop()
    assert seen == [[], ["a"], ["a", "b"]]
