"""Starts the Spark session of a test run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.spark.jvm.java_home import prepare_environment


def start_session(warehouse: Path, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A local session on two cores, without log output, with further settings."""
    prepare_environment()
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(warehouse),
        **(conf or {}),
    }
    builder = SparkSession.builder.master("local[2]").appName("penstock-tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session
