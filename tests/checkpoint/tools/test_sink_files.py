"""The commands and the entries of many sinks: deleted, restored, left out, shown, verified."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.checkpoint.sink_entries import SINK_NAMES, SINKS
from penstock.checkpoint.tools import backup, surgery
from penstock.checkpoint.tools.fork import fork
from penstock.checkpoint.tools.inspect import inspect, inspect_batch
from penstock.checkpoint.tools.verify import verify
from penstock.checkpoint.tools.view import CheckpointView
from tests.checkpoint.tools.checkpoints import content_of, stateless, write


def with_sinks(root: Path, *, planned: bool = True) -> Path:
    """Four committed batches and a planned one, which `lake` has finished and `alerts` has not."""
    stateless(root, planned=planned)
    names(root, 0, 0, "lake")
    names(root, 1, 2, "lake", "alerts")
    for batch in range(5 if planned else 4):
        entry(root, "lake", batch)
        if 2 <= batch < 4:
            entry(root, "alerts", batch)
    return root


def names(root: Path, number: int, first: int, *sinks: str) -> None:
    quoted = ",".join(f'"{sink}"' for sink in sinks)
    text = f'v1\n{{"fromBatch":{first},"sinks":[{quoted}]}}'
    write(root / SINK_NAMES / str(number), text, twin=False)


def entry(root: Path, sink: str, batch: int, timestamp: int | None = None) -> Path:
    text = f'v1\n{{"batchTimestampMs":{timestamp or 1000 + batch}}}'
    return write(root / SINKS / sink / str(batch), text, twin=False)


def entries(root: Path) -> dict[str, list[int]]:
    return {
        path.name: sorted(int(file.name) for file in path.iterdir())
        for path in (root / SINKS).iterdir()
    }


def own_content(root: Path) -> dict[str, bytes]:
    """The content of a checkpoint without its backups."""
    return {k: v for k, v in content_of(root).items() if "backups" not in k}


# rewind, replan, skip, undo


@pytest.mark.parametrize(
    ("to", "kept"),
    [
        (3, {"lake": [0, 1, 2, 3], "alerts": [2, 3]}),
        (2, {"lake": [0, 1, 2], "alerts": [2]}),
        (1, {"lake": [0, 1], "alerts": []}),
    ],
)
def test_a_rewind_deletes_the_entries_of_batches_that_run_again_and_undo_restores_them(
    checkpoint: Path, to: int, kept: dict[str, list[int]]
) -> None:
    with_sinks(checkpoint)
    before = own_content(checkpoint)
    plan = surgery.rewind(CheckpointView(checkpoint), to)
    assert f"after batch {to} are deleted" in plan.warnings[-1]
    made = backup.apply(checkpoint, plan)
    assert entries(checkpoint) == kept
    assert verify(CheckpointView(checkpoint)).findings == ()
    backup.revert(checkpoint, made)
    assert own_content(checkpoint) == before


def test_a_rewind_deletes_the_names_that_apply_only_later(checkpoint: Path) -> None:
    with_sinks(checkpoint)
    backup.apply(checkpoint, surgery.rewind(CheckpointView(checkpoint), 0))
    assert [path.name for path in (checkpoint / SINK_NAMES).iterdir()] == ["0"]
    [lake] = inspect(CheckpointView(checkpoint)).sinks
    assert (lake.name, lake.newest_batch) == ("lake", 0)


def test_a_replan_deletes_the_entries_of_the_planned_batch(checkpoint: Path) -> None:
    with_sinks(checkpoint)
    plan = surgery.replan(CheckpointView(checkpoint))
    assert f"{SINKS}/lake/4" in [change.path for change in plan.changes]
    assert "The entries of the sinks lake after batch 3 are deleted" in plan.warnings[-1]


def test_a_rewind_to_the_newest_batch_deletes_entries_after_it(checkpoint: Path) -> None:
    with_sinks(checkpoint, planned=False)
    entry(checkpoint, "lake", 7)
    backup.apply(checkpoint, surgery.rewind(CheckpointView(checkpoint), 3))
    assert entries(checkpoint)["lake"] == [0, 1, 2, 3]


def test_a_skip_names_the_sinks_that_never_get_the_batch(checkpoint: Path) -> None:
    with_sinks(checkpoint)
    plan = surgery.skip(CheckpointView(checkpoint))
    assert plan.warnings[1:] == ("The sink alerts never gets batch 4.",)
    backup.apply(checkpoint, plan)
    assert entries(checkpoint)["lake"] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("at", [None, 3])
def test_a_fork_has_no_entries(checkpoint: Path, tmp_path: Path, at: int | None) -> None:
    with_sinks(checkpoint)
    made = fork(CheckpointView(checkpoint), tmp_path / "fork", at)
    assert not (made.path / SINKS).exists()
    assert not (made.path / SINK_NAMES).exists()


# show, verify


def test_show_has_a_line_for_each_sink(checkpoint: Path) -> None:
    with_sinks(checkpoint)
    entry(checkpoint, "old", 1)
    found = [
        (s.name, s.is_in_query, s.entries, s.newest_batch, s.has_planned_batch)
        for s in inspect(CheckpointView(checkpoint)).sinks
    ]
    assert found == [
        ("lake", True, 5, 4, True),
        ("alerts", True, 2, 3, False),
        ("old", False, 1, 1, False),
    ]
    assert inspect_batch(CheckpointView(checkpoint), 3).finished_sinks == ("alerts", "lake")
    assert inspect(CheckpointView(stateless(checkpoint.with_name("other")))).sinks == ()


def test_good_entries_are_no_finding(checkpoint: Path) -> None:
    assert verify(CheckpointView(with_sinks(checkpoint))).findings == ()


def test_an_entry_of_a_batch_that_is_not_planned_is_an_error(checkpoint: Path) -> None:
    with_sinks(checkpoint, planned=False)
    entry(checkpoint, "alerts", 9)
    verification = verify(CheckpointView(checkpoint))
    assert not verification.will_restart
    [finding] = verification.findings
    assert finding.file == f"{SINKS}/alerts/9"
    assert "--to 3" in finding.remedy


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('v1\n{"batchTimestampMs":5}', "another plan of batch 4"),
        ("v1\n", "empty or truncated"),
    ],
)
def test_an_entry_of_another_plan_and_a_torn_one_are_errors(
    checkpoint: Path, text: str, problem: str
) -> None:
    with_sinks(checkpoint)
    write(checkpoint / SINKS / "lake" / "4", text, twin=False)
    [finding] = verify(CheckpointView(checkpoint)).findings
    assert problem in finding.problem
    assert finding.remedy.startswith("remove ")


def test_an_entry_of_a_newer_version_is_to_be_kept(checkpoint: Path) -> None:
    """Without it the sink would get the batch twice."""
    with_sinks(checkpoint)
    write(checkpoint / SINKS / "lake" / "4", 'v9\n{"batchTimestampMs":5}', twin=False)
    [finding] = verify(CheckpointView(checkpoint)).findings
    assert "encountered v9" in finding.problem
    assert finding.remedy.startswith("keep ")
