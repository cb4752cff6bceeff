"""The runs of `make test-pyspark`, and its table in the documentation."""

from __future__ import annotations

from pathlib import Path

from tests.pyspark_suite import (
    BEGIN,
    END,
    ModuleRun,
    count_worse,
    read_run,
    row,
    run_module,
    updated,
)

TESTS = """
import os, unittest
class Tests(unittest.TestCase):
    def test_1(self):
        pass
    def test_2(self):
        self.fail("boom")
    def test_3(self):
        if {dies}:
            os._exit(9)
    def test_4(self):
        raise unittest.SkipTest("why")
"""


def module_of(root: Path, *, dies: bool) -> str:
    """The name of a test module where the tests of PySpark are."""
    folder = root / "python/pyspark/sql/tests"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "test_some.py").write_text(TESTS.format(dies=dies))
    return "test_some"


def test_a_module_reports_each_of_its_tests(tmp_path: Path) -> None:
    run = run_module(tmp_path, module_of(tmp_path, dies=False), 600, install=False)
    assert run == ModuleRun(
        {"test_1": "passed", "test_2": "failed", "test_3": "passed", "test_4": "skipped"}
    )
    assert run.figure == "2 of 4"


def test_a_module_that_ends_early_keeps_the_tests_that_had_finished(tmp_path: Path) -> None:
    run = run_module(tmp_path, module_of(tmp_path, dies=True), 600, install=False)
    assert run == ModuleRun(
        {
            "test_1": "passed",
            "test_2": "failed",
            "test_3": "not finished",
            "test_4": "not finished",
        }
    )
    assert row("test_some", run, run)[3].endswith(
        "2 of 4 tests had finished when it ended; "
        "2 of 4 tests had finished when it ended on Spark's engine"
    )


def test_a_module_that_is_killed_says_so(tmp_path: Path) -> None:
    run = run_module(tmp_path, module_of(tmp_path, dies=False), 0, install=False)
    assert run == ModuleRun({"test_some": "not finished"}, 0)
    assert run.figure == "0 of 1, killed after 0 s"


def test_the_row_of_a_module_that_was_killed_has_its_limit() -> None:
    ours = ModuleRun({"a": "passed", "b": "failed", "c": "not finished"}, 60)
    theirs = ModuleRun({"a": "passed", "b": "passed", "c": "passed"})
    assert row("test_x", ours, theirs) == (
        "`test_x.py`",
        "3",
        "1",
        "b is failed, passed on Spark's engine; "
        "2 of 3 tests had finished when it was killed, at its limit of 60 s",
    )
    assert count_worse(ours, theirs) == 2


def test_a_module_without_a_report_counts_as_one_test(tmp_path: Path) -> None:
    missing = tmp_path / "report.json"
    assert read_run(missing, "test_x", None).figure == "0 of 1"
    assert read_run(missing, "test_x", 60).figure == "0 of 1, killed after 60 s"


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
