"""A query on Delta tables that fails on Spark's engine fails on Penstock with the same error."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.differential.failures.observe import provoke
from tests.differential.failures.stage import Failure, Stage
from tests.differential.runs import Engine
from tests.differential.test_errors import compare

pytestmark = pytest.mark.delta


def _table(stage: Stage) -> str:
    return f"delta.`{stage.home / 'events'}`"


def _create(stage: Stage, properties: str = "") -> DataFrame:
    """A table with two versions of rows, as a stream."""
    session, table = stage.session, _table(stage)
    session.sql(f"CREATE TABLE {table} (id LONG, name STRING) USING delta {properties}")
    session.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    session.sql(f"INSERT INTO {table} VALUES (3, 'c')")
    return _read(stage)


def _read(stage: Stage) -> DataFrame:
    reader = stage.session.readStream.format("delta").option("maxFilesPerTrigger", 1)
    return reader.load(str(stage.home / "events"))


def _update(stage: Stage) -> None:
    stage.run(_create(stage), "delta")
    stage.session.sql(f"UPDATE {_table(stage)} SET name = 'z' WHERE id = 1")
    stage.run(_read(stage), "delta")


def _delete(stage: Stage) -> None:
    stage.run(_create(stage), "delta")
    stage.session.sql(f"DELETE FROM {_table(stage)} WHERE id <= 2")
    stage.run(_read(stage), "delta")


def _new_column_in_the_source(stage: Stage) -> None:
    rows = _create(stage)
    stage.run(rows, "delta")
    stage.session.sql(f"ALTER TABLE {_table(stage)} ADD COLUMNS (more INT)")
    stage.session.sql(f"INSERT INTO {_table(stage)} VALUES (4, 'd', 5)")
    stage.run(rows, "delta")


def _new_column_for_the_sink(stage: Stage) -> None:
    stage.run(_create(stage), "delta")
    stage.session.sql(f"INSERT INTO {_table(stage)} VALUES (4, 'd')")
    stage.run(_read(stage).withColumn("more", F.lit(1)), "delta")


def _another_table_at_the_path(stage: Stage) -> None:
    stage.run(_create(stage), "delta")
    (stage.home / "events").rename(stage.home / "before")
    stage.run(_create(stage), "delta")


def _update_mode(stage: Stage) -> None:
    stage.run(_create(stage).groupBy("id").count(), "delta", "update")


def _renamed_column(stage: Stage) -> None:
    rows = _create(stage, "TBLPROPERTIES (delta.columnMapping.mode = 'name')")
    stage.run(rows, "delta")
    stage.session.sql(f"ALTER TABLE {_table(stage)} RENAME COLUMN name TO title")
    stage.session.sql(f"INSERT INTO {_table(stage)} VALUES (4, 'd')")
    stage.run(_read(stage), "delta")


def _missing_version(stage: Stage) -> None:
    _create(stage)
    reader = stage.session.readStream.format("delta").option("startingVersion", "99")
    stage.run(reader.load(str(stage.home / "events")), "delta")


FAILURES = (
    Failure("an update in the source", _update),
    Failure("a delete in the source", _delete),
    Failure("a new column in the source", _new_column_in_the_source),
    Failure("a new column for the sink", _new_column_for_the_sink),
    Failure("another table at the path", _another_table_at_the_path),
    Failure("update mode", _update_mode),
    Failure("a renamed column", _renamed_column),
    Failure("a version that is not there", _missing_version),
)


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.name)
def test_both_engines_raise_the_same_error(
    spark: SparkSession, tmp_path: Path, failure: Failure
) -> None:
    # The same name of the directory: its length and text are in the messages.
    of_spark, of_penstock = (
        provoke(failure, spark, engine, tmp_path / engine.value / "home") for engine in Engine
    )
    compare(of_spark, of_penstock)
