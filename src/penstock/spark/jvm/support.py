"""Checks whether Penstock supports a Spark session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from penstock.errors import UnsupportedError
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.java_side import joined, members_alone, records_of
from penstock.spark.jvm.lines import SparkLine, find_line, supported_versions

FILE_MANAGER_CLASS = "spark.sql.streaming.checkpointFileManagerClass"
ABORTABLE_MANAGER = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
"""Spark's file manager for S3A that needs no rename, in `spark-hadoop-cloud`. Not loaded here."""

_S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"


@dataclass(frozen=True)
class Verdict:
    """The result of looking up an internal class of Spark and the members in use.

    `missing` lists the members not found, as `member/number of parameters`.
    """

    name: str
    class_name: str
    needed_for: str
    found: bool
    missing: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "className": self.class_name,
            "neededFor": self.needed_for,
            "found": self.found,
            "missing": list(self.missing),
        }

    def __str__(self) -> str:
        members = f", without {', '.join(self.missing)}" if self.missing else ""
        return f"{self.class_name}{members} (needed for {self.needed_for})"


def require_supported(spark: Any) -> None:
    """Raise UnsupportedError, which lists what is supported, if the session cannot be used."""
    if _is_connect(spark):
        raise UnsupportedError(
            "This is a Spark Connect session. Penstock drives Spark inside the driver and "
            "supports classic sessions only: create one with SparkSession.builder.master(...)."
        )
    if not isinstance(spark, SparkSession):
        raise UnsupportedError(f"{spark!r} is not a SparkSession")
    contexts: set[int] = Jvm.of(spark).once("supported contexts", set)
    if id(spark.sparkContext) in contexts:
        return
    jvm = Jvm.of(spark)
    line = find_line(spark.version)
    members = members_alone(jvm) if line is None else jvm.java.members
    missing = [verdict for verdict in _look_up(members, jvm.line) if not verdict.found]
    if missing or line is None:
        listed = "".join(f"\n  {verdict}" for verdict in missing)
        raise UnsupportedError(
            f"Spark {spark.version} is not supported; this release of Penstock runs on Spark "
            f"{supported_versions()}."
            + (f" These internals of Spark are missing:{listed}" if missing else "")
        )
    contexts.add(id(spark.sparkContext))


def look_up_internals(spark: SparkSession) -> list[Verdict]:
    """Look up each class in the table of internal classes."""
    jvm = Jvm.of(spark)
    return _look_up(members_alone(jvm), jvm.line)


def java_problem(spark: SparkSession) -> str | None:
    """The compile error of Penstock's Java classes with this Spark; None if they compile."""
    try:
        Jvm.of(spark).compile_java()
    except UnsupportedError as exc:
        return str(exc)
    return None


@dataclass(frozen=True)
class S3StateFiles:
    """How Spark writes state files to S3: with a rename, or with the manager that needs none."""

    has_manager: bool
    """Whether `spark-hadoop-cloud` is on the class path."""
    uses_manager: bool


def s3_state_files(spark: SparkSession) -> S3StateFiles | None:
    """How state files are written to S3; None if the S3A connector is not on the class path."""
    members = members_alone(Jvm.of(spark))
    wanted = [text for name in (_S3A, ABORTABLE_MANAGER) for text in (name, "class", "0")]
    missing = {record[0] for record in records_of(members.missing(joined(wanted)))}
    if _S3A in missing:
        return None
    return S3StateFiles(
        has_manager=ABORTABLE_MANAGER not in missing,
        uses_manager=spark.conf.get(FILE_MANAGER_CLASS, None) == ABORTABLE_MANAGER,
    )


def _look_up(members: Any, line: SparkLine) -> list[Verdict]:
    wanted = [
        (internal.name, member, str(count))
        for internal in line.classes.values()
        for member, count in (("class", 0), *internal.members())
    ]
    answer = records_of(members.missing(joined(text for triple in wanted for text in triple)))
    return [
        Verdict(
            name,
            internal.name,
            internal.needed_for,
            not any(record[0] == internal.name for record in answer),
            tuple(f"{m}/{n}" for owner, m, n in answer if owner == internal.name and m != "class"),
        )
        for name, internal in line.classes.items()
    ]


def pyspark_version() -> str:
    return str(pyspark.__version__)


def _is_connect(spark: Any) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")
