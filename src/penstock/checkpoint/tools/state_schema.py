"""Whether the state of an operator has a key, from its metadata and the schema of its state.

    state/<operator>/0/_metadata/schema    strings with their length: the version of the file, the
                                           schema of the key, the schema of the value

State without a key has one row, which is in partition 0, whatever number of partitions the query
has: Spark computes the operator in a single task.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.checkpoint.paths import CheckpointPath

_LIMIT = "globalLimit"
_SESSION_WINDOW = "sessionWindow"


def has_no_key(
    operator: CheckpointPath, name: str | None, stores: Sequence[Mapping[str, Any]]
) -> bool:
    """Whether the state of the operator in a directory has no key.

    `name` and `stores` are those in its metadata. If neither they nor the schema tell, it has one.
    """
    if name == _LIMIT:
        return True
    if name is not None and name.startswith(_SESSION_WINDOW):
        # The start of a session is part of the key, but not of what the state is partitioned by.
        return any(store.get("numColsPrefixKey") == 0 for store in stores)
    try:
        return key_columns((operator / "0" / "_metadata" / "schema").read_bytes()) == 0
    except (OSError, ValueError):
        return False


def key_columns(schema: bytes) -> int | None:
    """The number of columns of the key in a schema file; None for formats with several keys.

    Raises ValueError if the file cannot be read.
    """
    version, rest = _text(schema)
    if version == "v2":  # a text is split into parts of at most 64 KiB
        parts, rest = int.from_bytes(rest[:4], "big"), rest[4:]
    elif version == "v1":
        parts = 1
    else:
        return None
    key = ""
    for _ in range(parts):
        part, rest = _text(rest)
        key += part
    return len(json.loads(key).get("fields", ()))


def _text(data: bytes) -> tuple[str, bytes]:
    """The text at the beginning, after its length in two bytes, and what follows it."""
    length = int.from_bytes(data[:2], "big")
    if len(data) < 2 + length:
        raise ValueError("the schema file is truncated")
    return data[2 : 2 + length].decode(), data[2 + length :]
