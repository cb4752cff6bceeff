"""Trigger.AvailableNow for sources that do not support it."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from penstock.engine.data_stream import DataStream, MicroBatchStream, Source
from penstock.engine.offsets import Offset
from penstock.engine.read_limit import ALL_AVAILABLE, LimitUnit, ReadLimit

_logger = logging.getLogger(__name__)


class AvailableNowDataStreamWrapper(DataStream):
    """Bounds a stream by the offset it had when the query started.

    Everything up to that offset is one batch: the stream's read limit is ignored, with a warning.
    """

    def __init__(self, delegate: DataStream) -> None:
        _logger.warning(
            "Activating the wrapper implementation of Trigger.AvailableNow for source [%s]. Note "
            "that this might introduce possibility of deduplication, dataloss, correctness issue. "
            "Enable the config with extreme care. We strongly recommend to contact the data "
            "source developer to support Trigger.AvailableNow.",
            delegate,
        )
        self.delegate = delegate
        self._fetched: Offset | None = None

    def __str__(self) -> str:
        return str(self.delegate)

    @property
    def supports_admission_control(self) -> bool:
        return True

    @property
    def supports_trigger_available_now(self) -> bool:
        return True

    def deserialize_offset(self, json: str) -> Offset:
        return self.delegate.deserialize_offset(json)

    def default_read_limit(self) -> ReadLimit:
        limit = self.delegate.default_read_limit()
        if limit != ALL_AVAILABLE:
            _logger.warning(
                "The read limit %s is ignored because source %s does not support running "
                "Trigger.AvailableNow queries.",
                limit,
                self.delegate,
            )
        return ALL_AVAILABLE

    @property
    def limit_unit(self) -> LimitUnit | None:
        return None

    def prepare_for_trigger_available_now(self) -> None:
        start = None
        if self.delegate.supports_admission_control:
            if isinstance(self.delegate, MicroBatchStream):
                start = self.delegate.initial_offset()
            self._fetched = self.delegate.latest_offset(start, ALL_AVAILABLE)
        else:
            self._fetched = self._latest_without_limits()

    def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset | None:
        return self._fetched

    def report_latest_offset(self) -> Offset | None:
        if self.delegate.supports_admission_control:
            return self.delegate.report_latest_offset()
        return self._latest_without_limits()

    def _latest_without_limits(self) -> Offset | None:
        if isinstance(self.delegate, Source):
            return self.delegate.get_offset()
        return self.delegate.latest_offset(None, ALL_AVAILABLE)

    def get_batch(self, start: Offset | None, end: Offset) -> object:
        return self.delegate.get_batch(start, end)

    def commit(self, end: Offset) -> None:
        self.delegate.commit(end)

    def stop(self) -> None:
        self.delegate.stop()

    def metrics(self, latest_consumed: Offset | None) -> Mapping[str, str]:
        return self.delegate.metrics(latest_consumed)
