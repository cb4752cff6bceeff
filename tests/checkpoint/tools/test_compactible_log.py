"""Reading the log of a file source, from single and from compact files."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.checkpoint.tools.compactible_log import CompactibleLog
from penstock.errors import MalformedLogError
from tests.checkpoint.tools.checkpoints import file_entry, write


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
