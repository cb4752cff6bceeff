"""The exception classes that count as a result of `stop` are the same as in Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from penstock import read_stream, write_stream
from penstock.engine.read_limit import ReadLimit
from penstock.spark.jvm.failures import is_interruption
from penstock.spark.jvm.gateway import Jvm
from tests.streams import PATIENCE, Numbers, class_beside, eventually

RUN_ID = "a run"
_GUAVA = "org.sparkproject.guava.util.concurrent"


def made(name: str, *arguments: Any) -> Callable[[Jvm], Any]:
    """A function that creates a Java object; callable arguments are called first."""

    def make(jvm: Jvm) -> Any:
        values = [argument(jvm) if callable(argument) else argument for argument in arguments]
        return jvm.cls(name)(*values)

    return make


INTERRUPTED = made("java.io.InterruptedIOException", "x")
TIMED_OUT = made("java.net.SocketTimeoutException", "Accept timed out")
FAILED = made("java.io.IOException", "No space left on device")


@pytest.mark.parametrize(
    ("throwable", "expected"),
    [
        (made("java.lang.InterruptedException", "x"), True),
        (INTERRUPTED, True),
        (TIMED_OUT, True),
        (made("java.nio.channels.FileLockInterruptionException"), False),
        (made("java.nio.channels.ClosedByInterruptException"), True),
        (made("java.io.UncheckedIOException", "x", TIMED_OUT), True),
        (made("java.util.concurrent.ExecutionException", "x", TIMED_OUT), True),
        (made(f"{_GUAVA}.UncheckedExecutionException", "x", INTERRUPTED), True),
        (made("org.apache.spark.SparkException", "no connection", TIMED_OUT), True),
        (made("org.apache.spark.SparkException", f"Job cancelled: group {RUN_ID}"), True),
        (made("org.apache.spark.SparkException", "Job cancelled: group of another"), False),
        (made("org.apache.spark.SparkException", "no space", FAILED), False),
        (made("java.io.IOException", "java.lang.InterruptedException was not thrown"), False),
        (FAILED, False),
    ],
)
def test_spark_s_rule_is_ours(
    session: SparkSession, throwable: Callable[[Jvm], Any], expected: bool
) -> None:
    jvm = Jvm.of(session)
    session.sparkContext.setLocalProperty("spark.jobGroup.id", RUN_ID)
    java_exception = throwable(jvm)
    engine = jvm.module(class_beside(session, "IncrementalExecution", "StreamExecution"))
    context = session.sparkContext._jsc.sc()
    assert engine.isInterruptionException(java_exception, context) is expected
    raised = Py4JJavaError("An error occurred", java_exception)
    assert is_interruption(jvm, raised, RUN_ID) is expected
    session.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def test_a_cause_in_python_counts(session: SparkSession) -> None:
    jvm = Jvm.of(session)
    error = RuntimeError("my own words for it")
    error.__cause__ = Py4JJavaError("An error occurred", TIMED_OUT(jvm))
    assert is_interruption(jvm, error, RUN_ID)


def time_out(jvm: Jvm) -> None:
    """Raise a SocketTimeoutException."""
    socket = jvm.cls("java.net.ServerSocket")(0)
    socket.setSoTimeout(1)
    socket.accept()


class Waiting(Numbers):
    """Numbers whose first `latest_offset` waits for a connection that never comes."""

    def __init__(self, jvm: Jvm) -> None:
        super().__init__(1)
        self._jvm = jvm
        self.is_asked = threading.Event()
        self.goes_on = threading.Event()

    def latest_offset(self, start: Any, limit: ReadLimit) -> Any:
        self.is_asked.set()
        assert self.goes_on.wait(PATIENCE)
        time_out(self._jvm)


def test_a_sink_whose_socket_times_out_is_called_again(session: SparkSession) -> None:
    calls: list[int] = []

    def time_out_first(df: DataFrame, batch_id: int) -> None:
        calls.append(df.count())
        if len(calls) == 1:
            time_out(Jvm.of(session))

    writer = write_stream(read_stream(Numbers(2), session))
    query = writer.to("slow", time_out_first, retries=1, backoff=0).start()
    query.processAllAvailable()
    query.stop()
    assert calls == [2, 2]


def test_a_timeout_of_a_socket_while_the_query_is_stopped_is_no_failure(
    session: SparkSession,
) -> None:
    source = Waiting(Jvm.of(session))
    query = write_stream(read_stream(source, session)).format("noop").start()
    assert source.is_asked.wait(PATIENCE)
    stopping = threading.Thread(target=query.stop)
    stopping.start()
    eventually(lambda: not query._execution.is_active, "the stop")
    source.goes_on.set()
    stopping.join(PATIENCE)
    assert query.exception() is None
