"""OpenLineage events of the runs of queries: START, RUNNING for each batch, COMPLETE or FAIL.

The events are made and sent by a thread of their own. A query only puts what it knows into a queue
of limited length; if the queue is full, an event of a batch is lost. This module imports the
package `openlineage` and is imported only if lineage is used.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import (
    InputDataset,
    Job,
    OutputDataset,
    Run,
    RunEvent,
    RunState,
)
from openlineage.client.facet_v2 import (
    JobFacet,
    RunFacet,
    error_message_run,
    input_statistics_input_dataset,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
)

from penstock.checkpoint.timestamps import format_timestamp, parse_timestamp
from penstock.engine.data_stream import DataStream
from penstock.engine.error_text import error_text
from penstock.engine.named_sinks import SinkStatus
from penstock.engine.progress import NO_OUTPUT_ROWS, StreamingQueryProgress
from penstock.engine.run_observer import RunObserver
from penstock.engine.stream_execution import StreamExecution
from penstock.observe.lineage_datasets import DatasetName, inputs_of, outputs_of
from penstock.redaction import DEFAULT_REDACTOR

_logger = logging.getLogger(__name__)

MOST_WAITING = 1000
"""The length of the queue, in events."""

PRODUCER = "https://penstock.example/source"

_Rows = tuple[DatasetName, int | None]
"""A dataset, and the number of its rows in a batch; None if that is not known."""


@dataclass(frozen=True)
class _Datasets:
    inputs: Sequence[_Rows] = ()
    outputs: Sequence[_Rows] = ()


class _Queue:
    """The events that wait to be sent, as functions that make them; at most `length`.

    If it is full, a START or a last event takes the place of the oldest event of a batch: without
    its last event a catalog shows a run as going on for ever.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._events: deque[tuple[bool, Callable[[], RunEvent]]] = deque()
        self._changed = threading.Condition()
        self._is_closed = False

    def put(self, make: Callable[[], RunEvent], *, is_batch: bool) -> bool:
        """Add an event, unless `close` was called. Returns False if this or another one is lost."""
        with self._changed:
            if self._is_closed:
                return True
            is_full = len(self._events) >= self._length
            if is_full and (is_batch or not self._drop_batch()):
                return False
            self._events.append((is_batch, make))
            self._changed.notify()
            return not is_full

    def get(self) -> Callable[[], RunEvent] | None:
        """Wait for the next event. Returns None if `close` was called and there are no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._events or self._is_closed)
            return self._events.popleft()[1] if self._events else None

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _drop_batch(self) -> bool:
        """Remove the oldest event of a batch. Returns False if there is none."""
        oldest = next((n for n, (is_batch, _) in enumerate(self._events) if is_batch), None)
        if oldest is not None:
            del self._events[oldest]
        return oldest is not None


class LineageEvents(RunObserver):
    """Sends the events of every run that it observes, until `close`.

    A failure of the client, or a full queue, is logged as a warning once, and does not affect a
    run.
    """

    def __init__(self, client: OpenLineageClient, namespace: str, version: str) -> None:
        """`namespace` is that of the jobs, `version` that of Penstock."""
        self._client = client
        self._namespace = namespace
        self._version = version
        self._waiting = _Queue(MOST_WAITING)
        # Weak, because the last event of a run may be lost.
        self._known: WeakKeyDictionary[StreamExecution, _Datasets] = WeakKeyDictionary()
        self._has_warned = False
        self._thread = threading.Thread(target=self._send, name="penstock lineage", daemon=True)
        self._thread.start()

    def on_starting(self, run: StreamExecution) -> None:
        at = run.reporter.time_ms()
        self._put(lambda: self._event(run, RunState.START, at, _Datasets()), is_batch=False)

    def on_progress(self, run: StreamExecution, progress: StreamingQueryProgress) -> None:
        if progress.ran_a_batch:
            options = [source.options for source in _sources(run)]
            self._put(lambda: self._batch(run, progress, options), is_batch=True)

    def on_ended(self, run: StreamExecution) -> None:
        at = run.reporter.time_ms()
        self._put(lambda: self._end(run, at), is_batch=False)

    def close(self, seconds: float) -> bool:
        """Send what is in the queue, for a limited time. Returns whether all of it was sent.

        It can be called again. The client is not closed.
        """
        self._waiting.close()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _put(self, make: Callable[[], RunEvent], *, is_batch: bool) -> None:
        if not self._waiting.put(make, is_batch=is_batch):
            self._warn(f"{MOST_WAITING} events are waiting, and further ones are lost")

    # On the thread of its own.

    def _send(self) -> None:
        while (make := self._waiting.get()) is not None:
            try:
                self._client.emit(make())
            except Exception as exc:
                self._warn(error_text(exc))
            del make  # it holds the run

    def _warn(self, why: str) -> None:
        level = logging.DEBUG if self._has_warned else logging.WARNING
        self._has_warned = True
        _logger.log(
            level,
            "An OpenLineage event was not sent: %s. The queries are not affected, and this is not "
            "logged again.",
            DEFAULT_REDACTOR.text(why).rstrip("."),
        )

    def _batch(
        self,
        run: StreamExecution,
        progress: StreamingQueryProgress,
        options: Sequence[Mapping[str, str]],
    ) -> RunEvent:
        found = _Datasets(_inputs(progress, options), _outputs(run, progress))
        self._known[run] = found
        at = parse_timestamp(progress.timestamp) + progress.batch_duration_ms
        return self._event(run, RunState.RUNNING, at, found)

    def _end(self, run: StreamExecution, at: int) -> RunEvent:
        """The last event has the datasets of the last batch, without numbers of rows."""
        last = self._known.pop(run, _Datasets())
        found = _Datasets(_without_rows(last.inputs), _without_rows(last.outputs))
        failure = run.failure
        if failure is None:
            return self._event(run, RunState.COMPLETE, at, found)
        message = run.redactor.text(error_text(failure.__cause__ or failure))
        facet = error_message_run.ErrorMessageRunFacet(
            message, programmingLanguage="PYTHON", producer=PRODUCER
        )
        return self._event(run, RunState.FAIL, at, found, {"errorMessage": facet})

    def _event(
        self,
        run: StreamExecution,
        state: RunState,
        at: int,
        datasets: _Datasets,
        facets: Mapping[str, RunFacet] | None = None,
    ) -> RunEvent:
        text, identity = run.redactor.text, run.identity
        engine = processing_engine_run.ProcessingEngineRunFacet(
            self._version, name="penstock", producer=PRODUCER
        )
        kind = job_type_job.JobTypeJobFacet("STREAMING", "PENSTOCK", "QUERY", producer=PRODUCER)
        run_facets: dict[str, RunFacet] = {"processing_engine": engine, **(facets or {})}
        job_facets: dict[str, JobFacet] = {"jobType": kind}
        return RunEvent(
            eventTime=format_timestamp(at),
            producer=PRODUCER,
            eventType=state,
            run=Run(identity.run_id, run_facets),
            job=Job(self._namespace, text(identity.name or identity.id), job_facets),
            inputs=[
                _input(text(name.namespace), text(name.name), rows)
                for name, rows in datasets.inputs
            ],
            outputs=[
                _output(text(name.namespace), text(name.name), rows)
                for name, rows in datasets.outputs
            ],
        )


def _input(namespace: str, name: str, rows: int | None) -> InputDataset:
    facet = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(rows, producer=PRODUCER)
    return InputDataset(
        namespace, name, inputFacets={} if rows is None else {"inputStatistics": facet}
    )


def _output(namespace: str, name: str, rows: int | None) -> OutputDataset:
    facet = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rows, producer=PRODUCER
    )
    return OutputDataset(
        namespace, name, outputFacets={} if rows is None else {"outputStatistics": facet}
    )


def _sources(run: StreamExecution) -> Sequence[DataStream]:
    """The sources in the order of the progress record: each one once."""
    return () if run.runtime is None else list(dict.fromkeys(run.runtime.plan.sources))


def _inputs(progress: StreamingQueryProgress, options: Sequence[Mapping[str, str]]) -> list[_Rows]:
    """The datasets of the sources. The rows of a source with several are not known for each."""
    found: dict[DatasetName, int | None] = {}
    for number, source in enumerate(progress.sources):
        of_source = options[number] if number < len(options) else {}
        names = inputs_of(source.description, of_source, source.end_offset)
        for name in names:
            rows = source.num_input_rows if len(names) == 1 else None
            before = found.get(name, 0)
            found[name] = None if rows is None or before is None else before + rows
    return list(found.items())


def _outputs(run: StreamExecution, progress: StreamingQueryProgress) -> list[_Rows]:
    """The dataset of the sink; of many sinks those that were written, without numbers of rows."""
    sink = progress.sink
    if sink.outcomes:
        names = [
            name
            for outcome in sink.outcomes
            if outcome.status is SinkStatus.WRITTEN
            for name in outputs_of(outcome.description, {})
        ]
        return [(name, None) for name in dict.fromkeys(names)]
    rows = None if sink.num_output_rows == NO_OUTPUT_ROWS else sink.num_output_rows
    return [(name, rows) for name in outputs_of(sink.description, run.options)]


def _without_rows(datasets: Sequence[_Rows]) -> list[_Rows]:
    return [(name, None) for name, _ in datasets]
