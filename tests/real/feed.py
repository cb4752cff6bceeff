"""Writes the input of the pipelines to two topics, and knows what it has written."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from typing import Protocol

from tests.crash.pipelines import FAR_FUTURE, IdAndTime, Row, make_rows
from tests.real.topics import Record, Topics

PARTITIONS = 2


class Feed:
    """Two topics with the rows of the crash pipelines, distributed over their partitions."""

    def __init__(self, topics: Topics, name: str) -> None:
        self.topics = topics
        self.left, self.right = f"{name}-left", f"{name}-right"
        self.sent_left: list[IdAndTime] = []
        self.sent_right: list[IdAndTime] = []
        self._blocks = 0
        for topic in (self.left, self.right):
            topics.create(topic, PARTITIONS)

    def send(self, blocks: int) -> None:
        """Write some blocks of rows, and wait until the broker has them."""
        for number in range(self._blocks, self._blocks + blocks):
            left, right = make_rows(number)
            # Noted before they are written: a row that a query has read was noted.
            self.sent_left += _ids_and_times(left)
            self.sent_right += _ids_and_times(right)
            self.topics.write(self.left, _records(left))
            self.topics.write(self.right, _records(right))
        self._blocks += blocks

    def close(self) -> None:
        """Write a last row on each side in the far future, so that the watermark passes all."""
        self.topics.write(self.left, _records([{"id": -1, "at": FAR_FUTURE}]))
        self.topics.write(self.right, _records([{"id": -2, "at": FAR_FUTURE}]))


class Sender(Protocol):
    """What writes blocks of rows."""

    def send(self, blocks: int) -> None: ...


class SteadyFeed:
    """Sends blocks of a feed on a thread, at a steady rate, until it is left."""

    def __init__(self, feed: Sender, seconds_per_block: float) -> None:
        self._feed = feed
        self._pause = seconds_per_block
        self._over = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def __enter__(self) -> SteadyFeed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._over.wait(self._pause):
                self._feed.send(1)
        except Exception as error:
            self._error = error


def _records(rows: Iterable[Row]) -> list[Record]:
    return [
        Record(json.dumps(row), key=str(row["id"]), partition=row["id"] % PARTITIONS)
        for row in rows
    ]


def _ids_and_times(rows: Iterable[Row]) -> list[IdAndTime]:
    return [(row["id"], row["at"]) for row in rows]
