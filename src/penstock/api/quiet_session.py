"""A local Spark session whose JVM logs to a file."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from penstock.spark.jvm.java_home import prepare_environment

_LOG4J = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n%ex
"""

SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that runs for a short time, as in tests: without the optimising compiler."""


def quiet_session(
    name: str,
    log_file: str | os.PathLike[str],
    conf: Mapping[str, str] | None = None,
    *,
    short_lived: bool = False,
) -> SparkSession:
    """A local session on two cores whose JVM writes its log to a file instead of the terminal.

    Settings in `conf` take precedence over those made here. If there is an active session, it is
    returned as it is. With `short_lived` the JVM starts faster, but runs long work more slowly.
    """
    prepare_environment()
    with tempfile.TemporaryDirectory() as folder:
        properties = Path(folder) / "log4j2.properties"
        properties.write_text(_LOG4J)
        java_options = f"-Dlog4j2.configurationFile={properties.as_uri()}"
        if short_lived:
            java_options += f" {SHORT_LIVED_JVM}"
        settings = {
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.extraJavaOptions": java_options,
            **(conf or {}),
        }
        builder = SparkSession.builder.appName(name)
        for key, value in settings.items():
            builder = builder.config(key, value)
        with _stderr_to(log_file):
            return builder.getOrCreate()


@contextlib.contextmanager
def _stderr_to(log_file: str | os.PathLike[str]) -> Iterator[None]:
    """Redirect standard error to a file in the block: a JVM that is started in it inherits that."""
    if SparkContext._active_spark_context is not None:
        yield
        return
    sys.stderr.flush()
    saved = os.dup(2)
    target = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(target, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(target)
