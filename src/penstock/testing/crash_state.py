"""A digest of the state after a crash: crashes with equal digests need one restart only."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from penstock.engine.faults import FaultPoint
from penstock.testing.crash_faults import BatchPoint

_EFFECTS = frozenset(
    {
        FaultPoint.BEFORE_SINK,
        FaultPoint.AFTER_SINK,
        FaultPoint.BEFORE_NAMED_SINK,
        FaultPoint.BEFORE_SINK_ENTRY,
        FaultPoint.BEFORE_SOURCE_COMMIT,
        FaultPoint.AFTER_SOURCE_COMMIT,
    }
)
"""The points around the calls that may change something outside the folder."""

_CHANCE = re.compile(
    rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"  # ids
    rb"|(?<![0-9])1[5-9][0-9]{11}(?![0-9])"  # milliseconds since 1970
    rb"|(?<=attempt_)[0-9]+"  # the time in the name of a task's attempt
    rb'|(?<="pid": )[0-9]+'  # the process that held the lock of the checkpoint
)
"""Values that differ between two equivalent runs."""


def state_digest(work: Path, reached: Sequence[BatchPoint]) -> str:
    """A digest that is equal for two crashes after which a restart finds the same state.

    It covers the names and contents of all files in `work`, except random ids, times and the path
    of `work` itself, and the calls of the sink and the commits to sources that began or ended.
    """
    digest = hashlib.sha256("\n".join(map(str, _effects(reached))).encode())
    entries = sorted(
        (_masked(bytes(path.relative_to(work)), work), _masked(path.read_bytes(), work))
        for path in work.rglob("*")
        if path.is_file() and not _is_checksum(path)
    )
    for name, content in entries:
        digest.update(name + b"\0" + hashlib.sha256(content).digest())
    return digest.hexdigest()


def _effects(reached: Sequence[BatchPoint]) -> list[BatchPoint]:
    """The points around calls with effects, except a last one that is before such a call."""
    before = reached[:-1] if reached and reached[-1].point.value.startswith("before_") else reached
    return [one for one in before if one.point in _EFFECTS]


def _masked(content: bytes, work: Path) -> bytes:
    return _CHANCE.sub(b"?", content.replace(bytes(work), b"{work}"))


def _is_checksum(path: Path) -> bool:
    """Whether a file is the `.crc` checksum of an existing file."""
    name = path.name
    is_crc = name.startswith(".") and name.endswith(".crc")
    return is_crc and path.with_name(name[1 : -len(".crc")]).exists()
