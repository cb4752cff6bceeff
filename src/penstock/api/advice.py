"""Warnings about delivery guarantees and ignored options, each logged once per process."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from penstock.api.process import PROCESS

_logger = logging.getLogger(__name__)

_AT_LEAST_ONCE = {
    "foreachbatch": (
        "A foreachBatch function delivers at least once: after a crash it is called again for the "
        "last batch, with the same batch id and the same rows. Make the write idempotent, for "
        "instance by storing the batch id together with the data."
    ),
    "foreach": (
        "foreach delivers at least once: after a crash the rows of the last batch are processed "
        "again. Deduplicate by the epoch id passed to open(), not by partition and epoch."
    ),
    "kafka": (
        "The Kafka sink delivers at least once: after a crash or a retried task, rows may be in "
        "the topic twice. Let consumers deduplicate by a key in the data."
    ),
    "console": (
        "The console sink may print a batch again after a crash. Use it for debugging only."
    ),
}

_ASYNC_PROGRESS = "asyncProgressTrackingEnabled"


def warn_of_delivery(sink_format: str) -> None:
    """Log a warning the first time a sink that delivers at least once is used."""
    kind = sink_format.lower()
    if kind in _AT_LEAST_ONCE:
        _warn_once(kind, _AT_LEAST_ONCE[kind])


def warn_of_options_without_effect(options: Mapping[str, str]) -> None:
    """Log a warning for an option of Spark's engine that Penstock ignores."""
    lower = {name.lower(): value.lower() for name, value in options.items()}
    if lower.get(_ASYNC_PROGRESS.lower()) == "true":
        _warn_once(
            _ASYNC_PROGRESS,
            f"The option {_ASYNC_PROGRESS} has no effect: Penstock always writes the offsets of a "
            "batch before the batch runs, and its commit before the next batch is planned. Remove "
            "the option.",
        )


def _warn_once(subject: str, text: str) -> None:
    with PROCESS.lock:
        if subject in PROCESS.advice_given:
            return
        PROCESS.advice_given.add(subject)
    _logger.warning("%s", text)
