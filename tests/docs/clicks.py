"""Writes the checkpoint of a query over a Kafka topic, without a JVM."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.checkpoint.tools.checkpoints import write

QUERY_ID = "4f1d2c9e-7a35-4b86-9c07-5d0e6b1f8a42"
FIRST, PLANNED = 38, 42
_MIDNIGHT = 1_767_225_600  # 2026-01-01, UTC


def clicks(root: Path) -> Path:
    """A query over a Kafka topic: batches 38 to 41 are committed, 42 is planned."""
    write(root / "metadata", json.dumps({"id": QUERY_ID}), twin=False)
    for batch in range(FIRST, PLANNED + 1):
        at = _MIDNIGHT + batch * 60
        metadata = {
            "batchWatermarkMs": 0,
            "batchTimestampMs": at * 1000,
            "conf": {"spark.sql.shuffle.partitions": "8"},
        }
        offsets = {"clicks": {"0": 1200 * batch, "1": 1187 * batch}}
        lines = ["v1", *(json.dumps(part, separators=(",", ":")) for part in (metadata, offsets))]
        os.utime(write(root / f"offsets/{batch}", "\n".join(lines), twin=False), (at, at))
        if batch < PLANNED:
            commit = write(root / f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}', twin=False)
            os.utime(commit, (at + 4, at + 4))
    return root
