"""Delta and Iceberg as sources and sinks: the same on Penstock as on Spark's engine.

Compared are the rows by batch, the bytes of the logs, progress with its metrics, state, and what
the tables themselves record of each batch. Then each program changes engines between its batches,
after a commit and with a batch that the sink has and the commit log has not.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.differential.compare import differences
from tests.differential.program import Input
from tests.differential.round_trips import make_the_trip
from tests.differential.runs import Engine, run_in_lock_step
from tests.real import delta_programs, iceberg_programs
from tests.real.feed import Feed
from tests.real.jars import installed_line
from tests.real.lake_programs import LakeProgram
from tests.real.lake_sinks import DeltaSink, IcebergSink, LakeSink
from tests.real.pipelines import PARQUET
from tests.real.test_kafka_pipelines import arrive, found, program_of
from tests.real.topics import Topics, new_name


def _parameters() -> list[object]:
    return [
        pytest.param(program, id=str(program), marks=getattr(pytest.mark, lakehouse))
        for lakehouse, programs in (
            ("delta", delta_programs.PROGRAMS),
            ("iceberg", iceberg_programs.PROGRAMS),
        )
        for program in programs
    ]


@pytest.mark.parametrize("lake", _parameters())
def test_a_table_is_read_and_written_as_by_spark(
    lake: LakeProgram, spark: SparkSession, tmp_path: Path
) -> None:
    arrival = lake.arrival(Input(spark.newSession(), tmp_path / "input"))
    runs = run_in_lock_step(lake.program, spark, tmp_path, arrival)
    spark_run, penstock_run = runs[Engine.SPARK], runs[Engine.PENSTOCK]
    difference = differences("Spark", spark_run.observe(), "Penstock", penstock_run.observe())
    if difference:
        pytest.fail(f"{lake}\n{difference}", pytrace=False)
    sink = lake.program.sink
    assert isinstance(sink, LakeSink)
    assert sink.history(penstock_run.outlet) == sink.history(spark_run.outlet)
    assert any(penstock_run.rows().values()), "no row was written: the test shows nothing"


@pytest.mark.parametrize("lake", _parameters())
def test_a_query_on_tables_may_change_engines_at_any_batch(
    lake: LakeProgram, spark: SparkSession, tmp_path: Path
) -> None:
    arrival = lake.arrival(Input(spark.newSession(), tmp_path / "input"))
    found = make_the_trip(lake.program, spark, tmp_path, arrival)
    if any(found):
        pytest.fail("\n".join([str(lake), *found]), pytrace=False)


@pytest.mark.parametrize(
    "sink",
    [
        pytest.param(DeltaSink(), id="delta", marks=pytest.mark.delta),
        pytest.param(IcebergSink(), id="iceberg", marks=pytest.mark.iceberg),
    ],
)
def test_kafka_is_written_to_a_table_as_by_spark(
    sink: LakeSink, topics: Topics, spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(topics, new_name("feed"))
    program = program_of(PARQUET, feed, sink)
    if installed_line() == "4.1":  # its Kafka source fails Spark's query (SPARK-57438)
        for number in range(program.rounds):
            arrive(feed, number, program.rounds)
    else:
        different = make_the_trip(program, spark, tmp_path, lambda n, of: arrive(feed, n, of))
        if any(different):
            pytest.fail("\n".join(different), pytrace=False)
    runs = run_in_lock_step(program, spark, tmp_path / "each", lambda n, of: None)
    spark_run, penstock_run = runs[Engine.SPARK], runs[Engine.PENSTOCK]
    difference = differences("Spark", spark_run.observe(), "Penstock", penstock_run.observe())
    if difference:
        pytest.fail(difference, pytrace=False)
    assert sink.history(penstock_run.outlet) == sink.history(spark_run.outlet)
    assert found(penstock_run) == PARQUET.expected(feed)
