"""Narrowing a batch that fails to the smallest part of it that does.

Nothing happens to the checkpoint: it is copied, and the trials run on copies of the copy.

1. The checkpoint is copied as it was before the batch.
2. The whole batch is planned in a copy of that and run. If it does not fail, that is the result.
3. What fails is cut in two. The first half is run from where the failing part begins; if it fails,
   it is what is cut next.
4. If it does not, its copy, with the state it has left there, is where the second half is run from.
   If that fails, it is what is cut next; if not, the failure takes both halves.
5. This ends with a part that cannot be cut.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame

from penstock.api.exceptions import StreamingQueryException
from penstock.api.manager import streams
from penstock.api.start import QueryStart
from penstock.checkpoint.offset_seq import OffsetSeq
from penstock.checkpoint.tools.fork import fork, fork_before
from penstock.checkpoint.tools.view import CheckpointView
from penstock.debug.bisect_report import BisectReport, BisectTrial, brief, ranges_of
from penstock.engine.batch_parts import BatchPart
from penstock.engine.hooks import Hooks
from penstock.engine.triggers import OneTimeTrigger
from penstock.errors import CheckpointError, MissingBatchError, UnsupportedError
from penstock.spark.replay.bisected_batch import BisectedBatch, location_of
from penstock.spark.sinks.sink_factory import SinkRequest
from penstock.spark.start import StartRequest

_CHECKPOINT = "checkpointLocation"
_NOT_FOR_TRIALS = {"checkpointlocation", "queryname"}


class Bisection:
    """A batch of a checkpoint to be bisected, by default the one that is planned and not done.

    It is copied at once, to below `work`; the checkpoint may be used again meanwhile. `tell` is
    called after each trial. Raises CheckpointError if there is no such batch, or if the checkpoint
    no longer holds what it started from.
    """

    def __init__(
        self,
        checkpoint: str | Path,
        work: Path,
        batch_id: int | None = None,
        tell: Callable[[BisectTrial], None] = lambda _: None,
    ) -> None:
        view = CheckpointView(checkpoint)
        self.root = view.root
        self.batch_id = _chosen_batch(view) if batch_id is None else batch_id
        self._has_state = not view.state.is_empty
        self._is_planned = view.is_planned and self.batch_id == view.newest_batch
        self._entry: OffsetSeq = view.entry(self.batch_id)
        self._before = view.entry(self.batch_id - 1) if self.batch_id > 0 else None
        self._work = work
        self._tell = tell
        self._trials: list[BisectTrial] = []
        self._base = fork_before(view, work / "before", self.batch_id).path
        self._next_batch = self.batch_id

    def run(self, df: DataFrame, sink: SinkRequest, hooks: Hooks | None = None) -> BisectReport:
        """Narrow the batch of the query that `df` and `sink` make. It may be called once.

        Raises UnsupportedError if no source of the query can be narrowed.
        """
        with _quietly(df), contextlib.closing(self._bound(df)) as batch:
            whole = batch.whole()
            _require_divisible(whole)
            error = self._fails(batch, whole, df, sink, hooks)
            if error is None:
                return self._report()
            smallest, is_together = whole, False
            while not is_together and (halves := smallest.halves()) is not None:
                for half in halves:
                    found = self._fails(batch, half, df, sink, hooks)
                    if found is not None:
                        smallest, error = half, found
                        break
                else:
                    is_together = True
            return replace(
                self._report(),
                smallest=ranges_of(smallest),
                error=brief(error),
                error_text=str(error),
                is_together=is_together,
            )

    def _report(self) -> BisectReport:
        return BisectReport(
            str(self.root),
            self.batch_id,
            tuple(self._trials),
            is_planned=self._is_planned,
            has_state=self._has_state,
        )

    def _bound(self, df: DataFrame) -> BisectedBatch:
        """The batch with its sources, which keep their own files apart from the trials'."""
        probe = self._work / "probe"
        shutil.copytree(self._base, probe, ignore=shutil.ignore_patterns("state"))
        offset_log = CheckpointView(probe).directory.offset_log
        offset_log.make_directory()
        offset_log.add(self.batch_id, self._entry)
        return BisectedBatch(df, probe, self.root, self._entry, self._before)

    def _fails(
        self,
        batch: BisectedBatch,
        part: BatchPart,
        df: DataFrame,
        sink: SinkRequest,
        hooks: Hooks | None,
    ) -> BaseException | None:
        """Run a part; what it dies of. If it does not, the next part is run from where it ends."""
        number = len(self._trials) + 1
        trial = self._work / f"trial-{number}"
        last = self._next_batch - 1
        fork(CheckpointView(self._base), trial, at=last if last >= 0 else None)
        batch.plan(trial, self._next_batch, part)
        error = _run(df, replace(sink, options=_options(sink, trial)), hooks)
        done = CheckpointView(trial).commits.newest == self._next_batch
        if error is None and not done:
            raise KeyboardInterrupt  # nothing but a signal ends a query in the middle of a batch
        outcome = None if error is None else brief(error)
        self._trials.append(BisectTrial(number, ranges_of(part), outcome))
        self._tell(self._trials[-1])
        if error is None:
            trial, self._base = self._base, trial
            self._next_batch += 1
        shutil.rmtree(trial, ignore_errors=True)
        return error


def _chosen_batch(view: CheckpointView) -> int:
    newest = view.newest_batch
    if newest is None:
        raise MissingBatchError(f"{view.root} has no batch yet.")
    if not view.is_planned:
        raise MissingBatchError(
            f"No batch of {view.root} is planned and not committed: the newest, {newest}, is done. "
            "Name the batch that is to be bisected with --batch."
        )
    return newest


def _require_divisible(whole: BatchPart) -> None:
    parts = whole.with_data
    if not parts:
        raise UnsupportedError(
            "The batch has no new data: it was run for what the state had to give. There is no "
            "range to narrow."
        )
    is_smallest = parts[0].size == 1 and parts[0].source.supports_admission_control
    if whole.halves() is None and not is_smallest:
        raise UnsupportedError(
            f"A batch of {parts[0].source} cannot be narrowed: the source has no admission control "
            "or heeds no read limit, so that it cannot be asked for a part of the batch. What the "
            "batch read can be looked at with penstock.replay."
        )


def _options(sink: SinkRequest, trial: Path) -> dict[str, str]:
    kept = {k: v for k, v in sink.options.items() if k.lower() not in _NOT_FOR_TRIALS}
    return kept | {_CHECKPOINT: location_of(trial)}


def _run(df: DataFrame, sink: SinkRequest, hooks: Hooks | None) -> BaseException | None:
    """Run the batch that is planned; what it dies of.

    Raises CheckpointError if the query cannot run on the checkpoint at all.
    """
    start = QueryStart(df, StartRequest(sink, OneTimeTrigger(), hooks=hooks))
    query = streams(df.sparkSession).start(start)
    try:
        query.awaitTermination()
    except StreamingQueryException as exc:
        if isinstance(exc.__cause__, CheckpointError):
            raise exc.__cause__ from None
        return exc.__cause__ or exc
    return None


@contextlib.contextmanager
def _quietly(df: DataFrame) -> Iterator[None]:
    """Let trials fail without a word in the logs. Spark's stays off: who bisects is done after."""
    logger = logging.getLogger("penstock")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    df.sparkSession.sparkContext.setLogLevel("OFF")
    try:
        yield
    finally:
        logger.setLevel(before)
