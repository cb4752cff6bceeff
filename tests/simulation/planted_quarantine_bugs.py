"""Bugs that a quarantine could have, to test the checker; see `planted_bugs`."""

from __future__ import annotations

import pytest

from penstock.checkpoint.quarantine_log import BatchFailure, FailureLog, QuarantineRecord
from penstock.engine import left_out, quarantine
from penstock.engine.batch_context import BatchContext
from penstock.engine.batch_parts import BatchPart, SourcePart
from penstock.engine.quarantine import Quarantine, QuarantineRules
from penstock.engine.seam import Trials

Patch = pytest.MonkeyPatch


def decision_not_recorded(patch: Patch) -> None:
    def decide(self: Quarantine, context: BatchContext) -> QuarantineRecord | None:
        assert self._rules is not None
        enough = len(self._failures) >= self._rules.after
        return self._find(context, self._rules) if enough else None

    patch.setattr(Quarantine, "_decide", decide)


def decision_not_repeated(patch: Patch) -> None:
    original = Quarantine.resume

    def resume(self: Quarantine, context: BatchContext) -> None:
        original(self, context)
        if self._record is not None:
            self._record = None
            log, planned_at = self._runtime.checkpoint.failures, context.metadata.batch_timestamp_ms
            self._failures = log.of_plan(context.batch_id, planned_at)

    patch.setattr(Quarantine, "resume", resume)


def fixed_query_takes_all_rows(patch: Patch) -> None:
    """A decision of an earlier run is forgotten, because the rows may be fine by now."""
    original = Quarantine.resume

    def resume(self: Quarantine, context: BatchContext) -> None:
        original(self, context)
        self._record = None

    patch.setattr(Quarantine, "resume", resume)


def one_more_part_left_out(patch: Patch) -> None:
    original = left_out.rest_of

    def rest_of(*args: object) -> BatchPart:
        rest = original(*args)  # type: ignore[arg-type]
        return BatchPart(rest.sources[:-1])

    patch.setattr(quarantine, "rest_of", rest_of)


def copied_only_when_decided(patch: Patch) -> None:
    original = Quarantine._copy

    def copy(
        self: Quarantine,
        context: BatchContext,
        record: QuarantineRecord,
        parts: list[SourcePart],
    ) -> None:
        if self._failures:
            original(self, context, record, parts)

    patch.setattr(Quarantine, "_copy", copy)


def copied_after_the_batch(patch: Patch) -> None:
    patch.setattr(Quarantine, "_copy", lambda self, context, record, parts: None)


def one_failure_too_few(patch: Patch) -> None:
    original = Quarantine.__init__

    def init(self: Quarantine, *args: object) -> None:
        original(self, *args)  # type: ignore[arg-type]
        if self._rules is not None:
            self._rules = QuarantineRules(self._rules.path, self._rules.after - 1)

    patch.setattr(Quarantine, "__init__", init)


def failures_removed_too_early(patch: Patch) -> None:
    original = FailureLog.append

    def append(self: FailureLog, failure: BatchFailure) -> None:
        self._remove(self.list_batches())
        original(self, failure)

    patch.setattr(FailureLog, "append", append)


def sink_taken_for_the_data(patch: Patch) -> None:
    """A batch that has failed is narrowed as if the error were that of the data."""

    def fails(
        self: Quarantine, context: BatchContext, trials: Trials, part: BatchPart
    ) -> BaseException | None:
        return ValueError("as before") if part.with_data else None

    patch.setattr(Quarantine, "_fails", fails)


def all_rows_put_aside(patch: Patch) -> None:
    patch.setattr(Quarantine, "_require_part_that_passes", lambda self, found, rest: None)


def nothing_ever_put_aside(patch: Patch) -> None:
    patch.setattr(Quarantine, "_decide", lambda self, context: None)
