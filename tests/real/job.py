"""The job that is killed: every pipeline on Kafka, as queries of one program.

    python -m tests.real.job DIRECTORY [drain]

It is an ordinary PySpark program but for `penstock.install()`. `DIRECTORY/job.json` names the
topics and servers.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import penstock
from penstock.testing import quiet_session
from tests.real.batch_table import BatchTable
from tests.real.jars import kafka_connector, postgres_driver, spark_jars
from tests.real.pipelines import JOINED, PARQUET, PIPELINES, POSTGRES, WINDOWS, Input, Pipeline

AT_MOST = 2000


@dataclass(frozen=True)
class Job:
    """Where the job reads and writes."""

    directory: str
    bootstrap_servers: str
    left: str
    right: str
    counts: str
    postgres_url: str
    jdbc_url: str
    table: str

    @classmethod
    def load(cls, directory: Path) -> Job:
        return cls(**json.loads((directory / "job.json").read_text()))

    def save(self) -> None:
        Path(self.directory).mkdir(parents=True, exist_ok=True)
        (Path(self.directory) / "job.json").write_text(json.dumps(asdict(self)))

    def checkpoint(self, pipeline: Pipeline) -> Path:
        return Path(self.directory) / pipeline.name / "checkpoint"

    def files(self, pipeline: Pipeline) -> Path:
        """The output of a pipeline that writes parquet files."""
        return Path(self.directory) / pipeline.name / "output"

    @property
    def batch_table(self) -> BatchTable:
        return BatchTable(self.postgres_url, self.jdbc_url, self.table)

    def start(self, spark: Any, pipeline: Pipeline, **trigger: Any) -> Any:
        """Start the query of a pipeline."""
        input = Input(self.bootstrap_servers, self.left, self.right, AT_MOST)
        writer = pipeline.query(spark, input).writeStream.queryName(pipeline.name)
        writer = writer.option("checkpointLocation", str(self.checkpoint(pipeline)))
        writer = writer.trigger(**trigger)
        if pipeline in (PARQUET, JOINED):
            return writer.format("parquet").start(str(self.files(pipeline)))
        if pipeline is WINDOWS:
            writer = writer.format("kafka").option("topic", self.counts)
            return writer.option("kafka.bootstrap.servers", self.bootstrap_servers).start()
        assert pipeline is POSTGRES
        return writer.foreachBatch(self.batch_table.write).start()


def main(directory: Path, *, drain: bool) -> None:
    job = Job.load(directory)
    penstock.install()
    conf = {
        "spark.jars": spark_jars(kafka_connector(), postgres_driver()),
        "spark.log.level": "ERROR",
        "spark.sql.streaming.minBatchesToRetain": "2",
    }
    spark = quiet_session("real job", directory / "job.log", conf, short_lived=True)
    gateway: Any = spark.sparkContext._gateway
    (directory / "jvm.pid").write_text(str(gateway.proc.pid))
    job.batch_table.create()
    trigger = {"availableNow": True} if drain else {"processingTime": "200 milliseconds"}
    queries = [job.start(spark, pipeline, **trigger) for pipeline in PIPELINES]
    if drain:
        for query in queries:
            query.awaitTermination()
        spark.stop()
    else:
        spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), drain=sys.argv[2:] == ["drain"])
