"""Writes one stream to three sinks, one of which fails: no sink gets a batch twice.

The query reads small JSON files of orders. The lake gets all of them, as parquet files; the alerts
get the large ones; the warehouse gets the revenue, and is down when batch 1 arrives. The query is
restarted, and batch 1 goes to the warehouse only, because the other sinks have an entry for it.

    python examples/many_sinks.py
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import penstock
from penstock.testing import quiet_session

FILES = 4
ORDERS_PER_FILE = 50
LARGE_CENTS = 7_000


def write_orders(folder: Path) -> list[int]:
    """Write the order files; returns the amount of each order in cents."""
    folder.mkdir()
    amounts = []
    for number in range(FILES):
        first = number * ORDERS_PER_FILE
        orders = [
            {"id": i, "cents": i * 37 % 10_000} for i in range(first, first + ORDERS_PER_FILE)
        ]
        amounts += [order["cents"] for order in orders]
        (folder / f"{number}.json").write_text("\n".join(map(json.dumps, orders)))
    return amounts


class Calls:
    """Counts the batches that each sink has got, and takes the warehouse down once."""

    def __init__(self) -> None:
        self.of_sink: dict[str, Counter[int]] = {"alerts": Counter(), "warehouse": Counter()}
        self.alerts: list[int] = []
        self.revenue: dict[int, int] = {}
        self.is_down = True

    def alert(self, df: DataFrame, batch_id: int) -> None:
        self.of_sink["alerts"][batch_id] += 1
        self.alerts += [row.id for row in df.select("id").collect()]

    def load(self, df: DataFrame, batch_id: int) -> None:
        self.of_sink["warehouse"][batch_id] += 1
        if batch_id == 1 and self.is_down:
            self.is_down = False
            raise ConnectionError("the warehouse is down")
        # By batch id, so that a batch that comes again is there once.
        self.revenue[batch_id] = df.agg(F.sum("cents")).collect()[0][0]


def run(spark: SparkSession, root: Path, calls: Calls) -> None:
    reader = spark.readStream.schema("id long, cents long").option("maxFilesPerTrigger", 1)
    orders = reader.json(str(root / "orders"))
    lake = penstock.BatchWriter("parquet").option("path", str(root / "lake")).by_batch("batch")
    query = (
        penstock.write_stream(orders)
        .to("lake", lake)
        .to("alerts", calls.alert, where=f"cents >= {LARGE_CENTS}")
        .to("warehouse", calls.load, parallel=True)
        .restart(backoff=0.1)
        .option("checkpointLocation", str(root / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="penstock-sinks-") as folder:
        root, calls = Path(folder), Calls()
        amounts = write_orders(root / "orders")
        spark = quiet_session("penstock many sinks", root / "spark.log", short_lived=True)
        run(spark, root, calls)
        stored = spark.read.parquet(str(root / "lake")).count()
        spark.stop()
    print(f"lake:      {stored} orders")
    print(f"alerts:    {len(calls.alerts)} orders; batches {dict(calls.of_sink['alerts'])}")
    print(
        f"warehouse: {sum(calls.revenue.values())} cents; "
        f"batches {dict(calls.of_sink['warehouse'])}"
    )
    as_expected = (
        stored == len(amounts)
        and len(calls.alerts) == sum(cents >= LARGE_CENTS for cents in amounts)
        and sum(calls.revenue.values()) == sum(amounts)
        and calls.of_sink["alerts"] == Counter(range(FILES))
        and calls.of_sink["warehouse"] == Counter({0: 1, 1: 2, 2: 1, 3: 1})
    )
    print("Every sink has every row once." if as_expected else "NOT as expected.")
    return 0 if as_expected else 1


if __name__ == "__main__":
    sys.exit(main())
