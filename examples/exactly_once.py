"""Crashes a query with a JDBC sink at every step: no row is lost, and none is written twice.

The query counts words and merges the counts into a table of Apache Derby, a database that is among
Spark's own jars. With the URL of another database, and its driver in `spark.jars`, it is the same.

    python examples/exactly_once.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame

import penstock
from penstock.testing import Workspace, crash_test, quiet_session

WORDS = [["water", "gate"], ["water"], ["turbine", "water", "gate"]]


def table_of(work: Workspace) -> tuple[str, str]:
    """The database and the table of a trial."""
    return f"jdbc:derby:memory:{work.name};create=true", "counts"


def count_words(work: Workspace) -> penstock.DataStreamWriter:
    url, table = table_of(work)
    sink = penstock.sinks.jdbc(
        url, table, keys=["word"], options={"createTableColumnTypes": "word VARCHAR(20)"}
    )
    counts = work.input.groupBy("word").count()
    return penstock.write_stream(counts).outputMode("update").sink(sink)


def read_counts(work: Workspace) -> DataFrame:
    return work.spark.read.jdbc(*table_of(work))


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        spark = quiet_session("exactly once", Path(folder) / "spark.log", short_lived=True)
        report = crash_test(
            count_words, WORDS, schema="word string", read_output=read_counts, spark=spark
        )
        spark.stop()
    print(report)
    return 0 if report.is_exactly_once else 1


if __name__ == "__main__":
    sys.exit(main())
