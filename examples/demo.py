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
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping
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
WINDOW_MINUTES = 10
FIRST_ORDER = 1_700_000_000 // 600 * 600
CLOSING_ORDER = FIRST_ORDER + 366 * 86_400 + 6_000
"""An order a year later: the watermark that follows it closes every window before."""

console = Console(highlight=False)


class Demo(ABC):
    """A demo in a directory: its input and how it is read. The story is the same for each."""

    script: str
    batch_to_die_in: int
    conf: Mapping[str, str] = {}

    def __init__(self, root: Path) -> None:
        self.root = root
        self.checkpoint = root / "checkpoint"
        self.table = root / "revenue"
        self.written = 0
        self.windows: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))

    @abstractmethod
    def begin(self) -> str:
        """Write the first orders, and describe them."""

    @abstractmethod
    def finish(self) -> str:
        """Write the last orders, and describe them."""

    @abstractmethod
    def orders(self, spark: SparkSession) -> DataFrame:
        """The orders as a stream, with the columns `cents` and `at`, in seconds."""

    def count(self, at: int, cents: int) -> None:
        """Add an order to the totals that the table is compared with."""
        start = at // (WINDOW_MINUTES * 60) * WINDOW_MINUTES * 60
        orders, sum_of_cents = self.windows[start]
        self.windows[start] = orders + 1, sum_of_cents + cents
        self.written += 1

    def batches(self, log: str) -> list[int]:
        names = (path.name for path in (self.checkpoint / log).iterdir())
        return sorted(int(name) for name in names if name.isdigit())


class DemoOfFiles(Demo):
    """Orders in JSON files, a few of them for each batch."""

    script = __file__
    batch_to_die_in = 4

    def begin(self) -> str:
        self._write(0, FILES_AT_FIRST)
        return f"{self.written:,} orders in {FILES_AT_FIRST} JSON files"

    def finish(self) -> str:
        self._write(FILES_AT_FIRST, FILES_AT_LAST)
        self._put(FILES_AT_FIRST + FILES_AT_LAST, [{"cents": 0, "at": CLOSING_ORDER}])
        return f"{FILES_AT_LAST} more files"

    def orders(self, spark: SparkSession) -> DataFrame:
        reader = spark.readStream.schema("cents long, at long")
        return reader.option("maxFilesPerTrigger", FILES_PER_BATCH).json(str(self.root / "orders"))

    def _write(self, first: int, count: int) -> None:
        """Write order files `first` to `first + count - 1`."""
        for number in range(first, first + count):
            chance = random.Random(number)
            orders = []
            for _ in range(ORDERS_PER_FILE):
                cents = chance.randrange(100, 20_000)
                # each file is five minutes of orders, some of them a little late
                at = FIRST_ORDER + number * 300 + chance.randrange(-120, 300)
                orders.append({"cents": cents, "at": at})
                self.count(at, cents)
            self._put(number, orders)

    def _put(self, number: int, orders: list[dict[str, int]]) -> None:
        path = self.root / "orders" / f"{number:04d}.json"
        path.parent.mkdir(exist_ok=True)
        temporary = self.root / path.name
        temporary.write_text("\n".join(map(json.dumps, orders)))
        os.utime(temporary, (FIRST_ORDER + number, FIRST_ORDER + number))
        temporary.rename(path)


