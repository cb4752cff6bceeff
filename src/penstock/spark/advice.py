"""Warnings about what a first batch settles for good."""

from __future__ import annotations

import logging

from penstock.checkpoint import CheckpointDirectory
from penstock.spark.session import SparkStreamSession

_logger = logging.getLogger(__name__)

_PARTITIONS = "spark.sql.shuffle.partitions"
_DEFAULT_PARTITIONS = "200"


def warn_of_default_partitions(
    session: SparkStreamSession, checkpoint: CheckpointDirectory
) -> None:
    """Warn once, before the first batch, of a stateful query whose partitions nobody chose."""
    if session.is_set(_PARTITIONS) or session.get_conf(_PARTITIONS) != _DEFAULT_PARTITIONS:
        return
    if checkpoint.offset_log.list_batches():
        return
    _logger.warning(
        "This query keeps state and is about to get %s state partitions, Spark's default, for as "
        "long as its checkpoint lives: every batch will read and write that many state stores, "
        "and the number cannot be changed later. Set %s before the first batch to what the data "
        "needs (a few per core), or set it to %s to say that you mean it.",
        _DEFAULT_PARTITIONS,
        _PARTITIONS,
        _DEFAULT_PARTITIONS,
    )
