"""Kills a script at every fault point and runs it again, for `penstock crashtest`.

The files of a test are described in `crash_folder`.
"""

from __future__ import annotations

import contextlib
import hashlib
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.engine.faults import FaultPoint
from penstock.errors import ExecutionError
from penstock.testing import crash_folder
from penstock.testing.crash_faults import (
    BatchPoint,
    choose_crash_points,
    delivered_again,
    not_crashed,
)
from penstock.testing.crash_folder import REFERENCE, name_of, new_directory, write
from penstock.testing.crash_process import ScriptRun, TestInterruptedError, log_of
from penstock.testing.crash_state import state_digest

_TAIL = 1500
_FIRST_BATCH = BatchPoint(FaultPoint.BEFORE_OFFSET_LOG, 0)
"""Reached by every run that begins with a new checkpoint and has input."""


@dataclass(frozen=True)
class KilledRun:
    """A script that was killed, and the result of its restart.

    The output after the restart is in `restarted_in`. `shared` is true if that is the folder of
    another crash, which had left the same files. `error` is the error of the restart, None if it
    succeeded.
    """

    crashed_at: BatchPoint
    restarted_in: Path
    delivered_again: tuple[int, ...] = ()
    error: str | None = None
    shared: bool = False


@dataclass(frozen=True)
class CrashResults:
    """The finished runs of a test; after an interruption, `not_tried` are the others."""

    folder: Path
    killed: Sequence[KilledRun]
    not_passed: Sequence[FaultPoint]
    not_tried: Sequence[BatchPoint]

    @property
    def reference(self) -> Path:
        return self.folder / REFERENCE


def crash_test_script(
    run: ScriptRun,
    points: Sequence[FaultPoint] | None,
    *,
    every_batch: bool,
    jobs: int = 1,
    check_output: Callable[[Path], None] = lambda _: None,
) -> CrashResults:
    """Run a script without a crash, then kill and restart it at each point, `jobs` at a time.

    Crashes that are already finished in the folder are not repeated. A KeyboardInterrupt during
    the crashes ends the test early and returns the results so far; during the run without a crash
    it is propagated. Raises ExecutionError if the folder is not empty and not that of this test,
    or if the script fails without a crash, runs no batch, does not reach one of the `points`, does
    not end in time or uses one checkpoint for all runs. `check_output` is called with the
    directory of the run without a crash before the first crash, and its errors are propagated.
    """
    _claim_folder(run)
    reached = _reference_run(run)
    crash_points = choose_crash_points(reached, points, every_batch=every_batch)
    if not any(one.point is FaultPoint.AFTER_COMMIT_LOG for one in reached):
        raise ExecutionError(
            f"{run.script} ran no batch on Penstock, so there is nothing to crash. Check that it "
            "has input, starts a streaming query, and uses {checkpoint} as checkpointLocation."
        )
    missed = not_crashed(crash_points, points)
    check_output(run.folder / REFERENCE)
    trials = _Trials(run, len(crash_points))
    trials.run_all(crash_points, jobs)
    finished = trials.finished(crash_points)
    done = {killed.crashed_at for killed in finished}
    not_tried = [crash_point for crash_point in crash_points if crash_point not in done]
    return CrashResults(run.folder, finished, missed, not_tried)


def _claim_folder(run: ScriptRun) -> None:
    """Make this the folder of the test. Raises ExecutionError if it is not empty or another's."""
    tested = {
        "script": str(run.script.resolve()),
        "sha256": hashlib.sha256(run.script.read_bytes()).hexdigest(),
        "arguments": list(run.arguments),
        # As a digest, because they may have secrets.
        "options": hashlib.sha256(repr(run.options.arguments()).encode()).hexdigest(),
    }
    crash_folder.claim(run.folder, tested)


def _reference_run(run: ScriptRun) -> list[BatchPoint]:
    """Run the script without a crash, unless that is finished; returns the points it reached."""
    record, finished = run.folder / f"{REFERENCE}.reached", run.folder / f"{REFERENCE}.json"
    if not finished.exists():
        run.tell("running without a crash ...")
        code = run.run(new_directory(run.folder / REFERENCE), _without_content(record))
        if code != 0:
            tail = _tail(log_of(record))
            raise ExecutionError(
                f"{run.script} exited with code {code} in the run without a crash:\n{tail}"
            )
        write(finished, {})
    return _read_points(record)


