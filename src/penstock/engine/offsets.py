"""Positions in a source. The engine uses only their JSON and does not interpret it."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Offset(ABC):
    """A position in a source. Offsets with the same JSON are equal.

    An offset that was read from the log is therefore equal to the one that was written.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def json(self) -> str:
        """One line of JSON, as it is written to the offset log."""

    def __eq__(self, other: object) -> bool:
        return self.json == other.json if isinstance(other, Offset) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.json)

    def __str__(self) -> str:
        return self.json

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.json})"


class SerializedOffset(Offset):
    """An offset of which only the JSON is known, for example one read from the log."""

    __slots__ = ("_json",)

    def __init__(self, json: str) -> None:
        self._json = json

    @property
    def json(self) -> str:
        return self._json


class LongOffset(Offset):
    """A position that is a number."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value

    @property
    def json(self) -> str:
        return str(self.value)

    @classmethod
    def of(cls, offset: Offset) -> LongOffset:
        """Convert any offset. Raises ValueError if its JSON is not a whole number."""
        return offset if isinstance(offset, cls) else cls(int(offset.json))
