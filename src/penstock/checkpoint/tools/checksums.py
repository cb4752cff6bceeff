"""Hadoop's checksum files: `.7.crc` beside `7`, here called twins.

A twin has the bytes `crc` and zero, the chunk size as four bytes, and the CRC-32 of every chunk.
Hadoop's checksummed file system rejects a file whose content does not match its twin.
"""

from __future__ import annotations

import struct
import zlib

from penstock.checkpoint.paths import CheckpointPath, opened

_HEADER = struct.Struct(">4si")
_MAGIC = b"crc\x00"


def disagreement(file: CheckpointPath, twin: CheckpointPath) -> str | None:
    """Why Hadoop would reject a file because of its twin; None if it would not.

    A twin with an unknown header is ignored, as Hadoop does.
    """
    data = twin.read_bytes()
    if len(data) < _HEADER.size:
        return None
    magic, chunk = _HEADER.unpack_from(data)
    if magic != _MAGIC or chunk <= 0:
        return None
    recorded = data[_HEADER.size :]
    actual = b"".join(_checksums(file, chunk))
    # Hadoop does not detect a file that is truncated at the end of a chunk.
    return None if recorded.startswith(actual) else "its checksum was made for other content"


def _checksums(file: CheckpointPath, chunk: int) -> list[bytes]:
    found = []
    with opened(file) as stream:
        while piece := stream.read(chunk):
            found.append(struct.pack(">I", zlib.crc32(piece)))
    return found
