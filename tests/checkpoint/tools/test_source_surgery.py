"""Setting offsets; adding, removing and reordering sources."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.checkpoint.tools import backup, source_surgery
from penstock.checkpoint.tools.changes import Plan
from penstock.checkpoint.tools.verify import verify
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import SurgeryRefusedError
from tests.checkpoint.tools.checkpoints import (
    content_of,
    names_in,
    stateful,
    stateless,
    two_sources,
    write,
)
from tests.streams import logged_offsets

META = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


def named(root: Path, *lines: str) -> Path:
    """A checkpoint whose sources have names, with two identical batches."""
    stateless(root, 2)
    for batch in range(2):
        write(root / f"offsets/{batch}", "\n".join(["v2", META, *lines]))
    for path in (root / "sources/0").iterdir():
        path.unlink()
    return root


def apply(root: Path, plan: Callable[[CheckpointView], Plan]) -> CheckpointView:
    backup.apply(root, plan(CheckpointView(root)))
    return CheckpointView(root)


def test_set_offset_changes_the_newest_two_entries(checkpoint: Path) -> None:
    stateless(checkpoint)
    view = apply(checkpoint, lambda v: source_surgery.set_offset(v, "0", '{ "logOffset": 1 }'))
    assert [logged_offsets(checkpoint, n)[0] for n in range(4)] == [
        {"logOffset": 0},
        {"logOffset": 1},
        {"logOffset": 1},
        {"logOffset": 1},
    ]
    assert view.entry(3).offsets == ('{"logOffset":1}',)
    assert names_in(checkpoint, "sources/0") == ["0", "1"]
    assert not (checkpoint / "offsets/.3.crc").exists()
    assert verify(view).will_restart


def test_set_offset_of_any_other_source_leaves_its_files(checkpoint: Path) -> None:
    named(checkpoint, 'a:{"t":{"0":5}}', "b:7")
    write(checkpoint / "sources/a/0", "v1\n{}")
    view = apply(checkpoint, lambda v: source_surgery.set_offset(v, "a", '{"t":{"0":2}}'))
    assert view.entry(1).offsets == ('{"t":{"0":2}}', "7")
    assert names_in(checkpoint, "sources/a") == ["0"]


def test_set_offset_finds_a_named_source_at_any_position(checkpoint: Path) -> None:
    named(checkpoint, "a:1", "b:2")
    write(checkpoint / "offsets/1", f"v2\n{META}\nb:2\na:1")
    view = apply(checkpoint, lambda v: source_surgery.set_offset(v, "a", "9"))
    assert (view.entry(0).offsets, view.entry(1).offsets) == (("9", "2"), ("2", "9"))


@pytest.mark.parametrize(
    ("source", "offset", "why"),
    [
        ("1", "3", "no source '1'; there are 0"),
        ("0", "not json", "is not JSON"),
        ("0", '{"logOffset":NaN}', "is not JSON .*NaN is no number in JSON"),
        ("0", "-Infinity", "is not JSON"),
        ("0", '{"logOffset":1e400}', "is not JSON .*1e400 is no number in JSON"),
        ("0", "5", "is a file source"),
        ("0", '{"logOffset":9}', "has entries up to 3 only"),
    ],
)
def test_set_offset_refuses_invalid_offsets(
    checkpoint: Path, source: str, offset: str, why: str
) -> None:
    stateless(checkpoint)
    with pytest.raises(SurgeryRefusedError, match=why):
        source_surgery.set_offset(CheckpointView(checkpoint), source, offset)


def test_set_offset_refuses_while_a_batch_is_planned(checkpoint: Path) -> None:
    stateless(checkpoint, planned=True)
    with pytest.raises(SurgeryRefusedError, match="checkpoint replan"):
        source_surgery.set_offset(CheckpointView(checkpoint), "0", "-")


def test_set_offset_warns_of_an_offset_of_another_form(checkpoint: Path) -> None:
    named(checkpoint, 'a:{"t":{"0":5}}')
    plan = source_surgery.set_offset(CheckpointView(checkpoint), "a", "5")
    assert "has another form than" in plan.warnings[-1]


@pytest.mark.parametrize(
    ("offset", "movement"),
    [
        ('{"t":{"0":7}}', r"\+2, 1 partition missing"),
        ('{"t":{"0":5,"1":6,"2":0}}', r"\+0, 1 partition added"),
        ('{"t":{"0":7,"1":8}}', None),
    ],
)
def test_set_offset_warns_of_other_partitions(
    checkpoint: Path, offset: str, movement: str | None
) -> None:
    """A partition that is left out by mistake would start at its beginning."""
    named(checkpoint, 'a:{"t":{"0":5,"1":6}}')
    plan = source_surgery.set_offset(CheckpointView(checkpoint), "a", offset)
    warned = [w for w in plan.warnings if "starts at its beginning" in w]
    assert len(warned) == (movement is not None)
    if movement is not None:
        assert re.search(rf"current offset \({movement}\)", warned[0])


def test_set_offset_warns_of_state_that_counts_twice(checkpoint: Path) -> None:
    plan = source_surgery.set_offset(CheckpointView(stateful(checkpoint)), "0", "-")
    assert "counted again" in plan.warnings[1]


def test_a_source_is_added_at_the_end(checkpoint: Path) -> None:
    two_sources(checkpoint)
    view = apply(checkpoint, lambda v: source_surgery.add_source(v))
    assert view.entry(2).offsets == ('{"logOffset":2}', '{"logOffset":1}', None)
    assert len(view.entry(1).offsets) == 3
    assert len(view.entry(0).offsets) == 2
    assert verify(view).will_restart


def test_a_source_is_added_in_between_with_an_offset(checkpoint: Path) -> None:
    two_sources(checkpoint)
    before = (checkpoint / "sources/1/0").read_bytes()
    view = apply(checkpoint, lambda v: source_surgery.add_source(v, "1", "42"))
    assert view.entry(2).offsets == ('{"logOffset":2}', "42", '{"logOffset":1}')
    assert (checkpoint / "sources/2/0").read_bytes() == before
    assert not (checkpoint / "sources/1").exists()


def test_a_source_is_removed_and_the_next_moves_up(checkpoint: Path) -> None:
    two_sources(checkpoint)
    before = (checkpoint / "sources/1/0").read_bytes()
    view = apply(checkpoint, lambda v: source_surgery.remove_source(v, "0"))
    assert view.entry(2).offsets == ('{"logOffset":1}',)
    assert (checkpoint / "sources/0/0").read_bytes() == before
    assert not (checkpoint / "sources/1").exists()


def test_sources_are_reordered_and_back(checkpoint: Path) -> None:
    two_sources(checkpoint)
    before = content_of(checkpoint)
    apply(checkpoint, lambda v: source_surgery.reorder_sources(v, [1, 0]))
    after = content_of(checkpoint)
    assert after["sources/0/2"] == before["sources/1/2"]
    assert after["sources/1/2"] == before["sources/0/2"]
    assert logged_offsets(checkpoint, 2) == [{"logOffset": 1}, {"logOffset": 2}]
    backup.revert(checkpoint, backup.check_undo(checkpoint))
    assert content_of(checkpoint) == before


@pytest.mark.parametrize(
    ("order", "why"),
    [([0], "not an order"), ([0, 0], "not an order"), ([0, 1], "in this order already")],
)
def test_an_invalid_order_is_refused(checkpoint: Path, order: list[int], why: str) -> None:
    with pytest.raises(SurgeryRefusedError, match=why):
        source_surgery.reorder_sources(CheckpointView(two_sources(checkpoint)), order)


def test_the_only_source_cannot_be_removed(checkpoint: Path) -> None:
    with pytest.raises(SurgeryRefusedError, match="only source"):
        source_surgery.remove_source(CheckpointView(stateless(checkpoint)), "0")


@pytest.mark.parametrize("at", ["5", "x"])
def test_an_invalid_position_is_refused(checkpoint: Path, at: str) -> None:
    with pytest.raises(SurgeryRefusedError, match="not a position from 0 to 1"):
        source_surgery.add_source(CheckpointView(stateless(checkpoint)), at)


def test_named_sources_are_added_and_removed_by_name(checkpoint: Path) -> None:
    named(checkpoint, "a:1", "b:2")
    write(checkpoint / "sources/b/0", "v1\nx")
    view = apply(checkpoint, lambda v: source_surgery.add_source(v, "c", "3"))
    assert view.entry(1).source_ids == ("a", "b", "c")
    view = apply(checkpoint, lambda v: source_surgery.remove_source(v, "b"))
    assert view.entry(1).source_ids == ("a", "c")
    assert view.entry(1).offsets == ("1", "3")
    assert not (checkpoint / "sources/b").exists()


def test_named_sources_need_no_order_and_no_entry(checkpoint: Path) -> None:
    view = CheckpointView(named(checkpoint, "a:1", "b:2"))
    with pytest.raises(SurgeryRefusedError, match="order does not matter"):
        source_surgery.reorder_sources(view, [1, 0])
    with pytest.raises(SurgeryRefusedError, match="needs no entry"):
        source_surgery.add_source(view, "c")
    with pytest.raises(SurgeryRefusedError, match="give a new name"):
        source_surgery.add_source(view, "a", "1")


def test_numbered_sources_of_format_2_are_moved_by_number(checkpoint: Path) -> None:
    named(checkpoint, "1:20", "0:10")
    view = apply(checkpoint, lambda v: source_surgery.add_source(v, "0", "5"))
    entry = view.entry(1)
    assert dict(zip(entry.source_ids or (), entry.offsets, strict=True)) == {
        "0": "5",
        "1": "10",
        "2": "20",
    }
    view = apply(checkpoint, lambda v: source_surgery.remove_source(v, "1"))
    assert view.entry(1).offsets == ("5", "20")


def test_there_is_no_source_before_the_first_batch(checkpoint: Path) -> None:
    (checkpoint / "offsets").mkdir(parents=True)
    with pytest.raises(SurgeryRefusedError, match="no batch has been planned"):
        source_surgery.add_source(CheckpointView(checkpoint))
