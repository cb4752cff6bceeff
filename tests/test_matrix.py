"""The table of `make matrix`: read from a test report, written into the page."""

from __future__ import annotations

from tests.matrix import BEGIN, END, Outcome, read_report, updated

REPORT = """<testsuites><testsuite>
<testcase classname="tests.a" name="passes"/>
<testcase classname="tests.a" name="fails"><failure message="no"/></testcase>
<testcase classname="tests.a" name="breaks"><error message="no"/></testcase>
<testcase classname="tests.b" name="one"><skipped message="timers: since Spark 4.0"/></testcase>
<testcase classname="tests.b" name="two"><skipped message="names: since Spark 4.0"/></testcase>
<testcase classname="tests.b" name="three"><skipped message="no browser"/></testcase>
</testsuite></testsuites>"""


def test_a_report_is_counted_and_skips_are_grouped_by_their_reason() -> None:
    outcome = read_report("3.5", "3.5.9", REPORT, 90.0)
    assert outcome.passed == 1
    assert outcome.failed == ["tests.a::fails", "tests.a::breaks"]
    assert outcome.skipped == {"since Spark 4.0": 2, "no browser": 1}
    assert outcome.cells[:4] == ("3.5 (3.5.9)", "1", "2", "1 no browser, 2 since Spark 4.0")


def test_a_line_that_was_not_run_keeps_its_row() -> None:
    page = f"before\n{BEGIN}\n{END}\nafter\n"
    first = updated(page, [Outcome("4.1", "4.1.4", 10, [], {}, 60.0)])
    second = updated(first, [Outcome("3.5", "3.5.9", 8, ["x::y"], {"since Spark 4.0": 2}, 120.0)])
    rows = [line.split(" | ")[:4] for line in second.splitlines() if line.startswith("| ")]
    assert rows == [
        ["| Spark", "passed", "failed", "skipped"],
        ["| 3.5 (3.5.9)", "8", "1", "2 since Spark 4.0"],
        ["| 4.1 (4.1.4)", "10", "0", "none"],
    ]
    assert second.startswith("before\n")
    assert second.endswith("after\n")
