"""Offsets in words, and as parsed positions in `show` and `diff`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.checkpoint.tools.compare import compare
from penstock.checkpoint.tools.inspect import inspect, inspect_batch
from penstock.checkpoint.tools.offset_text import (
    in_words,
    kind_of,
    movement,
    partition_changes,
    position_in,
    ranges,
)
from penstock.checkpoint.tools.view import CheckpointView
from tests.checkpoint.tools.checkpoints import QUERY_ID, commit_text, offsets_text, write


@pytest.mark.parametrize(
    ("offset", "kind"),
    [
        ('{"logOffset":1}', "files"),
        ('{"topic":{"0":1,"1":2}}', "Kafka topics"),
        ("5", "counter"),
        ('{"sourceVersion":1,"reservoirId":"x","reservoirVersion":2}', "Delta table"),
        ('{"version":1,"snapshot_id":2,"position":3}', "Iceberg table"),
        ("not json", "unknown"),
        ("{}", "unknown"),
        ("true", "unknown"),
        (None, "unknown"),
    ],
)
def test_the_kind_of_a_source_is_derived_from_its_offset(offset: str | None, kind: str) -> None:
    assert kind_of(offset) == kind


def delta(version: int, index: int = -1, *, is_initial: bool = False, table: str = "x") -> str:
    fields = {"sourceVersion": 1, "reservoirId": table, "reservoirVersion": version}
    return json.dumps({**fields, "index": index, "isStartingVersion": is_initial})


def iceberg(snapshot: int, position: int, *, all_files: bool = False) -> str:
    fields = {"version": 1, "snapshot_id": snapshot, "position": position}
    return json.dumps({**fields, "scan_all_files": all_files})


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        ('{"t":{"1":12000,"0":5},"a":{"0":1}}', "a-0 at 1, t-0 at 5, t-1 at 12,000"),
        (
            json.dumps({"t": {str(n): 1000 * n for n in range(5)}, "u": {"10": 3, "9": 2}}),
            "t: 5 partitions at 0 to 4,000, u-9 at 2, u-10 at 3",
        ),
        (delta(1234), "version 1,234, before its first file"),
        (delta(12, -100), "version 12, before its first file"),
        (delta(12, 3, is_initial=True), "initial snapshot, version 12, file index 3"),
        (delta(12, -20), "version 12, at its schema change"),
        (iceberg(77, 3), "snapshot 77, position 3 of its added files"),
        (iceberg(77, 3, all_files=True), "snapshot 77, position 3 of its all files"),
        ('{"logOffset":4}', '{"logOffset":4}'),
        ("17", "17"),
        (None, "-"),
    ],
)
def test_an_offset_in_words(offset: str | None, words: str) -> None:
    assert in_words(offset) == words


@pytest.mark.parametrize(
    "offset",
    [
        None,
        "{}",
        "[]",
        "5",
        "not json",
        '{"t":{}}',
        '{"t":{"0":"x"}}',
        '{"t":{"0":1},"n":2}',
        '{"t":{"zero":1}}',
        '{"reservoirVersion":"3"}',
        '{"snapshot_id":1}',
        '{"logOffset":1}',
    ],
)
def test_offsets_of_other_sources_have_no_known_position(offset: str | None) -> None:
    assert position_in(offset) is None
    assert partition_changes(offset, offset) is None


def test_the_position_in_an_offset() -> None:
    assert position_in('{"t":{"1":12,"0":5}}') == {
        "partitions": [
            {"topic": "t", "partition": 0, "offset": 5},
            {"topic": "t", "partition": 1, "offset": 12},
        ]
    }
    assert position_in(delta(12, 3)) == {
        "tableId": "x",
        "version": 12,
        "index": 3,
        "isInitialSnapshot": False,
    }
    assert position_in(iceberg(77, 3, all_files=True)) == {
        "snapshotId": 77,
        "position": 3,
        "scansAllFiles": True,
    }


def of_offsets(root: Path, *offsets: str) -> CheckpointView:
    """A checkpoint of committed batches with these offsets."""
    write(root / "metadata", json.dumps({"id": QUERY_ID}))
    for batch, offset in enumerate(offsets):
        write(root / "offsets" / str(batch), offsets_text([offset]))
        write(root / "commits" / str(batch), commit_text())
    return CheckpointView(root)


def test_the_partitions_of_a_batch(checkpoint: Path) -> None:
    view = of_offsets(checkpoint, '{"t":{"0":5,"1":7}}', '{"t":{"0":9,"2":1}}')
    assert inspect_batch(view, 1).to_dict()["positions"] == {
        "0": {
            "partitions": [
                {"topic": "t", "partition": 0, "start": 5, "end": 9, "count": 4},
                {"topic": "t", "partition": 1, "start": 7, "end": None, "count": None},
                {"topic": "t", "partition": 2, "start": None, "end": 1, "count": None},
            ]
        }
    }
    assert inspect(view).to_dict()["sources"][0]["position"]["partitions"][1]["offset"] == 1


def test_the_versions_of_a_batch(checkpoint: Path) -> None:
    view = of_offsets(checkpoint, delta(3), delta(5, 2))
    (position,) = inspect_batch(view, 1).positions.values()
    assert (position["start"]["version"], position["end"]["version"]) == (3, 5)
    assert inspect_batch(view, 0).positions["0"]["start"] is None
    assert inspect_batch(of_offsets(checkpoint, "1", "2"), 1).positions == {}


def test_offsets_are_compared_by_partition(checkpoint: Path, tmp_path: Path) -> None:
    left = of_offsets(checkpoint, '{"t":{"0":5,"1":7}}')
    right = of_offsets(tmp_path / "other", '{"t":{"0":5,"1":4,"2":3}}')
    (difference,) = compare(left, right)
    assert difference.in_words == ("t-1 at 7", "t-1 at 4, t-2 at 3")
    assert difference.to_dict() == {
        "subject": "batch 0 source 0",
        "left": '{"t":{"0":5,"1":7}}',
        "right": '{"t":{"0":5,"1":4,"2":3}}',
        "distance": "+0, 1 partition added",
        "partitions": [
            {"topic": "t", "partition": 1, "left": 7, "right": 4, "count": -3},
            {"topic": "t", "partition": 2, "left": None, "right": 3, "count": None},
        ],
    }


def test_other_offsets_are_compared_as_a_whole(checkpoint: Path, tmp_path: Path) -> None:
    left = of_offsets(checkpoint, delta(3))
    right = of_offsets(tmp_path / "other", delta(5))
    (difference,) = compare(left, right)
    assert difference.distance == "+2 versions"
    assert difference.in_words[1] == "version 5, before its first file"
    assert "partitions" not in difference.to_dict()


@pytest.mark.parametrize(
    ("old", "new", "moved"),
    [
        ("1", "1", "unchanged"),
        (None, "1", "started"),
        ("1", None, "lost its offset"),
        ("1", "2001", "+2,000"),
        ("5", "2", "-3"),
        ('{"t":{"0":1,"1":5}}', '{"t":{"0":11,"1":8}}', "+13"),
        ('{"t":{"0":1,"1":5}}', '{"t":{"0":11,"1":2}}', "+7, partly back"),
        ('{"t":{"0":1}}', '{"t":{"0":1,"1":4}}', "+4, 1 partition added"),
        ('{"t":{"0":1,"1":4},"u":{"0":9}}', '{"t":{"0":3}}', "+2, 2 partitions missing"),
        (delta(3), delta(5), "+2 versions"),
        (delta(3), delta(2), "-1 version"),
        (delta(3, 0), delta(3, 4), "+4 files"),
        (delta(3), delta(3, 0), "+1 file"),
        (delta(3, is_initial=True), delta(3, 4), "changed"),
        (delta(3, -20), delta(3, -19), "changed"),
        (delta(3), delta(3, table="y"), "another table"),
        (iceberg(7, 2), iceberg(7, 5), "+3 in the snapshot"),
        (iceberg(7, 2), iceberg(8, 5), "another snapshot"),
        ('"a"', '"b"', "changed"),
        ("x", "y", "changed"),
        ('{"a":true}', '{"a":false}', "changed"),
        ("{}", '{"t":{"0":4}}', "+4"),
        ('{"logOffset":3}', '{"logOffset":5}', "+2"),
        (
            '{"offset":10,"timestamp":1000}',
            '{"offset":20,"timestamp":2000}',
            "offset +10, timestamp +1,000",
        ),
        ('{"n":9,"same":"x"}', '{"n":2,"same":"x"}', "n -7"),
        ('{"a":1,"b":1,"c":1,"d":1}', '{"a":2,"b":2,"c":2,"d":2}', "changed"),
        ('{"n":1,"token":"x"}', '{"n":2,"token":"y"}', "changed"),
        ('{"n":1}', '{"n":2,"m":2}', "changed"),
        ('{"n":{"m":1}}', '{"n":{"m":2}}', "changed"),
        ('{"[red]n":1}', '{"[red]n":2}', "changed"),
        ("5", '{"offset":6}', "changed"),
    ],
)
def test_the_difference_of_two_offsets(old: str | None, new: str | None, moved: str) -> None:
    assert movement(old, new) == moved


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([3, 4], "3 to 4"), ([1, 2, 3, 7, 9, 10], "1 to 3, 7, 9 to 10")],
)
def test_consecutive_numbers_are_ranges(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text
