"""The OpenTelemetry spans of batches, with the SDK's exporter to memory."""

from __future__ import annotations

import itertools

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from penstock.engine.named_sinks import NamedSink
from penstock.engine.read_limit import ReadMaxRows
from penstock.engine.seam import QueryIdentity
from penstock.engine.triggers import AvailableNowTrigger
from penstock.observe import tracing
from penstock.observe.tracing import BatchSpans
from tests.engine.world import PATIENCE, World, failing
from tests.memory_world.sources import Abilities

MILLI = 1_000_000


class Traced:
    """Runs queries of a world and keeps their spans."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._observer = BatchSpans(provider.get_tracer("test"))

    def run(self, world: World, name: str | None = "numbers") -> QueryIdentity:
        execution = world.query(AvailableNowTrigger(), name=name, observers=[self._observer])
        execution.start()
        execution._thread.join_stopped(PATIENCE, "test", lambda: "")
        return execution.identity

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    @property
    def batches(self) -> list[ReadableSpan]:
        return [span for span in self.spans if span.parent is None]

    def children(self, parent: ReadableSpan) -> dict[str, ReadableSpan]:
        return {
            span.name: span
            for span in self.spans
            if span.parent is not None and span.parent.span_id == parent.context.span_id
        }


def limited(world: World, rows: int = 3) -> None:
    abilities = Abilities(admission_control=True, available_now=True, limit=ReadMaxRows(2))
    world.add_stream("a", range(rows), abilities)


def test_a_batch_is_a_span_with_its_phases() -> None:
    world, traced = World(), Traced()
    limited(world, rows=2)
    world.plan.on_run = lambda: world.clock.advance(40)
    identity = traced.run(world)
    [batch] = traced.batches
    assert batch.name == "batch"
    assert batch.start_time == 1_000 * MILLI
    assert batch.end_time == 1_040 * MILLI
    assert dict(batch.attributes or {}) == {
        "penstock.query.id": identity.id,
        "penstock.query.run_id": identity.run_id,
        "penstock.query.name": "numbers",
        "penstock.batch.id": 0,
        "penstock.batch.input_rows": 2,
        "penstock.batch.output_rows": 2,
        "penstock.sink.description": "NumberSink",
        "penstock.source.0.description": "Numbers[a]",
        "penstock.source.0.input_rows": 2,
        "penstock.source.0.end_offset": "1",
    }
    phases = traced.children(batch)
    assert set(phases) == {
        "latestOffset",
        "walCommit",
        "getBatch",
        "queryPlanning",
        "addBatch",
        "commitOffsets",
    }
    assert phases["addBatch"].end_time == 1_040 * MILLI
    assert phases["commitOffsets"].start_time == 1_040 * MILLI


def test_a_batch_is_linked_to_the_one_before_also_over_runs() -> None:
    first, traced = World(), Traced()
    limited(first, rows=3)
    traced.run(first)
    second = World(files=first.files)
    limited(second, rows=5)
    traced.run(second)
    batches = traced.batches
    assert len(batches) == 3
    assert [list(batches[0].links)] == [[]]
    for before, after in itertools.pairwise(batches):
        assert [link.context.span_id for link in after.links] == [before.context.span_id]
        assert before.context.trace_id != after.context.trace_id


def test_the_link_is_kept_for_the_last_queries_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "_QUERIES_KEPT", 2)
    traced, worlds = Traced(), [World(), World(), World()]

    def has_link(world: World, rows: int) -> bool:
        again = World(files=world.files)
        limited(again, rows)
        traced.run(again)
        return bool(traced.batches[-1].links)

    assert [has_link(world, 1) for world in worlds[:2]] == [False, False]
    assert has_link(worlds[0], 3)
    assert not has_link(worlds[2], 1)
    assert has_link(worlds[0], 5)
    assert not has_link(worlds[1], 3)


def test_each_of_many_sinks_is_a_span_in_the_writing_phase() -> None:
    world, traced = World(), Traced()
    limited(world, rows=1)
    world.plan.many = [NamedSink("lake"), NamedSink("alerts", retries=1)]
    world.plan.on_write = lambda name: world.clock.advance(30 if name == "lake" else 5)
    traced.run(world)
    [batch] = traced.batches
    sinks = traced.children(traced.children(batch)["addBatch"])
    assert set(sinks) == {"sink lake", "sink alerts"}
    assert sinks["sink lake"].start_time == 1_000 * MILLI
    assert sinks["sink alerts"].start_time == 1_030 * MILLI
    assert sinks["sink alerts"].end_time == 1_035 * MILLI
    assert (sinks["sink alerts"].attributes or {})["penstock.sink.attempts"] == 1


def test_a_batch_that_fails_is_a_span_with_the_error() -> None:
    world, traced = World(), Traced()
    limited(world)
    world.plan.on_run = lambda: failing("cannot connect with password=hunter2")
    traced.run(world)
    [batch] = traced.batches
    assert batch.status.status_code is StatusCode.ERROR
    assert (batch.attributes or {})["penstock.batch.id"] == 0
    [event] = batch.events
    assert (event.attributes or {})["exception.type"] == "RuntimeError"
    message = str((event.attributes or {})["exception.message"])
    assert "cannot connect" in message
    assert "hunter2" not in message
    assert "hunter2" not in str(batch.status.description)


def test_a_trigger_without_a_batch_has_no_span() -> None:
    world, traced = World(), Traced()
    world.add_source("a")
    traced.run(world)
    assert traced.spans == []


@pytest.mark.parametrize("name", [None, "numbers"])
def test_a_query_without_a_name_has_no_such_attribute(name: str | None) -> None:
    world, traced = World(), Traced()
    limited(world, rows=1)
    traced.run(world, name=name)
    [batch] = traced.batches
    assert ("penstock.query.name" in (batch.attributes or {})) is (name is not None)
