"""StreamScript: actions, expectations and error messages."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.testing import ManualClock, MemoryStream, ScriptError, StreamScript


@pytest.fixture
def words(session: SparkSession) -> MemoryStream:
    return MemoryStream("word string", session)


@pytest.fixture
def counts(words: MemoryStream) -> DataFrame:
    return words.to_df().groupBy("word").count()


def test_a_script_from_start_to_end(words: MemoryStream, counts: DataFrame) -> None:
    with StreamScript(counts, output_mode="update") as script:
        (
            script.step()
            .expect_nothing()
            .add(words, ["a", "b", "a"])
            .step()
            .expect_rows([("a", 2), ("b", 1)])
            .expect_batch(0)
            .expect_offsets(3)
            .expect_state_rows(2)
            .expect_progress(numInputRows=3, batchId=0)
            .expect(lambda progress: progress.sink.numOutputRows == -1, "no rows counted")
            .restart()
            .step()
            .expect_nothing()
            .add(words, [("b",)])
            .advance(seconds=1)
            .crash("after_sink")
            .restart()
            .run()
            .expect_rows([{"word": "b", "count": 2}])
            .expect_batch(1)
        )
        deliveries = [delivery.batch_id for delivery in script.sink.deliveries]
        checkpoint = Path(script._checkpoint)
        assert checkpoint.exists()
    assert deliveries == [0, 1, 1]
    assert not checkpoint.exists()


def test_rows_that_differ_are_shown_side_by_side(words: MemoryStream, counts: DataFrame) -> None:
    script = StreamScript(counts, output_mode="update", clock=ManualClock(5000))
    script.add(words, ["a"]).step().expect_rows([("a", 1)])
    script.add(words, ["a", "b"]).advance(seconds=2).step()
    with pytest.raises(ScriptError) as caught:
        script.expect_rows([("a", 2), ("b", 2)])
    assert str(caught.value) == (
        "expect_rows: the rows of batch 1 differ\n"
        "\n"
        "    add(MemoryStream[word string], ['a'])       offset 1\n"
        "    step()                                      batch 0: 1 row\n"
        "    expect_rows([('a', 1)])\n"
        "    add(MemoryStream[word string], ['a', 'b'])  offset 3\n"
        "    advance(seconds=2)                          it is 1970-01-01T00:00:07.000Z\n"
        "    step()                                      batch 1: 2 rows\n"
        "  > expect_rows([('a', 2), ('b', 2)])\n"
        "\n"
        "  (word, count)\n"
        "    expected | actual\n"
        "    ('a', 2) | ('a', 2)\n"
        "  - ('b', 2) |\n"
        "  +          | ('b', 1)"
    )
    assert script._query is None


def test_every_expectation_can_fail(words: MemoryStream, session: SparkSession) -> None:
    upper = words.to_df().select(F.upper("word").alias("word"))
    words.add_data(["b", "a"])

    for expect, argument, message in (
        ("expect_nothing", (), r"batch 0 ran[\s\S]*\+ \('B',\)"),
        ("expect_rows", ([("A", 1)],), "has 2 values"),
        ("expect_batch", (1,), r"expected 1\n *actual   0"),
        ("expect_offsets", (3,), r"expected \[3\]\n *actual   \[2\]"),
        ("expect_watermark", (0,), "actual   'none'"),
        ("expect_state_rows", (1,), r"actual   \[\]"),
        ("expect", (lambda progress: False, "more of it"), "more of it is not true for batch 0"),
    ):
        script = StreamScript(upper).step()
        with pytest.raises(ScriptError, match=message):
            getattr(script, expect)(*argument)
        assert script._query is None


def test_rows_in_order(words: MemoryStream) -> None:
    with StreamScript(words.to_df().coalesce(1)) as script:
        script.add(words, ["b", "a"]).step().expect_rows(["a", "b"])
        script.expect_rows(["b", "a"], ordered=True)
        with pytest.raises(ScriptError, match=r"ordered=True[\s\S]*\+ \('a',\) *\| \('b',\)"):
            script.expect_rows(["a", "b"], ordered=True)


def test_expectations_fail_if_no_batch_ran(words: MemoryStream) -> None:
    with StreamScript(words.to_df()) as script:
        with pytest.raises(ScriptError, match=r"expect_rows: no batch ran\n[\s\S]*nothing to do"):
            script.step().expect_rows([])
        assert script.progress is None


def test_a_step_that_fails(words: MemoryStream) -> None:
    broken = words.to_df().select(F.expr("raise_error('no ' || word)").cast("string").alias("x"))
    with StreamScript(broken) as script:
        script.step().expect_nothing().add(words, ["luck"]).step_fails(match="no luck")
        script.restart(words.to_df()).step().expect_rows(["luck"])
    with StreamScript(broken) as script, pytest.raises(ScriptError, match=r"failed: .*luck"):
        script.step()
    with StreamScript(broken) as script, pytest.raises(ScriptError, match="with another error"):
        script.step_fails(ZeroDivisionError)
    with StreamScript(words.to_df()) as script, pytest.raises(ScriptError, match="did not fail"):
        script.step_fails()
    with StreamScript(words.to_df()) as script, pytest.raises(ScriptError, match="add failed"):
        script.add(words, [("a", "b")])


def test_crashes_at_points_that_are_reached_and_not_reached(words: MemoryStream) -> None:
    with StreamScript(words.to_df()) as script:
        script.crash("after_metadata").restart().crash("before_start_offsets").restart()
        script.add(words, ["a"]).crash("before_commit_log")
        with pytest.raises(ScriptError, match=r"no longer running; call restart\(\) first"):
            script.step()
    with StreamScript(words.to_df()) as script:
        with pytest.raises(ScriptError, match="did not reach before_purge"):
            script.crash("before_purge")
        with pytest.raises(ValueError, match="nowhere"):
            script.crash("nowhere")


def test_every_form_of_a_watermark(session: SparkSession) -> None:
    stream = MemoryStream("at timestamp", session)
    moment = datetime(2024, 1, 1, tzinfo=timezone.utc)
    late = stream.to_df().withWatermark("at", "1 minute").groupBy("at").count()
    with StreamScript(late) as script:
        script.add(stream, [moment]).step().expect_watermark(0).step()
        script.expect_watermark("2023-12-31T23:59:00.000Z")
        script.expect_watermark(datetime(2023, 12, 31, 23, 59, tzinfo=timezone.utc))


def test_configure_and_a_given_checkpoint(words: MemoryStream, checkpoint: Path) -> None:
    done: list[int] = []

    def configure(writer: object) -> None:
        writer.hooks(after_commit=lambda info: done.append(info.batch_id))  # type: ignore[attr-defined]

    with StreamScript(words.to_df, checkpoint=checkpoint, configure=configure) as script:
        script.add(words, ["a"]).run(batches=1)
        assert script.query.isActive
    assert done == [0]
    assert (checkpoint / "commits" / "0").exists()
