"""The error messages of a StreamScript."""

from __future__ import annotations

from dataclasses import dataclass, field
from textwrap import indent

_LONGEST_LINE = 100


class ScriptError(AssertionError):
    """An expectation of a StreamScript was not met, or one of its calls failed.

    The message has the calls of the script so far and the expected and actual values.
    """


@dataclass
class ScriptText:
    """The calls of a script so far, each with its outcome."""

    _lines: list[tuple[str, str]] = field(default_factory=list)

    def begin(self, call: str, *arguments: object, **named: object) -> None:
        """Record a call."""
        given = [_text(argument) for argument in arguments]
        given += [f"{name}={_text(value)}" for name, value in named.items()]
        self._lines.append((f"{call}({', '.join(given)})", ""))

    def outcome(self, text: str) -> None:
        """Record the outcome of the last call."""
        self._lines[-1] = self._lines[-1][0], text

    def failure(self, headline: str, details: str = "") -> ScriptError:
        """The error of the last call: the headline, the calls with a mark at the last, details."""
        width = max(len(call) for call, _ in self._lines)
        last = len(self._lines) - 1
        script = "\n".join(
            f"{'>' if n == last else ' '} {call:<{width}}  {outcome}".rstrip()
            for n, (call, outcome) in enumerate(self._lines)
        )
        parts = [headline, indent(script, "  ")]
        if details:
            parts.append(indent(details, "  "))
        return ScriptError("\n\n".join(parts))


def _text(argument: object) -> str:
    text = argument.__name__ if isinstance(argument, type) else _of(argument)
    return text if len(text) <= _LONGEST_LINE else f"{text[: _LONGEST_LINE - 4]} ..."


def _of(argument: object) -> str:
    """The `repr` of an object, or its `str` if the `repr` contains its address."""
    described = repr(argument)
    return str(argument) if " object at 0x" in described else described
