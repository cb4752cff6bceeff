"""A position in a source. The engine never looks inside one: its JSON is all there is."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Offset(ABC):
    """A position in a source, equal to every other offset with the same JSON.

    So an offset read back from the log compares with the live one that it once was.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def json(self) -> str:
        """One line of JSON: what goes into the offset log, and what makes it equal."""

    def __eq__(self, other: object) -> bool:
        return self.json == other.json if isinstance(other, Offset) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.json)

    def __str__(self) -> str:
        return self.json

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.json})"


class SerializedOffset(Offset):
    """An offset known only by its JSON, as one read back from the log is."""

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
        """The numeric offset that another one serialises; ValueError if it is none."""
        return cls(int(offset.json))
