"""`penstock checkpoint repartition` on real Spark: both engines continue with the same results."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner, Result

import penstock
from penstock.checkpoint.own_files import REPARTITION, interrupted_command
from penstock.checkpoint.tools import moves
from penstock.checkpoint.tools.view import CheckpointView
from penstock.cli.main import app
from penstock.debug.repartition import location_without_escapes
from penstock.errors import SurgeryRefusedError, UnsupportedError
from penstock.spark.jvm.lines import LINES
from penstock.spark.state.repartition import require_repartitioning
from tests.checkpoint.tools.checkpoints import age, content_of
from tests.debug.test_surgery_on_spark import FORMAT, PROVIDER, ROCKSDB, Engine, run
from tests.processes import kill_session, running
from tests.streams import LineFiles, eventually

since = pytest.mark.since("4.2", "repartitioning of state")

FILES = (
    ("a 1 0", "b 2 1", "c 3 2", "d 4 3", "e 5 4"),
    ("a 6 5", "c 7 30", "f 8 31", "b 1 32"),
    ("a 9 60", "d 1 61", "g 2 62", "f 3 63"),
)


@pytest.fixture
def stateful(session: SparkSession) -> Iterator[SparkSession]:
    """A session with state in RocksDB and three partitions."""
    session.conf.set(PROVIDER, ROCKSDB)
    session.conf.set("spark.sql.shuffle.partitions", "3")
    yield session
    session.conf.unset(FORMAT)


def command(checkpoint: Path, *words: object, code: int = 0) -> Result:
    age(checkpoint)
    name, *rest = words
    arguments = ["checkpoint", str(name), str(checkpoint), *map(str, rest)]
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, arguments)
    assert result.exit_code == code, result.output
    return result


def partitions_of(checkpoint: Path, batch: int) -> int:
    metadata = CheckpointView(checkpoint).entry(batch).metadata
    assert metadata is not None
    return int(metadata.conf["spark.sql.shuffle.partitions"])


def events(session: SparkSession, lines: LineFiles) -> DataFrame:
    """The columns key, value and time of the lines."""
    parts = F.split("value", " ")
    columns = (
        parts[0].alias("key"),
        parts[1].cast("long").alias("value"),
        parts[2].cast("long").cast("timestamp").alias("time"),
    )
    return lines.stream(session, at_most=10).select(*columns)


Build = Callable[[SparkSession, LineFiles], DataFrame]


def counts(session: SparkSession, lines: LineFiles) -> DataFrame:
    return events(session, lines).groupBy("key").agg(F.count("*"), F.sum("value"))


def windows(session: SparkSession, lines: LineFiles) -> DataFrame:
    late = events(session, lines).withWatermark("time", "10 seconds")
    return late.groupBy(F.window("time", "20 seconds"), "key").count()


def sessions(session: SparkSession, lines: LineFiles) -> DataFrame:
    late = events(session, lines).withWatermark("time", "10 seconds")
    return late.groupBy(F.session_window("time", "10 seconds"), "key").count()


def distinct(session: SparkSession, lines: LineFiles) -> DataFrame:
    return events(session, lines).dropDuplicates(["key"]).select("key")


def joined(session: SparkSession, lines: LineFiles) -> DataFrame:
    left = events(session, lines).select("key", F.col("value").alias("left"))
    right = events(session, lines).select("key", F.col("value").alias("right"))
    return left.join(right, "key")


def transformed(session: SparkSession, lines: LineFiles) -> DataFrame:
    from tests.differential.programs.processors import Total
    from tests.differential.programs.python_state import OUTPUT

    groups = events(session, lines).groupBy("key")
    return groups.transformWithStateInPandas(Total(), OUTPUT, "Update", "None")


OPERATORS: dict[str, tuple[Build, str]] = {
    "aggregation": (counts, "update"),
    "windows": (windows, "append"),
    "sessions": (sessions, "append"),
    "deduplication": (distinct, "append"),
    "join": (joined, "append"),
    "transform-with-state": (transformed, "update"),
}


def stages(
    session: SparkSession, root: Path, build: Build, mode: str, numbers: tuple[int, ...]
) -> list[list[Any]]:
    """Run a query on Spark, Penstock and Spark, each with a further file.

    Before the second and the third run the state is repartitioned to one of the numbers, if there
    are any. Returns the rows of each run.
    """
    lines = LineFiles(root / "input")
    checkpoint = root / "checkpoint"
    engines: tuple[Engine, ...] = ("spark", "penstock", "spark")
    results = []
    for stage, engine in enumerate(engines):
        if stage and numbers:
            number = numbers[stage - 1]
            command(checkpoint, "repartition", "--to", number, "--yes")
            command(checkpoint, "verify")
            assert partitions_of(checkpoint, CheckpointView(checkpoint).newest_batch or 0) == number
        lines.add(*FILES[stage])
        batches = run(engine, build(session, lines), checkpoint, mode)
        results.append(sorted(row for rows in batches.values() for row in rows))
    return results


@since
@pytest.mark.parametrize(
    "name",
    [
        "aggregation",
        *(
            pytest.param(name, marks=pytest.mark.extended)
            for name in OPERATORS
            if name != "aggregation"
        ),
    ],
)
def test_a_query_continues_with_more_and_with_fewer_partitions(
    stateful: SparkSession, tmp_path: Path, name: str
) -> None:
    build, mode = OPERATORS[name]
    expected = stages(stateful, tmp_path / "expected", build, mode, ())
    assert any(expected)
    assert stages(stateful, tmp_path / "found", build, mode, (5, 2)) == expected
    newest = CheckpointView(tmp_path / "found/checkpoint").newest_batch or 0
    assert partitions_of(tmp_path / "found/checkpoint", newest) == 2


@since
def test_state_files_with_ids(stateful: SparkSession, tmp_path: Path) -> None:
    stateful.conf.set(FORMAT, "2")
    expected = stages(stateful, tmp_path / "expected", counts, "update", ())
    assert stages(stateful, tmp_path / "found", counts, "update", (5, 2)) == expected
    view = CheckpointView(tmp_path / "found/checkpoint")
    ids = view.commit(view.newest_batch or 0).state_unique_ids
    assert ids is not None
    assert len(ids[0]) == 2


@since
def test_it_is_shown_made_and_undone(stateful: SparkSession, tmp_path: Path) -> None:
    lines = LineFiles(tmp_path / "input")
    checkpoint = tmp_path / "checkpoint"
    lines.add(*FILES[0])
    run("penstock", counts(stateful, lines), checkpoint, "update")
    before = content_of(checkpoint)
    shown = command(checkpoint, "repartition", "--to", 5).stdout
    assert "5 state partitions instead of 3" in shown
    assert "Nothing was changed" in shown
    assert content_of(checkpoint) == before
    assert "Nothing to do" in command(checkpoint, "repartition", "--to", 3, "--yes").stdout
    made = json.loads(command(checkpoint, "repartition", "--to", 5, "--yes", "--json").stdout)
    paths = [change["path"] for change in made["changes"]]
    assert (paths[0], paths[-1]) == ("offsets/1", "commits/1")
    after = content_of(checkpoint)
    assert set(after) - set(before) == set(paths)
    assert f"+{after['offsets/1'].decode()}".split("\n")[1] in shown.replace("    +", "")
    assert not (checkpoint / REPARTITION).exists()
    command(checkpoint, "undo", "--yes")
    assert content_of(checkpoint) == before
    lines.add(*FILES[1])
    rows = run("penstock", counts(stateful, lines), checkpoint, "update")
    assert rows == {1: [("a", 2, 7), ("b", 2, 3), ("c", 2, 10), ("f", 1, 8)]}
    assert partitions_of(checkpoint, 1) == 3


@since
def test_the_path_may_have_characters_that_uris_escape(
    stateful: SparkSession, tmp_path: Path
) -> None:
    lines = LineFiles(tmp_path / "input")
    checkpoint = tmp_path / "checkpoint"
    lines.add(*FILES[0])
    run("penstock", counts(stateful, lines), checkpoint, "update")
    moved = checkpoint.rename(tmp_path / "a b%20ü+#")
    command(moved, "repartition", "--to", 5, "--yes")
    command(moved, "verify")
    assert partitions_of(moved, 1) == 5
    moved.rename(checkpoint)
    lines.add(*FILES[1])
    rows = run("spark", counts(stateful, lines), checkpoint, "update")
    assert rows == {2: [("a", 2, 7), ("b", 2, 3), ("c", 2, 10), ("f", 1, 8)]}


def test_a_path_that_uris_escape_is_replaced_by_a_link(tmp_path: Path) -> None:
    plain, other = tmp_path / "plain", tmp_path / "a b"
    for directory in (plain, other):
        directory.mkdir()
        (directory / "file").touch()
    with location_without_escapes(plain) as location:
        assert location == f"file://{plain}"
    with location_without_escapes(other) as location:
        link = Path(location.removeprefix("file://"))
        assert link.resolve() == other.resolve()
        assert not set(" %") & set(location)
    assert not link.parent.exists()
    assert (other / "file").exists()


def test_a_temporary_directory_that_uris_escape_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "a b"
    other.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(other))
    with (
        pytest.raises(SurgeryRefusedError, match="Set TMPDIR"),
        location_without_escapes(tmp_path / "a b/checkpoint"),
    ):
        pass


@since
def test_a_rewind_to_before_it_has_the_old_number(stateful: SparkSession, tmp_path: Path) -> None:
    lines = LineFiles(tmp_path / "input")
    checkpoint = tmp_path / "checkpoint"
    for file in FILES[:2]:
        lines.add(*file)
        run("penstock", counts(stateful, lines), checkpoint, "update")
    command(checkpoint, "repartition", "--to", 2, "--yes")
    command(checkpoint, "rewind", "--to", 1, "--yes")
    command(checkpoint, "verify")
    lines.add(*FILES[2])
    rows = run("spark", counts(stateful, lines), checkpoint, "update")
    assert rows == {2: [("a", 3, 16), ("d", 2, 5), ("f", 2, 11), ("g", 1, 2)]}
    assert partitions_of(checkpoint, 2) == 3


def killed(*_arguments: Any) -> bool:
    raise SystemError("killed")


@since
def test_one_that_is_killed_while_files_are_created_is_undone(
    stateful: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = LineFiles(tmp_path / "input")
    checkpoint = tmp_path / "checkpoint"
    lines.add(*FILES[0])
    run("penstock", counts(stateful, lines), checkpoint, "update")
    before = content_of(checkpoint)
    with monkeypatch.context() as patch:
        patch.setattr(moves, "create_from", killed)
        patch.setattr("penstock.checkpoint.tools.backup._revert_failed", lambda *_: None)
        with pytest.raises(AssertionError):
            command(checkpoint, "repartition", "--to", 5, "--yes")
    assert interrupted_command(checkpoint) is not None
    assert set(content_of(checkpoint)) - set(before) == {"offsets/1"}
    with pytest.raises(penstock.StreamingQueryException, match="Undo it first"):
        run("penstock", counts(stateful, lines), checkpoint, "update")
    with pytest.raises(Exception, match="STREAMING_UNFINISHED_REPARTITION_DETECTED"):
        run("spark", counts(stateful, lines), checkpoint, "update")
    command(checkpoint, "undo", "--yes")
    assert content_of(checkpoint) == before


@since
def test_one_that_is_killed_while_spark_works_has_changed_nothing(
    stateful: SparkSession, tmp_path: Path
) -> None:
    lines = LineFiles(tmp_path / "input")
    checkpoint = tmp_path / "checkpoint"
    lines.add(*FILES[0])
    run("penstock", counts(stateful, lines), checkpoint, "update")
    before = content_of(checkpoint)
    words = [sys.executable, "-m", "penstock.cli", "checkpoint", "repartition", str(checkpoint)]
    words += ["--to", "5", "--yes", "--stopped"]
    with running(words, tmp_path / "log") as child:
        planned = checkpoint / REPARTITION / "offsets/1"
        eventually(lambda: planned.exists() or child.poll() is not None, "Spark's batch")
        kill_session(child)
        child.wait()
    assert child.returncode == -9, (tmp_path / "log").read_text()
    assert content_of(checkpoint) == before
    lines.add(*FILES[1])
    rows = run("penstock", counts(stateful, lines), checkpoint, "update")
    assert rows == {1: [("a", 2, 7), ("b", 2, 3), ("c", 2, 10), ("f", 1, 8)]}
    assert not (checkpoint / REPARTITION).exists()


@since
def test_it_starts_a_jvm_of_its_own(stateful: SparkSession, tmp_path: Path) -> None:
    lines = LineFiles(tmp_path / "input")
    checkpoint = tmp_path / "checkpoint"
    lines.add(*FILES[0])
    run("penstock", counts(stateful, lines), checkpoint, "update")
    words = [sys.executable, "-m", "penstock.cli", "checkpoint", "repartition", str(checkpoint)]
    words += ["--to", "4", "--yes", "--stopped", "--json", "--master", "local[1]"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["operation"] == "repartition --to 4"
    assert partitions_of(checkpoint, 1) == 4


@since
def test_spark_loses_state_without_a_key_so_it_is_refused(
    stateful: SparkSession, tmp_path: Path
) -> None:
    """When this fails, Spark has been corrected, and the refusal can go for that line."""
    lines = LineFiles(tmp_path / "input")
    checkpoint = tmp_path / "checkpoint"
    lines.add("a 1 0", "b 1 0")
    run("spark", events(stateful, lines).groupBy().count(), checkpoint, "update")
    command(checkpoint, "verify")
    refused = command(checkpoint, "repartition", "--to", 5, "--yes", code=1)
    assert "has no key" in refused.output
    stateful._streamingCheckpointManager.repartition(str(checkpoint), 5)
    lines.add("c 1 0")
    rows = run("spark", events(stateful, lines).groupBy().count(), checkpoint, "update")
    assert rows == {2: [(1,)]}


@since
def test_what_spark_refuses_is_reported_and_changes_nothing(
    stateful: SparkSession, tmp_path: Path
) -> None:
    lines = LineFiles(tmp_path / "input")
    checkpoint = tmp_path / "checkpoint"
    lines.add(*FILES[0])
    run("penstock", counts(stateful, lines), checkpoint, "update")
    (checkpoint / "state/0/_metadata/metadata").unlink()
    before = content_of(checkpoint)
    refused = command(checkpoint, "repartition", "--to", 5, "--yes", code=1)
    assert "cannot repartition this state" in refused.output
    assert "MISSING_OPERATOR_METADATA" in refused.output
    assert content_of(checkpoint) == before


def test_older_lines_are_refused_with_the_reason() -> None:
    with pytest.raises(UnsupportedError, match=r"Spark 4\.2 and newer"):
        require_repartitioning(LINES["4.1"])
    require_repartitioning(LINES["4.2"])


@since
def test_many_sinks_continue_after_it(stateful: SparkSession, tmp_path: Path) -> None:
    """The batch of the repartitioning has no entries of the sinks."""
    lines = LineFiles(tmp_path / "input")
    checkpoint = tmp_path / "checkpoint"
    taken: dict[str, list[int]] = {"one": [], "two": []}

    def take(name: str) -> Callable[[DataFrame, int], None]:
        def write(batch: DataFrame, batch_id: int) -> None:
            taken[name] += [batch_id] * batch.count()

        return write

    def go() -> None:
        writer = penstock.write_stream(counts(stateful, lines)).outputMode("update")
        for name in taken:
            writer = writer.to(name, take(name))
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()

    lines.add("a 1 0")
    go()
    command(checkpoint, "repartition", "--to", 2, "--yes")
    lines.add("a 1 0")
    go()
    assert taken == {"one": [0, 2], "two": [0, 2]}
