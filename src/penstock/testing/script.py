"""A test of a query told as a script: add, advance, step, expect, restart, expect."""

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
    """Runs a query one trigger at a time, on a clock that stands still, and checks each batch.

    Every call takes effect at once and returns the script. The query starts at the first step. A
    call that fails stops the query and raises a ScriptError: the script so far, the batch, and
    what was expected beside what came. Leave a script with `stop()`, or use it in a `with`.

    Expectations are about the latest `step`, or all the batches of the latest `run`.
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
        """`df` is a streaming DataFrame, or makes one at each start.

        `configure` may set more on the writer, its hooks for instance. The checkpoint is a
        temporary directory if none is given. A step that takes longer than `step_timeout` seconds
        fails.
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

    # What a test may look at.

    @property
    def query(self) -> StreamingQuery:
        """The running query; it is started if it is not there yet."""
        if self._query is None:
            self._query = self._writer().start()
        return self._query

    @property
    def progress(self) -> StreamingQueryProgress | None:
        """The progress of the latest batch, None if the latest step ran none."""
        return self._ran[-1] if self._ran else None

    @property
    def rows(self) -> list[Row]:
        """The rows that the latest step, or run, gave to the sink."""
        batches = self.sink.batches
        return [row for progress in self._ran for row in batches.get(progress.batchId, [])]

    # What happens.

    def add(self, stream: MemoryStream, rows: Iterable[Any]) -> StreamScript:
        """Add rows to a stream."""
        __tracebackhide__ = True
        given = list(rows)
        self._text.begin("add", stream, given)
        try:
            self._text.outcome(f"offset {stream.add_data(given)}")
        except Exception as exc:
            raise self._failure(f"add failed: {in_brief(exc)}") from exc
        return self

    def advance(self, seconds: float = 0, *, ms: int = 0) -> StreamScript:
        """Move the clock on."""
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
        """Run triggers until nothing is left to do, or until so many batches have run."""
        __tracebackhide__ = True
        self._text.begin("run", **({} if batches is None else {"batches": batches}))
        self._run(lambda query: query.run(batches=batches))
        return self

    def step_fails(
        self, error: type[BaseException] = Exception, match: str | None = None
    ) -> StreamScript:
        """Run one trigger that is to kill the query by that error, its text matching a pattern."""
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
                self._text.outcome("the query died")
                return self
            raise self._failure(f"step_fails: it failed otherwise: {in_brief(exc)}") from exc
        raise self._failure(f"step_fails: the step did not fail; {self._outcome()}")

    def crash(self, at: FaultPoint | str) -> StreamScript:
        """Run one trigger that dies at a point of the protocol. Go on with `restart`."""
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
                    f"crash: the query died of something else: {in_brief(exc)}"
                ) from exc
        else:
            raise self._failure(f"crash: the trigger did not pass {point.value}")
        finally:
            self._faults.point = None
        self._ran = []
        self._text.outcome("the query died")
        return self

    def restart(self, df: DataFrame | Callable[[], DataFrame] | None = None) -> StreamScript:
        """Stop the query and start it again on its checkpoint; with another DataFrame if given."""
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
        """End the script and its query, and delete its checkpoint if that is temporary."""
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

    # What is expected of it.

    def expect_rows(self, rows: Iterable[Any], *, ordered: bool = False) -> StreamScript:
        """These rows went to the sink and no others; in this order only if `ordered`.

        A batch has run, if only without rows. Rows are written as for `MemoryStream.add_data`.
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
                f"expect_rows: {self._batches()} gave other rows", f"({columns})\n{table}"
            )
        return self

    def expect_nothing(self) -> StreamScript:
        """The trigger found nothing to do: no batch ran."""
        __tracebackhide__ = True
        self._text.begin("expect_nothing")
        if self._ran:
            rows = "\n".join(f"+ {tuple(row)!r}" for row in self.rows)
            raise self._failure(f"expect_nothing: {self._batches()} ran", rows or "(no rows)")
        return self

    def expect_batch(self, batch_id: int) -> StreamScript:
        """The latest batch has this id."""
        __tracebackhide__ = True
        self._text.begin("expect_batch", batch_id)
        return self._expect_equal("expect_batch", batch_id, lambda p: p.batchId)

    def expect_offsets(self, *offsets: Any) -> StreamScript:
        """The latest batch ends at these offsets, one for each source, in the query's order."""
        __tracebackhide__ = True
        self._text.begin("expect_offsets", *offsets)
        return self._expect_equal(
            "expect_offsets", list(offsets), lambda p: [_json(s.endOffset) for s in p.sources]
        )

    def expect_watermark(self, watermark: str | int | datetime) -> StreamScript:
        """The watermark that the latest batch ran with: as progress has it, in milliseconds since
        the epoch, or as a datetime."""
        __tracebackhide__ = True
        if isinstance(watermark, datetime):
            watermark = round(watermark.timestamp() * 1000)
        wanted = format_timestamp(watermark) if isinstance(watermark, int) else watermark
        self._text.begin("expect_watermark", wanted)
        return self._expect_equal(
            "expect_watermark", wanted, lambda p: p.eventTime.get("watermark", "none")
        )

    def expect_state_rows(self, *rows: int) -> StreamScript:
        """So many rows are in the state after the latest batch, one number for each operator."""
        __tracebackhide__ = True
        self._text.begin("expect_state_rows", *rows)
        return self._expect_equal(
            "expect_state_rows", list(rows), lambda p: [o.numRowsTotal for o in p.stateOperators]
        )

    def expect_progress(self, **fields: Any) -> StreamScript:
        """These fields of the latest batch's progress have these values."""
        __tracebackhide__ = True
        self._text.begin("expect_progress", **fields)
        return self._expect_equal(
            "expect_progress", fields, lambda p: {name: getattr(p, name) for name in fields}
        )

    def expect(
        self, holds: Callable[[StreamingQueryProgress], object], what: str = "the condition"
    ) -> StreamScript:
        """Something of your own holds of the latest batch's progress."""
        __tracebackhide__ = True
        self._text.begin("expect", what)
        progress = self._require_batch("expect")
        if not holds(progress):
            raise self._failure(f"expect: {what} does not hold of {self._batches()}", str(progress))
        return self

    # How it is done.

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
            raise self._failure(f"the query died: {in_brief(exc)}") from exc
        self._text.outcome(self._outcome())

    def _step_of_live_query(self) -> None:
        __tracebackhide__ = True
        self._require_live_query()
        progress = self.query.step(timeout=self._step_timeout)
        self._ran = [] if progress is None else [progress]

    def _require_live_query(self) -> None:
        __tracebackhide__ = True
        if self._query is not None and not self._query.isActive:
            raise self._failure("the query is not running any more; restart() it first")

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
                f"{call}: batch {self._ran[-1].batchId} has another",
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
    """Lets everything pass, but dies at the point that it is given, once."""

    point: FaultPoint | None = None

    def reach(self, point: FaultPoint, batch_id: int) -> None:
        if point is self.point:
            self.point = None
            raise SimulatedCrash(f"a crash at {point.value} of batch {batch_id}")


def _json(offset: Any) -> Any:
    """An offset as the value it is: in progress it is JSON text."""
    try:
        return json.loads(offset) if isinstance(offset, str) else offset
    except ValueError:
        return offset
