"""Queries that fail because of their checkpoint."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import functions as F

from tests.differential.failures.stage import Failure, Stage

_WITHOUT_DATA = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'


def _done(stage: Stage, batches: int = 1, *, stateful: bool = False) -> None:
    """Run a query over `batches` files, and add one more file."""
    for number in range(batches):
        stage.put(str(number))
    if stateful:
        stage.run(stage.counts(), mode="update")
    else:
        stage.run(stage.lines())
    stage.put("more")


def _replaced(name: str, text: str) -> Callable[[Stage], None]:
    def provoke(stage: Stage) -> None:
        _done(stage)
        stage.replace(name, text)
        stage.run(stage.lines())

    return provoke


def _removed(name: str) -> Callable[[Stage], None]:
    def provoke(stage: Stage) -> None:
        _done(stage, 3)
        stage.remove(name)
        stage.run(stage.lines())

    return provoke


def _state_of_another_query(stage: Stage) -> None:
    stage.put("a")
    stage.replace("state/0/0/1.delta", "")
    stage.run(stage.counts(), mode="update")


def _another_run_commits(stage: Stage) -> None:
    stage.put("a")
    stage.run(stage.lines(), lambda _, batch: stage.replace(f"commits/{batch}", "v1\n{}"))


def _another_run_plans(stage: Stage) -> None:
    stage.put("a")
    stage.put("b")
    entry = f"v1\n{_WITHOUT_DATA}\n-"
    stage.run(stage.lines(), lambda _, batch: stage.replace(f"offsets/{batch + 1}", entry))


def _one_more_source(stage: Stage) -> None:
    _done(stage)
    stage.run(stage.lines().union(stage.lines()))


def _other_key(stage: Stage) -> None:
    _done(stage, stateful=True)
    lengths = stage.lines().withColumn("value", F.length("value"))
    stage.run(lengths.groupBy("value").count(), mode="update")


def _other_value(stage: Stage) -> None:
    _done(stage, stateful=True)
    both = stage.lines().groupBy("value").agg(F.count("*"), F.max("value"))
    stage.run(both, mode="update")


def _other_operator(stage: Stage) -> None:
    _done(stage, stateful=True)
    stage.run(stage.lines().dropDuplicates(["value"]), mode="update")


def _no_state(stage: Stage) -> None:
    # Of several partitions any may be the first to fail.
    stage.session.conf.set("spark.sql.shuffle.partitions", "1")
    _done(stage, stateful=True)
    stage.remove("state")
    stage.run(stage.counts(), mode="update")


def _no_state_file(stage: Stage) -> None:
    _done(stage, stateful=True)
    stage.remove("state/0/0/1.delta")
    stage.run(stage.counts(), mode="update")


def _half_repartitioned(stage: Stage) -> None:
    _done(stage, 2, stateful=True)
    stage.remove("commits/1")
    entry = (stage.checkpoint / "offsets" / "1").read_text()
    partitions = '"spark.sql.shuffle.partitions":'
    stage.replace("offsets/1", entry.replace(f'{partitions}"2"', f'{partitions}"3"'))
    stage.run(stage.counts(), mode="update")


def _names_for_sources(stage: Stage) -> None:
    _done(stage)
    stage.session.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
    named = stage.session.readStream.name("lines")
    stage.run(named.text(str(stage.home / "input")))


FAILURES = (
    Failure("logs without `metadata`", _removed("metadata"), since="4.2"),
    Failure("state of another query", _state_of_another_query, since="4.1"),
    Failure("offsets of a newer version", _replaced("offsets/0", "v9\n{}\n3")),
    Failure("commits of a newer version", _replaced("commits/0", "v9\n{}")),
    Failure("offsets without a version", _replaced("offsets/0", "nonsense\n{}\n3")),
    Failure("commits without a version", _replaced("commits/0", "nonsense")),
    Failure("an empty file for offsets", _replaced("offsets/0", "")),
    Failure("an empty file for a commit", _replaced("commits/0", "")),
    Failure("missing offsets of the batch before", _removed("offsets/1")),
    Failure("another run commits the batch", _another_run_commits),
    Failure("another run plans the batch", _another_run_plans),
    Failure("a query with one more source", _one_more_source),
    Failure("state with another key", _other_key),
    Failure("state with another value", _other_value),
    Failure("state of another operator", _other_operator),
    Failure("a missing state directory", _no_state),
    Failure("a missing state file", _no_state_file),
    Failure("a repartitioning not finished", _half_repartitioned, since="4.2"),
    Failure("source evolution turned on", _names_for_sources, since="4.3"),
)
