"""User callbacks at fixed points of a batch, called on the query's thread."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from penstock.errors import StoppedError

_logger = logging.getLogger(__name__)


class HookPoint(str, Enum):
    """The point at which a hook is called."""

    BEFORE_BATCH = "before_batch"  # constructed, or planned by an earlier run; about to run
    AFTER_WAL = "after_wal"  # its offsets are on disk
    AFTER_SINK = "after_sink"  # the sink has written it
    AFTER_COMMIT = "after_commit"  # its entry in the commit log is on disk


@dataclass(frozen=True)
class BatchInfo:
    """The argument of a hook. Offsets are JSON texts, by the description of their source."""

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
    """The hooks of a query. If a hook raises, the error is logged and the query continues; if
    `strict`, the query fails with that error. A hook may stop the query."""

    strict: bool = False
    _hooks: dict[HookPoint, list[Hook]] = field(default_factory=dict)

    def add(self, point: HookPoint, hook: Hook) -> None:
        self._hooks.setdefault(point, []).append(hook)

    def call(self, point: HookPoint, info: Callable[[], BatchInfo]) -> None:
        """Call the hooks of a point; `info` is called only if there are any."""
        hooks = self._hooks.get(point)
        if not hooks:
            return
        batch = info()
        for hook in hooks:
            try:
                hook(batch)
            except StoppedError:
                raise
            except Exception:
                if self.strict:
                    raise
                _logger.warning(
                    "The %s hook %r failed in batch %s; the query continues",
                    point.value,
                    hook,
                    batch.batch_id,
                    exc_info=True,
                )