class _Trials:
    """The crashes of a script, several at a time, and which of them share a restart."""

    def __init__(self, run: ScriptRun, total: int) -> None:
        self._run = run
        self._total = total
        self._lock = threading.Lock()
        self._restarts: dict[str, str] = {}
        """By the digest of the state after a crash: the name of the crash that is restarted."""
        self._done = self._done_now = 0
        self._started = time.monotonic()

    def run_all(self, crash_points: Sequence[BatchPoint], jobs: int) -> None:
        """Run the crashes that are not finished. Returns early on a KeyboardInterrupt."""
        unfinished = [one for one in crash_points if self._killed_run(one) is None]
        for crash_point in crash_points:
            name = name_of(crash_point)
            result = self._result(name)
            is_finished = crash_point not in unfinished
            if is_finished and result is not None and result["restart"] == name:
                self._restarts[result["state"]] = name
        self._done = self._total - len(unfinished)
        if self._done:
            self._run.tell(f"{self._done} of {self._total} crashes are already finished")
        with ThreadPoolExecutor(jobs, thread_name_prefix="crash") as pool:
            futures = [pool.submit(self._try, crash_point) for crash_point in unfinished]
            with contextlib.suppress(KeyboardInterrupt):
                wait(futures, return_when=FIRST_EXCEPTION)
            if not all(future.done() for future in futures):
                self._run.children.end_all()
                pool.shutdown(cancel_futures=True)
        for future in futures:
            if not future.cancelled() and not isinstance(future.exception(), TestInterruptedError):
                future.result()

    def finished(self, crash_points: Sequence[BatchPoint]) -> list[KilledRun]:
        """The results of the finished crashes among these, in order."""
        runs = map(self._killed_run, crash_points)
        return [killed for killed in runs if killed is not None]

    def _try(self, crash_point: BatchPoint) -> None:
        name, folder = name_of(crash_point), self._run.folder
        record = _without_content(folder / f"{name}.killed")
        code = self._run.run(new_directory(folder / name), record, crash_point)
        if code != -signal.SIGKILL:
            why = self._why_not_killed(crash_point, record, code)
            self._finish(crash_point, {"restart": name, "state": name, "error": why}, "not killed")
            return
        state = state_digest(folder / name, _read_points(record))
        with self._lock:
            sharing = self._restarts.setdefault(state, name)
        error = self._restart(name) if sharing == name else None
        self._finish(crash_point, {"restart": sharing, "state": state, "error": error})

    def _why_not_killed(self, crash_point: BatchPoint, record: Path, code: int) -> str:
        """The error of a run that ended before it was killed.

        Raises ExecutionError if it probably used the checkpoint of an earlier run, which is not an
        error of the query that is tested.
        """
        if code != 0:
            return f"was not killed but exited with code {code}: {_tail(log_of(record))}"
        is_new = self._run.has("{work}") and _FIRST_BATCH in _read_points(record)
        if not self._run.has("{checkpoint}") and not is_new:
            raise ExecutionError(
                f"{self._run.script} was to be killed at {crash_point}, but exited with code 0 "
                "without reaching it. Its arguments have no {checkpoint}, so it may have used the "
                "checkpoint of an earlier run, which is finished. Pass {checkpoint} to the script "
                "and use it as checkpointLocation. If each run has a new checkpoint already, the "
                "script does not reach this point in every run: test others with --point."
            )
        return "was not killed but exited with code 0: this run did not reach the fault point again"

    def _restart(self, name: str) -> str | None:
        """Run the script again in the directory of a crash; returns its error, None if it ends."""
        record = _without_content(self._run.folder / f"{name}.restarted")
        code = self._run.run(self._run.folder / name, record)
        return None if code == 0 else f"exited with code {code}: {_tail(log_of(record))}"

    def _finish(
        self, crash_point: BatchPoint, result: dict[str, Any], outcome: str = "killed"
    ) -> None:
        write(self._run.folder / f"{name_of(crash_point)}.json", result)
        with self._lock:
            self._done += 1
            self._done_now += 1
            left = self._total - self._done
            seconds = (time.monotonic() - self._started) / self._done_now * left
            of_batch = "" if crash_point.batch_id < 0 else f" of batch {crash_point.batch_id}"
            ahead = f", about {_rough(seconds)} left" if left else ""
            self._run.tell(
                f"{self._done} of {self._total}: {outcome} at {crash_point.point.value}"
                f"{of_batch}{ahead}"
            )

    def _result(self, name: str) -> dict[str, Any] | None:
        """The content of `NAME.json`, None if the crash is not finished."""
        file = self._run.folder / f"{name}.json"
        return crash_folder.read(file, "restart", "state", "error") if file.exists() else None

    def _killed_run(self, crash_point: BatchPoint) -> KilledRun | None:
        """The result of a crash; None if it, or the restart that it shares, is not finished."""
        folder, own = self._run.folder, name_of(crash_point)
        result = self._result(own)
        restart = None if result is None else self._result(result["restart"])
        if result is None or restart is None or restart["restart"] != result["restart"]:
            return None
        name = result["restart"]
        again = delivered_again(
            _read_points(folder / f"{own}.killed"), _read_points(folder / f"{name}.restarted")
        )
        return KilledRun(crash_point, folder / name, again, restart["error"], shared=name != own)


def _without_content(record: Path) -> Path:
    record.unlink(missing_ok=True)
    return record


def _read_points(file: Path) -> list[BatchPoint]:
    lines = file.read_text().split() if file.exists() else []
    return [BatchPoint.parse(line) for line in lines]


def _rough(seconds: float) -> str:
    return f"{max(seconds, 1):.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-_TAIL:].strip()
