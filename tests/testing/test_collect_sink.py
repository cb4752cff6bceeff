"""The sink that collects rows in memory."""

from __future__ import annotations

from pyspark.sql import Row, SparkSession

from penstock.testing import CollectSink, Delivery


def test_the_latest_delivery_of_a_batch_counts(session: SparkSession) -> None:
    sink = CollectSink()
    sink.add_batch(1, session.range(2))
    sink.add_batch(0, session.range(1))
    sink.add_batch(1, session.range(5, 6))
    assert sink.batches == {0: [Row(id=0)], 1: [Row(id=5)]}
    assert sink.rows == [Row(id=0), Row(id=5)]
    assert [delivery.batch_id for delivery in sink.deliveries] == [1, 0, 1]
    assert sink.deliveries[0] == Delivery(1, ("id",), (Row(id=0), Row(id=1)))
    assert str(sink) == "CollectSink[python]"
    sink.clear()
    assert sink.deliveries == []
