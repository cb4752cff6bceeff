"""Text tables that fit the width of a terminal; without a terminal, each row is one line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

_GAP = "  "
_INDENT = "  "
_BREAK = re.compile(r" +|(?<=,)(?=[^ ])")
"""Where a line may be broken: at spaces, and after a comma as in JSON."""
_NO_BREAK_SPACE = "\u00a0"


@dataclass(frozen=True)
class Column:
    """A column. If `breaks`, its values may be wrapped between words."""

    heading: str
    breaks: bool = False


def width_of(console: Console) -> int | None:
    """The width of the terminal; None if the output is not a terminal."""
    return console.width if console.is_terminal else None


def no_break(text: str) -> str:
    """The text with no-break spaces, so that it is not wrapped."""
    return text.replace(" ", _NO_BREAK_SPACE)


def print_table(
    console: Console, columns: Sequence[Column], rows: Sequence[Sequence[str | Text]]
) -> None:
    """Print a table.

    If it is too wide, values are wrapped between words. If it is still too wide, each row is
    printed as lines of a heading and a value. Words are never split.
    """
    cells = [[_text(cell) for cell in row] for row in rows]
    for line in _lines(columns, cells, width_of(console)):
        print_line(console, line)


def print_wrapped(console: Console, line: str | Text, indent: int = 2) -> None:
    """Print a text, wrapped between words if it is too wide."""
    width = width_of(console)
    first, *rest = wrap(_text(line), width, indent)
    print_line(console, first)
    for part in rest:
        print_line(console, Text(" " * indent).append_text(part))


def print_line(console: Console, line: Text) -> None:
    """Print one line without wrapping."""
    line.rstrip()
    plain = line.plain.replace(_NO_BREAK_SPACE, " ")
    console.print(Text(plain, spans=line.spans, style=line.style), soft_wrap=True, highlight=False)


def wrap(text: Text, width: int | None, indent: int = 0) -> list[Text]:
    """Split a text into lines of at most `width`, less `indent` for all but the first.

    A word that is wider gets a line of its own.
    """
    if width is None or text.cell_len <= width:
        return [text]
    lines: list[Text] = []
    start = end = 0
    for piece_start, piece_end in _pieces(text.plain):
        room = width - (indent if lines else 0)
        if end > start and text[start:piece_end].cell_len > room:
            lines.append(text[start:end])
            start = piece_start
        end = piece_end
    return [*lines, text[start:end]]


def _pieces(plain: str) -> list[tuple[int, int]]:
    """The start and end of each part that must not be split, without the spaces between them."""
    pieces, start = [], 0
    for gap in _BREAK.finditer(plain):
        if gap.start() > start:
            pieces.append((start, gap.start()))
            start = gap.end()
    return [*pieces, (start, len(plain))]


def _lines(
    columns: Sequence[Column], rows: Sequence[Sequence[Text]], width: int | None
) -> list[Text]:
    widths = _widths(columns, rows, width)
    if widths is None:
        return _blocks(columns, rows, width or 0)
    lines = []
    if any(column.heading for column in columns):
        heading = [Text(column.heading, style="dim") for column in columns]
        lines += _row(heading, widths)
    for row in rows:
        lines += _row(row, widths)
    return lines


def _widths(
    columns: Sequence[Column], rows: Sequence[Sequence[Text]], width: int | None
) -> list[int] | None:
    """The width of each column; None if the table cannot be made to fit."""
    count = range(len(columns))
    widths = [max(len(columns[i].heading), *(row[i].cell_len for row in rows), 0) for i in count]
    if width is None:
        return widths
    least = [
        max(len(columns[i].heading), *(_longest_piece(row[i]) for row in rows), 0)
        if columns[i].breaks
        else widths[i]
        for i in count
    ]
    while sum(widths) + len(_GAP) * (len(columns) - 1) > width:
        shrinkable = [i for i in count if widths[i] > least[i]]
        if not shrinkable:
            return None
        widths[max(shrinkable, key=lambda i: widths[i])] -= 1
    return widths


def _longest_piece(cell: Text) -> int:
    return max(cell[start:end].cell_len for start, end in _pieces(cell.plain))


def _row(cells: Sequence[Text], widths: Sequence[int]) -> list[Text]:
    parts = [wrap(cell, width) for cell, width in zip(cells, widths, strict=True)]
    lines = []
    for number in range(max(map(len, parts))):
        line = Text()
        for part, width in zip(parts, widths, strict=True):
            cell = part[number].copy() if number < len(part) else Text()
            cell.pad_right(width - cell.cell_len)
            line.append_text(cell).append(_GAP)
        lines.append(line)
    return lines


def _blocks(columns: Sequence[Column], rows: Sequence[Sequence[Text]], width: int) -> list[Text]:
    """Each row as several lines: the first value, then each other value with its heading."""
    labels = max(len(column.heading) for column in columns[1:])
    lines = []
    for row in rows:
        head = f"{columns[0].heading} ".lstrip()
        lines.append(Text(head, style="dim").append_text(row[0]))
        for column, cell in zip(columns[1:], row[1:], strict=True):
            head = f"{_INDENT}{column.heading:<{labels}}{_GAP}"
            for number, part in enumerate(wrap(cell, width - len(head))):
                label = head if number == 0 else " " * len(head)
                lines.append(Text(label, style="dim").append_text(part))
    return lines


def _text(cell: str | Text) -> Text:
    return Text.from_markup(cell) if isinstance(cell, str) else cell
