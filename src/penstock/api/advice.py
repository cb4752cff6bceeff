"""What is worth knowing before it costs somebody a day; said once in a process."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from penstock.api.process import PROCESS

_logger = logging.getLogger(__name__)

_AT_LEAST_ONCE = {
    "foreachbatch": (
        "A foreachBatch function delivers at least once: after a crash the last batch comes "
        "again, with the same id and the same rows. Make the write idempotent, for instance by "
        "remembering the batch id together with the data."
    ),
    "foreach": (
        "foreach delivers at least once: after a crash the rows of the last batch come again. "
        "Deduplicate by the epoch id that open() is given, not by partition and epoch."
    ),
    "kafka": (
        "The Kafka sink delivers at least once: after a crash or a retried task, rows may be in "
        "the topic twice. Let consumers deduplicate by a key of their own."
    ),
    "console": "The console sink may print a batch again after a crash: it is for looking at.",
}

_ASYNC_PROGRESS = "asyncProgressTrackingEnabled"


def warn_of_delivery(sink_format: str) -> None:
    """Say of a sink that delivers at least once that it does, the first time one is used."""
    kind = sink_format.lower()
    if kind in _AT_LEAST_ONCE:
        _say_once(kind, _AT_LEAST_ONCE[kind])


def warn_of_options_without_effect(options: Mapping[str, str]) -> None:
    """Say which option of Spark's engine this one has no use for."""
    lower = {name.lower(): value.lower() for name, value in options.items()}
    if lower.get(_ASYNC_PROGRESS.lower()) == "true":
        _say_once(
            _ASYNC_PROGRESS,
            f"The option {_ASYNC_PROGRESS} has no effect: Penstock writes a batch's offsets before "
            "the batch runs and its commit before the next one is planned, always. The option can "
            "be left out.",
        )


def _say_once(subject: str, text: str) -> None:
    with PROCESS.lock:
        if subject in PROCESS.advice_given:
            return
        PROCESS.advice_given.add(subject)
    _logger.warning("%s", text)
