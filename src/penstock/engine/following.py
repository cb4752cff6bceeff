"""Notifies the triggers of other queries of the commits and the end of a query."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Protocol


class Follower(ABC):
    """Called on the thread of the query that is followed; must return quickly and not raise."""

    @abstractmethod
    def on_committed(self) -> None:
        """The query has committed a batch."""

    @abstractmethod
    def on_ended(self, failure: BaseException | None) -> None:
        """The query has ended and will not be restarted. `failure` is its error, if it failed."""


class Followers:
    """The followers of one query, over all its runs. Every method may be called by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._followers: list[Follower] = []
        self._has_ended = False
        self._failure: BaseException | None = None

    def add(self, follower: Follower) -> None:
        """Add a follower. It is notified at once if the query has already ended."""
        with self._lock:
            self._followers.append(follower)
            has_ended = self._has_ended
        if has_ended:
            follower.on_ended(self._failure)

    def remove(self, follower: Follower) -> None:
        with self._lock:
            self._followers.remove(follower)

    def tell_committed(self) -> None:
        for follower in self._now():
            follower.on_committed()

    def tell_ended(self, failure: BaseException | None) -> None:
        with self._lock:
            self._has_ended, self._failure = True, failure
        for follower in self._now():
            follower.on_ended(failure)

    def _now(self) -> list[Follower]:
        with self._lock:
            return list(self._followers)


class Followed(Protocol):
    """A query that can be followed. `str()` or `repr()` of it may be shown."""

    @property
    def followers(self) -> Followers: ...
