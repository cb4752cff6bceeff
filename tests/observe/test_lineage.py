"""OpenLineage events of runs, with the client's file transport and with transports that fail."""

from __future__ import annotations

import gc
import json
import logging
import threading
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from openlineage.client import OpenLineageClient
from openlineage.client.transport import Config, Transport
from openlineage.client.transport.file import FileConfig, FileTransport

from penstock.engine.named_sinks import SinkOutcome, SinkStatus
from penstock.engine.progress import SinkProgress
from penstock.engine.read_limit import ReadMaxRows
from penstock.engine.stream_execution import StreamExecution
from penstock.engine.triggers import AvailableNowTrigger
from penstock.observe import lineage
from penstock.observe.lineage import LineageEvents, _outputs
from penstock.redaction import REDACTED
from tests.engine.world import PATIENCE, World, failing
from tests.memory_world.sources import Abilities
from tests.streams import eventually


def world_of(rows: int = 3) -> World:
    world = World()
    abilities = Abilities(admission_control=True, available_now=True, limit=ReadMaxRows(2))
    world.add_stream("a", range(rows), abilities)
    return world


def run(world: World, events: LineageEvents, name: str | None = "numbers") -> StreamExecution:
    execution = world.query(AvailableNowTrigger(), name=name, observers=[events])
    execution.start()
    execution._thread.join_stopped(PATIENCE, "test", lambda: "")
    return execution


def events_in(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "events"


@pytest.fixture
def events(file: Path) -> LineageEvents:
    transport = FileTransport(FileConfig(str(file), append=True))
    return LineageEvents(OpenLineageClient(transport=transport), "shop", "1.0")


def test_a_run_starts_has_batches_and_completes(events: LineageEvents, file: Path) -> None:
    identity = run(world_of(), events).identity
    assert events.close(PATIENCE)
    found = events_in(file)
    assert [event["eventType"] for event in found] == ["START", "RUNNING", "RUNNING", "COMPLETE"]
    for event in found:
        assert event["run"]["runId"] == identity.run_id
        assert (event["job"]["namespace"], event["job"]["name"]) == ("shop", "numbers")
        assert event["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
        assert event["run"]["facets"]["processing_engine"]["version"] == "1.0"
    times = [event["eventTime"] for event in found]
    assert times == sorted(times)


def test_a_query_without_a_name_is_named_by_its_id(events: LineageEvents, file: Path) -> None:
    identity = run(world_of(), events, name=None).identity
    assert events.close(PATIENCE)
    assert events_in(file)[0]["job"]["name"] == identity.id


def test_a_failure_is_an_event_with_the_error_redacted(events: LineageEvents, file: Path) -> None:
    world = world_of()
    world.plan.on_run = lambda: failing("cannot log in with password=hunter2")
    run(world, events)
    assert events.close(PATIENCE)
    start, fail = events_in(file)
    assert (start["eventType"], fail["eventType"]) == ("START", "FAIL")
    message = fail["run"]["facets"]["errorMessage"]["message"]
    assert message == f"RuntimeError: cannot log in with password={REDACTED}"


class _Transport(Transport):
    """A transport that a test controls."""

    kind = "test"
    config_class = Config

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.may_send = threading.Event()
        self.error: Exception | None = None

    def emit(self, event: Any) -> None:
        self.may_send.wait(PATIENCE)
        if self.error is not None:
            raise self.error
        self.sent.append(event)


def test_a_client_that_fails_is_a_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    transport = _Transport()
    transport.error = OSError("https://me:hunter2@host does not answer")
    transport.may_send.set()
    events = LineageEvents(OpenLineageClient(transport=transport), "shop", "1.0")
    with caplog.at_level(logging.WARNING, "penstock"):
        execution = run(world_of(), events)
        assert events.close(PATIENCE)
    assert execution.failure is None
    [record] = [r for r in caplog.records if r.name == lineage.__name__]
    assert "does not answer" in record.getMessage()
    assert "hunter2" not in record.getMessage()


def test_a_client_that_hangs_delays_no_batch_and_loses_events(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lineage, "MOST_WAITING", 2)
    transport = _Transport()
    events = LineageEvents(OpenLineageClient(transport=transport), "shop", "1.0")
    with caplog.at_level(logging.WARNING, "penstock"):
        execution = run(world_of(rows=20), events)
    assert execution.failure is None
    assert transport.sent == []
    [record] = [r for r in caplog.records if r.name == lineage.__name__]
    assert "events are waiting" in record.getMessage()
    assert not events.close(0.01)
    transport.may_send.set()
    assert events.close(PATIENCE)
    assert 2 <= len(transport.sent) <= 3


def test_a_full_queue_loses_events_of_batches_before_those_of_starts_and_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lineage, "MOST_WAITING", 4)
    transport = _Transport()
    events = LineageEvents(OpenLineageClient(transport=transport), "shop", "1.0")
    runs = [run(world_of(rows=20), events) for _ in range(2)]
    transport.may_send.set()
    assert events.close(PATIENCE)
    sent = [(event.run.runId, event.eventType.value) for event in transport.sent]
    for execution in runs:
        assert (execution.identity.run_id, "START") in sent
        assert (execution.identity.run_id, "COMPLETE") in sent
    assert len(sent) <= 5


def test_a_run_whose_last_event_is_lost_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = _Transport()
    transport.may_send.set()
    events = LineageEvents(OpenLineageClient(transport=transport), "shop", "1.0")
    monkeypatch.setattr(events, "on_ended", lambda run: None)
    execution = weakref.ref(run(world_of(rows=1), events))
    eventually(lambda: len(transport.sent) == 2, "the event of the batch")
    eventually(lambda: gc.collect() >= 0 and execution() is None, "the release of the run")
    assert not events._known
    assert events.close(PATIENCE)


def test_after_the_end_nothing_is_sent(events: LineageEvents, file: Path) -> None:
    assert events.close(PATIENCE)
    assert events.close(PATIENCE)
    run(world_of(), events)
    assert not file.exists()


def test_of_many_sinks_those_that_were_written_are_outputs(events: LineageEvents) -> None:
    world = world_of()
    execution = run(world, events)
    written = SinkOutcome("a", "BatchWriter[parquet /out/a]", SinkStatus.WRITTEN)
    outcomes = (
        written,
        SinkOutcome("b", "BatchWriter[parquet /out/b]", SinkStatus.DONE_BEFORE),
        SinkOutcome("c", "write_rows", SinkStatus.WRITTEN),
    )
    last = execution.reporter.recent_progress[-1]
    many = replace(last, sink=SinkProgress("many", outcomes=outcomes))
    assert [(name.name, rows) for name, rows in _outputs(execution, many)] == [("/out/a", None)]
    assert events.close(PATIENCE)
