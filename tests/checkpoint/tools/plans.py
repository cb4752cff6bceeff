"""A plan of every command, each on a checkpoint that is made for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.checkpoint.tools import source_surgery, surgery
from penstock.checkpoint.tools.changes import Change, Kind, Plan
from penstock.checkpoint.tools.view import CheckpointView
from tests.checkpoint.tools.checkpoints import (
    age,
    commit_text,
    offsets_text,
    stateful,
    stateless,
    two_sources,
    write,
)


def rewind(root: Path) -> Plan:
    return surgery.rewind(CheckpointView(stateful(root, 2)), 0)


def replan(root: Path) -> Plan:
    return surgery.replan(CheckpointView(stateful(root, 0, planned=True)))


def replan_with_state(root: Path) -> Plan:
    write(root / "state/0/0/1.delta", "x")
    return replan(root)


def skip(root: Path) -> Plan:
    return surgery.skip(CheckpointView(stateless(root, 1, planned=True)))


def set_offset(root: Path) -> Plan:
    return source_surgery.set_offset(CheckpointView(stateless(root, 2)), "0", "-")


def add_source(root: Path) -> Plan:
    return source_surgery.add_source(CheckpointView(stateless(root, 2)))


def remove_source(root: Path) -> Plan:
    return source_surgery.remove_source(CheckpointView(two_sources(root, 2)), "0")


def reorder_sources(root: Path) -> Plan:
    return source_surgery.reorder_sources(CheckpointView(two_sources(root, 2)), [1, 0])


def repartition(root: Path) -> Plan:
    """The changes of `Repartition.plan_of`, without a batch that Spark has computed."""
    stateful(root, 2)
    new_state = root.with_name(f"{root.name}-draft")
    new_state.write_text("state of version 3")
    return Plan(
        "repartition --to 3",
        "",
        (
            Change(Kind.CREATE, "offsets/2", offsets_text(['{"logOffset":1}'], 20, 1).encode()),
            Change(Kind.CREATE, "state/0/2/3.snapshot", origin=new_state),
            Change(Kind.CREATE, "commits/2", commit_text(20).encode()),
        ),
    )


COMMANDS = (
    rewind,
    replan,
    replan_with_state,
    skip,
    set_offset,
    add_source,
    remove_source,
    reorder_sources,
    repartition,
)
every_command = pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c.__name__)


def run_batches(root: Path, batches: int = 2) -> None:
    """Run the planned batch, if there is one, and then others, as Spark's engine would.

    The commit of a batch has the same bytes whoever writes it.
    """
    for number in range(batches):
        view = CheckpointView(root)
        batch = view.next_batch
        if not view.is_planned:
            sources = len(view.entry(batch - 1).offsets) if batch else 1
            text = offsets_text(['{"logOffset":9}'] * sources, 10 * batch, 5000 + number)
            write(root / f"offsets/{batch}", text)
        write(root / f"commits/{batch}", commit_text(10 * batch))
    age(root)
