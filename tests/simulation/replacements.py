"""Replacements of a checkpoint: an older copy of it, or the checkpoint of another query."""

from __future__ import annotations

from penstock.checkpoint import StreamMetadata
from penstock.checkpoint.quarantine_log import FAILURES
from penstock.checkpoint.sink_entries import SINK_NAMES
from tests.memory_world.files import Directories


def without_batch(directories: Directories, batch_id: int) -> Directories:
    """A copy without a batch."""
    return {
        directory: {
            name: data
            for name, data in files.items()
            if name != str(batch_id) or directory in (SINK_NAMES, FAILURES)
        }
        for directory, files in directories.items()
    }


def as_another_query_has_it(directories: Directories) -> Directories:
    """The checkpoint of another query with the same batches: another id, other timestamps."""
    copy = {directory: dict(files) for directory, files in directories.items()}
    copy[""]["metadata"] = StreamMetadata.new().json.encode()
    for name, data in copy.get("offsets", {}).items():
        copy["offsets"][name] = data.replace(b'"batchTimestampMs":1', b'"batchTimestampMs":2')
    return copy
