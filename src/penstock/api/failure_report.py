"""What `penstock run` prints when a query has failed: the error, and what to do about it."""

from __future__ import annotations

import logging
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.api.exceptions import StreamingQueryException
from penstock.api.script import report_uncaught
from penstock.engine.error_text import one_line
from penstock.errors import CheckpointError
from penstock.redaction import DEFAULT_REDACTOR

_BATCH_FUNCTION_ERROR = "[FOREACH_BATCH_USER_FUNCTION_ERROR]"
# Conditions of Spark's that are about the files of the checkpoint, not about the data.
_OF_THE_CHECKPOINT = ("STATE_STORE_", "CANNOT_LOAD_STATE_STORE", "STREAMING_STATEFUL_OPERATOR_")


def report_failure(
    error: BaseException, script: Path, arguments: Sequence[str], conf: Mapping[str, str]
) -> None:
    """Print an error of a query, and as the last lines the batch, the checkpoint and a command.

    The traceback of a query that died was logged when it died, and is not printed again. An
    exception hook of the script's own gets the error in any case.
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
    for line in advice(error, script, arguments, conf):
        print(line, file=sys.stderr)
    sys.stderr.flush()


def advice(
    error: BaseException, script: Path, arguments: Sequence[str], conf: Mapping[str, str]
) -> list[str]:
    """What to do about an error of a query; nothing if its checkpoint is not known."""
    checkpoint = getattr(error, "checkpoint", None)
    if not isinstance(checkpoint, str):
        return []
    place = _as_argument(checkpoint)
    cause = error.cause if isinstance(error, StreamingQueryException) else error
    batch = getattr(error, "batch_id", None)
    if batch is None or _is_of_the_checkpoint(cause):
        return [
            f"penstock: the query cannot go on from its checkpoint {place}. What is wrong with it:",
            f"    penstock checkpoint verify {place}",
        ]
    command = ["penstock", "bisect", "--checkpoint", _path(checkpoint), "--batch", str(batch)]
    if _BATCH_FUNCTION_ERROR in str(error):
        command.append("--with-sink")
    shown = DEFAULT_REDACTOR.options(conf)
    command += [part for key, value in shown.items() for part in ("--conf", f"{key}={value}")]
    command.append(str(script))
    command += ["--", *arguments] if arguments else []
    return [
        f"penstock: batch {batch} failed and is run again at the next start. "
        f"The checkpoint is {place}.",
        "penstock: to find the part of the batch that fails:",
        f"    {shlex.join(command)}",
    ]


def _is_of_the_checkpoint(cause: BaseException | None) -> bool:
    if isinstance(cause, CheckpointError):
        return True
    condition = getattr(cause, "getCondition", lambda: None)()
    return isinstance(condition, str) and condition.startswith(_OF_THE_CHECKPOINT)


def _as_argument(checkpoint: str) -> str:
    return shlex.quote(_path(checkpoint))


def _path(checkpoint: str) -> str:
    """A checkpoint's location as the commands take it: a local one as a plain path."""
    return checkpoint.removeprefix("file:") if checkpoint.startswith("file:/") else checkpoint
