"""The three engines that are compared, and their sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.api.quiet_session import quiet_session
from penstock.spark.jvm.lines import line_of

ENGINES = ("spark", "tuned", "penstock")
"""Spark by default; Spark that writes local files without checksums; Penstock by default."""

TITLES = {"spark": "Spark", "tuned": "Spark tuned", "penstock": "Penstock"}

_TUNED = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        line_of(pyspark.__version__).classes["FileSystemBasedCheckpointFileManager"].name
    ),
}

_COMMON = {
    "spark.sql.streaming.numRecentProgressUpdates": "100000",
    "spark.driver.memory": "2g",
}


def session_for(engine: str, log_file: Path, conf: dict[str, str]) -> SparkSession:
    """A session for one engine, with two cores and two shuffle partitions."""
    tuned = _TUNED if engine == "tuned" else {}
    return quiet_session("bench", log_file, {**_COMMON, **tuned, **conf})


def writer_for(engine: str, df: DataFrame) -> Any:
    """The writer that starts a query on an engine."""
    return penstock.write_stream(df) if engine == "penstock" else df.writeStream
