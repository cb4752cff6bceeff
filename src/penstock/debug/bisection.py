"""Narrows a failing batch to the smallest part of it that fails.

The checkpoint is not changed: it is copied, and the trials run on copies of that copy.

1. The checkpoint is copied as it was before the batch.
2. The whole batch is planned in a copy of that and run. If it does not fail, the bisection ends.
3. It is narrowed as described in `engine.narrowing`: the first half of a failing part is run on a
   copy of the checkpoint as it was before that part, and if it does not fail, the second half on
   the checkpoint that the first half left, with its state.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame

from penstock.api.exceptions import StreamingQueryException
from penstock.api.manager import streams
from penstock.api.query_start import QueryStart
from penstock.checkpoint.offset_seq import OffsetSeq
from penstock.checkpoint.tools.fork import fork, fork_before
from penstock.checkpoint.tools.locations import local_path
from penstock.checkpoint.tools.view import CheckpointView
from penstock.debug.bisect_report import BisectReport, BisectTrial, brief, ranges_of
from penstock.engine.batch_parts import BatchPart, FilesPart
from penstock.engine.hooks import Hooks
from penstock.engine.narrowing import narrow
from penstock.engine.triggers import OneTimeTrigger
from penstock.errors import CheckpointError, MissingBatchError, UnsupportedError
from penstock.spark.replay.bisected_batch import BisectedBatch, location_of
from penstock.spark.sinks.sink_factory import SinkRequest
from penstock.spark.sources.kafka_groups import CONSUMER_GROUP
from penstock.spark.start import StartRequest

_CHECKPOINT = "checkpointLocation"
_NOT_FOR_TRIALS = {"checkpointlocation", "queryname", CONSUMER_GROUP.lower()}


class Bisection:
    """The bisection of one batch of a checkpoint, by default the planned, uncommitted one.

    The constructor copies the checkpoint to `work`; the original may be used again after that.
    `tell` is called after each trial. Raises CheckpointError if there is no such batch, or if the
    checkpoint no longer has the offsets and the state that the batch started from.
    """

    def __init__(
        self,
        checkpoint: str | Path,
        work: Path,
        batch_id: int | None = None,
        tell: Callable[[BisectTrial], None] = lambda _: None,
    ) -> None:
        self.root = local_path(checkpoint)
        view = CheckpointView(self.root)
        self.batch_id = _chosen_batch(view) if batch_id is None else batch_id
        self._has_state = not view.state.is_empty
        self._is_planned = view.is_planned and self.batch_id == view.newest_batch
        self._entry: OffsetSeq = view.entry(self.batch_id)
        self._before = view.entry(self.batch_id - 1) if self.batch_id > 0 else None
        self._work = work
        self._tell = tell
        self._trials: list[BisectTrial] = []
        self._base = work / "before"
        fork_before(view, self._base, self.batch_id)
        self._next_batch = self.batch_id

    def run(self, df: DataFrame, sink: SinkRequest, hooks: Hooks | None = None) -> BisectReport:
        """Bisect the batch of the query that consists of `df` and `sink`. Call it only once.

        Raises UnsupportedError if no source of the query can be read in parts.
        """
        with _quietly(df), contextlib.closing(self._bound(df)) as batch:
            whole = batch.whole()
            _require_divisible(whole)
            fails = partial(self._fails, batch, df, sink, hooks)
            error = fails(whole)
            if error is None:
                return replace(self._report(), missing=_missing(whole))
            found = narrow(whole, error, fails)
            return replace(
                self._report(),
                smallest=ranges_of(found.part),
                error=brief(found.error),
                error_text=str(found.error),
                is_together=found.is_together,
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
        """The batch bound to its sources, whose own files are kept apart from the trials'."""
        probe = self._work / "probe"
        shutil.copytree(self._base, probe, ignore=shutil.ignore_patterns("state"))
        offset_log = CheckpointView(probe).directory.offset_log
        offset_log.make_directory()
        offset_log.add(self.batch_id, self._entry)
        return BisectedBatch(df, probe, self.root, self._entry, self._before)

    def _fails(
        self,
        batch: BisectedBatch,
        df: DataFrame,
        sink: SinkRequest,
        hooks: Hooks | None,
        part: BatchPart,
    ) -> BaseException | None:
        """Run a part and return its error.

        If it does not fail, its checkpoint becomes the base of the next trial.
        """
        number = len(self._trials) + 1
        trial = self._work / f"trial-{number}"
        last = self._next_batch - 1
        fork(CheckpointView(self._base), trial, at=last if last >= 0 else None)
        batch.plan(trial, self._next_batch, part)
        error = _run(df, replace(sink, options=_options(sink, trial)), hooks)
        done = CheckpointView(trial).commits.newest == self._next_batch
        if error is None and not done:
            raise KeyboardInterrupt  # only a signal stops a query in the middle of a batch
        outcome = None if error is None else brief(error)
        self._trials.append(BisectTrial(number, ranges_of(part), outcome))
        self._tell(self._trials[-1])
        if error is None:
            trial, self._base = self._base, trial
            self._next_batch += 1
        shutil.rmtree(trial, ignore_errors=True)
        return error


def _missing(whole: BatchPart) -> tuple[str, ...]:
    files = [part for part in whole.sources if isinstance(part, FilesPart)]
    return tuple(file.path for part in files for file in part.missing)


def _chosen_batch(view: CheckpointView) -> int:
    newest = view.newest_batch
    if newest is None:
        raise MissingBatchError(f"{view.root} has no batch yet.")
    if not view.is_planned:
        raise MissingBatchError(
            f"{view.root} has no planned, uncommitted batch: the newest, {newest}, is committed. "
            "Give the batch to bisect with --batch."
        )
    return newest


def _require_divisible(whole: BatchPart) -> None:
    parts = whole.with_data
    if not parts:
        raise UnsupportedError(
            "The batch has no new data, so there is no range to narrow: it only evicts state and "
            "emits its results."
        )
    is_smallest = parts[0].size == 1 and parts[0].source.supports_admission_control
    if whole.halves() is None and not is_smallest:
        raise UnsupportedError(
            f"A batch of {parts[0].source} cannot be narrowed: the source has no admission control "
            "or ignores read limits, so a part of the batch cannot be read. Use penstock.replay to "
            "read the input of the batch."
        )


def _options(sink: SinkRequest, trial: Path) -> dict[str, str]:
    kept = {k: v for k, v in sink.options.items() if k.lower() not in _NOT_FOR_TRIALS}
    return kept | {_CHECKPOINT: location_of(trial)}


def _run(df: DataFrame, sink: SinkRequest, hooks: Hooks | None) -> BaseException | None:
    """Run the planned batch and return its error, None if it does not fail.

    Raises CheckpointError if the query cannot run on the checkpoint.
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
    """Disable the logs of Penstock and Spark in the block, since trials are expected to fail.

    Spark's log is not enabled again: the session is used for nothing else after a bisection.
    """
    logger = logging.getLogger("penstock")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    df.sparkSession.sparkContext.setLogLevel("OFF")
    try:
        yield
    finally:
        logger.setLevel(before)
