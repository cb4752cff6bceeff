"""A shared archive of the classes that Spark loads, so that the JVMs of the tests start faster.

The tests start many JVMs, each of which would load and verify the same classes. Java's class data
sharing maps them from an archive instead. The archive is made once for an environment, by a JVM
that runs a few small queries. A JVM to which it does not apply, because of another version or
another class path, ignores it.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import pyspark

from penstock.api.quiet_session import SHORT_LIVED_JVM
from penstock.spark.jvm.java_home import find_java
from tests.processes import is_session_over, running

PATIENCE = 120.0
"""Seconds after which a JVM that has not written the archive does without."""

_TRAINING = """
import sys
import penstock
from penstock.testing import quiet_session

folder = sys.argv[1]
spark = quiet_session("training", f"{folder}/log")
numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
counts = numbers.withWatermark("timestamp", "1 second").groupBy("timestamp").count()
for engine in (penstock.write_stream, lambda df: df.writeStream):
    name = type(engine(numbers)).__module__.split(".")[0]
    for kind, df in (("rows", numbers), ("counts", counts)):
        writer = engine(df).format("parquet").option("path", f"{folder}/{name}-{kind}")
        writer = writer.option("checkpointLocation", f"{folder}/{name}-{kind}-checkpoint")
        writer.trigger(once=True).start().awaitTermination()
spark.read.parquet(f"{folder}/penstock-rows").orderBy("value").collect()
spark.stop()
"""

_JVM = f"{SHORT_LIVED_JVM} -XX:ReservedCodeCacheSize=240m"
"""Without the optimising compiler, Java reserves 48 MB for compiled code. The session of a whole
run fills them, and then removes code to compile it again later."""

_QUIET = "-Xshare:auto -Xlog:disable -Xlog:all=error:stderr"
"""A JVM to which the archive does not apply, or that cannot make all of it, does not say so."""


@cache
def short_lived_jvm() -> str:
    """The options of a JVM that a test starts: with the archive, if it could be made."""
    archive = Path(sys.prefix) / f"classes-{_fingerprint()}.jsa"
    if not archive.exists():
        _make(archive)
    if not archive.exists():
        return _JVM
    return f"{_JVM} -XX:SharedArchiveFile={archive} {_QUIET}"


def _fingerprint() -> str:
    """Changes with the Java, with the Spark and with the training."""
    parts = (find_java().description, pyspark.__version__, _TRAINING)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _make(archive: Path) -> None:
    """Write the archive. If that fails, there is none.

    The JVM writes it when it ends, which is after the end of the process that started it.
    """
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        new = Path(folder) / archive.name
        options = f"{_JVM} {_QUIET} -XX:ArchiveClassesAtExit={new}"
        command = [sys.executable, "-c", _TRAINING, folder]
        log = Path(folder) / "output"
        with running(command, log, {"SPARK_SUBMIT_OPTS": options}) as training:
            training.wait()
            deadline = time.monotonic() + PATIENCE
            while not is_session_over(training) and time.monotonic() < deadline:
                time.sleep(0.1)
            if is_session_over(training) and new.exists():
                new.rename(archive)
