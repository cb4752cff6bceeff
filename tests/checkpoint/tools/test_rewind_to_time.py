"""Rewinding to the last batch that was planned before a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.checkpoint.tools import backup, surgery
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import CheckpointError, SurgeryRefusedError
from tests.checkpoint.tools.checkpoints import (
    commit_text,
    content_of,
    offsets_text,
    stateless,
    write,
)

SECOND_0 = 1_793_491_200_000  # 2026-11-01T00:00Z


def planned_at(root: Path, *seconds: int, planned: bool = False) -> CheckpointView:
    """A checkpoint whose batches were planned at these seconds; the last one may be uncommitted."""
    for batch, second in enumerate(seconds):
        at = SECOND_0 + 1000 * second
        write(root / "offsets" / str(batch), offsets_text([str(batch)], timestamp=at))
        if not planned or batch < len(seconds) - 1:
            write(root / "commits" / str(batch), commit_text())
    return CheckpointView(root)


def batch_before(view: CheckpointView, second: float) -> str:
    return surgery.rewind_to_time(view, SECOND_0 + int(1000 * second)).operation


@pytest.mark.parametrize(
    ("second", "batch"), [(0.001, 0), (10, 0), (10.001, 1), (20, 1), (29, 2), (30, 2), (99, 3)]
)
def test_the_last_batch_before_the_time(checkpoint: Path, second: float, batch: int) -> None:
    view = planned_at(checkpoint, 0, 10, 20, 30)
    assert batch_before(view, second) == f"rewind --to {batch}"


def test_the_plan_names_the_batch_and_its_time(checkpoint: Path) -> None:
    view = planned_at(checkpoint, 0, 10, 20, planned=True)
    before = content_of(checkpoint)
    plan = surgery.rewind_to_time(view, SECOND_0 + 15_000)
    assert plan.outcome.startswith(
        "Batch 1, planned at 2026-11-01T00:00:10.000Z, is the last one planned before "
        "2026-11-01T00:00:15.000Z. The next run continues after batch 1"
    )
    backup.apply(checkpoint, plan)
    assert CheckpointView(checkpoint).newest_batch == 1
    backup.revert(checkpoint, backup.check_undo(checkpoint))
    assert content_of(checkpoint) == before


def test_a_time_after_all_batches_changes_nothing(checkpoint: Path) -> None:
    view = planned_at(checkpoint, 0, 10)
    assert surgery.rewind_to_time(view, SECOND_0 + 99_000).changes == ()


def test_a_time_after_a_planned_batch_is_refused(checkpoint: Path) -> None:
    view = planned_at(checkpoint, 0, 10, planned=True)
    with pytest.raises(SurgeryRefusedError, match=r"nothing to rewind.* Batch 1, which is planned"):
        batch_before(view, 99)


def test_the_plan_of_a_batch_after_the_time_is_removed(checkpoint: Path) -> None:
    view = planned_at(checkpoint, 0, 10, planned=True)
    assert batch_before(view, 5) == "rewind --to 0"


def test_a_time_before_the_first_batch_is_refused(checkpoint: Path) -> None:
    view = planned_at(checkpoint, 0, 10)
    with pytest.raises(
        SurgeryRefusedError,
        match=r"oldest batch .* is 0, planned at 2026-11-01T00:00:00.000Z. The oldest possible "
        r"time is 2026-11-01T00:00:00.001Z",
    ):
        batch_before(view, 0)


def test_the_oldest_time_is_that_of_a_possible_target(checkpoint: Path) -> None:
    """A rewind to batch 0 is not possible without its entry, and one to batch 1 needs it too."""
    planned_at(checkpoint, 0, 10, 20, 30)
    (checkpoint / "offsets/0").unlink()
    view = CheckpointView(checkpoint)
    with pytest.raises(SurgeryRefusedError, match=r"oldest batch .* is 2, planned"):
        batch_before(view, 20)
    assert batch_before(view, 20.001) == "rewind --to 2"


def test_a_clock_that_was_set_back(checkpoint: Path) -> None:
    """No batch planned at the time or later remains, though a later one seems older."""
    view = planned_at(checkpoint, 0, 30, 10, 40)
    assert batch_before(view, 20) == "rewind --to 0"


def test_a_batch_that_cannot_be_a_target_is_refused_with_the_reason(checkpoint: Path) -> None:
    planned_at(checkpoint, 0, 10, 20, 30)
    (checkpoint / "commits/1").unlink()
    with pytest.raises(SurgeryRefusedError, match="a restart needs commits/1"):
        batch_before(CheckpointView(checkpoint), 15)


def test_an_entry_without_a_time_is_named(checkpoint: Path) -> None:
    planned_at(checkpoint, 0, 10)
    write(checkpoint / "offsets/0", offsets_text(["0"], timestamp=0))
    with pytest.raises(SurgeryRefusedError, match="offsets/0 has no time"):
        batch_before(CheckpointView(checkpoint), 5)


def test_no_batch_at_all(checkpoint: Path) -> None:
    (checkpoint / "offsets").mkdir(parents=True)
    with pytest.raises(SurgeryRefusedError, match="offset log is empty"):
        batch_before(CheckpointView(checkpoint), 5)


def test_no_possible_batch(checkpoint: Path) -> None:
    stateless(checkpoint, 0, planned=True)
    with pytest.raises(CheckpointError, match="cannot be rewound to any batch"):
        surgery.rewind_to_time(CheckpointView(checkpoint), 1000)
