"""Kills a pipeline on Spark repeatedly and checks its logs and output.

A `Life` is one pipeline on one checkpoint. Before each run some input arrives. Each run but the
last is killed with SIGKILL, at a fault point or at a random moment; the last one ends by itself.
After each kill recovery must be possible and the output must have no duplicates. At the end every
planned batch must be committed and the output must match the input.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penstock.engine.faults import OF_EVERY_QUERY, FaultPoint
from tests.class_archive import short_lived_jvm
from tests.crash.pipelines import PIPELINES, RETAINED_BATCHES, Pipeline, Rows, Workspace
from tests.killing import RunFailedError, log_violations, newest, some
from tests.processes import kill_session, running, tail
from tests.streams import log_entries

FILES_PER_RUN = 4
PATIENCE = 300.0
"""Seconds after which a run that neither ends nor gets to where it is to be killed has failed."""

_OUTSIDE_BATCHES = {
    FaultPoint.BEFORE_METADATA,
    FaultPoint.AFTER_METADATA,
    FaultPoint.BEFORE_SOURCES,
    FaultPoint.AFTER_SOURCES,
    FaultPoint.BEFORE_START_OFFSETS,
    FaultPoint.BEFORE_STOP_SOURCES,
    FaultPoint.AFTER_STOP_SOURCES,
}
_PURGING = {FaultPoint.BEFORE_PURGE, FaultPoint.BETWEEN_PURGES, FaultPoint.AFTER_PURGE}
_LETTING_GO = {FaultPoint.BEFORE_SOURCE_COMMIT, FaultPoint.AFTER_SOURCE_COMMIT}


@dataclass(frozen=True)
class AtPoint:
    """The process kills itself at a fault point; the JVM exits because its parent has ended."""

    point: FaultPoint

    def __str__(self) -> str:
        return self.point.value


@dataclass(frozen=True)
class AtMoment:
    """The process is killed some time after a batch was planned, with or without its JVM."""

    batches_on: int
    seconds: float
    with_jvm: bool

    def __str__(self) -> str:
        return f"{self.seconds * 1000:.0f} ms in" + (", JVM too" if self.with_jvm else "")


Kill = AtPoint | AtMoment


@dataclass(frozen=True)
class Strike:
    """The result of one kill. `batch_id` is the latest planned batch at that moment, or -1."""

    kill: Kill
    batch_id: int
    has_struck: bool
    problems: tuple[str, ...]


@dataclass
class Life:
    """The result of a pipeline that was killed several times."""

    pipeline: str
    strikes: list[Strike] = field(default_factory=list)
    runs: int = 0
    rows: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def is_well(self) -> bool:
        return not self.problems and not any(strike.problems for strike in self.strikes)


def choose_kills(count: int, seed: int) -> list[tuple[str, Kill]]:
    """A number of kills, alternating between fault points and random moments.

    Every fault point is used once before one is used again, and then in another pipeline.
    """
    chance = random.Random(seed)
    names = list(PIPELINES)
    points = list(OF_EVERY_QUERY)
    chance.shuffle(points)
    chosen: list[tuple[str, Kill]] = []
    for number in range(count):
        turn, is_moment = divmod(number, 2)
        if is_moment:
            moment = AtMoment(chance.randrange(3), chance.uniform(0, 0.5), chance.random() < 0.5)
            chosen.append((names[turn % len(names)], moment))
        else:
            rounds, index = divmod(turn, len(points))
            chosen.append((names[(index + rounds) % len(names)], AtPoint(points[index])))
    return chosen


def live(
    pipeline: Pipeline,
    kills: Sequence[Kill],
    work: Workspace,
    on_strike: Callable[[Strike], None] = lambda strike: None,
    last_run: Callable[[], None] | None = None,
) -> Life:
    """Run a pipeline with its kills. Ends early, with the problem, if a run fails by itself.

    `last_run` is called for the run without a kill; by default that is a new process, too.
    """
    result = Life(pipeline.name)
    try:
        for kill in kills:
            work.add_files(FILES_PER_RUN)
            result.runs += 1
            has_struck = _run(pipeline, work, kill)
            latest = newest(work.checkpoint, "offsets")
            strike = Strike(kill, latest, has_struck, tuple(_violations_after_kill(pipeline, work)))
            result.strikes.append(strike)
            on_strike(strike)
        work.close()
        result.runs += 1
        if last_run is None:
            _run(pipeline, work, None)
        else:
            last_run()
    except RunFailedError as exc:
        result.problems.append(str(exc))
        return result
    result.rows = pipeline.expected(work).total()
    result.problems += [
        *_violations_after_kill(pipeline, work),
        *_violations_at_end(pipeline, work),
    ]
    return result


def _run(pipeline: Pipeline, work: Workspace, kill: Kill | None) -> bool:
    """One run, until it ends or is killed; returns whether it was killed."""
    where = _where(pipeline, work, kill.point) if isinstance(kill, AtPoint) else "-"
    command = [sys.executable, "-m", "tests.crash.pipelines", pipeline.name, str(work.root), where]
    with running(command, work.log, {"SPARK_SUBMIT_OPTS": short_lived_jvm()}) as child:
        if isinstance(kill, AtMoment):
            _kill_at_moment(pipeline, child, work, kill)
        try:
            code = child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise RunFailedError(f"a run did not end in {PATIENCE:g} s; see {work.log}") from None
    if code not in (0, -signal.SIGKILL) or (kill is None and code != 0):
        raise RunFailedError(f"a run ended with {code}:\n{tail(work.log)}")
    if isinstance(kill, AtPoint) and code == 0:
        raise RunFailedError(f"a run did not pass {where}, where it was to be killed")
    return code != 0


def _kill_at_moment(
    pipeline: Pipeline, child: subprocess.Popen[bytes], work: Workspace, kill: AtMoment
) -> None:
    """Kill the process at its moment, unless it has ended before."""
    wanted = newest(work.checkpoint, "offsets") + 1 + pipeline.first_kill + kill.batches_on
    deadline = time.monotonic() + PATIENCE
    pause = threading.Event()
    while newest(work.checkpoint, "offsets") < wanted:
        if child.poll() is not None:
            return
        if time.monotonic() > deadline:
            raise RunFailedError(f"a run did not get to batch {wanted}; see {work.log}")
        pause.wait(0.005)
    pause.wait(kill.seconds)
    if kill.with_jvm:
        kill_session(child)
    else:
        child.kill()


def _where(pipeline: Pipeline, work: Workspace, point: FaultPoint) -> str:
    """The next batch that reaches a point, according to the logs and the pipeline."""
    latest, committed = newest(work.checkpoint, "offsets"), newest(work.checkpoint, "commits")
    if point in _OUTSIDE_BATCHES:
        batch_id = -1
    elif point is FaultPoint.AFTER_START_OFFSETS:
        batch_id = max(latest, committed + 1)
    elif point in _PURGING:
        batch_id = max(latest + 1 + pipeline.first_kill, RETAINED_BATCHES + 1)
    else:
        batch_id = max(latest + 1 + pipeline.first_kill, 1 if point in _LETTING_GO else 0)
    return f"{point.value}:{batch_id}"


def _violations_after_kill(pipeline: Pipeline, work: Workspace) -> list[str]:
    """The violations after a kill."""
    problems = log_violations(work.checkpoint)
    # Also for windows: one is emitted when the watermark has passed it and all its rows are read.
    if extra := _written(work) - pipeline.expected(work):
        problems.append(f"{extra.total()} rows twice or wrong: {some(extra)}")
    return problems


def _violations_at_end(pipeline: Pipeline, work: Workspace) -> list[str]:
    """The violations at the end."""
    expected, written = pipeline.expected(work), _written(work)
    offsets, commits = (log_entries(work.checkpoint, log) for log in ("offsets", "commits"))
    problems = []
    if offsets[-RETAINED_BATCHES:] != commits[-RETAINED_BATCHES:]:
        problems.append(f"not every planned batch is committed: {offsets} and {commits}")
    if lost := expected - written:
        problems.append(f"{lost.total()} rows lost: {some(lost)}")
    return problems


def _written(work: Workspace) -> Rows:
    return work.written() if work.table.exists() else Rows()
