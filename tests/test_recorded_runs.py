"""The log of long runs in the documentation."""

from __future__ import annotations

import dataclasses

import pytest

from tests.recorded_runs import BEGIN, END, PAGE, RecordedRun, updated

RUN = RecordedRun("make crash", "2026-11-18", "abc1234", 7, 100, "kills", 0, 25)
EMPTY = f"before\n{BEGIN}\n{END}\nafter\n"


def test_a_run_becomes_a_row_with_its_sum() -> None:
    page = updated(EMPTY, RUN)
    assert "| `make crash` | 2026-11-18 | abc1234 | 7 | 100 kills | 0 | 25 |" in page
    assert "In all: 100 kills, 0 problems." in page
    assert page.startswith("before\n")
    assert page.endswith("\nafter\n")


def test_runs_add_up_by_unit() -> None:
    simulated = dataclasses.replace(RUN, command="make simulate", done=1_000_000, unit="schedules")
    page = EMPTY
    for run in (RUN, simulated, dataclasses.replace(RUN, seed=8, done=50, problems=2)):
        page = updated(page, run)
    assert "In all: 150 kills, 1,000,000 schedules, 2 problems." in page
    assert page.count("In all") == 1


def test_a_page_without_the_section_is_left_alone() -> None:
    with pytest.raises(ValueError, match="no section"):
        updated("no such section", RUN)


def test_the_documentation_has_the_section() -> None:
    assert updated(PAGE.read_text(), RUN).count(RUN.row) == 1
