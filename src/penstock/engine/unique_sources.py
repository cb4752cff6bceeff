"""The distinct sources of a query with the read limits that a trigger assigns to them."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from penstock.engine.available_now import AvailableNowDataStreamWrapper
from penstock.engine.data_stream import DataStream, UniqueSource
from penstock.engine.read_limit import ALL_AVAILABLE

_logger = logging.getLogger(__name__)


def with_own_limits(sources: Sequence[DataStream]) -> list[UniqueSource]:
    """The distinct sources, in order, each with the limit it was configured with."""
    return [
        UniqueSource(source, source.default_read_limit(), source)
        for source in dict.fromkeys(sources)
    ]


def without_limits(sources: Sequence[DataStream]) -> list[UniqueSource]:
    """The distinct sources without limits, for a single batch; logs each limit that is ignored."""
    return [_without_limit(source) for source in dict.fromkeys(sources)]


def for_available_now(sources: Sequence[DataStream]) -> list[UniqueSource]:
    """The distinct sources, bounded by the data that is available now.

    Sources without support for AvailableNow are wrapped.
    """
    return [_for_available_now(source) for source in dict.fromkeys(sources)]


def all_support_available_now(sources: Sequence[DataStream]) -> bool:
    """Whether every source supports AvailableNow itself; logs a warning for each that does not."""
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


def _for_available_now(source: DataStream) -> UniqueSource:
    stream = source
    if not source.supports_trigger_available_now:
        stream = AvailableNowDataStreamWrapper(source)
    stream.prepare_for_trigger_available_now()
    return UniqueSource(stream, stream.default_read_limit(), source)
