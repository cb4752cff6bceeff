"""Checks whether Penstock can run with the Python, Java and Spark of this machine."""

from __future__ import annotations

import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.api.quiet_session import quiet_session
from penstock.errors import EnvironmentProblemError
from penstock.spark.jvm.java_home import find_java
from penstock.spark.jvm.lines import find_line, supported_versions
from penstock.spark.jvm.support import (
    Verdict,
    java_problem,
    look_up_internals,
    pyspark_version,
)


@dataclass(frozen=True)
class Finding:
    """The result of one check: what was checked, what was found, whether that is sufficient."""

    subject: str
    found: str
    is_good: bool

    def to_dict(self) -> dict[str, Any]:
        return {"subject": self.subject, "found": self.found, "isGood": self.is_good}


@dataclass(frozen=True)
class Diagnosis:
    """The results of all checks. `internals` is empty if Spark could not be started."""

    findings: Sequence[Finding]
    internals: Sequence[Verdict]

    @property
    def is_healthy(self) -> bool:
        return all(f.is_good for f in self.findings) and all(v.found for v in self.internals)

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
    if not all(finding.is_good for finding in findings):
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
        spark.stop()
    return Diagnosis(findings, internals)


def _pyspark() -> Finding:
    version = pyspark_version()
    good = _is_supported(version)
    found = version if good else f"{version}; supported: {supported_versions()}"
    return Finding("PySpark", found, good)


def _is_supported(version: str) -> bool:
    return find_line(version) is not None
