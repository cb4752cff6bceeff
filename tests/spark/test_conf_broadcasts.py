"""A run of a query broadcasts the Hadoop configuration once: see docs/adr/0034."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

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

BROADCASTER = """
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;

/** Makes broadcasts that seem to come from the package that it is compiled into. */
public class Broadcaster {
    public long idOf(JavaSparkContext context, Object value) {
        return context.broadcast(value).id();
    }

    public long idOfDestroyed(JavaSparkContext context, Object value) {
        Broadcast made = context.broadcast(value);
        made.destroy();
        return made.id();
    }
}
"""
SQL = "org.apache.spark.sql.execution"


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


class Counts(FaultInjector):
    """Counts the configurations that are broadcast until each batch is in the commit log."""

    def __init__(self, counting: Any) -> None:
        self._counting = counting
        self.made: list[int] = []

    def reach(self, point: FaultPoint, batch_id: int) -> None:
        if point is FaultPoint.BEFORE_GET_BATCH:
            self._counting.taken()
        elif point is FaultPoint.AFTER_COMMIT_LOG:
            self.made.append(self._counting.taken())


def numbers(session: SparkSession) -> DataFrame:
    return session.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()


def counted(session: SparkSession) -> DataFrame:
    rows = numbers(session).withWatermark("timestamp", "10 seconds")
    return rows.groupBy("timestamp").count()


def from_files(session: SparkSession, folder: Path) -> DataFrame:
    folder.mkdir()
    for number in range(6):
        (folder / f"{number}.json").write_text(json.dumps({"n": number}))
    return session.readStream.schema("n int").option("maxFilesPerTrigger", 1).json(str(folder))


def run_steps(df: DataFrame, checkpoint: Path, faults: FaultInjector, steps: int) -> None:
    writer = write_stream(df).outputMode("update").option("checkpointLocation", str(checkpoint))
    query = writer.format("noop").inject_faults(faults).stepped().start()
    for _ in range(steps):
        query.step()
    query.stop()


@pytest.mark.parametrize("joins", [1, 2])
def test_all_joins_of_a_run_share_one_configuration(
    session: SparkSession, counting: Any, tmp_path: Path, joins: int
) -> None:
    counts = Counts(counting)
    for _ in range(2):
        run_batch(joined(session, joins), tmp_path / "penstock", counts)
    assert counts.made == [1, 1]
    writer = joined(session, joins).writeStream.format("noop").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "spark"))
    writer.start().awaitTermination()
    assert counting.taken() > 5 * joins


def test_all_batches_of_a_run_share_one_configuration(
    session: SparkSession, counting: Any, tmp_path: Path
) -> None:
    programs = {"counted": counted(session), "files": from_files(session, tmp_path / "input")}
    for name, df in programs.items():
        counts = Counts(counting)
        for _ in range(2):
            run_steps(df, tmp_path / name, counts, steps=3)
        assert counts.made == [1, 0, 0, 1, 0, 0], name


def test_a_function_gets_batches_with_the_same_configuration(
    session: SparkSession, counting: Any, tmp_path: Path
) -> None:
    counts, found = Counts(counting), []
    writer = write_stream(counted(session)).outputMode("update").inject_faults(counts)
    writer = writer.foreachBatch(lambda df, _: found.append(df.count()))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).stepped().start()
    for _ in range(3):
        query.step()
    query.stop()
    assert counts.made == [1, 0, 0]
    assert len(found) == 3


class Sharing:
    """Broadcasts configurations and other values in the place of the operators of a query."""

    def __init__(self, session: SparkSession, broadcasts: Any) -> None:
        self.jvm = Jvm.of(session)
        self.context = session.sparkContext._jsc
        self._broadcasts = broadcasts

    def new_run(self) -> Any:
        return self.jvm.uuid(str(uuid4()))

    @contextmanager
    def of(self, run: Any) -> Iterator[None]:
        """Context manager: this thread shares the configurations of a run."""
        self._broadcasts.begin(run)
        try:
            yield
        finally:
            self._broadcasts.end()

    def conf(self, key: str = "", value: str = "") -> Any:
        """A configuration of the application, with one more property."""
        copy = self.jvm.cls("org.apache.hadoop.conf.Configuration")(
            self.context.hadoopConfiguration()
        )
        if key:
            copy.set(key, value)
        return self.jvm.cls("SerializableConfiguration")(copy)

    def broadcast(self, value: Any, user: str = "streaming.state.test") -> int:
        """The id of a broadcast that a class in a package of Spark's SQL makes."""
        return int(self._broadcaster(user).idOf(self.context, value))

    def broadcast_and_destroy(self, value: Any) -> int:
        return int(self._broadcaster("streaming.state.test").idOfDestroyed(self.context, value))

    def _broadcaster(self, user: str) -> Any:
        package = f"{SQL}.{user}"

        def create() -> Any:
            loader = compiled(self.jvm, [JavaFile("Broadcaster.java", BROADCASTER)], package)
            return new_instance(self.jvm, loader, "Broadcaster", package)

        return self.jvm.once(package, create)


