"""The quarantine in the engine: puts aside what makes a batch fail; see docs/adr/0028."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from penstock.checkpoint.quarantine_log import BatchFailure, LeftOutPart, QuarantineRecord
from penstock.engine.batch_context import BatchContext
from penstock.engine.batch_parts import BatchPart, SourcePart
from penstock.engine.concurrent_runs import concurrent_update
from penstock.engine.error_text import error_text, one_line, or_else
from penstock.engine.faults import FaultPoint
from penstock.engine.left_out import (
    Keys,
    kept_ranges,
    parts_of,
    recorded,
    rest_of,
    source_keys,
    whole_batch,
)
from penstock.engine.narrowing import Trial, narrow
from penstock.engine.runtime import QueryRuntime
from penstock.engine.seam import BatchRequest, PutAside, Trials
from penstock.errors import CheckpointError, QuarantineError

_logger = logging.getLogger(__name__)

_DAY_MS = 86_400_000


@dataclass(frozen=True)
class QuarantineRules:
    """When parts of a batch are put aside: after so many failures of the batch, up to so many
    parts in a batch and in 24 hours. `path` is the directory that they are copied to."""

    path: str
    after: int = 3
    max_parts: int = 10
    max_parts_per_day: int = 100


class _NotPutAsideError(Exception):
    """Why nothing is put aside: the batch is to run as it is planned."""


class Quarantine:
    """The quarantine of one run. Without `rules` it only repeats what earlier runs have recorded.

    `redact` removes secrets from texts that are written to files.
    """

    def __init__(
        self,
        runtime: QueryRuntime,
        rules: QuarantineRules | None = None,
        redact: Callable[[str], str] = lambda text: text,
    ) -> None:
        self._runtime = runtime
        self._rules = rules
        self._redact = redact
        self._planned_before = -1
        self._counted = 0
        self._record: QuarantineRecord | None = None
        self._failures: Sequence[BatchFailure] = ()

    def resume(self, context: BatchContext) -> None:
        """Read what is recorded for the first batch of a run, if an earlier run has planned it."""
        checkpoint, batch_id = self._runtime.checkpoint, context.batch_id
        if self._rules is not None:
            checkpoint.failures.make_directory()
            checkpoint.quarantine.make_directory()
        if not context.is_current_batch_constructed:
            return
        self._planned_before = batch_id
        planned_at = context.metadata.batch_timestamp_ms
        failures: Sequence[BatchFailure] = ()
        if self._rules is not None:
            # Even if there is a record: with a damaged entry no later failure could be counted.
            failures = checkpoint.failures.of_plan(batch_id, planned_at)
            self._counted = len(failures)
        record = checkpoint.quarantine.get(batch_id)
        if record is not None and record.batch_timestamp_ms != planned_at:
            _logger.warning(
                "%s is of another plan of batch %s and is ignored. As long as it exists, nothing "
                "can be put aside in this batch: remove it if that is needed.",
                checkpoint.quarantine.path(batch_id),
                batch_id,
            )
            return
        self._record = record
        if record is None:
            self._failures = failures

    @contextlib.contextmanager
    def counting_failures(self, context: BatchContext) -> Iterator[None]:
        """Record an error of the block as a failure of the batch, and raise it."""
        try:
            yield
        except Exception as exc:
            if self._counts_failures(context) and self._is_of_batch(exc):
                self._count(context, exc)
            raise

    def rest_of(self, context: BatchContext) -> BatchPart | None:
        """What a batch is to be run with; None if nothing is left out.

        1. A recorded decision is repeated.
        2. If the batch has failed often enough, it is narrowed. Nothing is decided unless the parts
           that fail are found, are few enough, and the rest does not fail without the sink.
        3. The decision is recorded, before anything depends on it.
        4. The parts that are left out are copied.
        """
        if context.batch_id != self._planned_before:
            return None
        # (1)
        if self._record is None:
            # (2) (3)
            self._record = self._decide(context)
        if self._record is None:
            return None
        # (4)
        whole = whole_batch(context)
        parts = parts_of(whole, self._keys, self._record)
        self._copy(context, self._record, parts)
        context.left_out = Counter(part.source for part in parts)
        return rest_of(whole, self._keys, self._record)

    @property
    def _keys(self) -> Keys:
        return source_keys(self._runtime.plan.sources, self._runtime.source_ids)

    def _counts_failures(self, context: BatchContext) -> bool:
        """Whether a failure of the batch is recorded: not if there are enough for a decision."""
        if self._rules is None:
            return False
        return context.batch_id != self._planned_before or self._counted < self._rules.after

    def _is_of_batch(self, error: BaseException) -> bool:
        return not (self._runtime.is_of_stop(error) or isinstance(error, CheckpointError))

    def _count(self, context: BatchContext, error: Exception) -> None:
        runtime, batch_id = self._runtime, context.batch_id
        # No error of this may take the place of the batch's own, which would then not be reported.
        try:
            failure = BatchFailure(
                batch_id,
                context.metadata.batch_timestamp_ms,
                runtime.clock.time_millis(),
                self._redacted_line(error),
            )
            runtime.faults.reach(FaultPoint.BEFORE_FAILURE_ENTRY, batch_id)
            runtime.checkpoint.failures.append(failure)
            runtime.faults.reach(FaultPoint.AFTER_FAILURE_ENTRY, batch_id)
        except Exception:
            _logger.warning(
                "The failure of batch %s could not be recorded, so it is not counted",
                batch_id,
                exc_info=True,
            )

    def _decide(self, context: BatchContext) -> QuarantineRecord | None:
        """Find the parts to leave out and record them; None if the batch is to run as it is."""
        rules, runtime, batch_id = self._rules, self._runtime, context.batch_id
        if rules is None or len(self._failures) < rules.after:
            return None
        runtime.faults.reach(FaultPoint.BEFORE_TRIALS, batch_id)
        runtime.reporter.update_status(f"Looking for what makes batch {batch_id} fail")
        try:
            record = self._find(context, rules)
        except _NotPutAsideError as exc:
            self._warn(context, str(exc))
            return None
        except Exception as exc:
            if not self._is_of_batch(exc):
                raise
            self._warn(context, f"the search failed: {self._redacted_line(exc)}", exc)
            return None
        runtime.faults.reach(FaultPoint.BEFORE_QUARANTINE_RECORD, batch_id)
        runtime.checkpoint.require_unchanged()
        if not runtime.checkpoint.quarantine.add(batch_id, record):
            raise concurrent_update(runtime, batch_id)
        runtime.faults.reach(FaultPoint.AFTER_QUARANTINE_RECORD, batch_id)
        return record

    def _find(self, context: BatchContext, rules: QuarantineRules) -> QuarantineRecord:
        """Find the parts to leave out. Raises _NotPutAsideError if there is a reason not to."""
        runtime = self._runtime
        finished = runtime.sinks.finished_before(context.batch_id) if runtime.sinks else ()
        if finished:
            raise _NotPutAsideError(f"{', '.join(finished)} has the batch already")
        whole = whole_batch(context)
        if not whole.with_data:
            raise _NotPutAsideError("it has no new data")
        with runtime.plan.trials() as trials:
            found, rest = self._failing_parts(
                whole, partial(self._fails, context, trials), rules.max_parts
            )
        return self._within_a_day(context, rules, found, rest)

    def _failing_parts(
        self, whole: BatchPart, fails: Trial, max_parts: int
    ) -> tuple[list[LeftOutPart], BatchPart]:
        """The smallest parts of a batch that fail, and the rest, which does not fail.

        The rest is not empty unless the batch has only one part.
        """
        found: list[LeftOutPart] = []
        rest, error = whole, fails(whole)
        if error is None:
            raise _NotPutAsideError("it does not fail without the sink")
        without_data = fails(BatchPart(()))
        if without_data is not None:
            reason = self._redacted_line(without_data)
            raise _NotPutAsideError(f"it fails without any data too: {reason}")
        while error is not None:
            if len(found) == max_parts:
                raise _NotPutAsideError(f"more than {max_parts} parts of it fail")
            narrowed = narrow(rest, error, fails)
            parts = narrowed.part.with_data
            if narrowed.is_together or len(parts) != 1:
                reason = self._redacted_line(narrowed.error)
                raise _NotPutAsideError(f"only several parts of it together fail: {reason}")
            if not parts[0].is_smallest:
                problem = f"{parts[0].source} cannot be read in smaller parts"
                raise _NotPutAsideError(problem)
            error = fails(narrowed.part)
            if error is None:
                raise _NotPutAsideError("a part of it failed once and then did not fail")
            found.append(recorded(parts[0], self._keys, self._redacted_line(error)))
            rest = rest.without(narrowed.part)
            error = fails(rest)
        self._require_part_that_passes(found, rest)
        return found, rest

    def _require_part_that_passes(self, found: Sequence[LeftOutPart], rest: BatchPart) -> None:
        """Raise _NotPutAsideError if each of several parts fails: the data may not be at fault."""
        if len(found) > 1 and all(part.size == 0 for part in rest.with_data):
            raise _NotPutAsideError(
                f"each of its {len(found)} parts fails, so the cause may be an outage. If it is "
                "the data, `penstock checkpoint replan` plans the batch anew, with what has "
                "arrived since: raise the read limit of the source first, if it has one, or the "
                "batch gets the same parts again"
            )

    def _within_a_day(
        self,
        context: BatchContext,
        rules: QuarantineRules,
        found: Sequence[LeftOutPart],
        rest: BatchPart,
    ) -> QuarantineRecord:
        """The decision to leave out what was found, unless it is too much for a day."""
        now = self._runtime.clock.time_millis()
        before = self._runtime.checkpoint.quarantine.parts_since(now - _DAY_MS)
        if before + len(found) > rules.max_parts_per_day:
            raise _NotPutAsideError(
                f"{len(found)} parts of it fail, {before} were put aside in the last 24 hours, "
                f"and the limit is {rules.max_parts_per_day}",
            )
        kept = kept_ranges(rest, self._keys, found)
        planned_at = context.metadata.batch_timestamp_ms
        return QuarantineRecord(planned_at, now, rules.path, tuple(found), tuple(kept))

    def _fails(
        self, context: BatchContext, trials: Trials, part: BatchPart
    ) -> BaseException | None:
        """Run a part of the batch without the sink and return its error."""
        sizes = [f"{p.size or 'some'} {p.unit}s of {p.source}" for p in part.with_data]
        try:
            trials.run(self._request(context, part))
        except Exception as exc:
            if not self._is_of_batch(exc):
                raise
            _logger.info("A trial with %s fails: %s", ", ".join(sizes), self._redacted_line(exc))
            return exc
        _logger.info("A trial with %s passes", ", ".join(sizes))
        return None

    def _request(self, context: BatchContext, part: BatchPart) -> BatchRequest:
        return BatchRequest(
            batch_id=context.batch_id,
            metadata=context.metadata,
            previous_metadata=self._runtime.checkpoint.offset_log.metadata_of(context.batch_id - 1),
            data=part.read(),
            is_first_in_run=True,
        )

    def _copy(
        self, context: BatchContext, record: QuarantineRecord, parts: Sequence[SourcePart]
    ) -> None:
        runtime, batch_id = self._runtime, context.batch_id
        for part in record.parts:
            _logger.warning(
                "Batch %s leaves out %s. It is recorded in %s and copied to %s. Its error: %s",
                batch_id,
                part,
                runtime.checkpoint.quarantine.path(batch_id),
                record.path,
                part.error,
            )
        runtime.reporter.update_status(f"Copying what batch {batch_id} leaves out")
        empty = BatchPart(())
        aside = PutAside(record, tuple(parts), self._request(context, empty))
        try:
            runtime.plan.copy_aside(aside)
        except Exception as exc:
            if not self._is_of_batch(exc):
                raise
            raise QuarantineError(
                f"What batch {batch_id} leaves out could not be copied to {record.path}: "
                f"{self._redacted_line(exc)}. The batch was not run. Make the directory writable "
                "and start the query again; it copies the same parts, which are recorded in "
                f"{runtime.checkpoint.quarantine.path(batch_id)}."
            ) from exc
        runtime.faults.reach(FaultPoint.AFTER_QUARANTINE_COPY, batch_id)

    def _warn(self, context: BatchContext, reason: str, error: Exception | None = None) -> None:
        """Log why nothing is put aside."""
        _logger.warning(
            "Batch %s has failed at least %s times, but nothing of it is put aside: %s. It runs "
            "again as planned.",
            context.batch_id,
            len(self._failures),
            reason,
            exc_info=error,
        )

    def _redacted_line(self, error: BaseException) -> str:
        session = self._runtime.session
        text = or_else(lambda: session.error_message(session.translated(error)), error_text(error))
        return self._redact(one_line(text))
