"""Changes the number of state partitions of a checkpoint, with a Spark session of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from penstock.api.quiet_session import quiet_session
from penstock.api.spark_options import PROPERTIES, SparkOptions
from penstock.checkpoint.tools import backup
from penstock.checkpoint.tools.backup import Backup
from penstock.checkpoint.tools.changes import Plan
from penstock.checkpoint.tools.repartition import Repartition
from penstock.errors import SurgeryRefusedError
from penstock.spark.jvm.lines import line_of
from penstock.spark.jvm.support import pyspark_version
from penstock.spark.state.repartition import repartition_state, require_repartitioning


def require_spark() -> None:
    """Raise UnsupportedError if the installed Spark cannot repartition state. Starts no JVM."""
    require_repartitioning(line_of(pyspark_version()))


def repartition(wanted: Repartition, options: SparkOptions) -> tuple[Plan, Backup]:
    """Repartition the state of a checkpoint. Call it inside `activity.exclusive`.

    Returns the changes that were made, and their backup. Raises SurgeryRefusedError, and leaves the
    checkpoint as it was, if Spark cannot do it.
    """
    with wanted.draft() as draft:
        with location_without_escapes(draft) as location, _session(options) as spark:
            repartition_state(spark, location, wanted.to, wanted.state_format)
        plan = wanted.plan_of(draft)
        return plan, backup.apply(wanted.view.root, plan)


@contextmanager
def location_without_escapes(directory: Path) -> Iterator[str]:
    """A URI of a directory in which no character is escaped: of itself, or of a link to it.

    Spark converts the location to a URI and takes that for a path, so `%20` would be a part of the
    name. Raises SurgeryRefusedError if the temporary directory has such a name too.
    """
    if _is_plain(directory):
        yield directory.as_uri()
        return
    with tempfile.TemporaryDirectory(prefix="penstock-repartition-") as folder:
        link = Path(folder).absolute() / "checkpoint"
        if not _is_plain(link):
            raise SurgeryRefusedError(
                f"Spark cannot repartition state in {directory}, because its path has a space or "
                f"another character that URIs escape, and so has that of a link in {folder}. Set "
                "TMPDIR to a directory with letters and digits only."
            )
        link.symlink_to(directory, target_is_directory=True)
        yield link.as_uri()


def _is_plain(path: Path) -> bool:
    return path.as_uri() == f"file://{path}"


@contextmanager
def _session(options: SparkOptions) -> Iterator[SparkSession]:
    """A session with these options. If the process has one already, a new session beside it."""
    if SparkContext._active_spark_context is not None:
        yield SparkSession.builder.getOrCreate().newSession()
        return
    named = {PROPERTIES[name]: v for name, v in options.named.items() if name in PROPERTIES}
    conf = {"spark.master": "local[*]", **options.conf, **named}
    with tempfile.TemporaryDirectory(prefix="penstock-repartition-") as folder:
        with options.in_environment():
            spark = quiet_session("penstock repartition", Path(folder) / "spark.log", conf)
        try:
            yield spark
        finally:
            spark.stop()
