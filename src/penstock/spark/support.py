"""Whether a session is one Penstock can run queries in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from penstock.errors import UnsupportedError
from penstock.spark.gateway import Jvm
from penstock.spark.internals import INTERNAL_CLASSES, SUPPORTED_VERSIONS


@dataclass(frozen=True)
class Verdict:
    """Whether one of Spark's internal classes is there."""

    name: str
    class_name: str
    needed_for: str
    found: bool


def require_supported(spark: Any) -> None:
    """Raise UnsupportedError, saying what is supported, if the session cannot be used."""
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
    version = spark.version
    missing = [verdict for verdict in look_up_internals(spark) if not verdict.found]
    if missing or version.rpartition(".")[0] not in SUPPORTED_VERSIONS:
        supported = ", ".join(f"{minor}.x" for minor in SUPPORTED_VERSIONS)
        listed = "".join(f"\n  {v.class_name} (needed for {v.needed_for})" for v in missing)
        raise UnsupportedError(
            f"Spark {version} is not supported; this release of Penstock runs on Spark {supported}."
            + (f" Of Spark's internals these are missing:{listed}" if missing else "")
        )
    contexts.add(id(spark.sparkContext))


def look_up_internals(spark: SparkSession) -> list[Verdict]:
    """A verdict for each class in the table of internals."""
    jvm = Jvm.of(spark)
    verdicts = []
    for name, internal in INTERNAL_CLASSES.items():
        try:
            jvm.java_class(name)
            found = True
        except Exception:
            found = False
        verdicts.append(Verdict(name, internal.name, internal.needed_for, found))
    return verdicts


def pyspark_version() -> str:
    return str(pyspark.__version__)


def _is_connect(spark: Any) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")
