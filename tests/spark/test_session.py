"""The session of a query: its settings and jobs; the user's session is not changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import StreamingQuery, read_stream, write_stream
from penstock.checkpoint.lock import CheckpointLock, current_holder
from penstock.engine.seam import QueryIdentity
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.session.stream_session import SparkStreamSession
from tests.streams import LineFiles, Numbers, eventually, run_available

AQE = "spark.sql.adaptive.enabled"
CBO = "spark.sql.cbo.enabled"
SHUFFLE = "spark.sql.shuffle.partitions"
STATE = "spark.sql.streaming.internal.stateStore.partitions"


def settings_in_a_batch(
    df: DataFrame, checkpoint: Path, *keys: str, engine: str = "penstock"
) -> dict[str, str | None]:
    seen: dict[str, str | None] = {}

    def look(batch: DataFrame, batch_id: int) -> None:
        batch.collect()
        seen.update({key: batch.sparkSession.conf.get(key) for key in keys})

    writer: Any = write_stream(df) if engine == "penstock" else df.writeStream
    writer = writer.foreachBatch(look).outputMode("update")
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.start().awaitTermination()
    return seen


def test_a_stateful_query_runs_without_aqe_and_cbo_and_the_user_keeps_them(
    session: SparkSession, checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session.conf.set(AQE, "true")
    session.conf.set(CBO, "true")
    counts = read_stream(Numbers(2), session).groupBy("n").count()
    seen = settings_in_a_batch(counts, checkpoint, AQE, CBO)
    assert seen == {AQE: "false", CBO: "false"}
    assert (session.conf.get(AQE), session.conf.get(CBO)) == ("true", "true")
    # Where no query has it, Spark's analyzer logs that in the JVM.
    warned = "Disabling AQE since AQE is not supported in stateful workloads." in caplog.text
    assert warned is Jvm.of(session).line.adaptive_execution


@pytest.mark.since("4.1", "a setting for the partitions of state")
def test_the_partitions_of_state_are_those_of_a_shuffle_and_the_user_has_none(
    session: SparkSession, checkpoint: Path
) -> None:
    counts = read_stream(Numbers(2), session).groupBy("n").count()
    assert settings_in_a_batch(counts, checkpoint, STATE) == {STATE: "2"}
    assert session.conf.get(STATE, None) is None


def test_a_stateless_query_keeps_aqe_where_spark_leaves_it_on(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    session.conf.set(AQE, "true")
    files = LineFiles(tmp_path / "in")
    files.add("a")
    rows = files.stream(session)
    seen = settings_in_a_batch(rows, checkpoint, AQE, CBO)
    assert seen == settings_in_a_batch(rows, tmp_path / "spark", AQE, CBO, engine="spark")
    assert seen[CBO] == "false"


def test_the_state_keeps_its_partitions_whatever_the_session_says_later(
    session: SparkSession, checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    numbers = Numbers(2)
    counts = read_stream(numbers, session).groupBy("n").count()
    settings_in_a_batch(counts, checkpoint, SHUFFLE)
    numbers.available = 4
    session.conf.set(SHUFFLE, "3")
    key = Jvm.of(session).line.state_partitions_key or SHUFFLE
    assert settings_in_a_batch(counts, checkpoint, key) == {key: "2"}
    assert "from '3' to '2'" in caplog.text
    assert session.conf.get(SHUFFLE) == "3"


def test_what_is_set_after_the_start_does_not_reach_the_query(session: SparkSession) -> None:
    numbers, seen = Numbers(1), []

    def look(batch: DataFrame, batch_id: int) -> None:
        seen.append(batch.sparkSession.conf.get(SHUFFLE))

    query = write_stream(read_stream(numbers, session)).foreachBatch(look).start()
    query.processAllAvailable()
    session.conf.set(SHUFFLE, "7")
    numbers.available = 2
    query.processAllAvailable()
    assert seen == ["2", "2"]


def sql_executions(session: SparkSession, query: StreamingQuery) -> list[Any]:
    """The SQL executions whose description is that of the query's batches."""
    listed = session._jsparkSession.sharedState().statusStore().executionsList()
    executions = [listed.apply(n) for n in range(listed.size())]
    return [e for e in executions if f"runId = {query.runId}" in str(e.description())]


def test_each_batch_is_one_sql_execution_in_the_query_s_job_group(session: SparkSession) -> None:
    rows = read_stream(Numbers(6, at_most=2), session)
    query = write_stream(rows).format("noop").queryName("described").start()
    query.processAllAvailable()
    query.stop()
    eventually(
        lambda: (
            [e.completionTime().isDefined() for e in sql_executions(session, query)] == [True] * 3
        ),
        "three finished executions",
    )
    executions = sql_executions(session, query)
    descriptions = [str(execution.description()) for execution in executions]
    assert descriptions == [
        f"described\nid = {query.id}\nrunId = {query.runId}\nbatch = {batch}" for batch in range(3)
    ]
    jobs = {int(job) for e in executions for job in str(e.jobs().keys().mkString(",")).split(",")}
    group = session.sparkContext.statusTracker().getJobIdsForGroup(query.runId)
    assert len(jobs) == 3
    assert jobs <= set(group)


def test_jobs_know_the_query_and_the_batch_they_belong_to(
    session: SparkSession, checkpoint: Path
) -> None:
    seen: list[tuple[str | None, ...]] = []
    context = session.sparkContext
    context.setLocalProperty("mine", "inherited")

    def look(df: DataFrame, batch_id: int) -> None:
        names = ("sql.streaming.queryId", "streaming.sql.batchId", "mine")
        seen.append(tuple(context.getLocalProperty(name) for name in names))

    writer = write_stream(read_stream(Numbers(4, at_most=2), session)).foreachBatch(look)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.processAllAvailable()
    context.setLocalProperty("mine", None)  # type: ignore[arg-type]  # unsets it
    assert seen == [(query.id, "0", "inherited"), (query.id, "1", "inherited")]
    assert context.getLocalProperty("sql.streaming.queryId") is None


def test_functions_and_views_of_the_user_s_session_are_there_in_a_batch(
    session: SparkSession, checkpoint: Path
) -> None:
    session.range(3).createOrReplaceTempView("known")
    session.udf.register("twice", lambda n: 2 * n, "long")
    seen: list[int] = []

    def look(df: DataFrame, batch_id: int) -> None:
        found = df.sparkSession.sql("select twice(id) as d from known")
        seen.extend(row.d for row in found.collect())

    rows = read_stream(Numbers(1), session).select(F.expr("twice(n)"))
    run_available(rows, look, checkpoint)
    assert sorted(seen) == [0, 2, 4]


def test_a_failing_step_at_the_end_does_not_keep_the_lock(
    session: SparkSession, tmp_path: Path
) -> None:
    def fail() -> None:
        raise RuntimeError("boom")

    own_session = SparkStreamSession(session)
    lock = CheckpointLock(tmp_path, "query")
    lock.acquire()
    own_session.at_the_end(fail)
    own_session.at_the_end(lock.release)
    with pytest.raises(RuntimeError, match="boom"):
        own_session.leave(QueryIdentity(str(uuid4()), str(uuid4()), None))
    assert current_holder(tmp_path) is None
