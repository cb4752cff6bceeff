"""The report of a crash test, and the choice of crash points, without Spark."""

from __future__ import annotations

import json

import pytest

from penstock.engine.faults import OF_EVERY_QUERY, FaultPoint
from penstock.errors import ExecutionError
from penstock.testing.crash_faults import (
    BatchPoint,
    FilePointRecorder,
    PointRecorder,
    SimulatedCrash,
    choose_crash_points,
    delivered_again,
    not_crashed,
)
from penstock.testing.crash_report import CrashReport, Trial, Verdict

SINK, COMMIT, PURGE = FaultPoint.AFTER_SINK, FaultPoint.AFTER_COMMIT_LOG, FaultPoint.BEFORE_PURGE


def trial(expected: list[int], actual: list[int], again: tuple[int, ...] = ()) -> Trial:
    rows = [[(n,) for n in numbers] for numbers in (expected, actual)]
    return Trial.of(BatchPoint(SINK, 1), again, *rows)


def test_the_verdict_of_a_trial() -> None:
    assert trial([1, 2], [2, 1]).verdict is Verdict.EXACTLY_ONCE
    twice = trial([1, 2], [1, 2, 2], (1,))
    assert (twice.verdict, twice.duplicates) == (Verdict.DUPLICATES, ((2,),))
    assert twice.describe() == "1 duplicate of batch 1: (2,)"
    assert trial([1], [1, 7, 8, 9, 10]).describe() == "4 duplicates: (7,), (8,), (9,), ..."
    lost = trial([1, 2, 2], [1, 1, 2])
    assert lost.verdict is Verdict.LOST
    assert lost.describe() == "1 lost: (2,); 1 duplicate: (1,)"
    dead = Trial(BatchPoint(SINK, 0), error="it burns")
    assert (dead.verdict, dead.describe()) == (
        Verdict.DID_NOT_RECOVER,
        "did not recover: it burns",
    )


def test_the_table_of_a_report() -> None:
    clean = Trial(BatchPoint(FaultPoint.AFTER_METADATA, -1))
    report = CrashReport([clean, trial([1, 2], [1, 2, 2], (1,))], [PURGE], 2)
    assert str(report).splitlines() == [
        "crash at        batch  delivered again  output",
        "after_metadata  -      -                exactly once",
        "after_sink      1      batch 1          1 duplicate of batch 1: (2,)",
        "",
        "2 rows without a crash; 2 crashes: 1 exactly once, 1 duplicates.",
        "Not reached: before_purge.",
    ]
    with pytest.raises(AssertionError, match=r"changes the output[\s\S]*1 duplicate of batch 1"):
        report.check()
    told = json.loads(json.dumps(report.to_dict()))
    assert not told["exactlyOnce"]
    assert told["trials"][1] == {
        "point": "after_sink",
        "batch": 1,
        "deliveredAgain": [1],
        "verdict": "duplicates",
        "duplicates": ["(2,)"],
        "lost": [],
        "error": None,
        "sharedRestart": False,
    }
    passing = CrashReport([clean], [], 2)
    passing.check()
    assert passing.summary == "2 rows without a crash; 1 crash: 1 exactly once."


def test_a_report_without_a_crash_is_not_exactly_once() -> None:
    report = CrashReport([], [PURGE], 2)
    assert report.to_dict()["exactlyOnce"] is False
    with pytest.raises(AssertionError, match=r"no crash was tried\n[\s\S]*0 crashes: none tried"):
        report.check()


def test_the_choice_of_crash_points() -> None:
    reached = [BatchPoint(FaultPoint.AFTER_METADATA, -1)]
    reached += [BatchPoint(point, batch) for batch in range(3) for point in (SINK, COMMIT)]
    once = choose_crash_points(reached, None, every_batch=False)
    assert list(map(str, once)) == ["after_metadata:-1", "after_sink:1", "after_commit_log:1"]
    sinks = choose_crash_points(reached, [SINK, PURGE], every_batch=True)
    assert [BatchPoint.parse(str(one)) for one in sinks] == [BatchPoint(SINK, n) for n in range(3)]
    assert choose_crash_points(reached[:2], [SINK], every_batch=False) == [BatchPoint(SINK, 0)]


def test_a_point_that_was_asked_for_has_to_be_reached() -> None:
    reached = [BatchPoint(point, 1) for point in OF_EVERY_QUERY if point is not PURGE]
    assert not_crashed(reached, None) == [PURGE]
    assert not_crashed(reached, [SINK, COMMIT]) == []
    with pytest.raises(ExecutionError, match="did not reach before_purge, so there can be no"):
        not_crashed(reached, [SINK, PURGE])


def test_points_are_recorded_and_the_crash_happens_once(tmp_path: pytest.TempPathFactory) -> None:
    recorder = PointRecorder(BatchPoint(SINK, 0))
    with pytest.raises(SimulatedCrash):
        recorder.reach(SINK, 0)
    recorder.reach(SINK, 0)
    recorder.reach(COMMIT, 0)
    assert recorder.seen == [BatchPoint(SINK, 0), BatchPoint(SINK, 0), BatchPoint(COMMIT, 0)]
    assert delivered_again(recorder.seen, [BatchPoint(SINK, 1), BatchPoint(SINK, 0)]) == (0,)
    crashed: list[bool] = []
    file = f"{tmp_path}/points"
    to_file = FilePointRecorder(file, BatchPoint(SINK, 0), lambda: crashed.append(True))
    to_file.reach(SINK, 0)
    with open(file) as written:
        assert (crashed, written.read()) == ([True], "after_sink:0\n")


def test_a_point_of_each_sink_is_crashed_at_for_each() -> None:
    recorder = PointRecorder()
    for point in (FaultPoint.BEFORE_LATEST_OFFSET, FaultPoint.AFTER_SINK_ENTRY):
        for _ in range(2):
            recorder.reach(point, 1)
    chosen = choose_crash_points(recorder.seen, None, every_batch=False)
    assert [str(one) for one in chosen] == [
        "before_latest_offset:1",
        "after_sink_entry:1",
        "after_sink_entry:1:2",
    ]
    assert [BatchPoint.parse(str(one)) for one in chosen] == chosen
    second = Trial(chosen[-1])
    assert second.to_dict()["sink"] == 2
    assert CrashReport([second], [], 1).cells()[1][0] == "after_sink_entry, sink 2"
    crashing = PointRecorder(chosen[-1])
    crashing.reach(FaultPoint.AFTER_SINK_ENTRY, 1)
    with pytest.raises(SimulatedCrash):
        crashing.reach(FaultPoint.AFTER_SINK_ENTRY, 1)
    assert len(crashing.seen) == 2
