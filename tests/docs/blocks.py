"""Parses the fenced blocks of the pages, and the commands in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))

EXECUTED = {"python", "sh", "console"}
SHOWN = {"", "text", "json"}
"""Blocks that are not executed: output and contents of files. They must not have commands."""

_FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^(penstock|make|pip|python) ", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block: its position, the text after the fence, and its content."""

    page: str
    line: int
    info: str
    text: str

    @property
    def kind(self) -> str:
        """The language; `sh` for a block without one whose first line is a command."""
        language = self.info.partition(" ")[0]
        return "sh" if not language and _COMMAND.match(self.text) else language

    @property
    def title(self) -> str:
        found = re.search(r'title="([^"]*)"', self.info)
        return found[1] if found else ""

    @property
    def has_stray_command(self) -> bool:
        return self.kind in SHOWN and bool(_COMMAND.search(self.text))

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command, its expected exit code, and its expected output, if the page shows it."""

    line: str
    code: int = 0
    shown: str | None = None


def blocks_of(path: Path) -> list[Block]:
    text = path.read_text()
    return [
        Block(path.name, text.count("\n", 0, found.start()) + 1, found[1].strip(), found[2])
        for found in _FENCE.finditer(text)
    ]


def commands_of(block: Block) -> list[Command]:
    """The commands of an `sh` or `console` block.

    A comment `# exit code 1` after a command is its expected exit code. In a `console` block a
    command begins with `$ `, and its output follows.
    """
    if block.kind == "sh":
        joined = block.text.replace("\\\n", " ")
        return [_command(line, None) for line in joined.splitlines() if line.strip()]
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert parts[0] == "", f"{block}: a console block begins with a command"
    return [_command(*part.split("\n", 1)) for part in parts[1:]]


def _command(line: str, shown: str | None) -> Command:
    found = re.search(r"\s+# exit code (\d+)$", line)
    code = int(found[1]) if found else 0
    return Command(re.sub(r"\s+#\s.*$", "", line), code, shown)


def is_as_shown(printed: str, shown: str) -> bool:
    """Whether the output of a program matches what a page shows.

    A line `...` matches any number of lines, and `...` at the end of a line the rest of it. Within
    a line, spaces after `...` match any number of spaces. Trailing spaces are ignored.
    """
    pattern = ""
    for line in shown.splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pieces = re.split(r"( \.\.\.$|\.\.\. *)", line.rstrip())
            pattern += "".join(_pattern_of(piece) for piece in pieces) + r"\n"
    stripped = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    return re.fullmatch(pattern, stripped) is not None


def _pattern_of(piece: str) -> str:
    if not piece.lstrip().startswith("..."):
        return re.escape(piece)
    return ".*? +" if piece.endswith(" ") else ".*?"
