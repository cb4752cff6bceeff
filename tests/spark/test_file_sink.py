"""The file sink: formats, partitions, and exactly-once through a failure."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock import StreamingQueryException, read_stream, write_stream
from penstock.engine.faults import FaultPoint
from tests.streams import Numbers, StandingNumbers, column, log_entries, write_struck

FORMATS = ["parquet", "json", "csv", "text", "orc"]


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_is_written(
    session: SparkSession, tmp_path: Path, checkpoint: Path, format: str
) -> None:
    rows = read_stream(StandingNumbers(6, at_most=3), session)
    texts = rows.select(F.col("n").cast("string").alias("value"))
    out = str(tmp_path / "out")
    writer = write_stream(texts).format(format).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start(out)
    query.awaitTermination()
    written = session.read.format(format).schema("value string").load(out)
    assert column(written) == ["0", "1", "2", "3", "4", "5"]
    assert log_entries(tmp_path / "out", "_spark_metadata") == [0, 1]
    # The path is qualified since Spark 4.0.
    assert query.recentProgress[0].sink.description.replace("[file:", "[") == f"FileSink[{out}]"


def test_rows_are_partitioned_by_their_columns(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    rows = read_stream(Numbers(6), session).withColumn("Odd", F.col("n") % 2)
    out = tmp_path / "out"
    writer = write_stream(rows).format("json").partitionBy("odd")
    writer.option("checkpointLocation", str(checkpoint)).trigger(once=True)
    writer.start(str(out)).awaitTermination()
    assert sorted(path.name for path in out.glob("Odd=*")) == ["Odd=0", "Odd=1"]
    odd = session.read.json(str(out)).where("Odd = 1").select("n")
    assert column(odd) == [1, 3, 5]


def test_a_partition_column_that_is_not_there_is_refused(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    writer = write_stream(read_stream(Numbers(), session)).format("json").partitionBy("missing")
    writer.option("checkpointLocation", str(checkpoint))
    with pytest.raises(AnalysisException, match="missing"):
        writer.start(str(tmp_path / "out"))


def test_the_default_format_is_the_session_s(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    session.conf.set("spark.sql.sources.default", "json")
    writer = write_stream(read_stream(Numbers(2), session))
    writer.option("checkpointLocation", str(checkpoint)).trigger(once=True)
    writer.start(str(tmp_path / "out")).awaitTermination()
    assert column(session.read.json(str(tmp_path / "out"))) == [0, 1]


@pytest.mark.parametrize("point", [FaultPoint.BEFORE_SINK, FaultPoint.AFTER_SINK])
def test_a_batch_that_runs_again_is_written_once(
    session: SparkSession, tmp_path: Path, checkpoint: Path, point: FaultPoint
) -> None:
    out = str(tmp_path / "out")
    writer = write_stream(read_stream(Numbers(6, at_most=2), session)).format("parquet")
    writer.option("checkpointLocation", str(checkpoint))
    with pytest.raises(StreamingQueryException, match=point.value):
        write_struck(writer, point, batch_id=1).start(out).awaitTermination()
    assert log_entries(checkpoint, "offsets") == [0, 1]
    assert log_entries(checkpoint, "commits") == [0]
    numbers = Numbers(6)
    again = write_stream(read_stream(numbers, session)).format("parquet")
    query = again.option("checkpointLocation", str(checkpoint)).start(out)
    query.processAllAvailable()
    assert numbers.asked_for == [(2, 4), (4, 6)]
    assert column(session.read.parquet(out)) == [0, 1, 2, 3, 4, 5]
