"""Programs that fail on Spark's engine fail on Penstock with the same error.

The table of errors in `docs/compatibility.md` has the results of these tests: they compare them
with the table, or write them to it if PENSTOCK_UPDATE_DOCS=1 is set (in one process).
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from penstock.spark.jvm.lines import NEWEST
from tests.differential.failures import checkpoints, starts, user_code
from tests.differential.failures.conditions import ELSEWHERE, is_about_streaming
from tests.differential.failures.observe import Seen, provoke
from tests.differential.failures.stage import Failure
from tests.differential.runs import Engine
from tests.installed_spark import installed_line

FAILURES = (*user_code.FAILURES, *checkpoints.FAILURES, *starts.FAILURES)
PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
BEGIN, END = "<!-- errors: begin -->", "<!-- errors: end -->"
LISTS_OF_CONDITIONS = ("error/error-conditions.json", "error/error-classes.json")
BATCH_FUNCTION_ERROR = "FOREACH_BATCH_USER_FUNCTION_ERROR"
FOREACH_ERROR = "FOREACH_USER_FUNCTION_ERROR"


CORE = {
    "`foreachBatch`: `KeyError`",
    "`foreachBatch`: `assert`",
    "a UDF, into files",
    "a Python source: `partitions`, into `foreachBatch`",
    "bad JSON, FAILFAST, into noop",
    "`raise_error`",
    "logs without `metadata`",
    "state of another query",
    "offsets of a newer version",
    "an empty file for a commit",
    "another run commits the batch",
    "a query with one more source",
    "a missing state directory",
    "a name that is taken",
    "an unknown sink",
}
"""The failures that `make test` compares; `make test-all` compares all."""


def test_the_core_failures_exist() -> None:
    assert {failure.name for failure in FAILURES} >= CORE


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(
            failure,
            marks=[*failure.marks(), *([] if failure.name in CORE else [pytest.mark.extended])],
            id=failure.name,
        )
        for failure in FAILURES
    ],
)
def test_both_engines_raise_the_same_error(
    spark: SparkSession, tmp_path: Path, failure: Failure
) -> None:
    of_spark, of_penstock = (
        provoke(failure, spark, engine, tmp_path / engine.value) for engine in Engine
    )
    compare(of_spark, of_penstock)
    if installed_line() is NEWEST:  # whose errors the table has
        check_row(failure.name, row_of(failure.name, of_spark))


def compare(of_spark: Seen, of_penstock: Seen) -> None:
    theirs, ours = of_spark.error, of_penstock.error
    assert of_penstock.raised_by == of_spark.raised_by
    assert (ours.kind, ours.condition, ours.sql_state) == (
        theirs.kind,
        theirs.condition,
        theirs.sql_state,
    )
    assert (ours.parameters or {}).keys() == (theirs.parameters or {}).keys()
    assert of_penstock.told_listeners == of_spark.told_listeners
    if of_spark.cause is None or of_penstock.cause is None:
        assert of_penstock.cause is of_spark.cause
        assert ours.text.startswith(theirs.text)
        assert ours.parameters == theirs.parameters
        return
    assert ours.parameters is not None
    assert theirs.parameters is not None
    compare_reasons(theirs.parameters["message"], ours.parameters["message"])
    assert of_penstock.status == ours.parameters["message"]
    assert of_spark.status == theirs.parameters["message"]
    if _is_of_batch_function(theirs.parameters["message"]):
        return  # Spark's cause is a py4j error, Penstock's the exception of the function
    if theirs.parameters["message"].startswith(f"[{FOREACH_ERROR}]"):  # before Spark 4.2
        assert of_penstock.cause.kind == "PythonException"  # Spark's is an UnknownException
        return
    assert of_penstock.cause.kind == of_spark.cause.kind
    if of_spark.cause.kind == "UnknownException":  # without the condition of the Java exception
        assert of_penstock.cause.condition == of_spark.told_listeners
        return
    assert of_penstock.cause.condition == of_spark.cause.condition
    assert of_penstock.cause.sql_state == of_spark.cause.sql_state
    assert of_penstock.cause.parameters == of_spark.cause.parameters


def _is_of_batch_function(message: str) -> bool:
    return message.startswith(
        (f"[{BATCH_FUNCTION_ERROR}]", "An exception was raised by the Python")
    )


def compare_reasons(theirs: str, ours: str) -> None:
    """Ours starts with Spark's text; for a user function it has the error's class and message."""
    if _is_of_batch_function(theirs):
        before, reason, traceback = re.split("((?:Reason|Return Message): )", theirs, maxsplit=1)
        assert ours.startswith(f"{before}{reason}")
        raised = traceback.rstrip().split("\n")[-2 if "SQLSTATE" in traceback else -1]
        assert raised in ours
        assert "Traceback (most recent call last):" in ours
        return
    assert ours.startswith(theirs.removeprefix("assertion failed: "))


# The table in the documentation.


def row_of(name: str, seen: Seen) -> str:
    reason = seen.reason
    message = seen.error.text if seen.cause is None else (seen.error.parameters or {})["message"]
    in_text = re.search(r"^[^\[]*\[([A-Z][A-Z0-9_.]+)\]", message)
    state = re.search(r"SQLSTATE: (\w{5})\Z", message.rstrip())
    condition = seen.told_listeners or reason.condition
    if condition is None and in_text is not None:
        condition = f"{in_text[1]} (in the text)"
    parts = (
        name,
        seen.raised_by,
        reason.kind,
        condition or "",
        reason.sql_state or (state[1] if state else ""),
        ", ".join(sorted(reason.parameters or ())),
        seen.told_listeners or "",
    )
    return "| " + " | ".join(parts) + " |"


def check_row(name: str, row: str) -> None:
    rows = rows_in(PAGE.read_text())
    if os.environ.get("PENSTOCK_UPDATE_DOCS"):
        rows[name] = row
        known = [rows[failure.name] for failure in FAILURES if failure.name in rows]
        before, _, rest = PAGE.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        head = rest.split("\n")[1:3]
        PAGE.write_text("\n".join([before + BEGIN, *head, *known, END]) + after)
    else:
        assert rows.get(name) == row


def rows_in(page: str) -> dict[str, str]:
    """The rows of the table, by the name of the failure."""
    table = page.partition(BEGIN)[2].partition(END)[0].strip().split("\n")[2:]
    return {row.split(" | ")[0].removeprefix("| "): row for row in table}


def test_the_table_has_one_row_for_each_failure() -> None:
    page = PAGE.read_text()
    assert list(rows_in(page)) == [failure.name for failure in FAILURES]
    assert (page.count(BEGIN), page.count(END)) == (1, 1)


def test_every_streaming_condition_is_in_the_table_or_has_a_reason() -> None:
    provoked = set(
        re.findall(r"[A-Z][A-Z0-9_.]{4,}", "\n".join(rows_in(PAGE.read_text()).values()))
    )
    left = [
        name
        for name in conditions_of_spark()
        if is_about_streaming(name)
        and name not in provoked
        and not any(re.fullmatch(pattern, name) for pattern in ELSEWHERE)
    ]
    assert left == []


@pytest.mark.since(NEWEST.name, "all conditions that are accounted for")
def test_every_pattern_with_a_reason_matches_a_condition() -> None:
    names = conditions_of_spark()
    assert [p for p in ELSEWHERE if not any(re.fullmatch(p, name) for name in names)] == []


def conditions_of_spark() -> list[str]:
    """The error conditions of the installed Spark; subclasses as `NAME.SUBCLASS`."""
    jars = Path(pyspark.__file__).parent / "jars"
    for jar in jars.glob("spark-common-utils*.jar"):
        with zipfile.ZipFile(jar) as archive:
            for file in (name for name in LISTS_OF_CONDITIONS if name in archive.namelist()):
                known = json.loads(archive.read(file))
                return [
                    f"{name}.{part}" if part else name
                    for name, condition in known.items()
                    for part in condition.get("subClass", {"": None})
                ]
    raise AssertionError("the installed Spark has no list of its conditions")
