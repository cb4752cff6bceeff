"""Kills a streaming query, recovers it and checks its output, in about a minute: `make demo`.

The query reads small JSON files of orders and writes the revenue per ten-minute window to a parquet
table. There are four steps, the first three each in a process of their own:

1. Penstock runs the stream and is killed (SIGKILL) after a batch is planned and written, but
   before it is committed.
2. Penstock starts again, on the same checkpoint, and finishes.
3. Spark's own engine continues on the same checkpoint and processes the last files.
4. The totals in the table are compared with the orders in the files, row by row.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

import penstock
from penstock.testing import FaultPoint, KillAt, quiet_session

FILES_AT_FIRST = 16
FILES_AT_LAST = 4
ORDERS_PER_FILE = 500
FILES_PER_BATCH = 2
BATCH_TO_DIE_IN = 4
WINDOW_MINUTES = 10
FIRST_ORDER = 1_700_000_000 // 600 * 600

console = Console(highlight=False)


class Workspace:
    """The directories of the demo: orders, checkpoint and table."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.orders = root / "orders"
        self.checkpoint = root / "checkpoint"
        self.table = root / "revenue"
        self.spark_log = root / "spark.log"

    def write_orders(self, first: int, count: int) -> int:
        """Write order files `first` to `first + count - 1`; return the number of orders."""
        self.orders.mkdir(exist_ok=True)
        for number in range(first, first + count):
            chance = random.Random(number)
            orders = [
                {
                    "id": number * ORDERS_PER_FILE + i,
                    "cents": chance.randrange(100, 20_000),
                    # each file is five minutes of orders, some of them a little late
                    "at": FIRST_ORDER + number * 300 + chance.randrange(-120, 300),
                }
                for i in range(ORDERS_PER_FILE)
            ]
            self._write(number, orders)
        return count * ORDERS_PER_FILE

    def write_closing_order(self, number: int) -> None:
        """Write one order a day later: the watermark that follows closes every window before it."""
        self._write(number, [{"id": -1, "cents": 0, "at": FIRST_ORDER + 86_400}])

    def _write(self, number: int, orders: list[dict[str, int]]) -> None:
        path = self.orders / f"{number:04d}.json"
        temporary = self.root / path.name
        temporary.write_text("\n".join(map(json.dumps, orders)))
        os.utime(temporary, (FIRST_ORDER + number, FIRST_ORDER + number))
        temporary.rename(path)

    def expected(self) -> dict[int, tuple[int, int]]:
        """Window start -> (orders, cents), computed from the files in plain Python."""
        windows: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
        for path in sorted(self.orders.glob("*.json")):
            for order in map(json.loads, path.read_text().splitlines()):
                if order["id"] >= 0:
                    start = order["at"] // (WINDOW_MINUTES * 60) * WINDOW_MINUTES * 60
                    orders, cents = windows[start]
                    windows[start] = orders + 1, cents + order["cents"]
        return dict(windows)

    def batches(self, log: str) -> list[int]:
        names = (path.name for path in (self.checkpoint / log).iterdir())
        return sorted(int(name) for name in names if name.isdigit())


def revenue(spark: SparkSession, work: Workspace) -> DataFrame:
    """The query: an ordinary PySpark streaming DataFrame."""
    orders = (
        spark.readStream.schema("id long, cents long, at long")
        .option("maxFilesPerTrigger", FILES_PER_BATCH)
        .json(str(work.orders))
        .withColumn("at", F.timestamp_seconds("at"))
    )
    return (
        orders.withWatermark("at", "10 minutes")
        .groupBy(F.window("at", f"{WINDOW_MINUTES} minutes"))
        .agg(F.count("*").alias("orders"), F.sum("cents").alias("cents"))
        .select(F.unix_timestamp("window.start").alias("start"), "orders", "cents")
    )


def show_batches(query: StreamingQuery) -> None:
    """Print a line for each batch as it finishes, until the query ends."""
    shown = -1
    while True:
        active = query.isActive
        for progress in query.recentProgress:
            if progress.batchId > shown and "addBatch" in progress.durationMs:
                shown = progress.batchId
                console.print(_line(progress), soft_wrap=True)
        if not active:
            break
        time.sleep(0.05)
    query.awaitTermination()


def _line(progress: Any) -> str:
    took = progress.durationMs
    phases = " ".join(
        f"[dim]{label}[/] {took.get(name, 0):>3}"
        for label, name in (
            ("plan", "queryPlanning"),
            ("wal", "walCommit"),
            ("sink", "addBatch"),
            ("commit", "commitOffsets"),
        )
    )
    watermark = progress.eventTime.get("watermark", "")[11:16]
    return (
        f"  batch {progress.batchId:>2} [bold]{progress.numInputRows:>5}[/] rows  "
        f"{phases} [dim]=[/] {took['triggerExecution']:>4} ms  [dim]watermark[/] {watermark}"
    )


# The steps that run a query, each in its own process.


