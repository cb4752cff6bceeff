"""The job that is killed: pipelines into Delta or Iceberg tables, as queries of one program.

    python -m tests.real.lake_job DIRECTORY [drain]

It is an ordinary PySpark program but for `penstock.install()`. `DIRECTORY/job.json` says what it
reads. A query whose table gets a new column fails, as Delta requires it; the program then starts
it again with a new DataFrame.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.testing import quiet_session
from tests.real.jars import kafka_connector, spark_jars
from tests.real.lake_pipelines import PIPELINES, Lakehouse, LakePipeline
from tests.real.lakehouses import lakehouse_jars, lakehouse_settings

_SCHEMA_CHANGED = "DELTA_SCHEMA_CHANGED"


@dataclass(frozen=True)
class LakeJob:
    """Where the job reads and writes."""

    directory: str
    warehouse: str
    lakehouse: str
    bootstrap_servers: str
    topic: str
    table: str
    growing_table: str

    @classmethod
    def load(cls, directory: Path) -> LakeJob:
        return cls(**json.loads((directory / "job.json").read_text()))

    def save(self) -> None:
        Path(self.directory).mkdir(parents=True, exist_ok=True)
        (Path(self.directory) / "job.json").write_text(json.dumps(asdict(self)))

    @property
    def pipelines(self) -> list[LakePipeline]:
        """Those that the lakehouse can run."""
        return [pipeline for pipeline in PIPELINES if self.lakehouse in pipeline.lakehouses]

    def checkpoint(self, pipeline: LakePipeline) -> Path:
        return Path(self.directory) / pipeline.name / "checkpoint"

    def output(self, pipeline: LakePipeline) -> str:
        """The table that a pipeline writes."""
        return Lakehouse(self.lakehouse).output(Path(self.directory), pipeline.name)

    def read(self, spark: SparkSession, pipeline: LakePipeline) -> DataFrame:
        table = self.growing_table if pipeline.follows_schema else self.table
        lakehouse = Lakehouse(self.lakehouse)
        return pipeline.query(spark, self.bootstrap_servers, self.topic, lakehouse, table)

    def start(self, spark: SparkSession, pipeline: LakePipeline, **trigger: Any) -> Any:
        """Start the query of a pipeline."""
        writer = self.read(spark, pipeline).writeStream.queryName(pipeline.name)
        writer = writer.option("checkpointLocation", str(self.checkpoint(pipeline)))
        writer = writer.outputMode(pipeline.output_mode).trigger(**trigger)
        if pipeline.follows_schema:
            writer = writer.option("mergeSchema", "true")
        return Lakehouse(self.lakehouse).start(writer, self.output(pipeline))


def run(job: LakeJob, spark: SparkSession) -> None:
    """Run the queries until one fails otherwise than by a changed schema."""
    trigger = {"processingTime": "200 milliseconds"}
    queries = {pipeline: job.start(spark, pipeline, **trigger) for pipeline in job.pipelines}
    while True:
        try:
            spark.streams.awaitAnyTermination()
        except StreamingQueryException as error:
            if _SCHEMA_CHANGED not in str(error):
                raise
        spark.streams.resetTerminated()
        for pipeline, query in queries.items():
            if not query.isActive:
                queries[pipeline] = job.start(spark, pipeline, **trigger)


def drain(job: LakeJob, spark: SparkSession) -> None:
    """Process what is there; a query whose schema has changed is started again."""
    pending = job.pipelines
    while pending:
        try:
            job.start(spark, pending[0], availableNow=True).awaitTermination()
            del pending[0]
        except StreamingQueryException as error:
            if _SCHEMA_CHANGED not in str(error):
                raise
    spark.stop()


def main(directory: Path, *, to_the_end: bool) -> None:
    job = LakeJob.load(directory)
    penstock.install()
    conf = {
        "spark.jars": spark_jars(kafka_connector(), lakehouse_jars(job.lakehouse)),
        "spark.log.level": "ERROR",
        "spark.sql.streaming.minBatchesToRetain": "2",
        **lakehouse_settings(Path(job.warehouse), job.lakehouse),
    }
    spark = quiet_session("lakehouse job", directory / "job.log", conf, short_lived=True)
    gateway: Any = spark.sparkContext._gateway
    (directory / "jvm.pid").write_text(str(gateway.proc.pid))
    if to_the_end:
        drain(job, spark)
    else:
        run(job, spark)


if __name__ == "__main__":
    main(Path(sys.argv[1]), to_the_end=sys.argv[2:] == ["drain"])
