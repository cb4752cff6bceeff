"""Figures of a test run, which are printed at its end."""

from __future__ import annotations

REPORTS: list[str] = []


def report(line: str) -> None:
    """Add a line to the summary of the test run."""
    REPORTS.append(line)
