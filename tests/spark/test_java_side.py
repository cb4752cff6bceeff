"""The Java classes: they compile with this Spark or report where not, and what they return."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

import penstock.spark
from penstock.errors import UnsupportedError
from penstock.spark.batch.leaves import source_options
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.internals import InternalClass
from penstock.spark.jvm.java_side import compiled
from penstock.spark.jvm.java_sources import JavaFile, java_files
from penstock.spark.jvm.lines import LINES, SparkLine
from penstock.spark.jvm.support import look_up_internals
from tests.streams import class_beside


class Answering:
    """A V1 source whose `getBatch` always returns the same Dataset."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def getBatch(self, start: Any, end: Any) -> Any:
        return self._dataset

    class Java:
        implements = ("org.apache.spark.sql.execution.streaming.Source",)


def plan_of_batch(session: SparkSession, dataset: Any) -> Any:
    jvm = Jvm.of(session)
    ensure_callback_server_started(jvm.gateway)  # type: ignore[no-untyped-call]
    end = jvm.cls(class_beside(session, "IncrementalExecution", "LongOffset"))(1)
    return jvm.java.start.batchOf(Answering(dataset), None, end)


def leaf_and_batch(session: SparkSession, *columns: str) -> tuple[Any, Any]:
    """A plan with one streaming leaf of two columns, and the plan of a batch."""
    jvm = Jvm.of(session)
    leaf = session.readStream.format("rate").load()._jdf.logicalPlan()
    assert leaf.children().isEmpty()
    batch = session.range(1).selectExpr(*columns)._jdf.logicalPlan()
    return jvm.java.start.plan(leaf), batch


def any_stream(jvm: Jvm) -> Any:
    return jvm.new(
        "MarkerStream",
        rowsPerBatch=1,
        numPartitions=1,
        startTimestamp=0,
        advanceMsPerBatch=1,
        options=jvm.cls("org.apache.spark.sql.util.CaseInsensitiveStringMap").empty(),
    )


def test_a_batch_of_a_stream_is_its_plan(session: SparkSession) -> None:
    stream = session.readStream.format("rate").load()._jdf
    assert plan_of_batch(session, stream).equals(stream.logicalPlan())


def test_a_batch_that_is_not_of_a_stream_is_the_text_of_its_plan(session: SparkSession) -> None:
    rows = session.range(3)._jdf
    assert plan_of_batch(session, rows) == rows.queryExecution().logical().toString()


def test_a_plan_takes_the_columns_of_the_leaf(session: SparkSession) -> None:
    jvm = Jvm.of(session)
    plan, batch = leaf_and_batch(session, "id as c", "id + 1 as d")
    assert plan.setPlan(0, batch, any_stream(jvm)) is None
    wanted, found = jvm.to_list(plan.leaf(0).output()), jvm.to_list(plan.data(0).output())
    assert plan.data(0).child().equals(batch)
    assert [(c.name(), c.exprId().toString()) for c in found] == [
        (c.name(), c.exprId().toString()) for c in wanted
    ]


def test_a_plan_with_other_columns_is_not_put_there(session: SparkSession) -> None:
    plan, batch = leaf_and_batch(session, "id")
    assert plan.setPlan(0, batch, any_stream(Jvm.of(session))) == batch.output().mkString(",")
    assert plan.data(0) is None


def test_options_may_hold_the_characters_that_end_a_field(
    session: SparkSession, tmp_path: Path
) -> None:
    jvm = Jvm.of(session)
    options = {"sep": "\x1f", "lineSep": "\x1e", "comment": "%", "100%1F": "", "nullValue": "%25"}
    made = jvm.scala_map(options)
    assert {key: made.apply(key) for key in options} == options
    files = session.readStream.options(**options).schema("a string").csv(str(tmp_path))
    rates = session.readStream.format("rate").options(**options).load()
    for stream in (files, rates):
        (found,) = source_options(jvm, stream._jdf.queryExecution().analyzed())
        assert {key: found[key] for key in options} == options


def problem_with(session: SparkSession, *lines: str) -> str:
    file = JavaFile("Moved.java", "\n".join(("import scala.Option;", "class Moved {", *lines, "}")))
    with pytest.raises(UnsupportedError) as raised:
        compiled(Jvm.of(session), [JavaFile("Before.java", "class Before {}\n"), file])
    return str(raised.value)


