"""The entries of a query with many sinks, below `.penstock/`.

    .penstock/sinks/<name>/<batch>     the sink has finished the batch
    .penstock/sink-names/<number>      the names of the sinks from some batch on

A file is two lines, with no newline at the end:

    v1                                 v1
    {"batchTimestampMs":1502872590006} {"fromBatch":8,"sinks":["lake","alerts"]}
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from penstock.checkpoint.files import CheckpointFiles
from penstock.checkpoint.json_text import integer_field
from penstock.checkpoint.known_files import KnownFiles
from penstock.checkpoint.own_files import OWN_DIRECTORY
from penstock.checkpoint.own_log import OwnLog
from penstock.errors import MalformedLogError

SINKS = f"{OWN_DIRECTORY}/sinks"
"""The directory of the entries, relative to the checkpoint's root; one directory for each sink."""

SINK_NAMES = f"{OWN_DIRECTORY}/sink-names"
"""The directory of the recorded names, relative to the checkpoint's root."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def check_sink_name(name: str) -> None:
    """Raise ValueError unless a text can name a sink, and so the directory of its entries."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(
            f"{name!r} cannot be the name of a sink: it must have 1 to 100 of the characters "
            "A-Z, a-z, 0-9, '_', '-' and '.', and begin with a letter or a digit"
        )


@dataclass(frozen=True)
class SinkEntry:
    """Says that a sink has finished a batch, as planned at `batch_timestamp_ms`.

    That is the timestamp in the batch's entry of the offset log: a batch that is planned anew has
    another one.
    """

    batch_timestamp_ms: int


@dataclass(frozen=True)
class SinkNames:
    """The names of the sinks of a query, in order, from a batch on."""

    from_batch: int
    names: tuple[str, ...]


class SinkEntryLog(OwnLog[SinkEntry]):
    """The entries of one sink."""

    what = "An entry of a sink"

    def __init__(self, files: CheckpointFiles, name: str, known: KnownFiles | None = None) -> None:
        super().__init__(files, f"{SINKS}/{name}", known)

    def fields_of(self, entry: SinkEntry) -> dict[str, Any]:
        return {"batchTimestampMs": entry.batch_timestamp_ms}

    def from_fields(self, fields: dict[str, Any]) -> SinkEntry:
        return SinkEntry(integer_field(fields, "batchTimestampMs", self.what))

    def forget_all(self) -> None:
        """Remove all entries: the sink is no longer part of the query."""
        self._remove(self.list_batches())


class SinkNamesLog(OwnLog[SinkNames]):
    """The recorded names. The key of an entry is a running number, not a batch id."""

    what = "A record of the names of sinks"

    def __init__(self, files: CheckpointFiles, known: KnownFiles | None = None) -> None:
        super().__init__(files, SINK_NAMES, known)

    def fields_of(self, entry: SinkNames) -> dict[str, Any]:
        return {"fromBatch": entry.from_batch, "sinks": list(entry.names)}

    def from_fields(self, fields: dict[str, Any]) -> SinkNames:
        names = fields.get("sinks")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise MalformedLogError(f"{self.what} has 'sinks' = {names!r}, not a list of names")
        return SinkNames(integer_field(fields, "fromBatch", self.what), tuple(names))

    def of_batch(self, batch_id: int) -> SinkNames | None:
        """The newest record that applies to a batch; None if there is none."""
        for number in reversed(self.list_batches()):
            record = self._get_existing(number)
            if record.from_batch <= batch_id:
                return record
        return None

    def append(self, record: SinkNames) -> bool:
        """Add a record with the next number. False if another run has just used that number."""
        return self.add(max(self.list_batches(), default=-1) + 1, record)
