"""Describes a non-public class of Spark: its name, its constructor and the methods in use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

_Value = TypeVar("_Value")

_SIGNATURE = re.compile(r"(\w+)\(([^)]*)\)")


@dataclass(frozen=True)
class InternalClass:
    """An internal class, what it is needed for, and the members that Penstock uses.

    `new` lists the parameters of the constructor, None if it is not called; `methods` the methods
    of the class, or of its companion object, that Python calls. Those that Java calls are checked
    by the compiler.
    """

    name: str
    needed_for: str
    new: str | None = None
    methods: str = ""

    @property
    def parameters(self) -> list[str]:
        """The parameters of the constructor, in order."""
        return _split(self.new or "")

    def members(self) -> Iterator[tuple[str, int]]:
        """The members in use, each with the number of its parameters; the constructor is `new`."""
        if self.new is not None:
            yield "new", len(self.parameters)
        for name, parameters in _SIGNATURE.findall(self.methods):
            yield name, len(_split(parameters))

    def arguments(self, keywords: Mapping[str, _Value], member: str = "new") -> list[_Value]:
        """The arguments of the constructor, or of a method, in the order of its parameters.

        Keywords that it does not take are left out, so that one call works with several Spark
        lines. Raises KeyError for a missing keyword, or a member that is not listed.
        """
        signatures = dict(_SIGNATURE.findall(self.methods))
        if self.new is not None:
            signatures["new"] = self.new
        if member not in signatures:
            raise KeyError(f"{member} of {self.name} is not in the table of internal classes")
        return [keywords[parameter] for parameter in _split(signatures[member])]


def _split(parameters: str) -> list[str]:
    return [name.strip() for name in parameters.split(",") if name.strip()]
