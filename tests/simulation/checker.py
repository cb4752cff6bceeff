"""The invariants of the protocol, checked at every durable step and after every run.

What belongs to the logs is in `log_rules`, what belongs to the whole in `outcome_rules`; here is
what the engine may do with sources and sink, and the one way in for all of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.ledger import BatchRun, Ledger
from tests.simulation.life import Killed, Life
from tests.simulation.log_rules import LogRules
from tests.simulation.outcome_rules import OutcomeRules
from tests.simulation.rulebook import Rulebook
from tests.simulation.schedule import QueryShape


class SourceDataGoneError(Exception):
    """A source was asked for rows that it was allowed to forget."""


class Checker:
    """Told of everything that leaves the engine. `violations` holds what was wrong, in words.

    A violation ends the process that committed it, so that the first one is the one reported.
    """

    def __init__(
        self, shape: QueryShape, rows: Sequence[int], let_go: Sequence[int], torn: set[str]
    ) -> None:
        self.ledger = Ledger()
        self.book = Rulebook(shape, rows, self.ledger)
        self._let_go = let_go
        self._torn = torn
        self._logs = LogRules(self.book)
        self._outcome = OutcomeRules(self.book, let_go)

    @property
    def violations(self) -> list[str]:
        return self.book.violations

    # A run begins, triggers, and ends.

    def run_starts(self, life: Life) -> None:
        self.book.run_starts(life)

    def never_rests(self, life: Life, triggers: int) -> None:
        raise self.book.violated(life, f"the query does not come to rest: {triggers} triggers")

    def run_ends(
        self, life: Life, failure: BaseException | None, *, refuses_torn_files: bool
    ) -> None:
        """After each run, however it ended; whether it had torn files to refuse."""
        try:
            self._outcome.check_run(life, failure, refuses_torn_files=refuses_torn_files)
        except Killed:
            return

    def all_over(self, life: Life) -> None:
        """After the last run."""
        try:
            self._outcome.check_end(life)
        except Killed:
            return

    # Files.

    def file_created(self, life: Life, name: str, data: bytes, *, overwrites: bool) -> None:
        """Before a complete file takes its name."""
        if self.book.checkpoint_away is not None:
            what = self.book.checkpoint_away.value
            raise self.book.violated(life, f"{name} written although the checkpoint is {what}")
        if overwrites:
            raise self.book.violated(life, f"{name} exists and was overwritten (rule 3)")
        if self._torn:
            torn = ", ".join(sorted(self._torn))
            raise self.book.violated(life, f"{name} written although {torn} is torn")
        self._logs.created(life, name, data)

    def file_removed(self, life: Life, name: str) -> None:
        """Before a file loses its name."""
        self._logs.removed(life, name)

    # Sources.

    def rows_asked_for(self, life: Life, source: int, first: int, last: int) -> None:
        """A source is asked for rows: it must still have them."""
        self.book.asked.add((source, first, last))
        if first < self._let_go[source] and first != last:
            if life.sees_stale_listing:
                raise SourceDataGoneError(f"source {source} has forgotten the rows from {first}")
            raise self.book.violated(
                life,
                f"source {source} is asked for the rows {first}..{last}, but was told before that "
                f"everything up to {self._let_go[source]} is processed",
            )
        if not first <= last <= self.book.rows[source]:
            raise self.book.violated(
                life,
                f"source {source} is asked for the rows {first}..{last}, but it has "
                f"{self.book.rows[source]}",
            )

    def rows_let_go(self, life: Life, source: int, upto: int) -> None:
        """A source is told that rows are processed: they must be in a batch that is done."""
        ledger = self.ledger
        done = ledger.end_of(ledger.latest_commit, source) or 0
        if upto > done:
            raise self.book.violated(
                life,
                f"source {source} is told that everything up to {upto} is processed, but the last "
                f"batch that is done, {ledger.latest_commit}, ends at {done}",
            )

    def latest_seen(self, life: Life, source: int, offset: int) -> None:
        """A source is told the last offset of the log on a restart."""
        logged = self.ledger.end_of(self.ledger.latest_decision, source)
        if offset != logged and not life.sees_stale_listing:
            raise self.book.violated(
                life, f"source {source} is told it was seen up to {offset}; logged is {logged}"
            )

    # The sink.

    def batch_runs(self, life: Life, batch: BatchRun) -> None:
        """A batch reaches the sink: it must be the batch that was decided, as ever before."""
        batch_id, ledger = batch.batch_id, self.ledger
        if batch_id not in ledger.decisions:
            raise self.book.violated(life, f"{batch} runs without an entry in the offset log")
        if batch_id <= ledger.latest_commit and not life.sees_stale_listing:
            raise self.book.violated(life, f"{batch} runs again although it is done")
        if batch_id > ledger.latest_commit + 1:
            raise self.book.violated(
                life, f"{batch} runs, but the last that is done is {ledger.latest_commit}"
            )
        first = ledger.first_runs.setdefault(batch_id, batch)
        if batch != first:
            raise self.book.violated(
                life, f"a batch that runs again is not the same (rule 1): {first}, then {batch}"
            )
        self._compare_with_log(life, batch)

    def batch_written(self, life: Life, batch: BatchRun) -> None:
        """The sink has all of a batch."""
        self.ledger.written[batch.batch_id] = batch
        self.book.batch_written(batch)

    def progress_reported(self, life: Life, batch_id: int) -> None:
        """Listeners are told of a batch: it must be done, and not told of before (rule 10)."""
        if batch_id > self.ledger.latest_commit or batch_id in self.book.reported:
            raise self.book.violated(
                life,
                f"progress is reported for batch {batch_id}, but the last that is done is "
                f"{self.ledger.latest_commit} and reported were {sorted(self.book.reported)}",
            )
        self.book.reported.add(batch_id)

    def _compare_with_log(self, life: Life, batch: BatchRun) -> None:
        decision = self.ledger.decisions[batch.batch_id]
        logged = BatchRun(
            batch.batch_id,
            self.book.ranges_of(batch.batch_id),
            decision.watermark_ms,
            decision.timestamp_ms,
            batch.previous,
        )
        if batch != logged:
            raise self.book.violated(
                life, f"a batch is not what the offset log says (rule 1): {batch}, logged {logged}"
            )
        before = self.ledger.decisions.get(batch.batch_id - 1)
        expected = None if before is None else (before.watermark_ms, before.timestamp_ms)
        previous = batch.previous
        if expected != (previous and (previous.batch_watermark_ms, previous.batch_timestamp_ms)):
            raise self.book.violated(
                life, f"{batch} is given {previous} as what the batch before was decided with"
            )
