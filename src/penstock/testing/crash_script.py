"""Kill a script at every point of the protocol, for real, and run it again.

In the folder of a test, for each crash: a directory, `{work}` of its runs; `NAME.killed` and
`NAME.restarted`, the points these runs passed, with what they printed in `.log`; and
`NAME.json` when it is finished. `crashtest.json` is what is tested.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.engine.faults import FaultPoint
from penstock.errors import ExecutionError
from penstock.testing.crash_faults import Passage, choose_strikes, delivered_again
from penstock.testing.crash_process import ScriptRun, TestInterruptedError, log_of
from penstock.testing.crash_state import left_behind

_TAIL = 1500
_REFERENCE = "uncrashed"


@dataclass(frozen=True)
class KilledRun:
    """A script that was killed, and how its restart went.

    The output after the restart is in `restarted_in`. `shared` says that this is the folder of
    another crash, which had left the same behind. `error` is why there is no such output.
    """

    strike: Passage
    restarted_in: Path
    delivered_again: tuple[int, ...] = ()
    error: str | None = None
    shared: bool = False


@dataclass(frozen=True)
class CrashResults:
    """The runs of a test; after an interruption, those that were finished."""

    folder: Path
    killed: Sequence[KilledRun]
    not_passed: Sequence[FaultPoint]
    not_tried: Sequence[Passage]

    @property
    def reference(self) -> Path:
        return self.folder / _REFERENCE


def crash_test_script(
    run: ScriptRun, points: Sequence[FaultPoint] | None, *, every_batch: bool, jobs: int = 1
) -> CrashResults:
    """Run a script without a crash, then kill and restart it at each point, `jobs` at a time.

    What is finished in the folder is not done again. A KeyboardInterrupt ends it early, with the
    results so far; before the run without a crash is finished it is raised.
    """
    _claim_folder(run)
    passed = _reference_run(run)
    strikes = choose_strikes(passed, points, every_batch=every_batch)
    if not any(passage.point is FaultPoint.AFTER_COMMIT_LOG for passage in passed):
        raise ExecutionError(f"{run.script} ran no batch, so there is nothing to crash")
    struck = {strike.point for strike in strikes}
    missed = [point for point in (points or FaultPoint) if point not in struck]
    trials = _Trials(run, len(strikes))
    trials.run_all(strikes, jobs)
    finished = trials.finished(strikes)
    done = {killed.strike for killed in finished}
    return CrashResults(run.folder, finished, missed, [s for s in strikes if s not in done])


def _claim_folder(run: ScriptRun) -> None:
    """Note what is tested here. Raises ExecutionError if something else is."""
    tested = {
        "script": str(run.script.resolve()),
        "sha256": hashlib.sha256(run.script.read_bytes()).hexdigest(),
        "arguments": list(run.arguments),
    }
    file = run.folder / "crashtest.json"
    if not file.exists():
        _write(file, tested)
    elif (found := json.loads(file.read_text())) != tested:
        changed = ", ".join(key for key in tested if found.get(key) != tested[key])
        raise ExecutionError(
            f"{run.folder} has the runs of another crash test (other {changed}); start a new one"
        )


def _reference_run(run: ScriptRun) -> list[Passage]:
    """The points that the script passes without a crash."""
    record, finished = run.folder / f"{_REFERENCE}.passed", run.folder / f"{_REFERENCE}.json"
    if not finished.exists():
        run.tell("running without a crash ...")
        code = run.run(_new_directory(run.folder / _REFERENCE), _without_content(record))
        if code != 0:
            tail = _tail(log_of(record))
            raise ExecutionError(f"{run.script} ended with {code} without a crash:\n{tail}")
        _write(finished, {})
    return _read_passages(record)


class _Trials:
    """The crashes of a script, several at a time, and which of them share a restart."""

    def __init__(self, run: ScriptRun, total: int) -> None:
        self._run = run
        self._total = total
        self._lock = threading.Lock()
        self._restarts: dict[str, str] = {}
        """By what a crash left behind: the name of the one that is restarted."""
        self._done = self._done_now = 0
        self._started = time.monotonic()

    def run_all(self, strikes: Sequence[Passage], jobs: int) -> None:
        """Try those that are not finished. Returns early on a KeyboardInterrupt."""
        open_ones = [strike for strike in strikes if self._killed_run(strike) is None]
        for strike in strikes:
            kept = self._kept(_name(strike))
            if strike not in open_ones and kept is not None and kept["restart"] == _name(strike):
                self._restarts[kept["left"]] = _name(strike)
        self._done = self._total - len(open_ones)
        if self._done:
            self._run.tell(f"{self._done} of {self._total} were finished before")
        with ThreadPoolExecutor(jobs, thread_name_prefix="crash") as pool:
            futures = [pool.submit(self._try, strike) for strike in open_ones]
            with contextlib.suppress(KeyboardInterrupt):
                wait(futures, return_when=FIRST_EXCEPTION)
            if not all(future.done() for future in futures):
                self._run.children.end_all()
                pool.shutdown(cancel_futures=True)
        for future in futures:
            if not future.cancelled() and not isinstance(future.exception(), TestInterruptedError):
                future.result()

    def finished(self, strikes: Sequence[Passage]) -> list[KilledRun]:
        """The finished ones among these, in their order."""
        return [killed for strike in strikes if (killed := self._killed_run(strike)) is not None]

    def _try(self, strike: Passage) -> None:
        name, folder = _name(strike), self._run.folder
        record = _without_content(folder / f"{name}.killed")
        code = self._run.run(_new_directory(folder / name), record, strike)
        if code != -signal.SIGKILL:
            why = f"was to be killed, but ended with {code}: {_tail(log_of(record))}"
            self._finish(strike, {"restart": name, "left": name, "error": why})
            return
        left = left_behind(folder / name, _read_passages(record))
        with self._lock:
            sharing = self._restarts.setdefault(left, name)
        error = self._restart(name) if sharing == name else None
        self._finish(strike, {"restart": sharing, "left": left, "error": error})

    def _restart(self, name: str) -> str | None:
        """Run the script again where it was killed; what went wrong."""
        record = _without_content(self._run.folder / f"{name}.restarted")
        code = self._run.run(self._run.folder / name, record)
        return None if code == 0 else f"ended with {code}: {_tail(log_of(record))}"

    def _finish(self, strike: Passage, result: dict[str, Any]) -> None:
        _write(self._run.folder / f"{_name(strike)}.json", result)
        with self._lock:
            self._done += 1
            self._done_now += 1
            left = self._total - self._done
            seconds = (time.monotonic() - self._started) / self._done_now * left
            of_batch = "" if strike.batch_id < 0 else f" of batch {strike.batch_id}"
            ahead = f", about {_rough(seconds)} left" if left else ""
            self._run.tell(
                f"{self._done} of {self._total}: killed at {strike.point.value}{of_batch}{ahead}"
            )

    def _kept(self, name: str) -> dict[str, Any] | None:
        file = self._run.folder / f"{name}.json"
        return json.loads(file.read_text()) if file.exists() else None

    def _killed_run(self, strike: Passage) -> KilledRun | None:
        """How it went; None if it, or the restart that it shares, is not finished."""
        folder, own = self._run.folder, _name(strike)
        kept = self._kept(own)
        restart = None if kept is None else self._kept(kept["restart"])
        if kept is None or restart is None or restart["restart"] != kept["restart"]:
            return None
        name = kept["restart"]
        again = delivered_again(
            _read_passages(folder / f"{own}.killed"), _read_passages(folder / f"{name}.restarted")
        )
        return KilledRun(strike, folder / name, again, restart["error"], shared=name != own)


def _name(strike: Passage) -> str:
    return str(strike).replace(":", "_")


def _new_directory(path: Path) -> Path:
    """An empty one. What an interrupted run left there is removed."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    return path


def _without_content(record: Path) -> Path:
    record.unlink(missing_ok=True)
    return record


def _write(file: Path, document: dict[str, Any]) -> None:
    """All of it or nothing."""
    written = file.with_name(f"{file.name}.new")
    written.write_text(json.dumps(document))
    written.replace(file)


def _read_passages(file: Path) -> list[Passage]:
    lines = file.read_text().split() if file.exists() else []
    return [Passage.parse(line) for line in lines]


def _rough(seconds: float) -> str:
    return f"{max(seconds, 1):.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-_TAIL:].strip()
