"""Streaming into a table: new, existing, partitioned, and the rejected cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import StreamingQuery, read_stream, write_stream
from penstock.spark.jvm.failures import error_class
from penstock.spark.jvm.gateway import Jvm
from tests.streams import LineFiles, Numbers, column

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource

ENGINES = ("spark", "penstock")
_OF_THE_RUN = ("Created Time", "Last Access", "Created By", "transient_lastDdlTime")


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


@pytest.mark.parametrize("engine", ENGINES)
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


@dataclass(frozen=True)
class Writing:
    """How a new table is written: the rows, made of those of a rate source, and the settings."""

    rows: Callable[[DataFrame], DataFrame] = lambda rate: rate
    options: dict[str, Any] = field(default_factory=dict)
    clustering: list[str] | None = None

    def run(self, engine: str, rate: DataFrame, checkpoint: Path, table: str) -> None:
        """Run the query until it has ended."""
        rows = self.rows(rate)
        writer: Any = rows.writeStream if engine == "spark" else write_stream(rows)
        if self.clustering is not None:
            writer = writer.clusterBy(*self.clustering)
        writer = writer.option("checkpointLocation", str(checkpoint / engine)).trigger(once=True)
        writer.toTable(table, **self.options).awaitTermination()


def vectors(rate: DataFrame) -> DataFrame:
    """A column of a user-defined type."""
    from pyspark.ml.functions import array_to_vector

    return rate.select(array_to_vector(F.array(F.col("value").cast("double"))).alias("v"))


def with_part(name: str) -> Callable[[DataFrame], DataFrame]:
    return lambda rate: rate.select("value", (F.col("value") % 2).alias(name))


def with_struct(rate: DataFrame) -> DataFrame:
    return rate.selectExpr("value", "named_struct('b', value % 2) as a")


def names(writings: dict[str, Writing]) -> list[Any]:
    """The names as parameters of a test; clusterBy is skipped where Spark does not have it."""
    since = pytest.mark.since("4.0", "clusterBy")
    return [
        pytest.param(name, marks=() if writing.clustering is None else since)
        for name, writing in writings.items()
    ]


TABLES = {
    "watermark": Writing(lambda rate: rate.withWatermark("timestamp", "5 seconds")),
    "metadata": Writing(lambda rate: rate.select(F.col("value").alias("v", metadata={"k": 1}))),
    "comment": Writing(
        lambda rate: rate.select(F.col("value").alias("v", metadata={"comment": "it's \\"}))
    ),
    "characters": Writing(lambda rate: rate.sparkSession.readStream.table("characters")),
    "user-defined type": Writing(vectors),
    "variable in a name": Writing(
        lambda rate: rate.select(F.col("value").alias("${spark.app.name}"))
    ),
    "data source by class": Writing(
        options={"format": "org.apache.spark.sql.execution.datasources.json.JsonFileFormat"}
    ),
    "partitions": Writing(with_part("p q"), {"partitionBy": "p q", "format": "json"}),
    "partitions in another case": Writing(with_part("p"), {"partitionBy": "P"}),
    "partitions with a dot": Writing(with_part("a.b"), {"partitionBy": "a.b"}),
    "clusters": Writing(with_part("p"), clustering=["p", "value"]),
    "clusters in another case": Writing(with_part("p"), clustering=["P"]),
    "clusters of no columns": Writing(clustering=[]),
}


@pytest.fixture
def characters(session: SparkSession) -> Iterator[None]:
    """A table with columns of CHAR and VARCHAR."""
    columns = "c CHAR(3), v VARCHAR(4), s STRUCT<c: CHAR(2)>"
    session.sql(f"CREATE TABLE characters ({columns}) USING parquet")
    session.sql("INSERT INTO characters VALUES ('a', 'b', named_struct('c', 'd'))")
    yield
    session.sql("DROP TABLE characters")


@pytest.mark.core
@pytest.mark.parametrize("name", names(TABLES))
@pytest.mark.usefixtures("characters")
def test_a_new_table_is_the_one_that_spark_creates(
    session: SparkSession, checkpoint: Path, table: str, name: str
) -> None:
    described = []
    for engine in ENGINES:
        TABLES[name].run(engine, rate(session), checkpoint, table)
        described.append(description(session, table))
        session.sql(f"DROP TABLE {table}")
    assert described[1] == described[0]


def rate(session: SparkSession) -> DataFrame:
    return session.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()


def description(session: SparkSession, table: str) -> dict[str, Any]:
    """What the catalog has of a table, and its rows."""
    described = session.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()
    properties = session.sql(f"SHOW TBLPROPERTIES {table}").collect()
    rows = session.table(table)
    return {
        "schema": rows.schema.json(),
        "details": [tuple(row) for row in described if row[0] not in _OF_THE_RUN],
        "properties": sorted(tuple(row) for row in properties if row[0] not in _OF_THE_RUN),
        "rows": rows.count() if "timestamp" in rows.columns else sorted(map(str, rows.collect())),
    }


REFUSED = {
    "unknown format": Writing(options={"format": "nosuch"}),
    "unknown format with a hyphen": Writing(options={"format": "no-such"}),
    "no columns": Writing(lambda rate: rate.select()),
    "two columns of one name": Writing(lambda rate: rate.selectExpr("value as a", "value as A")),
    "variable in the path": Writing(options={"path": "${spark.app.name}"}),
    "unknown partition": Writing(options={"partitionBy": "nope"}),
    "partition in a struct": Writing(with_struct, {"partitionBy": "a.b"}),
    "partitions of all columns": Writing(
        lambda rate: rate.select("value"), {"partitionBy": "value"}
    ),
    "unknown cluster": Writing(clustering=["nope"]),
    "cluster in a struct": Writing(with_struct, clustering=["a.b"]),
    "cluster with a dot": Writing(with_part("a.b"), clustering=["a.b"]),
}


@pytest.mark.core
@pytest.mark.parametrize("name", names(REFUSED))
def test_a_table_that_cannot_be_created_fails_as_with_spark(
    session: SparkSession, checkpoint: Path, table: str, name: str
) -> None:
    failures = []
    for engine in ENGINES:
        with pytest.raises(Exception) as caught:  # noqa: PT011  # any, to be compared
            REFUSED[name].run(engine, rate(session), checkpoint, table)
        condition = error_class(caught.value, Jvm.of(session).line)
        failures.append((type(caught.value), condition))
        assert not session.catalog.tableExists(table)
    assert failures[1] == failures[0]


@pytest.mark.core
@pytest.mark.parametrize("engine", ENGINES)
def test_a_new_table_keeps_the_watermark_for_queries_that_read_it(
    session: SparkSession, checkpoint: Path, table: str, engine: str
) -> None:
    TABLES["watermark"].run(engine, rate(session), checkpoint, table)
    windows = session.readStream.table(table).groupBy(F.window("timestamp", "10 seconds")).count()
    writer = write_stream(windows).format("noop").outputMode("append").trigger(once=True)
    writer.option("checkpointLocation", str(checkpoint / "of the windows"))
    writer.start().awaitTermination()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.usefixtures("characters")
def test_a_new_table_has_the_length_checks_of_the_stream(
    session: SparkSession, checkpoint: Path, table: str, engine: str
) -> None:
    TABLES["characters"].run(engine, rate(session), checkpoint, table)
    with pytest.raises(Exception, match=r"EXCEED_\w*LENGTH"):
        session.sql(f"INSERT INTO {table} VALUES ('a', 'too long', named_struct('c', 'd'))")


@pytest.mark.since("4.0", "Python data sources")
def test_the_format_of_a_new_table_can_be_a_python_data_source_with_a_hyphen(
    spark: SparkSession, session: SparkSession, checkpoint: Path, table: str
) -> None:
    session.dataSource.register(hyphenated())
    activate(session)  # Spark's own writer looks the format up in the active session
    try:
        described = []
        for engine in ENGINES:
            Writing(options={"format": "my-sink"}).run(engine, rate(session), checkpoint, table)
            described.append(description(session, table))
            session.sql(f"DROP TABLE {table}")
        assert described[1] == described[0]
    finally:
        activate(spark)


def activate(session: SparkSession) -> None:
    Jvm.of(session).cls("ClassicSession").setActiveSession(session._jsparkSession)


def hyphenated() -> type[DataSource]:
    """A Python data source that discards its rows."""
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceStreamWriter,
        WriterCommitMessage,
    )

    class Reader(DataSourceReader):
        def read(self, partition: Any) -> Iterator[tuple[Any, ...]]:
            return iter(())

    class Writer(DataSourceStreamWriter):
        def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
            for _ in iterator:
                pass
            return WriterCommitMessage()

    class MySink(DataSource):
        @classmethod
        def name(cls) -> str:
            return "my-sink"

        def schema(self) -> str:
            return "timestamp timestamp, value long"

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

        def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
            return Writer()

    return MySink
