"""How a script that failed tells what happened."""

from __future__ import annotations

from dataclasses import dataclass, field
from textwrap import indent

_LONGEST_LINE = 100


class ScriptError(AssertionError):
    """An expectation of a script was not met, or a step of it could not be taken."""


@dataclass
class ScriptText:
    """The lines of a script as far as it has come, each with what came of it."""

    _lines: list[tuple[str, str]] = field(default_factory=list)

    def begin(self, call: str, *arguments: object, **named: object) -> None:
        """The script has come to a call."""
        given = [_text(argument) for argument in arguments]
        given += [f"{name}={_text(value)}" for name, value in named.items()]
        self._lines.append((f"{call}({', '.join(given)})", ""))

    def outcome(self, text: str) -> None:
        """What came of the last call."""
        self._lines[-1] = self._lines[-1][0], text

    def failure(self, headline: str, details: str = "") -> ScriptError:
        """The error for a failure of the last call: what is wrong, the script up to there with a
        mark at the call, and details."""
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
    """Objects that describe themselves by address are better told by their text."""
    described = repr(argument)
    return str(argument) if " object at 0x" in described else described
