"""The engine under injected faults: no row is lost or written twice."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings

from penstock.engine.faults import FaultPoint
from tests.simulation import Schedule, quiet_engine, simulate
from tests.simulation.__main__ import main
from tests.simulation.campaign import Share, Tally
from tests.simulation.explore import (
    Explored,
    crash_pair_grounds,
    crash_pairs,
    fault_pairs,
    single_fault_grounds,
    single_faults,
    sink_pair_grounds,
    sink_pairs,
)
from tests.simulation.generate import generate
from tests.simulation.planted_bugs import timestamp_not_repeated
from tests.simulation.schedule import Fault, FaultKind
from tests.simulation.sites import KINDS_AT
from tests.simulation.strategies import schedules

TWO_SOURCES = "sources=v1-limit:2,v2-now:1 plan=min retain=1 flags=nodata arrivals=2/0,1/1,0/1"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with quiet_engine():
        yield


# Exploration.


@pytest.mark.parametrize("number", range(0, len(single_fault_grounds()), 3))
def test_every_single_fault(number: int) -> None:
    _hold(single_faults(single_fault_grounds()[number]))


def test_every_pair_of_faults_in_two_sinks() -> None:
    _hold(sink_pairs(sink_pair_grounds()[1]))


@pytest.mark.parametrize("number", range(len(crash_pair_grounds())))
def test_some_pairs_of_crashes(number: int) -> None:
    pairs = crash_pairs(crash_pair_grounds()[number], part=number, parts=40)
    _hold(itertools.islice(pairs, 60))


def test_some_pairs_of_faults() -> None:
    for number, ground in enumerate(crash_pair_grounds()):
        _hold(itertools.islice(fault_pairs(ground, part=number, parts=40), 100))


def test_generated_schedules() -> None:
    _hold((schedule, simulate(schedule)) for schedule in (generate(0, n) for n in range(600)))


@given(schedule=schedules())
@settings(
    max_examples=250,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_schedule(schedule: Schedule) -> None:
    assert simulate(schedule).violations == []


@pytest.mark.parametrize("number", [18, 33, 39])
def test_shared_runs_have_the_outcome_of_each_schedule(number: int) -> None:
    explored = list(single_faults(single_fault_grounds()[number]))
    assert sum(outcome.simulated for _, outcome in explored) < 2 * len(explored)
    for schedule, outcome in explored[::5]:
        assert outcome == simulate(schedule)


def test_shared_runs_of_pairs_have_the_outcome_of_each_schedule() -> None:
    explored = list(crash_pairs(crash_pair_grounds()[8], part=3, parts=10))
    assert sum(outcome.simulated for _, outcome in explored) < len(explored)
    for schedule, outcome in explored[::3]:
        assert outcome == simulate(schedule)


def test_every_fault_point_of_the_engine_is_struck_by_some_single_fault() -> None:
    struck = {site for ground in single_fault_grounds() for site in _passed(ground.query)}
    assert {point.value for point in FaultPoint} <= struck


# What a schedule does.


def test_a_run_without_faults_has_limits_and_batches_without_data() -> None:
    outcome = simulate(Schedule.parse(f"{TWO_SOURCES} runs="))
    seen = [(run.ranges, run.watermark_ms > 0) for run in outcome.ledger.written.values()]
    assert seen == [
        (((0, 2), (0, 1)), False),
        (((2, 3), (1, 2)), True),
        ((None, None), True),
    ]


def test_a_killed_process_leaves_its_batch_to_the_next() -> None:
    outcome = simulate(Schedule.parse(f"{TWO_SOURCES} runs=processing!kill@sink_midway#2"))
    assert outcome.injected == [Fault(FaultKind.KILL, "sink_midway", 2)]
    assert outcome.passed[0][-1] == ("sink_midway", 2)
    assert outcome.violations == []


def test_a_dead_process_has_no_further_effect() -> None:
    outcome = simulate(Schedule.parse(f"{TWO_SOURCES} runs=processing!kill@after_sink#1"))
    assert ("before_stop_sources", 1) not in outcome.passed[0]


def test_a_torn_file_is_refused_in_one_run() -> None:
    outcome = simulate(Schedule.parse(f"{TWO_SOURCES} runs=processing!torn@create_offsets#2"))
    assert outcome.violations == []
    assert len(outcome.passed) == 3
    assert "create_commits" not in {site for site, _ in outcome.passed[1]}


def test_a_stop_while_a_failure_is_recorded_does_not_hide_the_failure() -> None:
    """Found by `make simulate SEED=1118`."""
    run = "processing*4!raise@before_sink#1!hang@before_failure_entry#1"
    query = "sources=v2-now:2 after=1 poison= plan=stateless retain=100 flags=nodata"
    outcome = simulate(Schedule.parse(f"{query} arrivals=0 runs={run}"))
    assert outcome.violations == []
    assert [fault.site for fault in outcome.injected] == ["before_sink", "before_failure_entry"]


def test_a_stop_in_one_sink_does_not_hide_what_another_finds() -> None:
    run = "processing!rival-unanswered@create_sinks#1!hang@before_sink_entry#2"
    query = "sources=v2:1 sinks=2 plan=stateless retain=100 flags=nodata"
    outcome = simulate(Schedule.parse(f"{query} arrivals=0 runs={run}"))
    assert outcome.violations == []
    assert [fault.site for fault in outcome.injected] == ["create_sinks", "before_sink_entry"]


def test_a_stop_in_one_sink_does_not_hide_the_failure_of_another() -> None:
    run = "processing*4!raise@sink_midway#1!hang@before_named_sink#2"
    query = "sources=v1:3 sinks=2 plan=stateless retain=100 flags=nodata"
    outcome = simulate(Schedule.parse(f"{query} arrivals=1 runs={run}"))
    assert outcome.violations == []
    assert {fault.site for fault in outcome.injected} == {"sink_midway", "before_named_sink"}


def test_the_error_of_one_sink_does_not_hide_a_second_query_that_another_finds() -> None:
    runs = "processing*2;processing*1!raise@after_sink_entry#1!rival@create_sinks#2"
    query = "sources=v1-limit:3 sinks=2 plan=stateless retain=100 flags=nodata"
    outcome = simulate(Schedule.parse(f"{query} arrivals=0,0,0,1 runs={runs}"))
    assert outcome.violations == []
    assert {fault.site for fault in outcome.injected} == {"after_sink_entry", "create_sinks"}


@pytest.mark.parametrize("kind", FaultKind)
def test_every_kind_of_fault_strikes(kind: FaultKind) -> None:
    site = next(site for site, kinds in KINDS_AT.items() if kind in kinds and "delete" not in site)
    outcome = simulate(Schedule.parse(f"{TWO_SOURCES} runs=processing!{kind.value}@{site}#1"))
    assert outcome.injected == [Fault(kind, site, 1)]
    assert outcome.violations == []


# The text form, the seed, the command.


@given(schedule=schedules())
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_schedule_is_parsed_back_from_its_text(schedule: Schedule) -> None:
    assert Schedule.parse(str(schedule)) == schedule


@pytest.mark.parametrize("text", ["", "sources=v9:1", f"{TWO_SOURCES} runs=hourly"])
def test_an_invalid_schedule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a schedule"):
        Schedule.parse(text)


def test_a_seed_gives_the_same_schedules_again() -> None:
    assert [generate(7, n) for n in range(20)] == [generate(7, n) for n in range(20)]
    assert generate(7, 0) != generate(8, 0)


def test_a_share_counts_what_it_ran() -> None:
    tally = Share("single faults", 18).run()
    assert tally.total > 50
    assert tally.faults.total() == tally.total - 1
    assert tally.violations == []


def test_the_command_replays_a_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    text = f"{TWO_SOURCES} runs=processing!kill@after_sink#2"
    assert main(["--schedule", text]) == 0
    assert "batch 1 (rows 2..3, 1..2; watermark 1200;" in capsys.readouterr().out


def test_the_command_fails_on_a_violation(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    timestamp_not_repeated(monkeypatch)
    assert main(["--schedule", f"{TWO_SOURCES} runs=processing!kill@after_sink#1"]) == 1
    assert "violation  run 1: a batch that runs again" in capsys.readouterr().out


def _hold(explored: Iterable[Explored]) -> None:
    tally = Tally().count("explored", explored)
    assert tally.total > 10
    assert tally.violations == []


def _passed(query: Schedule) -> set[str]:
    return {site for run in simulate(query).passed for site, _ in run}
