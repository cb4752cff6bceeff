"""The input of most programs, and settings that several of them share."""

from __future__ import annotations

from tests.differential.program import Row


def at(second: int) -> str:
    """The timestamp `second` seconds after the start of the input."""
    return f"2025-03-01T10:{second // 60:02d}:{second % 60:02d}Z"


def event(key: str, value: int, second: int) -> Row:
    return {"time": at(second), "key": key, "value": value}


EVENT_FILES = (
    (event("a", 1, 0), event("b", 2, 3), event("a", 3, 6), event("a", 3, 6)),
    (event("a", 4, 12), event("c", 5, 14), event("b", 6, 8), event("b", 2, 3)),
    (event("b", 7, 31), event("c", 8, 33), event("a", 9, 2)),
    (event("a", 10, 55), event("d", 11, 41), event("c", 5, 14)),
)
"""Four batches. With a watermark of ten seconds the last row of each of the last two is late."""

EVENTS_ONLY = {"events": EVENT_FILES}

CLICK_FILES = (
    (event("a", 100, 1), event("z", 101, 2)),
    (event("b", 102, 9), event("a", 103, 13)),
    (event("c", 104, 30), event("z", 105, 34)),
    (event("a", 106, 56), event("b", 107, 5)),
)

EVENTS_AND_CLICKS = {"events": EVENT_FILES, "clicks": CLICK_FILES}

_STATE_STORE = "spark.sql.streaming.stateStore"
ROCKSDB = {
    f"{_STATE_STORE}.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
CHANGELOG = {
    **ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
STATE_IDS = {**CHANGELOG, f"{_STATE_STORE}.checkpointFormatVersion": "2"}
ROW_CHECKSUM = {f"{_STATE_STORE}.rowChecksum.enabled": "true"}
NO_EMPTY_BATCHES = {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}
