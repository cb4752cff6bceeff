"""The rules that are checked after each run and at the end."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import (
    CheckpointVanishedError,
    ConcurrentUpdateError,
    MalformedLogError,
    SinkAheadError,
)
from tests.memory_world.session import InterruptedCallError
from tests.simulation.ledger import rows_left
from tests.simulation.life import Life
from tests.simulation.rulebook import Mode, Rulebook
from tests.simulation.schedule import FaultKind
from tests.simulation.sites import OF_TRIALS, SWALLOWED_AT

_OF_RIVALS = (FaultKind.RIVAL, FaultKind.RIVAL_UNANSWERED)
_OF_ONE_REQUEST = (FaultKind.EIO, FaultKind.EIO_AFTER, FaultKind.REPEATED)


def _is_refusal(failure: BaseException | None) -> bool:
    return isinstance(failure, ConcurrentUpdateError)


def is_of_poison(failure: BaseException | None) -> bool:
    """Whether a query has failed because of a row that it cannot process."""
    while failure is not None and type(failure).__name__ != "PoisonError":
        failure = failure.__cause__
    return failure is not None


class OutcomeRules:
    """No row lost or written twice; a run fails if, and only if, a fault requires it."""

    def __init__(self, book: Rulebook, discarded: Sequence[int]) -> None:
        self._book = book
        self._ledger = book.ledger
        self._discarded = discarded

    def check_run(
        self, life: Life, failure: BaseException | None, *, refuses_torn_files: bool
    ) -> None:
        """Called after each run; `failure` is the error of the query."""
        if self._book.violations:
            return
        self._check_failure(life, failure, refuses_torn_files)
        self._check_recoverable(life)
        self._check_sink(life)
        if failure is None and not life.injected and not life.dead:
            self._check_complete(life)

    def check_end(self, life: Life) -> None:
        """Called after the last run, which has no faults."""
        if self._book.violations:
            return
        for source, count in enumerate(self._book.rows):
            processed = self._ledger.end_of(self._ledger.latest_commit, source) or 0
            if processed != count:
                self._fail(life, f"source {source} has {count} rows, {processed} are processed")
        if set(self._ledger.written) != set(self._ledger.commits):
            self._fail(
                life,
                f"the sink has batches {sorted(self._ledger.written)}, done are "
                f"{sorted(self._ledger.commits)}",
            )
        for name, sink in self._ledger.sinks.items():
            if sink.entries != set(self._ledger.commits):
                self._fail(life, f"{name} has entries for {sorted(sink.entries)}")

    def _check_failure(
        self, life: Life, failure: BaseException | None, refuses_torn_files: bool
    ) -> None:
        if life.dead:
            return
        if refuses_torn_files and not life.injected:
            if not isinstance(failure, MalformedLogError):
                self._fail(life, f"a torn file was not refused; the run ended with {failure!r}")
            return
        if failure is not None and not life.injected:
            self._check_poison(life, failure)
        self._check_loss(life, failure)
        raised = [f for f in life.injected if f.kind is FaultKind.RAISE]
        swallowed = SWALLOWED_AT | OF_TRIALS if life.has_tried else SWALLOWED_AT
        if raised and raised[0].site not in swallowed and failure is None:
            self._fail(life, f"the error injected at {raised[0].site} was swallowed")
        rivals = [f for f in life.injected if f.kind in _OF_RIVALS]
        if rivals and life.injected[-1] is rivals[-1] and not _is_refusal(failure):
            self._fail(life, f"another run wrote the file of {rivals[-1].site}; went on (rule 3)")
        self._check_unanswered(life, failure)
        hung = [f for f in life.injected if f.kind is FaultKind.HANG]
        if hung and isinstance(failure, InterruptedCallError):
            self._fail(life, f"stopping at {hung[0].site} was taken for a failure: {failure!r}")

    def _check_poison(self, life: Life, failure: BaseException) -> None:
        """Only a row that cannot be processed makes a query fail, and not for ever.

        Unless no row of the batch can be processed.
        """
        book, ledger = self._book, self._ledger
        latest = ledger.latest_decision
        left = rows_left(book.ranges_of(latest)) if latest >= 0 else ()
        poisoned = any(
            first <= row < last
            for source, row in book.shape.poison
            for first, last in (left[source] if left else ())
        )
        if not is_of_poison(failure) or not poisoned:
            self._fail(life, f"the query failed without a fault: {failure!r}")
        if book.due_for_quarantine and book.planned_at_start == latest and not book.is_stuck:
            self._fail(
                life, f"batch {latest} has failed often enough, and fails again: {failure!r}"
            )

    def _check_unanswered(self, life: Life, failure: BaseException | None) -> None:
        """A single request to a store that fails, done or not, does not make the query fail."""
        if not self._book.shape.on_object_store or failure is None or len(life.injected) != 1:
            return
        if is_of_poison(failure):
            return
        fault = life.injected[0]
        if fault.kind in _OF_ONE_REQUEST and fault.site.startswith("create_"):
            self._fail(life, f"one request failed at {fault.site}, and the query says {failure!r}")

    def _check_loss(self, life: Life, failure: BaseException | None) -> None:
        """A replaced checkpoint is detected at the next write, if there is one."""
        is_only_fault = all(fault.kind.takes_checkpoint_away for fault in life.injected)
        is_gone = self._book.checkpoint_away is not None and not self._book.commit_is_lost
        if not is_gone or not is_only_fault:
            return
        if failure is None:
            if self._book.mode is not Mode.CONTINUOUS or life.is_last:
                self._check_complete(life)
        elif not isinstance(failure, (CheckpointVanishedError, SinkAheadError)) and not (
            is_of_poison(failure)
        ):
            self._fail(life, f"the checkpoint was taken away, and the query says {failure!r}")

    def _check_recoverable(self, life: Life) -> None:
        """Rule 2: the entries that a restart needs exist."""
        ledger = self._ledger
        latest = ledger.latest_decision
        missing = {latest, latest - 1} - ledger.offset_files - {-1, -2}
        if missing:
            self._fail(life, f"offsets/{min(missing)} is missing, the latest batch is {latest}")
        if ledger.latest_commit not in (latest, latest - 1):
            self._fail(
                life, f"latest batch {latest}, latest commit {ledger.latest_commit} (rule 2)"
            )
        if ledger.latest_commit >= 0 and ledger.latest_commit not in ledger.commit_files:
            self._fail(life, f"commits/{ledger.latest_commit} is missing")

    def _check_sink(self, life: Life) -> None:
        """A sink that is idempotent by batch id has each row once, and batches without gaps."""
        written = self._ledger.written
        if sorted(written) != list(range(len(written))):
            self._fail(life, f"the sink has the batches {sorted(written)}: there is a gap")
        ends = [0] * len(self._book.rows)
        for batch_id in range(len(written)):
            left_out = self._ledger.left_out.get(batch_id, frozenset())
            for source, pieces in enumerate(written[batch_id].rows):
                numbers = [row for piece in pieces for row in range(*piece)]
                numbers += [row for number, row in left_out if number == source]
                if not numbers:
                    continue
                rows = min(numbers), max(numbers) + 1
                if sorted(numbers) != list(range(*rows)):
                    self._fail(
                        life, f"batch {batch_id} has the rows {sorted(numbers)} of source {source}"
                    )
                if rows[0] != ends[source]:
                    what = "twice" if rows[0] < ends[source] else "never"
                    self._fail(
                        life,
                        f"batch {batch_id} begins at row {rows[0]} of source {source}, the "
                        f"batches before ended at {ends[source]}: rows are processed {what}",
                    )
                ends[source] = rows[1]

    def _check_complete(self, life: Life) -> None:
        """A run that ended by itself has processed what its trigger requires (rule 9)."""
        book, ledger = self._book, self._ledger
        if ledger.latest_commit != ledger.latest_decision:
            self._fail(life, f"the run ended with batch {ledger.latest_decision} planned, not done")
        if book.mode is Mode.CONTINUOUS and not life.is_last:
            return
        if book.mode is Mode.SINGLE and book.had_planned_batch:
            return
        for source, count in enumerate(book.rows_at_start):
            processed = ledger.end_of(ledger.latest_commit, source) or 0
            if processed < count:
                self._fail(
                    life, f"source {source} had {count} rows at the start, {processed} are done"
                )
        if book.mode is not Mode.SINGLE:
            self._check_no_data_batches(life)

    def _check_no_data_batches(self, life: Life) -> None:
        ledger, shape, last = self._ledger, self._book.shape, self._ledger.latest_commit
        due = (
            shape.is_stateful
            and shape.no_data_batches
            and last in self._book.written_here
            and ledger.commits[last] > ledger.decisions[last].watermark_ms
        )
        if due:
            self._fail(life, f"batch {last} moved the watermark, a batch without data was due")

    def _fail(self, life: Life, message: str) -> None:
        raise self._book.violated(life, message)
