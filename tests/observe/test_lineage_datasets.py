"""The names of datasets, from descriptions, options and offsets as Spark has them."""

from __future__ import annotations

import pytest

from penstock.observe.lineage_datasets import DatasetName, inputs_of, outputs_of

SERVERS = {"kafka.bootstrap.servers": "one:9092, two:9092", "subscribe": "clicks"}


@pytest.mark.parametrize(
    ("description", "namespace", "name"),
    [
        ("FileStreamSource[file:/data/in]", "file", "/data/in"),
        ("FileStreamSource[file:///data/in/*.json]", "file", "/data/in/*.json"),
        ("FileSink[/data/out]", "file", "/data/out"),
        ("FileSink[s3a://lake/raw/clicks/]", "s3://lake", "raw/clicks"),
        ("FileSink[s3://lake]", "s3://lake", "/"),
        ("FileSink[gs://lake/raw]", "gs://lake", "raw"),
        (
            "DeltaSink[abfss://raw@acme.dfs.core.windows.net/clicks]",
            "abfss://raw@acme.dfs.core.windows.net",
            "clicks",
        ),
        ("DeltaSource[hdfs://namenode:8020/lake/clicks]", "hdfs://namenode:8020", "/lake/clicks"),
        ("DeltaSink[shop.clicks]", "spark_catalog", "shop.clicks"),
        ("IcebergSink[lake.shop.clicks]", "lake", "shop.clicks"),
        ("lake.shop.clicks", "lake", "shop.clicks"),
        ("BatchWriter[parquet /data/out]", "file", "/data/out"),
        ("BatchWriter[lake.shop.clicks]", "lake", "shop.clicks"),
    ],
)
def test_paths_and_tables(description: str, namespace: str, name: str) -> None:
    expected = [DatasetName(namespace, name)]
    assert inputs_of(description, {}, None) == expected
    assert outputs_of(description, {}) == expected


@pytest.mark.parametrize(
    "description",
    [
        "RateStreamV2[rowsPerSecond=1, rampUpTimeSeconds=0, numPartitions=default]",
        "ForeachBatchSink",
        "MemoryStream[n#1]",
        "BatchWriter[noop]",
        "JdbcSink[clicks]",
        "org.apache.spark.sql.execution.streaming.ConsoleTable$@1234",
        "write_rows",
        "",
    ],
)
def test_what_is_no_dataset_has_no_name(description: str) -> None:
    assert inputs_of(description, {}, '{"n":1}') == []
    assert outputs_of(description, {}) == []


def test_kafka_has_a_dataset_for_each_topic() -> None:
    offset = '{"clicks":{"0":5,"1":7},"orders":{"0":1}}'
    assert inputs_of("KafkaV2[Subscribe[clicks, orders]]", SERVERS, offset) == [
        DatasetName("kafka://one:9092", "clicks"),
        DatasetName("kafka://one:9092", "orders"),
    ]
    assert inputs_of("KafkaV2[Subscribe[clicks]]", {}, offset) == []


def test_a_kafka_sink_has_the_topic_of_its_option() -> None:
    table = "org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable@1f"
    assert outputs_of(table, {**SERVERS, "Topic": "counts"}) == [
        DatasetName("kafka://one:9092", "counts")
    ]
    assert outputs_of(table, SERVERS) == []
