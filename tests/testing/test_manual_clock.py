"""The manual clock: moving it, waiting for it, and the batches and timers that use it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from penstock import write_stream
from penstock.testing import CollectSink, ManualClock, MemoryStream, StreamScript
from tests.streams import PATIENCE, eventually


def test_advance_and_set() -> None:
    clock = ManualClock()
    assert clock.time_millis() == 0
    assert clock.advance(1.5) == 1500
    assert clock.advance(seconds=1, ms=7) == 2507
    clock.set(100)
    assert clock.time_millis() == clock.elapsed_millis() == 100
    clock.set(datetime(1970, 1, 2, tzinfo=timezone.utc))
    assert clock.time_millis() == 86_400_000
    assert repr(ManualClock(datetime.fromtimestamp(5))) == "ManualClock(5000)"
    with pytest.raises(ValueError, match=r"cannot advance by -1 ms; use set\(\)"):
        clock.advance(ms=-1)


def test_wait_till_time_returns_at_the_target() -> None:
    clock, came = ManualClock(), threading.Event()

    def wait() -> None:
        assert clock.wait_till_time(1000, threading.Event()) == 1000
        came.set()

    thread = threading.Thread(target=wait)
    thread.start()
    clock.advance(ms=999)
    assert not came.is_set()
    clock.advance(ms=1)
    assert came.wait(PATIENCE)
    thread.join()


def test_wait_till_time_returns_when_woken() -> None:
    clock, wake = ManualClock(5), threading.Event()
    threading.Timer(0.02, wake.set).start()
    assert clock.wait_till_time(1000, wake) == 5


def test_a_batch_has_the_time_of_the_clock(session: SparkSession) -> None:
    numbers = MemoryStream("n long", session)
    timed = numbers.to_df().select("n", F.unix_millis(F.current_timestamp()).alias("at"))
    with StreamScript(timed) as script:
        script.add(numbers, [1]).advance(seconds=10).step().expect_rows([(1, 10_000)])
        script.expect_progress(timestamp="1970-01-01T00:00:10.000Z", batchDuration=0)
        script.add(numbers, [2]).advance(ms=1).crash("before_sink").advance(seconds=60)
        script.restart().step().expect_rows([(2, 10_001)])


def test_a_processing_time_trigger_follows_the_clock(session: SparkSession) -> None:
    numbers, clock, sink = MemoryStream("n long", session), ManualClock(), CollectSink()
    writer = write_stream(numbers.to_df()).sink(sink).stepped(clock)
    query = writer.trigger(processingTime="10 seconds").start()
    numbers.add_data([1])
    clock.advance(seconds=10)
    eventually(lambda: sink.batches, "the batch")
    query.stop()  # returns promptly although the clock does not move
    assert [row.n for row in sink.rows] == [1]


def _time_out(key: Any, batches: Iterator[pd.DataFrame], state: GroupState) -> Iterator[Any]:
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"key": [key[0]], "what": ["timed out"]})
    else:
        state.update((sum(len(batch) for batch in batches),))
        state.setTimeoutDuration(10_000)
        yield pd.DataFrame({"key": [key[0]], "what": ["seen"]})


def test_a_processing_time_timeout_follows_the_clock(session: SparkSession) -> None:
    events = MemoryStream("key string", session)
    timed = (
        events.to_df()
        .groupBy("key")
        .applyInPandasWithState(
            _time_out,
            "key string, what string",
            "rows long",
            "append",
            GroupStateTimeout.ProcessingTimeTimeout,
        )
    )
    with StreamScript(timed) as script:
        script.add(events, ["a"]).step().expect_rows([("a", "seen")]).expect_state_rows(1)
        script.advance(seconds=5).add(events, ["b"]).step().expect_rows([("b", "seen")])
        script.advance(seconds=6).step().expect_rows([("a", "timed out")]).expect_state_rows(1)
        script.restart()
        script.advance(seconds=5).add(events, ["c"]).step()
        script.expect_rows([("b", "timed out"), ("c", "seen")])
