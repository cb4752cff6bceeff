"""Checks whether Penstock can run with the Python, Java and Spark of this machine."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.api.quiet_session import quiet_session
from penstock.errors import EnvironmentProblemError
from penstock.spark.jvm.java_home import find_java
from penstock.spark.jvm.lines import find_line, supported_versions
from penstock.spark.jvm.support import (
    ABORTABLE_MANAGER,
    FILE_MANAGER_CLASS,
    Verdict,
    java_problem,
    look_up_internals,
    pyspark_version,
    s3_state_files,
)

_PANDAS_EXTRA = {"pandas": "pandas", "pyarrow": "pyarrow", "google.protobuf": "protobuf"}
"""Module and distribution of what PySpark needs for its pandas and state operators."""


@dataclass(frozen=True)
class Finding:
    """The result of one check: what was checked, what was found, whether that is sufficient.

    An optional package may be missing: Penstock runs without it.
    """

    subject: str
    found: str
    is_good: bool
    is_optional: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "found": self.found,
            "isGood": self.is_good,
            "isOptional": self.is_optional,
        }


@dataclass(frozen=True)
class Diagnosis:
    """The results of all checks. `internals` is empty if Spark could not be started."""

    findings: Sequence[Finding]
    internals: Sequence[Verdict]

    @property
    def is_healthy(self) -> bool:
        needed = (finding for finding in self.findings if not finding.is_optional)
        return all(f.is_good for f in needed) and all(v.found for v in self.internals)

    def to_dict(self) -> dict[str, Any]:
        return {
            "healthy": self.is_healthy,
            "findings": [finding.to_dict() for finding in self.findings],
            "internals": [verdict.to_dict() for verdict in self.internals],
        }


def diagnose() -> Diagnosis:
    """Check Python, Java and PySpark and, if these are sufficient, the internals of Spark.

    Starts a local Spark session for the last check and stops it again.
    """
    findings = [
        Finding("Python", platform.python_version(), sys.version_info >= (3, 11)),
        _pyspark(),
    ]
    try:
        findings.append(Finding("Java", find_java().description, True))
    except EnvironmentProblemError as exc:
        findings.append(Finding("Java", str(exc), False))
    findings.append(_pandas_extra())
    if not Diagnosis(findings, ()).is_healthy:
        return Diagnosis(findings, ())
    with tempfile.TemporaryDirectory() as folder:
        log_file = Path(folder) / "spark.log"
        try:
            spark = quiet_session("penstock doctor", log_file, short_lived=True)
        except Exception as exc:
            tail = log_file.read_text(errors="replace")[-500:] if log_file.exists() else ""
            findings.append(Finding("Spark", f"does not start: {exc}\n{tail}".strip(), False))
            return Diagnosis(findings, ())
        findings.append(Finding("Spark", f"{spark.version} starts", _is_supported(spark.version)))
        internals = look_up_internals(spark)
        problem = java_problem(spark)
        if problem is not None:
            findings.append(Finding("Java classes", problem, False))
        findings += _state_files_on_s3(spark)
        spark.stop()
    return Diagnosis(findings, internals)


def _pyspark() -> Finding:
    version = pyspark_version()
    good = _is_supported(version)
    found = version if good else f"{version}; supported: {supported_versions()}"
    return Finding("PySpark", found, good)


def _pandas_extra() -> Finding:
    """The packages that only some operators of PySpark need."""
    missing = [name for module, name in _PANDAS_EXTRA.items() if not _is_importable(module)]
    subject = "pandas, pyarrow, protobuf"
    if not missing:
        versions = ", ".join(map(importlib.metadata.version, _PANDAS_EXTRA.values()))
        return Finding(subject, versions, True, is_optional=True)
    return Finding(
        subject,
        f"not installed: {', '.join(missing)}. PySpark needs them for pandas functions, "
        "applyInPandasWithState and transformWithState: pip install 'penstock[pandas]'",
        False,
        is_optional=True,
    )


def _state_files_on_s3(spark: SparkSession) -> list[Finding]:
    """How many requests state files make, for a Spark that can write to S3."""
    written = s3_state_files(spark)
    if written is None:
        return []
    subject = "state files on S3"
    if written.uses_manager:
        return [Finding(subject, "6 requests for each partition and batch", True, is_optional=True)]
    line = ".".join(spark.version.split(".")[:2])
    package = f"org.apache.spark:spark-hadoop-cloud of Spark {line}"
    how = f"set {FILE_MANAGER_CLASS} to {ABORTABLE_MANAGER}"
    return [
        Finding(
            subject,
            "22 requests for each partition and batch, because a file is written and then renamed, "
            "which is a copy and a deletion. With Spark's manager for abortable streams it is 6: "
            + (how if written.has_manager else f"add {package} to spark.jars.packages and {how}")
            + ". It continues if the last request for a file fails in spite of all retries, so "
            "Penstock does not choose it; see docs/object-stores.md.",
            False,
            is_optional=True,
        )
    ]


def _is_importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # of the package that it is in
        return False


def _is_supported(version: str) -> bool:
    return find_line(version) is not None
