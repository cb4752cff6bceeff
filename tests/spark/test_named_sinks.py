"""Named sinks, which the commit log records in its format v3."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock import StreamingQueryException, write_stream
from tests.streams import LineFiles, log_entries

pytestmark = pytest.mark.since("4.2", "names of sinks")

SETTING = "spark.sql.streaming.queryEvolution.enableSinkEvolution"
UNNAMED = "STREAMING_QUERY_EVOLUTION_ERROR.UNNAMED_STREAMING_SINKS_WITH_ENFORCEMENT"


@pytest.fixture
def session(session: SparkSession) -> SparkSession:
    session.conf.set(SETTING, "true")
    return session


def with_penstock(df: DataFrame, checkpoint: Path, sink_name: str) -> None:
    writer = write_stream(df).name(sink_name).format("noop").trigger(availableNow=True)
    writer.start(checkpointLocation=str(checkpoint)).awaitTermination()


def with_spark(df: DataFrame, checkpoint: Path, sink_name: str) -> None:
    writer = df.writeStream.format("noop").trigger(availableNow=True)
    writer._jwrite = writer._jwrite.name(sink_name)
    writer.start(checkpointLocation=str(checkpoint)).awaitTermination()


def commits(checkpoint: Path) -> list[str]:
    directory = checkpoint / "commits"
    return [(directory / str(n)).read_text() for n in log_entries(checkpoint, "commits")]


def test_a_sink_that_is_replaced_stays_on_record_as_with_spark(
    session: SparkSession, tmp_path: Path
) -> None:
    lines = LineFiles(tmp_path / "in")
    for number, name in enumerate(("first", "first", "second", "first")):
        lines.add(f"line {number}")
        with_penstock(lines.stream(session), tmp_path / "ours", name)
        with_spark(lines.stream(session), tmp_path / "theirs", name)
    ours = commits(tmp_path / "ours")
    assert ours == commits(tmp_path / "theirs")
    assert len(ours) == 4
    assert all(entry.startswith("v3\n") for entry in ours)


def test_the_engines_take_over_from_each_other(session: SparkSession, tmp_path: Path) -> None:
    lines = LineFiles(tmp_path / "in")
    checkpoint = tmp_path / "checkpoint"
    for number, run in enumerate((with_penstock, with_spark, with_penstock)):
        lines.add(f"line {number}")
        run(lines.stream(session), checkpoint, f"sink_{number}")
    assert log_entries(checkpoint, "commits") == [0, 1, 2]
    assert [f'"sink_{number}"' in commits(checkpoint)[-1] for number in range(3)] == [True] * 3


def test_a_sink_without_a_name_is_refused_as_spark_refuses_it(
    session: SparkSession, tmp_path: Path
) -> None:
    lines = LineFiles(tmp_path / "in")
    lines.add("line")
    for writer in (lines.stream(session).writeStream, write_stream(lines.stream(session))):
        # PySpark has no class for this error, so only its text has the condition.
        with pytest.raises(Exception, match=UNNAMED):
            writer.format("noop").start(checkpointLocation=str(tmp_path / "checkpoint"))


def test_a_name_that_spark_refuses_is_refused_with_its_error(session: SparkSession) -> None:
    rate = session.readStream.format("rate").load()
    for writer in (rate.writeStream._jwrite, write_stream(rate)):
        with pytest.raises(PySparkException, match="not a name"):
            writer.name("not a name")


def test_a_checkpoint_with_names_is_not_continued_without_them(
    session: SparkSession, tmp_path: Path
) -> None:
    lines = LineFiles(tmp_path / "in")
    checkpoint = tmp_path / "checkpoint"
    lines.add("line")
    with_penstock(lines.stream(session), checkpoint, "the_sink")
    session.conf.set(SETTING, "false")
    lines.add("another")
    with pytest.raises(StreamingQueryException, match=r"names its sinks \(the_sink\)"):
        with_penstock(lines.stream(session), checkpoint, "the_sink")
    assert log_entries(checkpoint, "offsets") == [0]
    assert log_entries(checkpoint, "commits") == [0]
