"""The demo from a Kafka topic: a query is killed, recovered and checked. `make demo-kafka`.

The query reads orders from a topic with two partitions and writes the revenue per ten-minute window
to a parquet table. Orders are sent all the while. As in demo.py there are four steps:

1. Penstock runs the stream and is killed (SIGKILL) after a batch is planned and written, but
   before it is committed.
2. Penstock starts again, on the same checkpoint, and finishes.
3. Spark's own engine continues on the same checkpoint and processes the last orders.
4. The totals in the table are compared with the orders that were sent.

KAFKA_BOOTSTRAP_SERVERS is the address of the broker; SPARK_JARS has the jars of Spark's Kafka
connector.
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
import threading
from collections import defaultdict
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from demo import FIRST_ORDER, WINDOW_MINUTES, Check, console, show_batches
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import penstock
from penstock.testing import FaultPoint, KillAt, quiet_session

TOPIC = "orders"
PARTITIONS = 2
ORDERS_AT_FIRST = 6000
ORDERS_PER_SECOND = 50
ORDERS_PER_BATCH = 1000
BATCH_TO_DIE_IN = 3


class Orders:
    """Sends orders to the topic, and keeps the totals of what it has sent."""

    def __init__(self, servers: str) -> None:
        admin = AdminClient({"bootstrap.servers": servers})
        topic = NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        [created] = admin.create_topics([topic]).values()
        created.result(60)
        self._producer = Producer({"bootstrap.servers": servers})
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send_steadily, daemon=True)
        self.sent = 0
        self.totals: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))

    def send(self, count: int) -> None:
        """Send orders, each half a second of event time after the one before, or a little late."""
        for number in range(self.sent, self.sent + count):
            chance = random.Random(number)
            at = FIRST_ORDER + number // 2 - chance.randrange(120)
            cents = chance.randrange(100, 20_000)
            self._produce(number, cents, at)
            start = at // (WINDOW_MINUTES * 60) * WINDOW_MINUTES * 60
            orders, sum_of_cents = self.totals[start]
            self.totals[start] = orders + 1, sum_of_cents + cents
        self.sent += count
        self._producer.flush()

    def keep_sending(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop, and send an order a year later: the watermark then closes every window."""
        self._over.set()
        self._thread.join()
        self._produce(-1, 0, FIRST_ORDER + 366 * 86_400)
        self._producer.flush()

    def _send_steadily(self) -> None:
        while not self._over.wait(0.5):
            self.send(ORDERS_PER_SECOND // 2)

    def _produce(self, number: int, cents: int, at: int) -> None:
        order = json.dumps({"id": number, "cents": cents, "at": at})
        self._producer.produce(TOPIC, value=order, partition=number % PARTITIONS)


def revenue(spark: SparkSession) -> DataFrame:
    """The query: an ordinary PySpark streaming DataFrame."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", os.environ["KAFKA_BOOTSTRAP_SERVERS"])
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ORDERS_PER_BATCH)
        .load()
    )
    order = F.from_json(F.col("value").cast("string"), "id long, cents long, at long")
    orders = records.select(order.alias("order")).select("order.*")
    return (
        orders.withColumn("at", F.timestamp_seconds("at"))
        .withWatermark("at", "10 minutes")
        .groupBy(F.window("at", f"{WINDOW_MINUTES} minutes"))
        .agg(F.count("*").alias("orders"), F.sum("cents").alias("cents"))
        .select(F.unix_timestamp("window.start").alias("start"), "orders", "cents")
    )


def act(name: str, root: Path) -> None:
    """A step that runs the query, in a process of its own."""
    conf = {"spark.jars": os.environ["SPARK_JARS"]}
    spark = quiet_session("penstock demo", root / "spark.log", conf, short_lived=True)
    df = revenue(spark)
    if name == "spark":
        reference = df.writeStream.format("parquet").trigger(availableNow=True)
        reference = reference.option("checkpointLocation", str(root / "checkpoint"))
        show_batches(reference.start(str(root / "revenue")))
        rows = spark.read.parquet(str(root / "revenue")).collect()
        (root / "table.json").write_text(json.dumps([row.asDict() for row in rows]))
    else:
        writer = penstock.write_stream(df).format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(root / "checkpoint"))
        if name == "die":
            writer.inject_faults(KillAt(FaultPoint.AFTER_SINK, BATCH_TO_DIE_IN))
        show_batches(writer.start(str(root / "revenue")))
    spark.stop()


# The parent process, which sends the orders, runs the steps and checks their results.


def run_act(name: str, root: Path) -> int:
    return subprocess.run([sys.executable, __file__, "--act", name, str(root)]).returncode


def batches(root: Path, log: str) -> list[int]:
    names = (path.name for path in (root / "checkpoint" / log).iterdir())
    return sorted(int(name) for name in names if name.isdigit())


def play(root: Path) -> int:
    check = Check()
    orders = Orders(os.environ["KAFKA_BOOTSTRAP_SERVERS"])
    orders.send(ORDERS_AT_FIRST)
    orders.keep_sending()
    console.print(
        f"[bold]Kafka, {ORDERS_AT_FIRST:,} orders and {ORDERS_PER_SECOND} more every second[/] -> "
        f"revenue per {WINDOW_MINUTES} minutes -> parquet"
    )

    console.print("\n[bold]1. Penstock runs the stream[/] [dim](starting Spark ...)[/]")
    code = run_act("die", root)
    planned, done = batches(root, "offsets")[-1], batches(root, "commits")[-1]
    check.that(code == -signal.SIGKILL, "the process was killed with SIGKILL")
    check.that(
        (planned, done) == (BATCH_TO_DIE_IN, BATCH_TO_DIE_IN - 1),
        f"batch {planned} is planned and written, but only batch {done} is committed",
    )
    entry = root / "checkpoint" / "offsets" / str(planned)
    before = entry.read_bytes()
    console.print(f"  [dim]  offsets/{planned} ends at {before.decode().splitlines()[-1]}[/]")

    console.print("\n[bold]2. Penstock starts again[/] [dim](same checkpoint, new process)[/]")
    check.that(run_act("resume", root) == 0, "the query succeeded")
    check.that(entry.read_bytes() == before, f"batch {planned} was run again exactly as planned")
    check.that(
        batches(root, "offsets") == batches(root, "commits"), "every planned batch is committed"
    )

    orders.close()
    console.print("\n[bold]3. Spark's own engine takes over[/] [dim](the last orders)[/]")
    check.that(
        run_act("spark", root) == 0, "the query succeeded, on the checkpoint that Penstock wrote"
    )

    console.print("\n[bold]4. The totals[/]")
    compare(root, orders, check)
    if check.failed:
        console.print(f"\n[red bold]{check.failed} of these checks failed.[/]")
        return 1
    console.print("\n[green bold]Nothing lost, nothing duplicated.[/]")
    return 0


def compare(root: Path, orders: Orders, check: Check) -> None:
    rows = json.loads((root / "table.json").read_text())
    table = {row["start"]: (row["orders"], row["cents"]) for row in rows}
    check.that(len(rows) == len(table), f"{len(rows)} windows in the table, none of them twice")
    found = sum(count for count, _ in table.values())
    check.that(found == orders.sent, f"{found:,} orders in them; {orders.sent:,} were sent")
    check.that(table == orders.totals, "the count and sum of every window match what was sent")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--act", choices=["die", "resume", "spark"])
    parser.add_argument("folder", nargs="?", help="for --act: the directory to work in")
    arguments = parser.parse_args()
    if arguments.act:
        root = Path(arguments.folder)
        logging.basicConfig(filename=root / "penstock.log", level=logging.INFO)
        act(arguments.act, root)
        return 0
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        return play(Path(folder))


if __name__ == "__main__":
    sys.exit(main())
