"""The table of `make test-pyspark` in the documentation."""

from __future__ import annotations

from tests.pyspark_suite import BEGIN, END, updated


def test_the_figures_of_a_line_replace_those_that_were_there_and_keep_the_others() -> None:
    first, second = "`streaming/test_streaming.py`", "`test_observation.py`"
    page = updated(f"before\n{BEGIN}\n{END}\nafter\n", "4.3", {second: "12 of 12"})
    page = updated(page, "3.5", {first: "9 of 9", second: "1 of 2"})
    page = updated(page, "3.5", {first: "", second: "2 of 2"})
    assert page.splitlines() == [
        "before",
        BEGIN,
        "| file | 3.5 | 4.0 | 4.1 | 4.2 | 4.3 |",
        "|---|---|---|---|---|---|",
        f"| {second} | 2 of 2 |  |  |  | 12 of 12 |",
        END,
        "after",
    ]


def test_a_file_that_was_not_run_keeps_its_figures() -> None:
    first, second = "`streaming/test_streaming.py`", "`test_observation.py`"
    page = updated(f"{BEGIN}\n{END}\n", "3.5", {first: "9 of 9", second: "1 of 2"})
    page = updated(page, "3.5", {second: "2 of 2"})
    assert f"| {first} | 9 of 9 |  |  |  |  |" in page
    assert f"| {second} | 2 of 2 |  |  |  |  |" in page
