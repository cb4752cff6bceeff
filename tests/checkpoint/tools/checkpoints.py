"""Checkpoints as Spark writes them, created without a JVM."""

from __future__ import annotations

import errno
import json
import os
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint.paths import CheckpointPath

QUERY_ID = "5a3b0f0e-1111-4222-8333-944455556666"
PARTITIONS = 2


def write(path: Path, data: str | bytes, *, twin: bool = True) -> Path:
    """Write a file with its checksum file, as Hadoop's local file system does."""
    content = data.encode() if isinstance(data, str) else data
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if twin:
        sums = [zlib.crc32(content[i : i + 512]) for i in range(0, len(content), 512)]
        header = b"crc\x00" + struct.pack(">i", 512)
        path.with_name(f".{path.name}.crc").write_bytes(
            header + b"".join(struct.pack(">I", s) for s in sums)
        )
    return path


def offsets_text(offsets: Iterable[str], watermark: int = 0, timestamp: int = 1000) -> str:
    conf = {"spark.sql.shuffle.partitions": str(PARTITIONS)}
    fields = {"batchWatermarkMs": watermark, "batchTimestampMs": timestamp, "conf": conf}
    return "\n".join(["v1", json.dumps(fields, separators=(",", ":")), *offsets])


def commit_text(watermark: int = 0) -> str:
    return f'v1\n{{"nextBatchWatermarkMs":{watermark}}}'


def file_entry(number: int) -> str:
    path = f"hdfs://store/data/{number}.txt"
    return json.dumps({"path": path, "timestamp": number, "batchId": number}, separators=(",", ":"))


def stateless(root: Path, batches: int = 4, *, planned: bool = False) -> Path:
    """A query over files with committed batches and, if `planned`, one planned batch after them.

    Batch timestamps are derived from the batch number; the modification times are old.
    """
    write(root / "metadata", json.dumps({"id": QUERY_ID}))
    total = batches + planned
    for batch in range(total):
        write(root / "sources/0" / str(batch), f"v1\n{file_entry(batch)}")
        text = offsets_text([f'{{"logOffset":{batch}}}'], batch * 10, 1000 + batch)
        write(root / "offsets" / str(batch), text)
        if batch < batches:
            write(root / "commits" / str(batch), commit_text((batch + 1) * 10))
    age(root)
    return root


def stateful(
    root: Path, batches: int = 4, *, planned: bool = False, provider: str = "hdfs"
) -> Path:
    """A stateful query: every committed batch N has written version N+1 of both partitions."""
    stateless(root, batches, planned=planned)
    metadata = {
        "operatorInfo": {"operatorId": 0, "operatorName": "stateStoreSave"},
        "stateStoreInfo": [
            {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": PARTITIONS}
        ],
    }
    write(root / "state/0/_metadata/metadata", f"v1\n{json.dumps(metadata)}")
    for partition in range(PARTITIONS):
        for version in range(1, batches + 1):
            state_version(root, partition, version, "delta" if provider == "hdfs" else "changelog")
    age(root)
    return root


def state_version(root: Path, partition: int, version: int, kind: str) -> Path:
    return write(root / f"state/0/{partition}/{version}.{kind}", f"{kind} {version}")


def two_sources(root: Path, batches: int = 3) -> Path:
    """A query over two sources, the second of which also has a file of its own."""
    write(root / "metadata", json.dumps({"id": QUERY_ID}))
    for batch in range(batches):
        for source in range(2):
            write(root / f"sources/{source}" / str(batch), f"v1\n{file_entry(10 * source + batch)}")
        both = [f'{{"logOffset":{batch}}}', f'{{"logOffset":{batch - 1}}}' if batch else "-"]
        write(root / "offsets" / str(batch), offsets_text(both))
        write(root / "commits" / str(batch), commit_text())
    age(root)
    return root


def age(root: Path) -> None:
    """Set old modification times, so that no query seems to be running."""
    for path in root.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))


def forbid_reading(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """Make every attempt to read a file fail. Its permissions do not, for root."""

    def refusing(method: Any) -> Any:
        def read(path: Path, *args: Any, **kwargs: Any) -> Any:
            if path == file:
                raise PermissionError(errno.EACCES, "Permission denied", str(file))
            return method(path, *args, **kwargs)

        return read

    for name in ("open", "read_bytes", "read_text"):
        monkeypatch.setattr(Path, name, refusing(getattr(Path, name)))


def forbid_listing(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """Make every attempt to list a directory fail."""
    scandir = os.scandir

    def scanned(path: str | os.PathLike[str] = ".") -> Any:
        if Path(path) == directory:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scanned)


def content_of(root: Path) -> dict[str, bytes]:
    """The content of every file below a checkpoint except Penstock's own."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".penstock" not in path.relative_to(root).parts
    }


def names_in(root: CheckpointPath, directory: str) -> list[str]:
    """The names in a directory, without checksum files."""
    return sorted(p.name for p in (root / directory).iterdir() if not p.name.startswith("."))