def test_a_method_that_has_moved_is_named_with_its_file_and_line(session: SparkSession) -> None:
    problem = problem_with(
        session, "  Option none = Option.empty();", "  Object f(LogicalPlan p) { return p.gone(); }"
    )
    assert "Moved.java, line 4: " in problem
    assert '"gone"' in problem
    assert "return p.gone();" in problem


def test_a_class_that_has_moved_is_named_too(session: SparkSession) -> None:
    problem = problem_with(session, "  Object f() { return new org.apache.spark.sql.Gone(); }")
    assert "Moved.java, line 3: " in problem
    assert "Gone" in problem


def test_a_constructor_that_takes_something_else_is_named_by_its_line(
    session: SparkSession,
) -> None:
    problem = problem_with(
        session,
        "  Object f(LogicalPlan plan) {",
        "    return ${new Project(",
        "        projectList = plan,",
        "        child = plan)};",
        "  }",
        "  Object g() { return gone; }",
    )
    assert "Moved.java, line 4: " in problem


def test_a_construction_keeps_the_lines_after_it_where_they_were(session: SparkSession) -> None:
    problem = problem_with(
        session,
        "  Object f(LogicalPlan plan) {",
        "    return ${new StreamingExplainCommand(",
        "        extended = true,",
        "        queryExecution = null)};",
        "  }",
        "  Object g() { return gone; }",
    )
    assert "Moved.java, line 8: " in problem


def test_a_class_of_the_table_that_is_elsewhere_is_found_where_it_is_used(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes = Jvm.of(session).line.classes
    moved = replace(classes["SQLExecution"], name="org.apache.spark.sql.SQLExecution")
    monkeypatch.setitem(classes, "SQLExecution", moved)
    with pytest.raises(UnsupportedError, match=r"BatchOutput\.java, line \d+: .*SQLExecution"):
        Jvm(session.sparkContext._gateway).compile_java()


def test_arguments_come_in_the_order_of_the_table_and_others_are_left_out() -> None:
    keywords = {"child": "c", "projectList": "p", "ofAnotherSpark": "x"}
    project = InternalClass("Project", "a test", new="projectList, child", methods="copy(child)")
    assert project.arguments(keywords) == ["p", "c"]
    assert project.arguments(keywords, "copy") == ["c"]
    with pytest.raises(KeyError, match="projectList"):
        project.arguments({"child": "c"})
    with pytest.raises(KeyError, match="gone of Project is not in the table"):
        project.arguments(keywords, "gone")


def test_a_member_that_is_missing_is_found_to_be(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [verdict for verdict in look_up_internals(session) if not verdict.found] == []
    classes = Jvm.of(session).line.classes
    project = classes["Project"]
    moved = replace(project, new="projectList, child, gone", methods="child() gone() child(gone)")
    monkeypatch.setitem(classes, "Project", moved)
    monkeypatch.setitem(classes, "Gone", InternalClass("org.apache.Gone", "a test"))
    missing = [verdict for verdict in look_up_internals(session) if not verdict.found]
    assert [(verdict.name, verdict.missing) for verdict in missing] == [
        ("Project", ("new/3", "gone/0", "child/1")),
        ("Gone", ()),
    ]


@pytest.mark.parametrize("line", LINES.values(), ids=lambda line: line.name)
def test_everything_in_the_table_of_a_line_is_in_use(line: SparkLine) -> None:
    java = "\n".join(file.text for file in java_files(line))
    folder = Path(penstock.spark.__file__).parent
    python = "\n".join(
        file.read_text()
        for file in folder.rglob("*.py")
        if file.parent.name != "class_tables" and file.name != "lines.py"
    )
    for name, internal in line.classes.items():
        assert f'"{name}"' in python or re.search(rf"\b{name}\b", java) or internal.methods, name
        for member, _ in internal.members():
            used = re.search(rf"\b{member}\b", python) or f"{name}.{member}" in java
            assert member == "new" or used, (name, member)


def test_only_one_module_asks_for_the_version_of_spark() -> None:
    folder = Path(penstock.spark.__file__).parent
    asking = re.compile(
        r"spark\.version|__version__|version_number|line\.(name|number)\b|[\"'][34]\.\d"
    )
    found = {
        file.relative_to(folder).as_posix()
        for file in folder.rglob("*.py")
        if asking.search(file.read_text())
    }
    # java_sources selects the variant of a Java file; support rejects unknown versions.
    assert found == {"jvm/lines.py", "jvm/java_sources.py", "jvm/support.py"}
