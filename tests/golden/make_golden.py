"""Makes the golden checkpoints: run by hand, with the Spark whose files are wanted.

    python tests/golden/make_golden.py

Every query runs on Spark's own engine. Of its checkpoint only the text files that Penstock reads
and writes are kept, below a directory named after the version of Spark.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import sum as sum_of
from pyspark.sql.functions import window
from pyspark.sql.streaming.readwriter import DataStreamWriter

HERE = Path(__file__).parent
ORDERS = "time TIMESTAMP, amount LONG"

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
OFFSET_LOG_VERSION = {"spark.sql.streaming.offsetLog.formatVersion": "2"}
STATE_IDS = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}
NAMED_SOURCES = {"spark.sql.streaming.queryEvolution.enableSourceEvolution": "true"}
NAMED_SINKS = {"spark.sql.streaming.queryEvolution.enableSinkEvolution": "true"}


class Maker:
    """A place to run queries in, batch by batch."""

    def __init__(self, spark: SparkSession, scratch: Path, target: Path) -> None:
        self.spark = spark
        self.scratch = scratch
        self.target = target

    def directory(self, name: str) -> Path:
        path = self.scratch / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def put(self, name: str, number: int, *rows: Mapping[str, object]) -> None:
        """One more input file of the source `name`."""
        text = "\n".join(json.dumps(row) for row in rows)
        (self.directory(name) / f"{number}.json").write_text(text)

    def orders(self, name: str, *, called: str | None = None) -> DataFrame:
        reader = self.spark.readStream.schema(ORDERS)
        if called is not None:
            reader = reader.name(called)
        return reader.json(str(self.directory(name)))

    @contextmanager
    def conf(self, settings: Mapping[str, str]) -> Iterator[None]:
        for key, value in settings.items():
            self.spark.conf.set(key, value)
        try:
            yield
        finally:
            for key in settings:
                self.spark.conf.unset(key)

    def run(self, writer: DataStreamWriter, query: str) -> None:
        checkpoint = self.scratch / "checkpoints" / query
        running = (
            writer.format("noop")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        running.awaitTermination()

    def keep(self, query: str) -> None:
        """Copy what is wanted of a query's checkpoint."""
        source = self.scratch / "checkpoints" / query
        for kept in ("metadata", "offsets/*", "commits/*"):
            for file in source.glob(kept):
                if not file.name.startswith("."):
                    copy = self.target / query / file.relative_to(source)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    copy.write_bytes(file.read_bytes())


def windowed(orders: DataFrame) -> DataFrame:
    return (
        orders.withWatermark("time", "10 seconds")
        .groupBy(window("time", "5 seconds"))
        .agg(sum_of("amount").alias("amount"))
    )


def order(second: int) -> dict[str, object]:
    return {"time": f"2025-03-01T10:00:{second:02d}Z", "amount": second}


def stateless(maker: Maker) -> None:
    for number in range(2):
        maker.put("stateless", number, order(number))
        maker.run(maker.orders("stateless").writeStream, "stateless")


def windowed_with_watermark(maker: Maker) -> None:
    """Each file is followed by a batch without data, in which the watermark takes effect."""
    for number, second in enumerate((5, 30, 50)):
        maker.put("windowed", number, order(second))
        maker.run(windowed(maker.orders("windowed")).writeStream, "windowed")


def one_source_without_offset(maker: Maker) -> None:
    """The second source has never had a file in the first batch, so that its offset is `-`."""
    maker.put("left", 0, order(1))
    union = maker.orders("left").union(maker.orders("right"))
    maker.run(union.writeStream, "two-sources")
    maker.put("right", 0, order(2))
    maker.run(union.writeStream, "two-sources")


def offset_log_version_2(maker: Maker) -> None:
    maker.put("numbered", 0, order(1))
    with maker.conf(OFFSET_LOG_VERSION):
        union = maker.orders("numbered").union(maker.orders("numbered-late"))
        maker.run(union.writeStream, "offset-log-v2")
        maker.put("numbered-late", 0, order(2))
        maker.run(union.writeStream, "offset-log-v2")


def named_sources(maker: Maker) -> None:
    maker.put("named-a", 0, order(1))
    maker.put("named-b", 0, order(2))
    with maker.conf({**OFFSET_LOG_VERSION, **NAMED_SOURCES}):
        a = maker.orders("named-a", called="orders_a")
        union = a.union(maker.orders("named-b", called="orders_b"))
        maker.run(union.writeStream, "named-sources")
        maker.put("named-a", 1, order(3))
        maker.run(union.writeStream, "named-sources")


def commit_log_version_2(maker: Maker) -> None:
    with maker.conf({**STATE_IDS, "spark.sql.shuffle.partitions": "2"}):
        for number, second in enumerate((5, 30)):
            maker.put("state-ids", number, order(second))
            maker.run(windowed(maker.orders("state-ids")).writeStream, "commit-log-v2")


def named_sink(maker: Maker) -> None:
    """Python's writer cannot name a sink, so the name goes to the JVM's."""
    for number, sink in enumerate(("first_sink", "first_sink", "second_sink")):
        maker.put("named-sink", number, order(number))
        with maker.conf(NAMED_SINKS):
            writer = maker.orders("named-sink").writeStream
            writer._jwrite = writer._jwrite.name(sink)
            maker.run(writer, "commit-log-v3")


def named_sink_with_state_ids(maker: Maker) -> None:
    with maker.conf({**STATE_IDS, **NAMED_SINKS, "spark.sql.shuffle.partitions": "2"}):
        maker.put("named-sink-state", 0, order(5))
        writer = windowed(maker.orders("named-sink-state")).writeStream
        writer._jwrite = writer._jwrite.name("the_sink")
        maker.run(writer, "commit-log-v3-state")


QUERIES: Mapping[str, Callable[[Maker], None]] = {
    "stateless": stateless,
    "windowed": windowed_with_watermark,
    "two-sources": one_source_without_offset,
    "offset-log-v2": offset_log_version_2,
    "named-sources": named_sources,
    "commit-log-v2": commit_log_version_2,
    "commit-log-v3": named_sink,
    "commit-log-v3-state": named_sink_with_state_ids,
}


def main() -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "3")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    target = HERE / f"spark-{spark.version}"
    with tempfile.TemporaryDirectory() as scratch:
        maker = Maker(spark, Path(scratch), target)
        for name, make in QUERIES.items():
            shutil.rmtree(target / name, ignore_errors=True)
            make(maker)
            maker.keep(name)
            print(f"{name}: {sum(p.is_file() for p in (target / name).rglob('*'))} files")
    spark.stop()


if __name__ == "__main__":
    main()