@pytest.fixture
def sharing(session: SparkSession, counting: Any, tmp_path: Path) -> Sharing:
    run_batch(numbers(session), tmp_path / "any")
    return Sharing(session, counting.installed())


def test_only_equal_configurations_of_a_run_are_shared(sharing: Sharing) -> None:
    run = sharing.new_run()
    with sharing.of(run):
        first = sharing.broadcast(sharing.conf())
        changed = sharing.broadcast(sharing.conf("penstock.test", "1"))
        assert changed != first
        assert sharing.broadcast(sharing.conf()) == first
        assert sharing.broadcast(sharing.conf("penstock.test", "1")) == changed
        assert sharing.broadcast(sharing.conf("penstock.test", "2")) not in (first, changed)
        assert sharing.broadcast("a text") != sharing.broadcast("a text")
    assert sharing.broadcast(sharing.conf()) != first
    with sharing.of(run):
        assert sharing.broadcast(sharing.conf()) == first
    with sharing.of(sharing.new_run()):
        assert sharing.broadcast(sharing.conf()) != first


def test_other_threads_share_nothing(sharing: Sharing) -> None:
    found: list[int] = []
    with sharing.of(sharing.new_run()):
        found.append(sharing.broadcast(sharing.conf()))
        thread = Thread(target=lambda: found.append(sharing.broadcast(sharing.conf())))
        thread.start()
        thread.join()
    assert found[0] != found[1]


@pytest.mark.parametrize("user", ["datasources.orc", "python", "datasources.parquet"])
def test_a_user_that_may_change_a_configuration_does_not_share_it(
    sharing: Sharing, user: str
) -> None:
    # ParquetFileFormat shares; this is another class of its package.
    with sharing.of(sharing.new_run()):
        ids = {sharing.broadcast(sharing.conf(), user) for _ in range(2)}
        ids.add(sharing.broadcast(sharing.conf()))
    assert len(ids) == 3


def test_a_broadcast_is_replaced_after_a_number_of_uses(sharing: Sharing) -> None:
    with sharing.of(sharing.new_run()):
        ids = [sharing.broadcast(sharing.conf()) for _ in range(250)]
    assert [ids.count(each) for each in dict.fromkeys(ids)] == [100, 100, 50]


def test_a_run_keeps_few_broadcasts(sharing: Sharing) -> None:
    with sharing.of(sharing.new_run()):
        first = sharing.broadcast(sharing.conf("penstock.test", "0"))
        for number in range(1, 17):
            sharing.broadcast(sharing.conf("penstock.test", str(number)))
        assert sharing.broadcast(sharing.conf("penstock.test", "0")) != first


def test_a_broadcast_that_was_destroyed_is_not_used_again(sharing: Sharing) -> None:
    with sharing.of(sharing.new_run()):
        destroyed = sharing.broadcast_and_destroy(sharing.conf())
        assert sharing.broadcast(sharing.conf()) != destroyed
