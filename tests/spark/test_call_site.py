"""Jobs and stages of a query have the name of the place where the user started it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock import StreamingQuery, read_stream, write_stream
from penstock.spark.session.call_site import current_call_site
from tests.streams import Numbers

pytestmark = pytest.mark.core


def stages_of(session: SparkSession, query: StreamingQuery) -> set[str]:
    tracker = session.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(query.runId)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return {stage.name for stage in stages if stage is not None}


def test_the_stages_of_a_sink_have_the_line_of_the_start(
    session: SparkSession, checkpoint: Path
) -> None:
    writer = write_stream(read_stream(Numbers(2), session)).format("noop")
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = writer.start()
    query.awaitTermination()
    (name,) = stages_of(session, query)
    assert re.fullmatch(r"start at test_call_site\.py:\d+", name)


def test_they_have_it_in_every_batch_even_if_a_function_calls_an_action(
    session: SparkSession, checkpoint: Path
) -> None:
    seen: list[str | None] = []

    def collect(batch: DataFrame, batch_id: int) -> None:
        context = batch.sparkSession.sparkContext
        seen.append(context.getLocalProperty("callSite.short"))
        batch.collect()

    writer = write_stream(read_stream(Numbers(3, at_most=1), session)).foreachBatch(collect)
    query = writer.start(checkpointLocation=str(checkpoint))
    query.stop_after(batches=3)
    query.awaitTermination()
    assert len(seen) == 3
    assert len(set(seen)) == 1
    assert str(seen[0]).startswith("start at test_call_site.py:")


def test_the_long_form_has_the_callers_innermost_first() -> None:
    def outer() -> str:
        return current_call_site().long

    _, first, second, *_ = outer().splitlines()
    assert first.endswith(", in outer")
    assert second.endswith(", in test_the_long_form_has_the_callers_innermost_first")
