"""Bugs that the delivery to many sinks could have; see `planted_bugs`."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.checkpoint.sink_entries import SinkEntry, SinkEntryLog
from penstock.engine import sink_restart
from penstock.engine.batch_context import BatchContext
from penstock.engine.sink_delivery import SinkDelivery

Patch = pytest.MonkeyPatch


def entries_of_sinks_ignored(patch: Patch) -> None:
    patch.setattr(sink_restart, "_is_done", lambda *args: False)


def entry_before_sink(patch: Patch) -> None:
    call = SinkDelivery._call

    def enter_and_call(self: SinkDelivery, sink: Any, batch_id: int, write: Any) -> int:
        entry = self._runtime.checkpoint.offset_log.metadata_of(batch_id)
        assert entry is not None
        self.logs[sink.name].add(batch_id, SinkEntry(entry.batch_timestamp_ms))
        return call(self, sink, batch_id, write)

    patch.setattr(SinkDelivery, "_call", enter_and_call)


def commit_before_all_sinks(patch: Patch) -> None:
    """The failure of a sink does not fail the batch."""
    deliver = SinkDelivery._deliver

    def swallow(self: SinkDelivery, *args: Any) -> None:
        try:
            deliver(self, *args)
        except Exception:
            for sink in self.sinks:
                args[2].setdefault(sink.name, None)

    patch.setattr(SinkDelivery, "_deliver", swallow)
    patch.setattr("penstock.engine.progress_reporter.progress_metrics", lambda outcomes: {})


def state_not_computed_again(patch: Patch) -> None:
    """If all sinks have an entry, the batch is committed without its state."""
    write = SinkDelivery.write

    def only_for_sinks(self: SinkDelivery, context: BatchContext) -> int | None:
        return (
            None
            if len(self._at_first(context.batch_id)) == len(self.sinks)
            else write(self, context)
        )

    patch.setattr(SinkDelivery, "write", only_for_sinks)


def entries_of_sinks_purged_too_eagerly(patch: Patch) -> None:
    purge = SinkEntryLog.purge
    patch.setattr(SinkEntryLog, "purge", lambda self, before: purge(self, before + 1))


def entry_without_its_plan(patch: Patch) -> None:
    patch.setattr("penstock.engine.sink_delivery.SinkEntry", lambda timestamp: SinkEntry(7))


def names_recorded_at_every_start(patch: Patch) -> None:
    names = "penstock.checkpoint.sink_entries.SinkNamesLog"
    patch.setattr(f"{names}.get_latest", lambda self: None)
