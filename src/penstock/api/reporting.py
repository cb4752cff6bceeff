"""The reporting of queries to another system, from a call until `stop`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Reporting(ABC):
    """Reports queries until `stop`. Also a context manager, which calls it."""

    @abstractmethod
    def stop(self) -> None:
        """End it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
