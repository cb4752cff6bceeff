"""The invariants of the protocol, checked at every durable step and after every run.

The rules for the logs are in `log_rules`, those for a finished run in `outcome_rules`. The rules
for sources and sink are here, and `Checker` is the entry point for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.ledger import BatchRun, Ledger, SinkLedger, rows_left
from tests.simulation.life import Killed, Life
from tests.simulation.log_rules import LogRules
from tests.simulation.outcome_rules import OutcomeRules
from tests.simulation.rulebook import Rulebook
from tests.simulation.schedule import QueryShape


class SourceDataGoneError(Exception):
    """Rows were requested that the source was allowed to discard."""


class Checker:
    """Called for every effect of the engine. `violations` has a message for each violated rule.

    A violation ends the process, so that the first one is reported.
    """

    def __init__(
        self, shape: QueryShape, rows: Sequence[int], discarded: Sequence[int], torn: set[str]
    ) -> None:
        self.ledger = Ledger()
        self.book = Rulebook(shape, rows, self.ledger)
        self._discarded = discarded
        self._torn = torn
        self._logs = LogRules(self.book)
        self._outcome = OutcomeRules(self.book, discarded)

    @property
    def violations(self) -> list[str]:
        return self.book.violations

    # Runs.

    def run_starts(self, life: Life) -> None:
        self.book.run_starts(life)

    def never_rests(self, life: Life, triggers: int) -> None:
        raise self.book.violated(life, f"the query does not come to rest: {triggers} triggers")

    def run_ends(
        self, life: Life, failure: BaseException | None, *, refuses_torn_files: bool
    ) -> None:
        """Called after each run. `refuses_torn_files`: it started with torn files."""
        try:
            self._outcome.check_run(life, failure, refuses_torn_files=refuses_torn_files)
        except Killed:
            return

    def all_over(self, life: Life) -> None:
        """Called after the last run."""
        try:
            self._outcome.check_end(life)
        except Killed:
            return

    # Files.

    def file_created(self, life: Life, name: str, data: bytes, *, overwrites: bool) -> None:
        """Called before a complete file is created."""
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
        """Called before a file is removed."""
        self._logs.removed(life, name)

    # Sources.

    def rows_requested(self, life: Life, source: int, first: int, last: int) -> None:
        """Rows of a source are requested: it must still have them."""
        self.book.requested.add((source, first, last))
        if first < self._discarded[source] and first != last:
            if life.sees_stale_listing:
                raise SourceDataGoneError(f"source {source} has discarded the rows from {first}")
            raise self.book.violated(
                life,
                f"the rows {first}..{last} of source {source} are requested, but everything up to "
                f"{self._discarded[source]} was committed to it before",
            )
        if not first <= last <= self.book.rows[source]:
            raise self.book.violated(
                life,
                f"the rows {first}..{last} of source {source} are requested, but it has "
                f"{self.book.rows[source]}",
            )

    def rows_committed(self, life: Life, source: int, upto: int) -> None:
        """Rows are committed to a source: they must be in a committed batch."""
        ledger = self.ledger
        done = ledger.end_of(ledger.latest_commit, source) or 0
        if upto > done:
            raise self.book.violated(
                life,
                f"source {source} gets a commit of everything up to {upto}, but the last "
                f"batch that is done, {ledger.latest_commit}, ends at {done}",
            )

    def latest_seen(self, life: Life, source: int, offset: int) -> None:
        """A source gets the last offset of the log on a restart."""
        logged = self.ledger.end_of(self.ledger.latest_decision, source)
        if offset != logged and not life.sees_stale_listing:
            raise self.book.violated(
                life, f"source {source} gets {offset} as latest seen offset; logged is {logged}"
            )

    # The sink.

    def batch_runs(self, life: Life, batch: BatchRun) -> None:
        """A batch reaches the sink: it must match the offset log and every earlier attempt."""
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
        """The sink has written a whole batch."""
        self.ledger.written[batch.batch_id] = batch
        self.book.batch_written(batch)

    # Named sinks.

    def batch_computed(self, life: Life, batch: BatchRun) -> None:
        """The rows of a batch, and its state, are computed, before any sink is called."""
        self.book.computed(batch)

    def sink_called(self, life: Life, name: str, batch: BatchRun) -> None:
        """A sink gets a batch: it must be computed, and the sink must have no entry for it."""
        if batch.batch_id not in self.book.written_here:
            raise self.book.violated(life, f"{name} is called before {batch} is computed")
        if batch.batch_id in self.ledger.sinks.setdefault(name, SinkLedger()).entries:
            raise self.book.violated(life, f"{name} gets {batch} again although it has an entry")

    def sink_written(self, name: str, batch: BatchRun) -> None:
        """A sink has written a whole batch."""
        self.ledger.sinks[name].written.add(batch.batch_id)
        names, sinks = self.book.shape.sink_names, self.ledger.sinks
        if all(name in sinks and batch.batch_id in sinks[name].written for name in names):
            self.ledger.written[batch.batch_id] = batch

    def progress_reported(self, life: Life, batch_id: int) -> None:
        """Progress of a batch is posted: it must be committed and not yet posted (rule 10)."""
        done = self.ledger.latest_commit + self.book.commit_is_lost
        if batch_id > done or batch_id in self.book.reported:
            raise self.book.violated(
                life,
                f"progress is reported for batch {batch_id}, but the last that is done is "
                f"{self.ledger.latest_commit} and reported were {sorted(self.book.reported)}",
            )
        self.book.reported.add(batch_id)

    def _compare_with_log(self, life: Life, batch: BatchRun) -> None:
        decision = self.ledger.decisions[batch.batch_id]
        left_out = self.ledger.left_out.get(batch.batch_id, frozenset())
        logged = BatchRun(
            batch.batch_id,
            rows_left(self.book.ranges_of(batch.batch_id), left_out),
            decision.watermark_ms,
            decision.timestamp_ms,
            batch.previous,
        )
        if batch != logged:
            raise self.book.violated(
                life, f"a batch is not what the offset log says (rule 1): {batch}, logged {logged}"
            )
        if not left_out <= self.ledger.copied.get(batch.batch_id, frozenset()):
            raise self.book.violated(life, f"{batch} runs before what it leaves out is copied")
        before = self.ledger.decisions.get(batch.batch_id - 1)
        expected = None if before is None else (before.watermark_ms, before.timestamp_ms)
        previous = batch.previous
        if expected != (previous and (previous.batch_watermark_ms, previous.batch_timestamp_ms)):
            raise self.book.violated(
                life, f"{batch} is given {previous} as what the batch before was decided with"
            )
