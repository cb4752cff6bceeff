"""The distinct sources of a query, and how much of each a batch may take under a trigger."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from penstock.engine.available_now import AvailableNowDataStreamWrapper
from penstock.engine.data_stream import DataStream, UniqueSource
from penstock.engine.read_limit import ALL_AVAILABLE
from penstock.engine.triggers import MultiBatchExecutor, SingleBatchExecutor, TriggerExecutor

_logger = logging.getLogger(__name__)


def unique_sources_for(
    executor: TriggerExecutor, sources: Sequence[DataStream]
) -> list[UniqueSource]:
    """Each distinct source once, in order, with its limit.

    A single batch takes everything. Batches up to what is available now need sources that can
    stand still: those that cannot are wrapped. All others go by the limit they were given.
    """
    distinct = list(dict.fromkeys(sources))
    if isinstance(executor, SingleBatchExecutor):
        return [_without_limit(source) for source in distinct]
    if isinstance(executor, MultiBatchExecutor):
        return [_standing_still(source) for source in distinct]
    return [UniqueSource(source, source.default_read_limit(), source) for source in distinct]


def all_can_stand_still(sources: Sequence[DataStream]) -> bool:
    """Whether every source supports AvailableNow by itself; a warning for each that does not."""
    able = True
    for source in dict.fromkeys(sources):
        if not source.supports_trigger_available_now:
            able = False
            _logger.warning(
                "source [%s] does not support Trigger.AvailableNow. Falling back to single batch "
                "execution. Note that this may not guarantee processing new data if there is an "
                "uncommitted batch. Please consult with data source developer to support "
                "Trigger.AvailableNow.",
                source,
            )
    return able


def _without_limit(source: DataStream) -> UniqueSource:
    limit = source.default_read_limit()
    if limit != ALL_AVAILABLE:
        _logger.warning(
            "The read limit %s for %s is ignored when Trigger.Once is used.", limit, source
        )
    return UniqueSource(source, ALL_AVAILABLE, source)


def _standing_still(source: DataStream) -> UniqueSource:
    stream = source
    if not source.supports_trigger_available_now:
        stream = AvailableNowDataStreamWrapper(source)
    stream.prepare_for_trigger_available_now()
    return UniqueSource(stream, stream.default_read_limit(), source)