def revenue(orders: DataFrame) -> DataFrame:
    """The query: an ordinary PySpark streaming DataFrame."""
    return (
        orders.withColumn("at", F.timestamp_seconds("at"))
        .withWatermark("at", "10 minutes")
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


def act(name: str, demo: Demo) -> None:
    """Run the query until it has processed the orders that are there, or is killed."""
    spark = quiet_session("penstock demo", demo.root / "spark.log", demo.conf, short_lived=True)
    df = revenue(demo.orders(spark))
    writer: Any = df.writeStream if name == "spark" else penstock.write_stream(df)
    if name == "die":
        writer.inject_faults(KillAt(FaultPoint.AFTER_SINK, demo.batch_to_die_in))
    writer = writer.format("parquet").option("checkpointLocation", str(demo.checkpoint))
    show_batches(writer.trigger(availableNow=True).start(str(demo.table)))
    if name == "spark":
        rows = spark.read.parquet(str(demo.table)).collect()
        (demo.root / "table.json").write_text(json.dumps([row.asDict() for row in rows]))
    spark.stop()


# The parent process, which runs the steps and checks their results.


class Check:
    """Prints each claim with its result, and counts those that do not hold."""

    def __init__(self) -> None:
        self.failed = 0

    def that(self, holds: bool, claim: str) -> None:
        self.failed += not holds
        console.print(f"  [green]✓[/] {claim}" if holds else f"  [red]✗ {claim}[/]")


def run_act(name: str, demo: Demo) -> int:
    return subprocess.run(
        [sys.executable, demo.script, "--act", name, str(demo.root)], check=False
    ).returncode


def play(demo: Demo) -> int:
    check = Check()
    console.print(
        f"[bold]{demo.begin()}[/] -> revenue per {WINDOW_MINUTES} minutes -> parquet",
        soft_wrap=True,
    )

    console.print("\n[bold]1. Penstock runs the stream[/] [dim](starting Spark ...)[/]")
    code = run_act("die", demo)
    planned, done = demo.batches("offsets")[-1], demo.batches("commits")[-1]
    check.that(code == -signal.SIGKILL, "the process was killed with SIGKILL")
    check.that(
        (planned, done) == (demo.batch_to_die_in, demo.batch_to_die_in - 1),
        f"batch {planned} is planned and written, but only batch {done} is committed",
    )
    entry = demo.checkpoint / "offsets" / str(planned)
    before = entry.read_text()
    console.print(f"  [dim]  (offsets/{planned} ends at {before.splitlines()[-1]})[/]")

    console.print("\n[bold]2. Penstock starts again[/] [dim](same checkpoint, new process)[/]")
    check.that(run_act("resume", demo) == 0, "the query succeeded")
    check.that(entry.read_text() == before, f"batch {planned} was run again exactly as planned")
    console.print(
        f"  [dim]  (0 rows: the file sink has batch {planned} already, and skips it)[/]",
        soft_wrap=True,
    )
    check.that(
        demo.batches("offsets") == demo.batches("commits"), "every planned batch is committed"
    )

    console.print(f"\n[bold]3. Spark's own engine takes over[/] [dim]({demo.finish()})[/]")
    check.that(
        run_act("spark", demo) == 0, "the query succeeded, on the checkpoint that Penstock wrote"
    )

    console.print("\n[bold]4. The totals[/]")
    compare(demo, check)
    if check.failed:
        console.print(f"\n[red bold]{check.failed} of these checks failed.[/]")
        return 1
    console.print("\n[green bold]Nothing lost, nothing duplicated.[/]")
    return 0


def compare(demo: Demo, check: Check) -> None:
    rows = json.loads((demo.root / "table.json").read_text())
    table = {row["start"]: (row["orders"], row["cents"]) for row in rows}
    check.that(len(rows) == len(table), f"{len(rows)} windows in the table, none of them twice")
    orders = sum(orders for orders, _ in table.values())
    check.that(orders == demo.written, f"{orders:,} orders in them; {demo.written:,} were written")
    cents = sum(cents for _, cents in table.values())
    check.that(
        table == demo.windows,
        f"the count and sum of every window match the input: {cents / 100:,.2f} in total",
    )


def main(kind: type[Demo]) -> int:
    parser = argparse.ArgumentParser(description=kind.__doc__)
    parser.add_argument("--act", choices=["die", "resume", "spark"])
    parser.add_argument(
        "folder", nargs="?", help="the directory to work in; a temporary one by default"
    )
    arguments = parser.parse_args()
    if arguments.act:
        demo = kind(Path(arguments.folder))
        logging.basicConfig(filename=demo.root / "penstock.log", level=logging.INFO)
        act(arguments.act, demo)
        return 0
    if arguments.folder:
        root = Path(arguments.folder)
        root.mkdir(parents=True, exist_ok=False)
        return play(kind(root))
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        return play(kind(Path(folder)))


if __name__ == "__main__":
    sys.exit(main(DemoOfFiles))
