"""The demo from a Kafka topic: a query is killed, recovered and checked. `make demo-kafka`.

The query reads orders from a topic with two partitions and writes the revenue per ten-minute window
to a parquet table. Orders are sent all the while. The four steps are those of demo.py.

KAFKA_BOOTSTRAP_SERVERS is the address of the broker; SPARK_JARS has the jars of Spark's Kafka
connector.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from demo import CLOSING_ORDER, FIRST_ORDER, Demo, main
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

TOPIC = "orders"
PARTITIONS = 2
ORDERS_AT_FIRST = 6000
ORDERS_PER_SECOND = 50
ORDERS_PER_BATCH = 1000


class DemoOfKafka(Demo):
    """Orders in a Kafka topic, with more of them every second."""

    script = __file__
    batch_to_die_in = 3

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.conf = {"spark.jars": os.environ["SPARK_JARS"]}
        self._servers = os.environ["KAFKA_BOOTSTRAP_SERVERS"]
        self._producer = Producer({"bootstrap.servers": self._servers})
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send_steadily, daemon=True)

    def begin(self) -> str:
        admin = AdminClient({"bootstrap.servers": self._servers})
        topic = NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        [created] = admin.create_topics([topic]).values()
        created.result(60)
        self._send(ORDERS_AT_FIRST)
        self._thread.start()
        return f"{ORDERS_AT_FIRST:,} orders in Kafka, {ORDERS_PER_SECOND} more every second"

    def finish(self) -> str:
        self._over.set()
        self._thread.join()
        self._produce(0, CLOSING_ORDER)
        self._producer.flush()
        return "the last orders"

    def orders(self, spark: SparkSession) -> DataFrame:
        records = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self._servers)
            .option("subscribe", TOPIC)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", ORDERS_PER_BATCH)
            .load()
        )
        order = F.from_json(F.col("value").cast("string"), "cents long, at long")
        return records.select(order.alias("order")).select("order.*")

    def _send(self, count: int) -> None:
        """Send orders, each half a second of event time after the one before, or a little late."""
        for number in range(self.written, self.written + count):
            chance = random.Random(number)
            at = FIRST_ORDER + number // 2 - chance.randrange(120)
            cents = chance.randrange(100, 20_000)
            self._produce(cents, at)
            self.count(at, cents)
        self._producer.flush()

    def _send_steadily(self) -> None:
        while not self._over.wait(0.5):
            self._send(ORDERS_PER_SECOND // 2)

    def _produce(self, cents: int, at: int) -> None:
        order = json.dumps({"cents": cents, "at": at})
        self._producer.produce(TOPIC, value=order, partition=self.written % PARTITIONS)


if __name__ == "__main__":
    sys.exit(main(DemoOfKafka))
