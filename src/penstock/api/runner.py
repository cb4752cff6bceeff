"""Runs an unmodified PySpark script with Penstock installed."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from types import FrameType
from typing import Any

import pyspark.errors
from pyspark import SparkContext

from penstock.api.failure_report import report_failure
from penstock.api.install import install
from penstock.api.main_script import report_uncaught, run_as_main
from penstock.api.manager import running_queries
from penstock.api.run_log import logging_like_spark
from penstock.api.spark_options import NO_OPTIONS, SparkOptions
from penstock.errors import PenstockError
from penstock.spark.jvm.java_home import prepare_environment

_logger = logging.getLogger(__name__)

_EXECUTOR_PYTHON = "spark.pyspark.python"
_SECONDS_TO_FINISH = 10.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Outcome(IntEnum):
    """The exit codes of `penstock run`."""

    ENDED = 0
    SCRIPT_FAILED = 1
    QUERY_FAILED = 3
    INTERRUPTED = 128 + signal.SIGINT
    TERMINATED = 128 + signal.SIGTERM


def run_script(
    script: str | os.PathLike[str],
    arguments: Sequence[str] = (),
    options: SparkOptions = NO_OPTIONS,
) -> int:
    """Run a script as `python script arguments...` would, with its queries on Penstock.

    `options` are for the Spark session that the script creates. SIGTERM and the first Ctrl-C
    stop the queries when their running batch is committed; a second one stops them at once.
    Returns the exit code: an Outcome, or the code that the script itself exited with. An error
    that the script does not catch is printed as Python prints it.
    """
    prepare_environment()
    install()
    stopper = _Stopper()
    with (
        options.in_environment(),
        stopper.on_signals(),
        _after_context_start(_use_configured_python),
        logging_like_spark(),
    ):
        error: BaseException | None = None
        try:
            run_as_main(os.fspath(script), arguments, options.module_path())
        except SystemExit as exc:
            return _exit_code(exc)
        except BaseException as exc:
            error = exc
        if error is not None and not (isinstance(error, KeyboardInterrupt) and stopper.signal):
            # Outside the except block, so that sys.excepthook sees no exception being handled.
            return _report(error, Path(script), arguments, options)
    return Outcome.ENDED if stopper.signal is None else Outcome(128 + stopper.signal)


def _report(
    error: BaseException, script: Path, arguments: Sequence[str], options: SparkOptions
) -> int:
    """Print the error of a script and return the exit code."""
    try:
        if isinstance(error, (pyspark.errors.StreamingQueryException, PenstockError)):
            report_failure(error, script, arguments, options)
            return Outcome.QUERY_FAILED
        report_uncaught(error)
    except SystemExit as exc:
        return _exit_code(exc)
    is_interrupt = isinstance(error, KeyboardInterrupt)
    return Outcome.INTERRUPTED if is_interrupt else Outcome.SCRIPT_FAILED


def _exit_code(exit_request: SystemExit) -> int:
    code = exit_request.code
    if code is None:
        return Outcome.ENDED
    if isinstance(code, int):
        return code
    print(code, file=sys.stderr)
    return Outcome.SCRIPT_FAILED


def _use_configured_python(context: SparkContext) -> None:
    """Run Python on the executors with the interpreter in `spark.pyspark.python`, if it is set.

    spark-submit does this for the programs that it starts. PySpark itself only looks at the
    variable `PYSPARK_PYTHON`.
    """
    context.pythonExec = context.getConf().get(_EXECUTOR_PYTHON) or context.pythonExec


@contextlib.contextmanager
def _after_context_start(step: Callable[[SparkContext], None]) -> Iterator[None]:
    """In the block, call a function with each SparkContext that is created."""
    initialize = SparkContext.__init__

    def initialize_and_call(context: SparkContext, *args: Any, **kwargs: Any) -> None:
        initialize(context, *args, **kwargs)
        step(context)

    SparkContext.__init__ = initialize_and_call  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        SparkContext.__init__ = initialize  # type: ignore[method-assign]


class _Stopper:
    """Stops the queries of the process on SIGTERM and SIGINT."""

    def __init__(self) -> None:
        self._requests = 0
        self.signal: int | None = None
        """The first signal received."""
        self._is_over = False
        self._finished = threading.Event()
        self._process = os.getpid()
        self._before: dict[int, Any] = {}

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """Handle SIGTERM and SIGINT in the block, and restore the previous handlers after it.

        Has no effect on any thread but the main thread.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        try:
            with _after_context_start(self._take_back_interrupts):
                yield
        finally:
            self._finished.set()
            for number in _SIGNALS:
                self._restore(number)

    def _take_back_interrupts(self, _: SparkContext) -> None:
        """A new SparkContext installs its own SIGINT handler, which cancels every job."""
        signal.signal(signal.SIGINT, self._on_signal)

    def _restore(self, number: int) -> None:
        signal.signal(number, self._before[number] or signal.SIG_DFL)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # a forked child, as of multiprocessing
            self._restore(number)
            os.kill(os.getpid(), number)
            return
        if self._is_over:
            raise KeyboardInterrupt
        self.signal = self.signal or number
        self._requests += 1
        if self._requests > 2:
            raise KeyboardInterrupt
        graceful = self._requests == 1
        how = "at the batch boundary; signal again to stop at once" if graceful else "at once"
        with contextlib.suppress(OSError):  # standard error may be a terminal that was closed
            print(f"penstock: stopping {how}", file=sys.stderr, flush=True)
        # On another thread: the handler interrupts the main thread, which may hold locks.
        threading.Thread(target=self._stop_queries, args=(graceful,), daemon=True).start()

    def _stop_queries(self, graceful: bool) -> None:
        queries = running_queries()
        if graceful:
            for query in queries:
                query.stop_at_boundary()
        for query in queries:
            try:
                query.stop(graceful=graceful)
            except Exception:
                _logger.exception("Could not stop query %s", query.id)
        # A script that waits for its queries ends now. Any other is interrupted.
        self._finished.wait(_SECONDS_TO_FINISH if graceful else 1.0)
        if not self._finished.is_set():
            self._is_over = True
            os.kill(os.getpid(), signal.SIGINT)
