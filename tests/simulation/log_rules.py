"""The recovery rules that are checked whenever a file of the checkpoint is created or removed."""

from __future__ import annotations

import json
from typing import Any

from penstock.checkpoint.quarantine_log import FAILURES, QUARANTINE
from penstock.checkpoint.sink_entries import SINK_NAMES, SINKS
from tests.simulation import quarantine_rules
from tests.simulation.ledger import Decision
from tests.simulation.life import Life
from tests.simulation.rulebook import Mode, Rulebook


class LogRules:
    """The recovery rules that concern the two logs."""

    def __init__(self, book: Rulebook) -> None:
        self._book = book
        self._ledger = book.ledger

    def created(self, life: Life, name: str, data: bytes) -> None:
        """Called before a complete file is created."""
        directory, _, plain = name.rpartition("/")
        if directory == "offsets":
            self._decided(life, int(plain), Decision.read(data))
        elif directory == "commits":
            self._committed(life, int(plain), json.loads(data.decode().split("\n")[1]))
        elif directory == QUARANTINE:
            fields = json.loads(data.decode().split("\n")[1])
            quarantine_rules.left_out(self._book, life, int(plain), fields)
        elif directory == FAILURES:
            fields = json.loads(data.decode().split("\n")[1])
            quarantine_rules.failed(self._book, life, int(plain), fields)
        elif directory == SINK_NAMES:
            self._named(life, json.loads(data.decode().split("\n")[1]))
        elif directory.startswith(f"{SINKS}/"):
            fields = json.loads(data.decode().split("\n")[1])
            self._finished(life, directory.removeprefix(f"{SINKS}/"), int(plain), fields)
        else:
            self._ledger.has_metadata = True

    def removed(self, life: Life, name: str) -> None:
        """Called before a file is removed: only old entries may be."""
        directory, _, plain = name.rpartition("/")
        if not plain.isdigit():
            return
        if directory == FAILURES:
            quarantine_rules.forgotten(self._book, life, int(plain))
            return
        batch_id, latest = int(plain), self._ledger.latest_decision
        keeps = latest - self._book.shape.retained_batches
        if batch_id >= keeps or batch_id >= latest - 1:
            self._fail(
                life,
                f"{name} is removed although the latest batch is {latest} and "
                f"{self._book.shape.retained_batches} batches are to be kept (rule 2)",
            )
        if directory == "offsets":
            self._ledger.offset_files.discard(batch_id)
        elif directory == "commits":
            self._ledger.commit_files.discard(batch_id)

    # offsets/N

    def _decided(self, life: Life, batch_id: int, decision: Decision) -> None:
        ledger = self._ledger
        if not self._ledger.has_metadata:
            self._fail(life, f"offsets/{batch_id} without a metadata file (rule 6)")
        if batch_id != ledger.latest_decision + 1:
            self._fail(life, f"offsets/{batch_id} follows offsets/{ledger.latest_decision}: a gap")
        if batch_id != ledger.latest_commit + 1:
            self._fail(
                life,
                f"offsets/{batch_id} is written while the last batch that is done is "
                f"{ledger.latest_commit} (rule 2)",
            )
        self._check_offsets(life, batch_id, decision)
        self._check_watermark(life, batch_id, decision)
        self._check_frozen(life, batch_id, decision)
        self._check_reason(life, batch_id, decision)
        self._check_resumed_sources(life, batch_id)
        ledger.decisions[batch_id] = decision
        ledger.offset_files.add(batch_id)
        self._book.decided.append(batch_id)

    def _check_offsets(self, life: Life, batch_id: int, decision: Decision) -> None:
        book, order = self._book, self._book.shape.plan_order
        if len(decision.ends) != len(order):
            self._fail(
                life,
                f"offsets/{batch_id} has {len(decision.ends)} offsets for {len(order)} sources "
                "(rule 8)",
            )
        for position, source in enumerate(order):
            start = self._ledger.end_of(batch_id - 1, position) or 0
            end = decision.ends[position] or 0
            where = f"offsets/{batch_id}: source {source} goes from {start} to {end}"
            if not start <= end <= book.rows[source]:
                self._fail(life, f"{where}, but it has {book.rows[source]} rows")
            limit = book.limit_of(source)
            if limit is not None and end - start > limit:
                self._fail(life, f"{where}, beyond its read limit of {limit}")
            if book.mode is Mode.SINGLE and end != book.rows[source]:
                self._fail(life, f"{where} in a single batch, but has {book.rows[source]} (rule 9)")
            if book.mode is Mode.MULTI and end > max(start, book.rows_at_start[source]):
                at_start = book.rows_at_start[source]
                self._fail(life, f"{where}, but at the start it had {at_start} rows (rule 9)")

    def _check_watermark(self, life: Life, batch_id: int, decision: Decision) -> None:
        before = self._ledger.decisions.get(batch_id - 1)
        recorded = self._ledger.commits.get(batch_id - 1, 0)
        expected = max(before.watermark_ms if before else 0, recorded)
        if decision.watermark_ms != expected:
            self._fail(
                life,
                f"offsets/{batch_id} has the watermark {decision.watermark_ms}, the batch before "
                f"has recorded {expected} (rule 4)",
            )

    def _check_frozen(self, life: Life, batch_id: int, decision: Decision) -> None:
        first = self._ledger.decisions.get(0, decision)
        if decision.conf != first.conf:
            self._fail(
                life, f"offsets/{batch_id} records {decision.conf}, not {first.conf} (rule 5)"
            )
        if decision.version != first.version:
            self._fail(life, f"offsets/{batch_id} is {decision.version}, not {first.version}")

    def _check_reason(self, life: Life, batch_id: int, decision: Decision) -> None:
        before = self._ledger.decisions.get(batch_id - 1)
        if before is None or decision.ends != before.ends:
            return
        shape = self._book.shape
        wanted = (
            shape.is_stateful
            and shape.no_data_batches
            and batch_id - 1 in self._book.written_here
            and decision.watermark_ms > before.watermark_ms
        )
        if not wanted:
            self._fail(life, f"offsets/{batch_id} has no new data, and no state to clean up")

    def _check_resumed_sources(self, life: Life, batch_id: int) -> None:
        """Rule 7, at the first batch that a run constructs."""
        last = self._book.last_done_at_start
        if self._book.had_planned_batch or last < 0 or batch_id != last + 1:
            return
        for source, shape in enumerate(self._book.shape.sources):
            end = self._ledger.end_of(last, source)
            if shape.kind.is_v1 and end is not None:
                start = self._ledger.end_of(last - 1, source) or 0
                if (source, start, end) not in self._book.requested:
                    self._fail(
                        life,
                        f"get_batch of V1 source {source} was not called for batch {last} "
                        f"({start}..{end}) on resume (rule 7)",
                    )

    # .penstock/sinks/NAME/N

    def _named(self, life: Life, fields: dict[str, Any]) -> None:
        names = list(self._book.shape.sink_names)
        if self._ledger.has_names or fields["sinks"] != names:
            self._fail(life, f"the names {fields['sinks']} are recorded, and have not changed")
        if fields["fromBatch"] != self._ledger.latest_commit + 1:
            self._fail(life, f"names are recorded from batch {fields['fromBatch']} on")
        self._ledger.has_names = True

    def _finished(self, life: Life, name: str, batch_id: int, fields: dict[str, Any]) -> None:
        ledger = self._ledger
        sink = ledger.sinks.get(name)
        if sink is None or batch_id not in sink.written:
            self._fail(life, f"{name} has an entry for batch {batch_id} before it has the batch")
        if batch_id != ledger.latest_decision or batch_id == ledger.latest_commit:
            self._fail(life, f"{name} gets an entry for batch {batch_id}, which is not running")
        if fields["batchTimestampMs"] != ledger.decisions[batch_id].timestamp_ms:
            self._fail(life, f"the entry of {name} for batch {batch_id} is of another plan")
        ledger.sinks[name].entries.add(batch_id)

    def _check_entries(self, life: Life, batch_id: int) -> None:
        for name in self._book.shape.sink_names:
            sink = self._ledger.sinks.get(name)
            if sink is None or batch_id not in sink.entries:
                self._fail(life, f"commits/{batch_id} before {name} has an entry for it")

    # commits/N

    def _committed(self, life: Life, batch_id: int, fields: dict[str, int]) -> None:
        ledger = self._ledger
        if batch_id != ledger.latest_decision:
            self._fail(
                life,
                f"commits/{batch_id} while the latest decision is offsets/{ledger.latest_decision}",
            )
        if batch_id != ledger.latest_commit + 1:
            self._fail(life, f"commits/{batch_id} follows commits/{ledger.latest_commit}: a gap")
        self._check_entries(life, batch_id)
        is_needed = self._book.shape.is_stateful or not self._book.shape.sinks
        if is_needed and batch_id not in self._book.written_here:
            self._fail(life, f"commits/{batch_id} before the sink has batch {batch_id}")
        watermark, expected = fields["nextBatchWatermarkMs"], self._book.next_watermark(batch_id)
        if watermark != expected:
            self._fail(
                life, f"commits/{batch_id} records the watermark {watermark}, not {expected}"
            )
        ledger.commits[batch_id] = watermark
        ledger.commit_files.add(batch_id)

    def _fail(self, life: Life, message: str) -> None:
        raise self._book.violated(life, message)
