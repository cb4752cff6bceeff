"""Batches that the quarantine leaves to fail: what is no fault of the data, and its limits."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from penstock.engine.named_sinks import NamedSink
from penstock.engine.quarantine import QuarantineRules
from penstock.engine.read_limit import ReadMaxRows
from penstock.errors import SinkFailedError
from tests.engine.quarantine_place import LIMITED, ROWS, Place
from tests.memory_world.sources import Abilities


def given_up(place: Place, caplog: pytest.LogCaptureFixture) -> str:
    """Why nothing was put aside."""
    assert place.record() is None
    messages = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    [message] = [m for m in messages if "nothing of it is put aside" in m]
    return message


def test_a_failing_sink_is_not_the_fault_of_the_data(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(poison=())
    for _ in range(2):
        world = place.process()
        world.plan.on_run = lambda: (_ for _ in ()).throw(OSError("the sink is down"))
        place.fails(OSError, world=world)
    assert "it does not fail without the sink" in given_up(place, caplog)
    place.run()
    assert place.output == {0: list(ROWS)}


def test_too_many_parts_in_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(poison=(1, 2, 5))
    rules = QuarantineRules("/aside", after=1, max_parts=2)
    place.fails(rules=rules)
    assert place.fails(rules=rules) == "cannot process [1, 2, 5]"
    assert "more than 2 parts of it fail" in given_up(place, caplog)


def test_too_many_parts_in_a_day(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(poison=(1, 5))
    place.abilities = Abilities(admission_control=True, available_now=True, limit=ReadMaxRows(4))
    rules = QuarantineRules("/aside", after=1, max_parts_per_day=1)
    place.fails(rules=rules)
    place.fails(rules=rules)
    place.fails(rules=rules)
    assert place.record(0) is not None
    assert place.record(1) is None
    assert "1 were put aside in the last 24 hours, and the limit is 1" in caplog.text
    place.clock.advance(86_400_001)
    place.run(rules)
    assert place.output == {0: [0, 2, 3], 1: [4, 6, 7]}


def test_parts_that_fail_only_together(caplog: pytest.LogCaptureFixture) -> None:
    place = Place()
    for _ in range(2):
        world = place.process()
        world.plan.poison = set()

        def together(rows: list[int]) -> None:
            if {1, 6} <= set(rows):
                raise ValueError("1 and 6")

        world.plan.on_trial = together
        world.plan.on_run = lambda: (_ for _ in ()).throw(ValueError("1 and 6"))
        place.fails(world=world)
    assert "only several parts of it together fail" in given_up(place, caplog)


def test_a_source_without_read_limits(caplog: pytest.LogCaptureFixture) -> None:
    place = Place()
    place.abilities = Abilities(available_now=True)
    place.fails()
    place.fails()
    assert "Numbers[a] cannot be read in smaller parts" in given_up(place, caplog)


def test_an_outage_that_ends_during_the_search(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(poison=())
    tried: list[list[int]] = []

    def outage(rows: list[int]) -> None:
        tried.append(rows)
        if rows and len(tried) < 6:
            raise OSError("no executors")

    for _ in range(2):
        world = place.process()
        world.plan.on_trial = outage
        world.plan.on_run = lambda: (_ for _ in ()).throw(OSError("no executors"))
        place.fails(OSError, world=world)
    assert "a part of it failed once and then did not fail" in given_up(place, caplog)


def test_a_batch_that_fails_without_data(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(poison=())
    for _ in range(2):
        world = place.process()
        world.plan.on_trial = lambda rows: (_ for _ in ()).throw(OSError("no executors"))
        world.plan.on_run = lambda: (_ for _ in ()).throw(OSError("no executors"))
        place.fails(OSError, world=world)
    assert "it fails without any data too: OSError: no executors" in given_up(place, caplog)


def test_an_outage_of_everything(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(poison=ROWS)
    rules = QuarantineRules("/aside", after=1, max_parts=3)
    place.fails(rules=rules)
    place.fails(rules=rules)
    assert "more than 3 parts of it fail" in given_up(place, caplog)


@pytest.mark.parametrize("in_files", [True, False])
def test_a_batch_of_which_nothing_passes(caplog: pytest.LogCaptureFixture, in_files: bool) -> None:
    place = Place(poison=(0, 1), rows=range(2), in_files=in_files)
    place.fails()
    place.fails()
    assert "each of its 2 parts fails, so the cause may be an outage" in given_up(place, caplog)
    place.poison = set()
    place.run()
    assert place.output == {0: [0, 1]}


def test_a_batch_of_which_nothing_passes_planned_anew_with_a_higher_limit() -> None:
    place = Place(poison=(0, 1), rows=range(4))
    place.abilities = replace(LIMITED, limit=ReadMaxRows(2))
    place.fails()
    place.files.delete("offsets/0")  # as `penstock checkpoint replan` does
    place.abilities = LIMITED
    place.fails()
    place.run()
    assert place.output == {0: [2, 3]}


def test_a_source_without_rows_in_its_first_batch_is_no_part_that_passes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    place = Place(poison=(0, 1), rows=range(2))
    for _ in range(2):
        world = place.process()
        world.add_stream("b", (), LIMITED)
        place.fails(world=world)
    assert "each of its 2 parts fails" in given_up(place, caplog)


def test_a_search_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    place = Place()
    place.fails()
    world = place.process()
    world.plan.trials = lambda: (_ for _ in ()).throw(OSError("no space left"))  # type: ignore[method-assign]
    place.fails(world=world)
    assert "the search failed: OSError: no space left" in given_up(place, caplog)


def test_a_batch_that_one_of_many_sinks_has(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(poison=())
    place.many = [NamedSink("lake"), NamedSink("alerts")]
    world = place.process()

    def down(name: str) -> None:
        if name == "alerts":
            raise OSError("down")

    world.plan.on_write = down
    place.fails(SinkFailedError, world=world)
    place.poison = {5}
    place.fails()
    assert "lake has the batch already" in given_up(place, caplog)


def test_many_sinks_get_the_rest() -> None:
    place = Place()
    place.many = [NamedSink("lake"), NamedSink("alerts")]
    place.fails()
    place.run()
    rest = [0, 1, 2, 3, 4, 6, 7]
    assert place.world.plan.written == {"lake": {0: rest}, "alerts": {0: rest}}
