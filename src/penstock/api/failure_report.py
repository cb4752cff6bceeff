"""The text that `penstock run` prints when a query has failed: the error and a next command."""

from __future__ import annotations

import logging
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.errors import PySparkException

from penstock.api.exceptions import StreamingQueryException
from penstock.api.main_script import report_uncaught
from penstock.api.spark_options import SparkOptions
from penstock.engine.error_text import one_line
from penstock.errors import (
    CheckpointError,
    ConcurrentUpdateError,
    SinkAheadError,
    SinkRenamedError,
    SourceCountError,
    SourceEvolutionError,
)
from penstock.redaction import DEFAULT_REDACTOR
from penstock.spark.jvm.failures import is_of_batch_function
from penstock.spark.jvm.pyspark_api import condition_of

# Spark's error conditions that are caused by the files of the checkpoint, not by the data.
_CHECKPOINT_CONDITIONS = (
    "STATE_STORE_",
    "CANNOT_LOAD_STATE_STORE",
    "STREAMING_STATEFUL_OPERATOR_",
)

# Errors of the program, the sink or a second query. The files of the checkpoint are in order.
_NOT_IN_THE_FILES = (
    ConcurrentUpdateError,
    SinkAheadError,
    SinkRenamedError,
    SourceCountError,
    SourceEvolutionError,
)


def report_failure(
    error: BaseException, script: Path, arguments: Sequence[str], options: SparkOptions
) -> None:
    """Print the error of a query to standard error, followed by the lines of `advice`.

    The traceback of a failed query was logged when it failed, and is not printed again. If the
    script has set its own `sys.excepthook`, that hook is called with the error in any case.
    """
    has_own_hook = sys.excepthook is not sys.__excepthook__
    is_logged = logging.getLogger("penstock.engine.stream_execution").isEnabledFor(logging.ERROR)
    if isinstance(error, StreamingQueryException) and is_logged and not has_own_hook:
        message = error.getMessageParameters()["message"]
        head = str(error).partition(message)[0]
        kind = f"{type(error).__module__}.{type(error).__name__}"
        print(f"{kind}: {head}{one_line(message)}", file=sys.stderr)
    else:
        report_uncaught(error)
    for line in advice(error, script, arguments, options):
        print(line, file=sys.stderr)
    sys.stderr.flush()


def advice(
    error: BaseException, script: Path, arguments: Sequence[str], options: SparkOptions
) -> list[str]:
    """The lines that name the batch, the checkpoint and the next command to run.

    Empty if the error has no checkpoint. Recommends `penstock bisect` for a batch that failed, and
    `penstock checkpoint verify` otherwise, unless it would find nothing.
    """
    checkpoint = getattr(error, "checkpoint", None)
    if not isinstance(checkpoint, str):
        return []
    place = _as_argument(checkpoint)
    cause = error.cause if isinstance(error, StreamingQueryException) else error
    batch = getattr(error, "batch_id", None)
    if isinstance(cause, _NOT_IN_THE_FILES):
        return [f"penstock: the checkpoint is {place}."]
    verify = f"    penstock checkpoint verify {place}"
    if _is_checkpoint_error(cause):
        problem = f"the query cannot continue from its checkpoint {place}"
        return [f"penstock: {problem}. To find the problem, run:", verify]
    if batch is None:
        return [
            f"penstock: no batch was running. The checkpoint is {place}. To see whether a restart "
            "from it is possible, run:",
            verify,
        ]
    command = ["penstock", "bisect", "--checkpoint", _path(checkpoint), "--batch", str(batch)]
    if is_of_batch_function(cause):
        command.append("--with-sink")
    conf, named = map(DEFAULT_REDACTOR.options, (options.conf, options.named))
    command += SparkOptions(conf, named).arguments()
    command.append(str(script))
    command += ["--", *arguments] if arguments else []
    return [
        f"penstock: batch {batch} failed and will run again at the next start. "
        f"The checkpoint is {place}.",
        "penstock: to find the part of the batch that fails, run:",
        f"    {shlex.join(command)}",
    ]


def _is_checkpoint_error(cause: BaseException | None) -> bool:
    if isinstance(cause, CheckpointError):
        return True
    condition = condition_of(cause) if isinstance(cause, PySparkException) else None
    return isinstance(condition, str) and condition.startswith(_CHECKPOINT_CONDITIONS)


def _as_argument(checkpoint: str) -> str:
    return shlex.quote(_path(checkpoint))


def _path(checkpoint: str) -> str:
    """The location of a checkpoint as an argument of the commands; `file:` URIs become paths."""
    return checkpoint.removeprefix("file:") if checkpoint.startswith("file:/") else checkpoint
