"""Whether two crashes left the same behind, so that one restart shows what follows from both."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from penstock.engine.faults import FaultPoint
from penstock.testing.crash_faults import Passage

_EFFECTS = frozenset(
    {
        FaultPoint.BEFORE_SINK,
        FaultPoint.AFTER_SINK,
        FaultPoint.BEFORE_SOURCE_COMMIT,
        FaultPoint.AFTER_SOURCE_COMMIT,
    }
)
"""Around the two calls of the protocol that are made to change something outside the folder."""

_CHANCE = re.compile(
    rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"  # ids
    rb"|(?<![0-9])1[5-9][0-9]{11}(?![0-9])"  # milliseconds since 1970
    rb"|(?<=attempt_)[0-9]+"  # the time in the name of a task's attempt
    rb'|(?<="pid": )[0-9]+'  # the process that held the lock of the checkpoint
)
"""What differs between two runs that do the same."""


def left_behind(work: Path, passed: Sequence[Passage]) -> str:
    """A text that is equal for two crashes after which a restart finds the same.

    Equal are the names and contents of all files in `work`, but for random ids, times and the name
    of `work` itself, and the calls of the sink and the commits to sources that began or ended.
    """
    digest = hashlib.sha256("\n".join(map(str, _effects(passed))).encode())
    entries = sorted(
        (_masked(bytes(path.relative_to(work)), work), _masked(path.read_bytes(), work))
        for path in work.rglob("*")
        if path.is_file() and not _is_checksum(path)
    )
    for name, content in entries:
        digest.update(name + b"\0" + hashlib.sha256(content).digest())
    return digest.hexdigest()


def _effects(passed: Sequence[Passage]) -> list[Passage]:
    """The passages around effects. A crash before one is as if the point had not been reached."""
    before = passed[:-1] if passed and passed[-1].point.value.startswith("before_") else passed
    return [passage for passage in before if passage.point in _EFFECTS]


def _masked(content: bytes, work: Path) -> bytes:
    return _CHANCE.sub(b"?", content.replace(bytes(work), b"{work}"))


def _is_checksum(path: Path) -> bool:
    """A file that follows from another one beside it."""
    name = path.name
    twin = name.startswith(".") and name.endswith(".crc")
    return twin and path.with_name(name[1 : -len(".crc")]).exists()