def act_penstock(work: Workspace, *, die: bool) -> None:
    spark = quiet_session("penstock demo", work.spark_log, short_lived=True)
    writer = (
        penstock.write_stream(revenue(spark, work))
        .format("parquet")
        .option("checkpointLocation", str(work.checkpoint))
        .trigger(availableNow=True)
    )
    if die:
        writer.inject_faults(KillAt(FaultPoint.AFTER_SINK, BATCH_TO_DIE_IN))
    show_batches(writer.start(str(work.table)))
    spark.stop()


def act_spark(work: Workspace) -> None:
    spark = quiet_session("penstock demo", work.spark_log, short_lived=True)
    query = (
        revenue(spark, work)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(work.checkpoint))
        .trigger(availableNow=True)
        .start(str(work.table))
    )
    show_batches(query)
    rows = spark.read.parquet(str(work.table)).collect()
    (work.root / "table.json").write_text(json.dumps([row.asDict() for row in rows]))
    spark.stop()


# The parent process, which runs the steps and checks their results.


class Check:
    """Prints each claim with its result, and counts those that do not hold."""

    def __init__(self) -> None:
        self.failed = 0

    def that(self, holds: bool, claim: str) -> None:
        self.failed += not holds
        console.print(f"  [green]✓[/] {claim}" if holds else f"  [red]✗ {claim}[/]")


def run_act(name: str, work: Workspace) -> int:
    return subprocess.run([sys.executable, __file__, "--act", name, str(work.root)]).returncode


def play(work: Workspace) -> int:
    check = Check()
    written = work.write_orders(0, FILES_AT_FIRST)
    console.print(
        f"[bold]{written:,} orders in {FILES_AT_FIRST} JSON files[/] -> revenue per "
        f"{WINDOW_MINUTES} minutes -> parquet"
    )

    console.print("\n[bold]1. Penstock runs the stream[/] [dim](starting Spark ...)[/]")
    code = run_act("die", work)
    planned, done = work.batches("offsets")[-1], work.batches("commits")[-1]
    check.that(code == -signal.SIGKILL, "the process was killed with SIGKILL")
    check.that(
        (planned, done) == (BATCH_TO_DIE_IN, BATCH_TO_DIE_IN - 1),
        f"batch {planned} is planned and written, but only batch {done} is committed",
    )
    before = (work.checkpoint / "offsets" / str(planned)).read_bytes()

    console.print("\n[bold]2. Penstock starts again[/] [dim](same checkpoint, new process)[/]")
    check.that(run_act("resume", work) == 0, "the query succeeded")
    check.that(
        (work.checkpoint / "offsets" / str(planned)).read_bytes() == before,
        f"batch {planned} was run again exactly as planned",
    )
    console.print(
        f"  [dim]  (0 rows: the file sink has batch {planned} already, and skips it)[/]",
        soft_wrap=True,
    )
    check.that(
        work.batches("offsets") == work.batches("commits"), "every planned batch is committed"
    )

    written += work.write_orders(FILES_AT_FIRST, FILES_AT_LAST)
    work.write_closing_order(FILES_AT_FIRST + FILES_AT_LAST)
    console.print(
        f"\n[bold]3. Spark's own engine takes over[/] [dim]({FILES_AT_LAST} more files)[/]"
    )
    check.that(
        run_act("spark", work) == 0, "the query succeeded, on the checkpoint that Penstock wrote"
    )

    console.print("\n[bold]4. The totals[/]")
    compare(work, written, check)
    if check.failed:
        console.print(f"\n[red bold]{check.failed} of these checks failed.[/]")
        return 1
    console.print("\n[green bold]Nothing lost, nothing duplicated.[/]")
    return 0


def compare(work: Workspace, written: int, check: Check) -> None:
    rows = json.loads((work.root / "table.json").read_text())
    expected = work.expected()
    table = {row["start"]: (row["orders"], row["cents"]) for row in rows}
    check.that(len(rows) == len(table), f"{len(rows)} windows in the table, none of them twice")
    orders = sum(orders for orders, _ in table.values())
    check.that(orders == written, f"{orders:,} orders in them; {written:,} were written")
    cents = sum(cents for _, cents in table.values())
    check.that(
        table == expected,
        f"the count and sum of every window match the input: {cents / 100:,.2f} in total",
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--act", choices=["die", "resume", "spark"])
    parser.add_argument(
        "folder", nargs="?", help="the directory to work in; a temporary one by default"
    )
    arguments = parser.parse_args()
    if arguments.act:
        work = Workspace(Path(arguments.folder))
        logging.basicConfig(filename=work.root / "penstock.log", level=logging.INFO)
        if arguments.act == "spark":
            act_spark(work)
        else:
            act_penstock(work, die=arguments.act == "die")
        return 0
    if arguments.folder:
        root = Path(arguments.folder)
        root.mkdir(parents=True, exist_ok=False)
        return play(Workspace(root))
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        return play(Workspace(Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
