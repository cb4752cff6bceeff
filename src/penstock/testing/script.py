"""Tests of a query as a sequence of calls: add, advance, step, expect, restart."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.listener import StreamingQueryProgress

from penstock.api.query import StreamingQuery
from penstock.api.writer import DataStreamWriter, write_stream
from penstock.checkpoint.timestamps import format_timestamp
from penstock.engine.faults import FaultInjector, FaultPoint
from penstock.testing.brief import in_brief
from penstock.testing.collect_sink import CollectSink
from penstock.testing.crash_faults import SimulatedCrash, crashes_not_logged
from penstock.testing.manual_clock import ManualClock
from penstock.testing.memory_stream import MemoryStream
from penstock.testing.rows import RowDifference, as_tuple, row_key, side_by_side
from penstock.testing.script_text import ScriptError, ScriptText


class StreamScript:
    """Runs a query one trigger at a time, on a manual clock, and checks each batch.

    Every call takes effect at once and returns the script, so that calls can be chained. The query
    is started by the first step. A call that fails stops the query and raises ScriptError, whose
    message has the calls so far and the expected and actual values. Call `stop()` at the end, or
    use the script as a context manager. The `expect_...` methods check the latest `step`, or all
    batches of the latest `run`.

        with StreamScript(counts, output_mode="update") as script:
            script.add(words, ["a", "b", "a"]).step().expect_rows([("a", 2), ("b", 1)])
            script.restart()
            script.add(words, ["a"]).step().expect_rows([("a", 3)])
    """

    def __init__(
        self,
        df: DataFrame | Callable[[], DataFrame],
        *,
        output_mode: str = "append",
        clock: ManualClock | None = None,
        checkpoint: str | Path | None = None,
        configure: Callable[[DataStreamWriter], object] | None = None,
        step_timeout: float = 120.0,
    ) -> None:
        """`df` is a streaming DataFrame, or a function that returns one, called at each start.

        `configure` is called with the writer before each start, for instance to set hooks.
        `checkpoint` is by default a temporary directory. A step that takes longer than
        `step_timeout` seconds fails.
        """
        self._df = df
        self._output_mode = output_mode
        self._configure = configure
        self._step_timeout = step_timeout
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if checkpoint is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="penstock-")
            checkpoint = self._temporary.name
        self._checkpoint = str(checkpoint)
        self._text = ScriptText()
        self._faults = _OneCrash()
        self._query: StreamingQuery | None = None
        self._ran: list[StreamingQueryProgress] = []
        self.clock = clock or ManualClock()
        self.sink = CollectSink()

    # Results.

    @property
    def query(self) -> StreamingQuery:
        """The query, which is started if it is not running yet."""
        if self._query is None:
            self._query = self._writer().start()
        return self._query

    @property
    def progress(self) -> StreamingQueryProgress | None:
        """The progress of the latest batch, None if the latest step ran no batch."""
        return self._ran[-1] if self._ran else None

    @property
    def rows(self) -> list[Row]:
        """The rows that the latest step or run wrote to the sink."""
        batches = self.sink.batches
        return [row for progress in self._ran for row in batches.get(progress.batchId, [])]

    # Actions.

    def add(self, stream: MemoryStream, rows: Iterable[Any]) -> StreamScript:
        """Add rows to a stream, as `MemoryStream.add_data` does."""
        __tracebackhide__ = True
        given = list(rows)
        self._text.begin("add", stream, given)
        try:
            self._text.outcome(f"offset {stream.add_data(given)}")
        except Exception as exc:
            raise self._failure(f"add failed: {in_brief(exc)}") from exc
        return self

    def advance(self, seconds: float = 0, *, ms: int = 0) -> StreamScript:
        """Move the clock forward by `seconds` plus `ms`."""
        given = {"seconds": seconds, "ms": ms}
        self._text.begin("advance", **{name: value for name, value in given.items() if value})
        self._text.outcome(f"it is {format_timestamp(self.clock.advance(seconds, ms=ms))}")
        return self

    def step(self) -> StreamScript:
        """Run exactly one trigger."""
        __tracebackhide__ = True
        self._text.begin("step")
        self._run(lambda query: [query.step(timeout=self._step_timeout)])
        return self

    def run(self, *, batches: int | None = None) -> StreamScript:
        """Run triggers until there is nothing left to do, or until `batches` batches have run."""
        __tracebackhide__ = True
        self._text.begin("run", **({} if batches is None else {"batches": batches}))
        self._run(lambda query: query.run(batches=batches))
        return self

    def step_fails(
        self, error: type[BaseException] = Exception, match: str | None = None
    ) -> StreamScript:
        """Run one trigger, in which the query must fail with `error`.

        `match` is a regular expression that the text of the error must contain.
        """
        __tracebackhide__ = True
        self._text.begin("step_fails", error, *([] if match is None else [match]))
        try:
            self._step_of_live_query()
        except ScriptError:
            raise
        except BaseException as exc:
            self._ran = []
            cause = exc.__cause__ or exc
            if isinstance(cause, error) and (match is None or re.search(match, str(cause))):
                self._text.outcome("the query failed")
                return self
            raise self._failure(
                f"step_fails: the query failed with another error: {in_brief(exc)}"
            ) from exc
        raise self._failure(f"step_fails: the step did not fail; {self._outcome()}")

    def crash(self, at: FaultPoint | str) -> StreamScript:
        """Run one trigger and crash the query at a fault point. Continue with `restart`."""
        __tracebackhide__ = True
        point = FaultPoint(at)
        self._text.begin("crash", point.value)
        self._faults.point = point
        try:
            with crashes_not_logged():
                self._step_of_live_query()
        except ScriptError:
            raise
        except BaseException as exc:
            if not isinstance(exc.__cause__ or exc, SimulatedCrash):
                raise self._failure(
                    f"crash: the query failed with another error: {in_brief(exc)}"
                ) from exc
        else:
            raise self._failure(f"crash: the trigger did not reach {point.value}")
        finally:
            self._faults.point = None
        self._ran = []
        self._text.outcome("the query crashed")
        return self

    def restart(self, df: DataFrame | Callable[[], DataFrame] | None = None) -> StreamScript:
        """Stop the query and restart it on its checkpoint, with another DataFrame if given."""
        __tracebackhide__ = True
        self._text.begin("restart", *(() if df is None else ("another query",)))
        self._end_query()
        self._df = df or self._df
        self._ran = []
        try:
            self._query = self._writer().start()
        except Exception as exc:
            raise self._failure(f"restart failed: {in_brief(exc)}") from exc
        return self

    def stop(self) -> StreamScript:
        """Stop the query, and delete the checkpoint if it is temporary."""
        self._end_query()
        if self._temporary is not None:
            self._temporary.cleanup()
        return self

    def __enter__(self) -> StreamScript:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # Expectations.

    def expect_rows(self, rows: Iterable[Any], *, ordered: bool = False) -> StreamScript:
        """Expect that exactly these rows were written to the sink; in this order if `ordered`.

        Fails if no batch ran. The rows have the forms of `MemoryStream.add_data`.
        """
        __tracebackhide__ = True
        given = list(rows)
        self._text.begin("expect_rows", given, **({"ordered": True} if ordered else {}))
        self._require_batch("expect_rows")
        schema = self._data_frame().schema
        try:
            expected = [as_tuple(row, schema) for row in given]
        except ValueError as exc:
            raise self._failure(f"expect_rows: {exc}") from exc
        actual = [tuple(row) for row in self.rows]
        if ordered:
            differ = list(map(row_key, expected)) != list(map(row_key, actual))
        else:
            differ = bool(RowDifference.between(expected, actual))
        if differ:
            columns = ", ".join(schema.names)
            table = side_by_side(expected, actual, ordered=ordered)
            raise self._failure(
                f"expect_rows: the rows of {self._batches()} differ", f"({columns})\n{table}"
            )
        return self

    def expect_nothing(self) -> StreamScript:
        """Expect that no batch ran."""
        __tracebackhide__ = True
        self._text.begin("expect_nothing")
        if self._ran:
            rows = "\n".join(f"+ {tuple(row)!r}" for row in self.rows)
            raise self._failure(f"expect_nothing: {self._batches()} ran", rows or "(no rows)")
        return self

    def expect_batch(self, batch_id: int) -> StreamScript:
        """Expect that the latest batch has this id."""
        __tracebackhide__ = True
        self._text.begin("expect_batch", batch_id)
        return self._expect_equal("expect_batch", batch_id, lambda p: p.batchId)

    def expect_offsets(self, *offsets: Any) -> StreamScript:
        """Expect the end offsets of the latest batch, one per source, in the query's order."""
        __tracebackhide__ = True
        self._text.begin("expect_offsets", *offsets)
        return self._expect_equal(
            "expect_offsets", list(offsets), lambda p: [_json(s.endOffset) for s in p.sources]
        )

    def expect_watermark(self, watermark: str | int | datetime) -> StreamScript:
        """Expect the watermark that the latest batch ran with.

        Given as in progress (`2024-01-01T00:00:00.000Z`), in milliseconds since the epoch, or as a
        datetime.
        """
        __tracebackhide__ = True
        if isinstance(watermark, datetime):
            watermark = round(watermark.timestamp() * 1000)
        wanted = format_timestamp(watermark) if isinstance(watermark, int) else watermark
        self._text.begin("expect_watermark", wanted)
        return self._expect_equal(
            "expect_watermark", wanted, lambda p: p.eventTime.get("watermark", "none")
        )

    def expect_state_rows(self, *rows: int) -> StreamScript:
        """Expect the number of rows in the state of each operator after the latest batch."""
        __tracebackhide__ = True
        self._text.begin("expect_state_rows", *rows)
        return self._expect_equal(
            "expect_state_rows", list(rows), lambda p: [o.numRowsTotal for o in p.stateOperators]
        )

    def expect_progress(self, **fields: Any) -> StreamScript:
        """Expect these values of the fields of the latest batch's progress."""
        __tracebackhide__ = True
        self._text.begin("expect_progress", **fields)
        return self._expect_equal(
            "expect_progress", fields, lambda p: {name: getattr(p, name) for name in fields}
        )

    def expect(
        self, holds: Callable[[StreamingQueryProgress], object], what: str = "the condition"
    ) -> StreamScript:
        """Expect that `holds` returns a true value for the latest batch's progress.

        `what` describes the condition in the error message.
        """
        __tracebackhide__ = True
        self._text.begin("expect", what)
        progress = self._require_batch("expect")
        if not holds(progress):
            raise self._failure(f"expect: {what} is not true for {self._batches()}", str(progress))
        return self

    # Implementation.

    def _writer(self) -> DataStreamWriter:
        writer = write_stream(self._data_frame()).outputMode(self._output_mode).sink(self.sink)
        writer.option("checkpointLocation", self._checkpoint)
        if self._configure is not None:
            self._configure(writer)
        return writer.stepped(self.clock).inject_faults(self._faults)

    def _data_frame(self) -> DataFrame:
        return self._df if isinstance(self._df, DataFrame) else self._df()

    def _run(self, steps: Callable[[StreamingQuery], Sequence[Any]]) -> None:
        __tracebackhide__ = True
        self._ran = []
        try:
            self._require_live_query()
            self._ran = [progress for progress in steps(self.query) if progress is not None]
        except ScriptError:
            raise
        except Exception as exc:
            raise self._failure(f"the query failed: {in_brief(exc)}") from exc
        self._text.outcome(self._outcome())

    def _step_of_live_query(self) -> None:
        __tracebackhide__ = True
        self._require_live_query()
        progress = self.query.step(timeout=self._step_timeout)
        self._ran = [] if progress is None else [progress]

    def _require_live_query(self) -> None:
        __tracebackhide__ = True
        if self._query is not None and not self._query.isActive:
            raise self._failure("the query is no longer running; call restart() first")

    def _require_batch(self, call: str) -> StreamingQueryProgress:
        __tracebackhide__ = True
        if not self._ran:
            raise self._failure(f"{call}: no batch ran")
        return self._ran[-1]

    def _expect_equal(
        self, call: str, wanted: Any, read: Callable[[StreamingQueryProgress], Any]
    ) -> StreamScript:
        __tracebackhide__ = True
        found = read(self._require_batch(call))
        if found != wanted:
            raise self._failure(
                f"{call}: batch {self._ran[-1].batchId} differs",
                f"expected {wanted!r}\nactual   {found!r}",
            )
        return self

    def _failure(self, headline: str, details: str = "") -> ScriptError:
        self.stop()
        return self._text.failure(headline, details)

    def _end_query(self) -> None:
        if self._query is not None:
            self._query.stop()
        self._query = None

    def _outcome(self) -> str:
        if not self._ran:
            return "nothing to do"
        rows = len(self.rows)
        return f"{self._batches()}: {rows} row{'' if rows == 1 else 's'}"

    def _batches(self) -> str:
        ids = [progress.batchId for progress in self._ran]
        return f"batch {ids[0]}" if len(ids) == 1 else f"batches {ids[0]} to {ids[-1]}"


class _OneCrash(FaultInjector):
    """Raises SimulatedCrash when `point` is reached, and then clears it."""

    point: FaultPoint | None = None

    def reach(self, point: FaultPoint, batch_id: int) -> None:
        if point is self.point:
            self.point = None
            raise SimulatedCrash(f"a crash at {point.value} of batch {batch_id}")


def _json(offset: Any) -> Any:
    """The value of an offset, which is JSON text in progress."""
    try:
        return json.loads(offset) if isinstance(offset, str) else offset
    except ValueError:
        return offset
