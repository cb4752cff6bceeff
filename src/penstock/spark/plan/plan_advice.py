"""Warnings about settings fixed by the first batch, and about options that are not read."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from penstock.checkpoint import CheckpointDirectory
from penstock.spark.plan.known_options import misspelt_in_sink, misspelt_in_source
from penstock.spark.session.stream_session import SparkStreamSession

_logger = logging.getLogger(__name__)

_PARTITIONS = "spark.sql.shuffle.partitions"
_DEFAULT_PARTITIONS = "200"

_said: set[tuple[str, str, str]] = set()
_said_lock = threading.Lock()


def warn_of_default_partitions(
    session: SparkStreamSession, checkpoint: CheckpointDirectory
) -> None:
    """Warn before the first batch if a stateful query has the default number of partitions."""
    if session.is_set(_PARTITIONS) or session.get_conf(_PARTITIONS) != _DEFAULT_PARTITIONS:
        return
    if checkpoint.offset_log.list_batches():
        return
    _logger.warning(
        "This query keeps state and is about to get %s state partitions, Spark's default, for as "
        "long as its checkpoint lives: every batch will read and write that many state stores, "
        "and the number cannot be changed later. Set %s before the first batch to what the data "
        "needs (a few per core), or set it to %s to keep the default without this warning.",
        _DEFAULT_PARTITIONS,
        _PARTITIONS,
        _DEFAULT_PARTITIONS,
    )


def warn_of_misspelt_source_options(source_format: str, options: Mapping[str, str]) -> None:
    """Warn of misspelt options of a source, which Spark ignores silently."""
    _warn_of_misspelt("source", source_format, misspelt_in_source(source_format, options))


def warn_of_misspelt_sink_options(sink_format: str, options: Mapping[str, str]) -> None:
    """Warn of misspelt options that neither the writer nor the sink reads."""
    _warn_of_misspelt("sink", sink_format, misspelt_in_sink(sink_format, options))


def _warn_of_misspelt(kind: str, name: str, misspelt: Mapping[str, str]) -> None:
    for option, nearest in misspelt.items():
        with _said_lock:
            if (kind, name, option) in _said:
                continue
            _said.add((kind, name, option))
        _logger.warning(
            "The option %s is not one of the %s, and is ignored. Did you mean %s?",
            option,
            f"{kind} {name}" if name else kind,
            nearest,
        )
