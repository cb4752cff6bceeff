"""Schema changes of a Delta table under a running query: the query fails, a restart goes on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.differential.runs import Engine
from tests.real.delta_log import commits, current_rows
from tests.real.servers import wait_until
from tests.real.topics import new_name

pytestmark = pytest.mark.delta

ATTEMPTS = 8
_CONDITION = re.compile(r"\b(DELTA_\w+(?:\.\w+)?)\b")


@dataclass
class Job:
    """A program from a Delta table to another, started again after each failure."""

    engine: Engine
    session: SparkSession
    root: Path
    source: Path
    options: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    @property
    def output(self) -> Path:
        return self.root / "output"

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    def read(self) -> DataFrame:
        tracking = self.options.get("schemaTrackingLocation")
        options = {"schemaTrackingLocation": str(self.checkpoint / tracking)} if tracking else {}
        reader = self.session.readStream.format("delta").option("maxFilesPerTrigger", 1)
        return reader.options(**options).load(str(self.source))

    def start(self, rows: DataFrame, **trigger: Any) -> Any:
        writer = self.engine.writer(rows).format("delta").option("mergeSchema", "true")
        writer = writer.option("checkpointLocation", str(self.checkpoint)).trigger(**trigger)
        return writer.start(str(self.output))

    def run(self) -> None:
        """Process what is there, starting again with a new DataFrame after each failure."""
        for _ in range(ATTEMPTS):
            try:
                self.start(self.read(), availableNow=True).awaitTermination()
                return
            except StreamingQueryException as error:
                self.failures.append(_condition(error))
        raise AssertionError(f"{ATTEMPTS} starts were not enough: {self.failures}")

    def offsets(self) -> dict[int, str]:
        """The lines of the sources in the offset log."""
        files = (self.checkpoint / "offsets").glob("[0-9]*")
        return {int(file.name): "\n".join(file.read_text().split("\n")[2:]) for file in files}

    def tracked(self) -> dict[str, Any]:
        """The log of schemas, if there is one."""
        found = {}
        for file in sorted(self.checkpoint.rglob("_schema_log*/*")):
            if file.is_file() and not file.name.startswith("."):
                found[file.name] = [_plain(line) for line in file.read_text().splitlines()]
        return found


def _condition(error: StreamingQueryException) -> str:
    found = _CONDITION.search(str(error))
    assert found is not None, str(error)
    return found[1]


def _plain(line: str) -> str:
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "<id>", line.replace("penstock", "spark"))


@pytest.fixture
def jobs(spark: SparkSession, tmp_path: Path) -> list[Job]:
    """The same job on each engine."""
    source = tmp_path / "events"
    return [
        Job(engine, spark.newSession(), tmp_path / engine.name.lower(), source) for engine in Engine
    ]


def _sql(jobs: list[Job], *statements: str) -> None:
    table = f"delta.`{jobs[0].source}`"
    for statement in statements:
        jobs[0].session.sql(statement.format(table=table))


def _each(jobs: list[Job], look: Callable[[Job], Any]) -> Any:
    """What all jobs have in common; they must not differ in it."""
    of_spark, of_penstock = map(look, jobs)
    assert of_penstock == of_spark
    return of_penstock


def test_a_new_column_needs_one_restart_and_reaches_the_sink(jobs: list[Job]) -> None:
    _sql(
        jobs,
        "CREATE TABLE {table} (id LONG, name STRING) USING delta",
        "INSERT INTO {table} VALUES (1, 'a')",
    )
    queries = [job.start(job.read(), processingTime="0 seconds") for job in jobs]
    for query in queries:
        query.processAllAvailable()
    _sql(
        jobs,
        "INSERT INTO {table} VALUES (2, 'b')",
        "ALTER TABLE {table} ADD COLUMNS (more INT)",
        "INSERT INTO {table} VALUES (3, 'c', 30)",
    )
    for job, query in zip(jobs, queries, strict=True):
        with pytest.raises(StreamingQueryException) as failed:
            query.awaitTermination(60)
        job.failures.append(_condition(failed.value))
        job.run()
    assert _each(jobs, lambda job: job.failures) == ["DELTA_SCHEMA_CHANGED_WITH_VERSION"]
    rows = _each(jobs, lambda job: sorted(current_rows(job.output), key=lambda row: row["id"]))
    assert [(row["id"], row["name"], row.get("more")) for row in rows] == [
        (1, "a", None),
        (2, "b", None),
        (3, "c", 30),
    ]


def test_a_renamed_column_is_followed_with_a_tracked_schema(jobs: list[Job]) -> None:
    for job in jobs:
        job.options["schemaTrackingLocation"] = "_schemas"
        job.session.conf.set("spark.databricks.delta.streaming.allowSourceColumnRename", "always")
    _sql(
        jobs,
        "CREATE TABLE {table} (id LONG, name STRING) USING delta "
        "TBLPROPERTIES (delta.columnMapping.mode = 'name')",
        "INSERT INTO {table} VALUES (1, 'a')",
    )
    for job in jobs:
        job.run()
    _sql(
        jobs,
        "INSERT INTO {table} VALUES (2, 'b')",
        "ALTER TABLE {table} RENAME COLUMN name TO title",
        "INSERT INTO {table} VALUES (3, 'c')",
    )
    for job in jobs:
        job.run()
    failures = _each(jobs, lambda job: job.failures)
    assert set(failures) == {"DELTA_STREAMING_METADATA_EVOLUTION"}
    rows = _each(jobs, lambda job: sorted(current_rows(job.output), key=lambda row: row["id"]))
    assert [(row["id"], row.get("name"), row.get("title")) for row in rows] == [
        (1, "a", None),
        (2, "b", None),
        (3, None, "c"),
    ]
    assert _each(jobs, Job.tracked)
    _each(jobs, Job.offsets)


def test_a_wider_schema_is_refused_without_merge_schema_and_the_table_stays(
    jobs: list[Job],
) -> None:
    _sql(
        jobs,
        "CREATE TABLE {table} (id LONG, name STRING) USING delta",
        "INSERT INTO {table} VALUES (1, 'a')",
    )
    for job in jobs:
        job.run()
        before = len(commits(job.output))
        rows = job.read().selectExpr("*", "1 AS more")
        writer = job.engine.writer(rows).format("delta").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(job.root / "other"))
        with pytest.raises(StreamingQueryException, match="schema mismatch"):
            writer.start(str(job.output)).awaitTermination()
        assert len(commits(job.output)) == before
        assert [json.dumps(row) for row in current_rows(job.output)] == ['{"id": 1, "name": "a"}']


def test_a_schema_that_the_query_changes_reaches_the_catalog(jobs: list[Job]) -> None:
    """The sink updates the catalog if it has its table: a rule of Delta adds it at the analysis."""
    _sql(
        jobs,
        "CREATE TABLE {table} (id LONG, name STRING) USING delta",
        "INSERT INTO {table} VALUES (1, 'a')",
    )
    for job in jobs:
        job.session.conf.set("spark.databricks.delta.catalog.update.enabled", "true")
        name = new_name(job.engine.name.lower()).replace("-", "_")
        columns = "(id LONG, name STRING)"
        job.session.sql(f"CREATE TABLE {name} {columns} USING delta LOCATION '{job.output}'")
        assert _version_in_catalog(job, name) == 0
        rows = job.read().selectExpr("*", "1 AS more")
        writer = job.engine.writer(rows).format("delta").option("mergeSchema", "true")
        writer = writer.option("checkpointLocation", str(job.checkpoint)).trigger(availableNow=True)
        writer.toTable(name).awaitTermination()
        # Delta updates the catalog on a thread of its own.
        wait_until(lambda: _version_in_catalog(job, name) == 1, 60)  # noqa: B023 - called at once
        assert _version_in_catalog(job, name) == 1, job.engine
    rows = _each(jobs, lambda job: current_rows(job.output))
    assert rows == [{"id": 1, "name": "a", "more": 1}]


def _version_in_catalog(job: Job, table: str) -> int:
    """The version of a table whose schema and properties the catalog has."""
    catalog = job.session._jsparkSession.sessionState().catalog().externalCatalog()
    version = catalog.getTable("default", table).properties().get("delta.lastUpdateVersion")
    return int(version.get())
