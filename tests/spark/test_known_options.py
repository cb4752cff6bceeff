"""Detection of misspelt options, against the options that Spark declares."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from penstock import write_stream
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.plan import plan_advice as advice
from penstock.spark.plan.known_options import SINKS, SOURCES, misspelt_in_sink, misspelt_in_source

SQL = "org.apache.spark.sql"
DATA_SOURCES = f"{SQL}.execution.datasources"
OPTIONS_OF = {
    "csv": f"{SQL}.catalyst.csv.CSVOptions",
    "json": f"{SQL}.catalyst.json.JSONOptions",
    "xml": f"{SQL}.catalyst.xml.XmlOptions",
    "avro": f"{SQL}.avro.AvroOptions",
    "parquet": f"{DATA_SOURCES}.parquet.ParquetOptions",
    "orc": f"{DATA_SOURCES}.orc.OrcOptions",
    "text": f"{DATA_SOURCES}.text.TextOptions",
}
ANY_FILES = f"{DATA_SOURCES}.FileIndexOptions"


@pytest.fixture(autouse=True)
def _nothing_said_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advice, "_said", set())


def declared(session: SparkSession, class_name: str) -> list[str]:
    """The options that a class of Spark declares."""
    module = Jvm.of(session).module(class_name)
    return str(module.getAllOptions().mkString(",")).split(",")


def _declaring_formats() -> list[object]:
    """Spark 3.5 has no XML, and Avro is not installed."""
    since = {"xml": "4.0", "avro": "4.0"}
    return [
        pytest.param(name, marks=pytest.mark.since(since.get(name, "3.5"), f"{name} files"))
        for name in OPTIONS_OF
    ]


@pytest.mark.parametrize("file_format", _declaring_formats())
def test_every_option_that_spark_declares_is_known(session: SparkSession, file_format: str) -> None:
    names = declared(session, OPTIONS_OF[file_format]) + declared(session, ANY_FILES)
    plain = {name.lower() for name in names if "." not in name}
    for known in (SOURCES[file_format], SINKS[file_format]):
        assert plain <= {name.lower() for name in known}
    assert misspelt_in_source(file_format, names) == misspelt_in_sink(file_format, names) == {}


def test_names_that_pass() -> None:
    assert misspelt_in_source("kafka", ["kafka.bootstrap.server", "SUBSCRIBE", "_private"]) == {}
    assert misspelt_in_source("parquet", ["fs.s3a.access.kye", "nothingLikeIt"]) == {}
    assert misspelt_in_source("delta", ["maxFilePerTrigger"]) == {}
    assert misspelt_in_sink("delta", ["mergeShema", "CHECKPOINTLOCATION"]) == {}


@pytest.mark.parametrize(
    ("source", "name", "nearest"),
    [
        ("csv", "maxFilePerTrigger", "maxFilesPerTrigger"),
        ("PARQUET", "maxfilespertriger", "maxFilesPerTrigger"),
        ("json", "max_files_per_trigger", "maxFilesPerTrigger"),
        ("kafka", "startingOffset", "startingOffsets"),
        ("rate", "rowPerSecond", "rowsPerSecond"),
        ("socket", "hosts", "host"),
    ],
)
def test_the_nearest_option_of_a_source(source: str, name: str, nearest: str) -> None:
    assert misspelt_in_source(source, [name, nearest]) == {name: nearest}


@pytest.mark.parametrize("sink", ["parquet", "foreachBatch", "console", "of.somebody.else"])
def test_the_nearest_option_of_a_sink(sink: str) -> None:
    assert misspelt_in_sink(sink, ["checkpointLocaton"]) == {
        "checkpointLocaton": "checkpointLocation"
    }


def files(reader: DataStreamReader, folder: Path) -> DataFrame:
    folder.mkdir()
    return reader.schema("a string").option("maxFilePerTrigger", 1).csv(str(folder), header=True)


def rates(reader: DataStreamReader, folder: Path) -> DataFrame:
    batches = reader.format("rate-micro-batch").option("rowsPerBatch", 1)
    return batches.option("startTimestmp", 1).load()


@pytest.mark.parametrize(
    ("read", "told"),
    [
        (files, "option maxFilePerTrigger is not one of the source csv, and is ignored."),
        (rates, "option startTimestmp is not one of the source rate-micro-batch, and is ignored."),
    ],
)
def test_a_query_warns_of_them_once(
    session: SparkSession,
    tmp_path: Path,
    checkpoint: Path,
    caplog: pytest.LogCaptureFixture,
    read: object,
    told: str,
) -> None:
    assert callable(read)
    rows = read(session.readStream, tmp_path / "in")
    for _ in range(2):
        writer = write_stream(rows).format("console").option("truncat", "false")
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(once=True)
        writer.start().awaitTermination()
    said = [record.message for record in caplog.records if "Did you mean" in record.message]
    assert [told in line for line in said] == [False, True]
    assert "option truncat is not one of the sink console" in said[0]
    assert said[0].endswith("Did you mean truncate?")


def test_a_misspelt_checkpoint_is_told_before_spark_refuses(
    session: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = write_stream(rates(session.readStream, tmp_path)).format("parquet")
    with pytest.raises(Exception, match="checkpointLocation"):
        writer.start(str(tmp_path / "out"), checkpointLocaton=str(tmp_path / "checkpoint"))
    assert "Did you mean checkpointLocation?" in caplog.text
