"""Planning a stream-stream join broadcasts the Hadoop configuration once: see docs/adr/0032."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import write_stream
from penstock.engine.faults import NO_FAULTS, FaultInjector, FaultPoint
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.java_side import compiled, new_instance
from penstock.spark.jvm.java_sources import JavaFile

COUNTING = """
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Field;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import scala.reflect.ClassTag;

/** Counts the configurations that reach Spark's own factory. */
public class Counting implements BroadcastFactory {
    private final AtomicInteger count = new AtomicInteger();
    private BroadcastManager manager;
    private Object before;
    private BroadcastFactory factory;

    public void install(SparkContext context) throws Throwable {
        manager = (BroadcastManager) MethodHandles.publicLookup()
            .findVirtual(
                SparkEnv.class, "broadcastManager", MethodType.methodType(BroadcastManager.class))
            .invokeWithArguments(new Object[] {context.env()});
        before = installed();
        Object innermost = before;
        if (before.getClass().getSimpleName().equals("ConfBroadcasts")) {
            innermost = field(before.getClass(), "factory").get(before);
        }
        factory = (BroadcastFactory) innermost;
        field(BroadcastManager.class, "broadcastFactory").set(manager, this);
    }

    public void uninstall() throws Exception {
        field(BroadcastManager.class, "broadcastFactory").set(manager, before);
    }

    public Object installed() throws Exception {
        return field(BroadcastManager.class, "broadcastFactory").get(manager);
    }

    public int taken() { return count.getAndSet(0); }

    private static Field field(Class owner, String name) throws Exception {
        Field found = owner.getDeclaredField(name);
        found.setAccessible(true);
        return found;
    }

    public Broadcast newBroadcast(
            Object value, boolean isLocal, long id, boolean serializedOnly, ClassTag tag) {
        if (value instanceof SerializableConfiguration) { count.incrementAndGet(); }
        return factory.newBroadcast(value, isLocal, id, serializedOnly, tag);
    }

    public void initialize(boolean isDriver, SparkConf conf) { factory.initialize(isDriver, conf); }

    public void unbroadcast(long id, boolean removeFromDriver, boolean blocking) {
        factory.unbroadcast(id, removeFromDriver, blocking);
    }

    public void stop() { factory.stop(); }
}
"""


@pytest.fixture
def counting(session: SparkSession) -> Iterator[Any]:
    jvm, package = Jvm.of(session), "penstock.counting"

    def create() -> Any:
        loader = compiled(jvm, [JavaFile("Counting.java", COUNTING)], package)
        return new_instance(jvm, loader, "Counting", package)

    counting = jvm.once("counting", create)
    counting.install(session.sparkContext._jsc.sc())
    yield counting
    counting.uninstall()


def joined(session: SparkSession, joins: int = 1) -> DataFrame:
    def side(name: str) -> DataFrame:
        rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
        rows = rows.select(F.col("value").alias(name), F.col("timestamp").alias(f"{name}_at"))
        return rows.withWatermark(f"{name}_at", "10 seconds")

    df = side("a")
    for name in "bc"[:joins]:
        df = df.join(side(name), F.expr(f"a = {name} and a_at = {name}_at")).select("a", "a_at")
    return df


def run_batch(df: DataFrame, checkpoint: Path, faults: FaultInjector = NO_FAULTS) -> None:
    writer = write_stream(df).format("noop").option("checkpointLocation", str(checkpoint))
    writer = writer.inject_faults(faults).trigger(availableNow=True)
    writer.start().awaitTermination()


class PlanningCounts(FaultInjector):
    """Counts the configurations that are broadcast while each batch is planned."""

    def __init__(self, counting: Any) -> None:
        self._counting = counting
        self.made: list[int] = []

    def reach(self, point: FaultPoint, batch_id: int) -> None:
        if point is FaultPoint.BEFORE_PLANNING:
            self._counting.taken()
        elif point is FaultPoint.AFTER_PLANNING:
            self.made.append(self._counting.taken())


@pytest.mark.parametrize("joins", [1, 2])
def test_planning_broadcasts_one_configuration_for_all_joins(
    session: SparkSession, counting: Any, tmp_path: Path, joins: int
) -> None:
    counts = PlanningCounts(counting)
    for _ in range(2):
        run_batch(joined(session, joins), tmp_path / "penstock", counts)
    assert counts.made == [1, 1]
    writer = joined(session, joins).writeStream.format("noop").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "spark"))
    writer.start().awaitTermination()
    assert counting.taken() > 5 * joins


def test_only_queries_with_such_a_join_replace_the_factory(
    session: SparkSession, counting: Any, tmp_path: Path
) -> None:
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    run_batch(rows.dropDuplicates(["value"]), tmp_path / "deduplicated")
    assert counting.installed().equals(counting)
    run_batch(joined(session), tmp_path / "joined")
    assert not counting.installed().equals(counting)


def test_only_equal_configurations_of_one_thread_are_shared(
    session: SparkSession, counting: Any, tmp_path: Path
) -> None:
    run_batch(joined(session), tmp_path / "joined")
    broadcasts, jvm, context = counting.installed(), Jvm.of(session), session.sparkContext._jsc
    conf = context.hadoopConfiguration()

    def broadcast_id(key: str = "", value: str = "") -> int:
        copy = jvm.cls("org.apache.hadoop.conf.Configuration")(conf)
        if key:
            copy.set(key, value)
        made = context.broadcast(jvm.cls("SerializableConfiguration")(copy))
        return int(made.id())

    def in_another_thread() -> None:
        others.append(broadcast_id())

    others: list[int] = []
    broadcasts.begin()
    try:
        first, changed = broadcast_id(), broadcast_id("penstock.test", "1")
        assert changed != first
        assert broadcast_id() == first
        assert broadcast_id("penstock.test", "1") == changed
        assert broadcast_id("penstock.test", "2") not in (first, changed)
        texts = {int(context.broadcast("a text").id()) for _ in range(2)}
        assert len(texts) == 2
        thread = Thread(target=in_another_thread)
        thread.start()
        thread.join()
    finally:
        broadcasts.end()
    assert len({first, changed, *others, broadcast_id(), broadcast_id()}) == 5
