"""The record of what a batch leaves out, and what is kept by it."""

from __future__ import annotations

from penstock.checkpoint.quarantine_log import LeftOutPart, QuarantineRecord
from penstock.engine.batch_parts import BatchPart, FilesPart
from penstock.engine.data_stream import SourceFile
from penstock.engine.left_out import rest_of, source_keys
from tests.engine.world import World

SHARED, OTHER = SourceFile("/in/1", 1), SourceFile("/in/2", 2)


def test_another_source_keeps_the_file_that_one_leaves_out() -> None:
    world = World()
    left, right = world.add_files("left"), world.add_files("right")
    whole = BatchPart((FilesPart(left, (SHARED, OTHER)), FilesPart(right, (SHARED, OTHER))))
    part = LeftOutPart("1", "right", "ValueError: no number", "file", file=SHARED.path)
    record = QuarantineRecord(1_000, 2_000, "/aside", (part,))
    assert rest_of(whole, source_keys([left, right], None), record) == BatchPart(
        (FilesPart(left, (SHARED, OTHER)), FilesPart(right, (OTHER,)))
    )
