"""Callables of the user's at the turning points of a batch, called on the query's thread."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

_logger = logging.getLogger(__name__)


class HookPoint(str, Enum):
    """When a hook is called."""

    BEFORE_BATCH = "before_batch"  # decided or found undone, about to run
    AFTER_WAL = "after_wal"  # its offsets are on disk
    AFTER_SINK = "after_sink"  # the sink has it
    AFTER_COMMIT = "after_commit"  # it is done


@dataclass(frozen=True)
class BatchInfo:
    """What a hook is told about the batch. Offsets are JSON texts by source description."""

    query_id: str
    run_id: str
    query_name: str | None
    batch_id: int
    start_offsets: dict[str, str]
    end_offsets: dict[str, str]
    watermark_ms: int
    timestamp_ms: int


Hook = Callable[[BatchInfo], None]


@dataclass
class Hooks:
    """The hooks of a query. One that raises is reported and the query goes on, unless `strict`:
    then its error is the query's."""

    strict: bool = False
    _hooks: dict[HookPoint, list[Hook]] = field(default_factory=dict)

    def add(self, point: HookPoint, hook: Hook) -> None:
        self._hooks.setdefault(point, []).append(hook)

    def call(self, point: HookPoint, info: Callable[[], BatchInfo]) -> None:
        """Call the hooks of a point; `info` is made only if there are any."""
        hooks = self._hooks.get(point)
        if not hooks:
            return
        told = info()
        for hook in hooks:
            try:
                hook(told)
            except Exception:
                if self.strict:
                    raise
                _logger.warning(
                    "The %s hook %r failed in batch %s; the query goes on",
                    point.value,
                    hook,
                    told.batch_id,
                    exc_info=True,
                )
