"""Hadoop's checksum twins: `.7.crc` beside `7`.

A twin is `crc` and a zero byte, the size of a chunk as four bytes, and the CRC-32 of every chunk.
Where a file is read through Hadoop's checksummed file system, one whose twin disagrees is refused.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

_HEADER = struct.Struct(">4si")
_MAGIC = b"crc\x00"


def disagreement(file: Path, twin: Path) -> str | None:
    """Why Hadoop would refuse to read a file because of its twin; None if it would not.

    A twin whose header Hadoop does not know is passed over by Hadoop, and so here.
    """
    data = twin.read_bytes()
    if len(data) < _HEADER.size:
        return None
    magic, chunk = _HEADER.unpack_from(data)
    if magic != _MAGIC or chunk <= 0:
        return None
    recorded = data[_HEADER.size :]
    actual = b"".join(_checksums(file, chunk))
    # A file that ends early, at the end of a chunk, agrees as far as Hadoop reads.
    return None if recorded.startswith(actual) else "its checksum was made for other content"


def _checksums(file: Path, chunk: int) -> list[bytes]:
    found = []
    with file.open("rb") as stream:
        while piece := stream.read(chunk):
            found.append(struct.pack(">I", zlib.crc32(piece)))
    return found
