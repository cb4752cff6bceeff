"""The handle of a query whose start was intercepted."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryProgress

from penstock.api.exceptions import StreamingQueryException
from penstock.api.query import StreamingQuery
from penstock.api.stop_conditions import StopCondition
from penstock.engine.following import Followers
from penstock.engine.stream_execution import StreamExecution
from penstock.observe.watermark_report import WatermarkReport, report_watermark


class UnstartedQuery(StreamingQuery):
    """Behaves like a query that has terminated without running a batch.

    It has no run, so every method that uses the run is overridden here.
    """

    def __init__(self, name: str | None) -> None:
        self.followers = Followers()
        self.followers.tell_ended(None)
        self._exception = None
        self._ids = str(uuid.uuid4()), str(uuid.uuid4())
        self._name = name

    @property
    def id(self) -> str:
        return self._ids[0]

    @property
    def runId(self) -> str:
        return self._ids[1]

    @property
    def name(self) -> str:
        return self._name  # type: ignore[return-value]  # None, as in PySpark

    @property
    def isActive(self) -> bool:
        return False

    @property
    def status(self) -> dict[str, Any]:
        return {"message": "Not started", "isDataAvailable": False, "isTriggerActive": False}

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:
        return []

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:
        return None

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        return None if timeout is None else True

    def processAllAvailable(self) -> None:
        pass

    def stop(self, *, graceful: bool = False, timeout: float | None = None) -> None:
        pass

    def stop_at_boundary(self) -> None:
        pass

    def step(self, timeout: float | None = None) -> StreamingQueryProgress | None:
        return None

    def exception(self) -> StreamingQueryException | None:
        return None

    def explain_watermark(self) -> WatermarkReport:
        return report_watermark(None)

    def explain(self, extended: bool = False) -> None:
        print("Not started.")

    def _stop_after(self, make: Callable[[StreamExecution], StopCondition]) -> None:
        pass

    def __repr__(self) -> str:
        return f"Streaming Query {self._name or ''} [not started]"
