"""Reading the log of a file source, from single and from compact files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.checkpoint.tools.compactible_log import CompactibleLog
from penstock.errors import MalformedLogError, SurgeryRefusedError
from tests.checkpoint.tools.checkpoints import file_entry, forbid_reading, write


def numbers(log: CompactibleLog, after: int, last: int) -> list[int]:
    return [entry["batchId"] for entry in log.entries_between(after, last)]


def test_entries_from_their_own_files_and_from_the_compacted_one(tmp_path: Path) -> None:
    write(tmp_path / "2.compact", "\n".join(["v1", *map(file_entry, range(3))]))
    write(tmp_path / "3", f"v1\n{file_entry(3)}\n{file_entry(3)}")
    log = CompactibleLog.scan(tmp_path)
    assert numbers(log, -1, 3) == [0, 1, 2, 3, 3]
    assert numbers(log, 0, 1) == [1]
    assert numbers(log, 1, 2) == [2]
    assert numbers(log, 3, 3) == []
    with pytest.raises(MalformedLogError, match="has no entry 4"):
        log.entries_between(3, 4)


def test_the_missing_entries_are_those_after_the_newest_compact_one(tmp_path: Path) -> None:
    for name in ("2.compact", "3", "6", "9"):
        write(tmp_path / name, "v1")
    log = CompactibleLog.scan(tmp_path)
    assert log.missing_up_to(9) == [range(4, 6), range(7, 9)]
    assert log.missing_up_to(4) == [range(4, 5)]
    assert log.missing_up_to(3) == []
    assert log.missing_up_to(1) == [range(2)]
    assert log.missing_up_to(-1) == []
    assert log.gaps(range(2, 4)) == []


def test_a_log_that_cannot_be_cut_back_at_all(tmp_path: Path) -> None:
    for name in ("4", "5"):
        write(tmp_path / name, "v1")
    with pytest.raises(SurgeryRefusedError, match=r"It cannot be cut back to any entry\.$"):
        CompactibleLog.scan(tmp_path).beyond(4)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_final_line_end_is_ignored(tmp_path: Path, end: str) -> None:
    """As by Spark, which reads a log by lines."""
    write(tmp_path / "0", end.join(["v1", file_entry(0), file_entry(0), ""]))
    log = CompactibleLog.scan(tmp_path)
    assert log.is_file_log
    assert log.entries(0) == [json.loads(file_entry(0))] * 2
    assert numbers(log, -1, 0) == [0, 0]


@pytest.mark.parametrize("text", ["", "v1\n{", "v1\n\n{}", "v1\n{}\n\n", "{}"])
def test_an_entry_that_spark_cannot_read_is_malformed(tmp_path: Path, text: str) -> None:
    write(tmp_path / "0", text)
    with pytest.raises(MalformedLogError):
        CompactibleLog.scan(tmp_path).entries(0)


def test_a_compact_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "4.compact", "\n".join(["v1", *map(file_entry, range(5))]))
    read: list[str] = []
    read_bytes = Path.read_bytes

    def recording(path: Path) -> bytes:
        read.append(path.name)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", recording)
    assert numbers(CompactibleLog.scan(tmp_path), -1, 3) == [0, 1, 2, 3]
    assert read == ["4.compact"]


def test_a_refusal_to_cut_has_the_reason(tmp_path: Path) -> None:
    with pytest.raises(SurgeryRefusedError, match=r"to entry 3: it has no entry\."):
        CompactibleLog.scan(tmp_path).beyond(3)
    for number in (0, 1, 4):
        write(tmp_path / str(number), f"v1\n{file_entry(number)}")
    with pytest.raises(SurgeryRefusedError, match="it has entries up to 4 only"):
        CompactibleLog.scan(tmp_path).beyond(5)
    with pytest.raises(SurgeryRefusedError, match=r"need .*/2, which is missing\. .* is 0\."):
        CompactibleLog.scan(tmp_path).beyond(3)
    write(tmp_path / "9.compact", "v1")
    with pytest.raises(
        SurgeryRefusedError, match=r"need .*/2, which was removed after it was comp"
    ):
        CompactibleLog.scan(tmp_path).beyond(3)


def test_a_log_that_may_not_be_read_is_of_no_known_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "0", f"v1\n{file_entry(0)}")
    forbid_reading(monkeypatch, tmp_path / "0")
    with pytest.raises(PermissionError):
        assert CompactibleLog.scan(tmp_path).is_file_log
    write(tmp_path / "1", f"v1\n{file_entry(1)}")
    assert CompactibleLog.scan(tmp_path).is_file_log
