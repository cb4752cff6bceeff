"""Stages with the same code share one generated class, unless the user's settings say otherwise."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock import write_stream
from tests.spark.optimizations import numbers

STAGE_IDS = "spark.sql.codegen.useIdInClassName"

pytestmark = pytest.mark.core


def compiled_classes(session: SparkSession) -> int:
    metrics = session._jvm.org.apache.spark.metrics.source.CodegenMetrics  # type: ignore[union-attr]
    return int(metrics.METRIC_COMPILATION_TIME().getCount())


def compiled_by_union(session: SparkSession, sources: int, addend: int, checkpoint: Path) -> int:
    """The classes that a union of equal sources compiles. No other query has its addend."""
    frames = [numbers(session).selectExpr(f"value + {addend} as value") for _ in range(sources)]
    before = compiled_classes(session)
    writer = write_stream(reduce(DataFrame.union, frames)).format("noop")
    query = writer.start(checkpointLocation=str(checkpoint))
    query.stop_after(batches=2)
    query.awaitTermination()
    return compiled_classes(session) - before


def test_sources_of_a_union_share_their_classes(session: SparkSession, tmp_path: Path) -> None:
    compiled_by_union(session, 1, 71_000, tmp_path / "warm-up")
    one = compiled_by_union(session, 1, 71_001, tmp_path / "one")
    five = compiled_by_union(session, 5, 71_005, tmp_path / "five")
    assert five == one


def test_with_the_setting_of_the_user_each_source_has_its_own(
    session: SparkSession, tmp_path: Path
) -> None:
    session.conf.set(STAGE_IDS, "true")
    compiled_by_union(session, 1, 72_000, tmp_path / "warm-up")
    one = compiled_by_union(session, 1, 72_001, tmp_path / "one")
    five = compiled_by_union(session, 5, 72_005, tmp_path / "five")
    assert five >= one + 4
    assert session.conf.get(STAGE_IDS) == "true"
