"""Counts the requests of a batch whose checkpoint is on S3, and times it: `make bench-store`.

All engines run one after the other in one process, against the same server on loopback, first
without and then with a delay of every answer. `QUICK=1` counts only.
"""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines import writer_for
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from reports import update_section

from penstock.api.quiet_session import quiet_session
from penstock.spark.jvm.support import ABORTABLE_MANAGER as ABORTABLE
from penstock.spark.jvm.support import FILE_MANAGER_CLASS as MANAGER
from tests.real.jars import spark_jars
from tests.real.s3 import BUCKET, S3Server, hadoop_cloud, s3a_connector

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmark.md"
RESULTS = Path(__file__).with_name("store.json")
BEGIN, END = "<!-- store: written by make bench-store -->", "<!-- end of store -->"

DELAY_MS = 30
IS_QUICK = bool(os.environ.get("QUICK"))
WARM_UP = 2 if IS_QUICK else 4
MEASURED = 3 if IS_QUICK else 6


@dataclass(frozen=True)
class Case:
    """A query on an engine, and the target for its requests per batch."""

    title: str
    engine: str
    is_stateful: bool
    manager: str | None = None
    at_most: int | None = None


CASES = (
    Case("stateless", "spark", False),
    Case("stateless", "penstock", False, at_most=3),
    Case("aggregation, two partitions", "spark", True),
    Case("aggregation, two partitions", "penstock", True),
    Case("aggregation, abortable streams", "spark", True, ABORTABLE),
    Case("aggregation, abortable streams", "penstock", True, ABORTABLE, at_most=20),
)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-store-") as folder:
        server = S3Server(Path(folder))
        server.start()
        conf = {**server.conf(), "spark.jars": spark_jars(s3a_connector(), hadoop_cloud())}
        spark = quiet_session("bench-store", Path(folder) / "spark.log", conf)
        figures = [measure(spark, server, number, case) for number, case in enumerate(CASES)]
        spark.stop()
        server.stop()
    results = {"machine": platform.machine(), "date": time.strftime("%Y-%m-%d"), "cases": figures}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    table = as_table(figures)
    print(table)
    update_section(PAGE, BEGIN, END, table)


def measure(spark: SparkSession, server: S3Server, number: int, case: Case) -> dict[str, Any]:
    """Run a query without the delay and, unless it has to be quick, with it."""
    if case.manager is None:
        spark.conf.unset(MANAGER)
    else:
        spark.conf.set(MANAGER, case.manager)
    counts, _ = run(spark, server, f"case-{number}-counted", case)
    times: list[float] = []
    if not IS_QUICK:
        server.delay(DELAY_MS)
        _, times = run(spark, server, f"case-{number}-delayed", case)
        server.delay(0)
    figures = {
        "title": case.title,
        "engine": case.engine,
        "atMost": case.at_most,
        "requests": statistics.median_high(counts),
        "requestsOfEach": counts,
        "triggerMs": statistics.median(times) if times else None,
        "triggerMsOfEach": times,
    }
    print(json.dumps(figures), flush=True)
    return figures


def run(
    spark: SparkSession, server: S3Server, name: str, case: Case
) -> tuple[list[int], list[float]]:
    """The requests of the measured batches, and the times of their triggers."""
    server.forget()
    writer = writer_for(case.engine, rows(spark, is_stateful=case.is_stateful)).format("noop")
    writer = writer.outputMode("update" if case.is_stateful else "append")
    query = writer.option("checkpointLocation", f"s3a://{BUCKET}/{name}").start()
    while (last := query.lastProgress) is None or last["batchId"] <= WARM_UP + MEASURED:
        if not query.isActive:
            raise RuntimeError(f"{name} has ended: {query.exception()}")
        time.sleep(0.05)
    progress = [p for p in query.recentProgress if "addBatch" in p["durationMs"]]
    query.stop()
    measured = range(WARM_UP, WARM_UP + MEASURED)
    times = [p["durationMs"]["triggerExecution"] for p in progress if p["batchId"] in measured]
    return requests_of(server.requests(), measured), times


def rows(spark: SparkSession, *, is_stateful: bool) -> DataFrame:
    source = spark.readStream.format("rate-micro-batch").option("numPartitions", 2)
    numbers = source.option("rowsPerBatch", 1000).load()
    if not is_stateful:
        return numbers
    return numbers.groupBy((F.col("value") % 10).alias("key")).count()


def requests_of(requests: Sequence[Mapping[str, Any]], batches: range) -> list[int]:
    """The number of requests from one plan to the next."""
    at = {
        int(found[1]): position
        for position, request in enumerate(requests)
        if request["method"] == "PUT"
        and (found := re.search(r"/offsets/(\d+)$", str(request["path"]))) is not None
    }
    return [at[batch_id + 1] - at[batch_id] for batch_id in batches]


def as_table(figures: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "| | Spark | Penstock | |",
        "|---|---|---|---|",
    ]
    for of_spark, own in zip(figures[::2], figures[1::2], strict=True):
        target = own["atMost"]
        met = "" if target is None else f"target ≤ {target}"
        missed = target is not None and own["requests"] > target
        lines.append(
            f"| {own['title']}: requests per batch | {of_spark['requests']} | {own['requests']} | "
            f"{met}{': **missed**' if missed else ''} |"
        )
    if figures[0]["triggerMs"] is None:
        return "\n".join(lines)
    for of_spark, own in zip(figures[::2], figures[1::2], strict=True):
        ratio = own["triggerMs"] / of_spark["triggerMs"]
        target = "target ≤ 0.25" if own["title"] == "stateless" else ""
        missed = bool(target) and ratio > 0.25
        lines.append(
            f"| {own['title']}: trigger with {DELAY_MS} ms per request | "
            f"{of_spark['triggerMs']:.0f} ms | {own['triggerMs']:.0f} ms | {ratio:.2f}"
            f"{', ' + target if target else ''}{': **missed**' if missed else ''} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
