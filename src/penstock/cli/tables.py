"""Tables of text that fit a terminal, and are one line for each row everywhere else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

_GAP = "  "
_INDENT = "  "
_BREAK = re.compile(r" +|(?<=,)(?=[^ ])")
"""Where a text may go on in the next line: at a space, and after a comma as in JSON."""
_KEPT_TOGETHER = "\u00a0"


@dataclass(frozen=True)
class Column:
    """A column. A value in one that `breaks` may go on in the next line, between words."""

    heading: str
    breaks: bool = False


def width_of(console: Console) -> int | None:
    """How wide a line may be; None where no one looks at it in a terminal."""
    return console.width if console.is_terminal else None


def together(text: str) -> str:
    """The same text, of which no part goes to another line."""
    return text.replace(" ", _KEPT_TOGETHER)


def print_table(
    console: Console, columns: Sequence[Column], rows: Sequence[Sequence[str | Text]]
) -> None:
    """Print a table. Where it is too wide, values are broken between words; where that does not
    help, each row is printed as lines of a heading and a value. No word is ever split."""
    cells = [[_text(cell) for cell in row] for row in rows]
    for line in _lines(columns, cells, width_of(console)):
        print_line(console, line)


def print_wrapped(console: Console, line: str | Text, indent: int = 2) -> None:
    """Print a text, broken between words where it is too wide."""
    width = width_of(console)
    first, *rest = broken(_text(line), width, indent)
    print_line(console, first)
    for part in rest:
        print_line(console, Text(" " * indent).append_text(part))


def print_line(console: Console, line: Text) -> None:
    """Print one line as it is, however wide."""
    line.rstrip()
    plain = line.plain.replace(_KEPT_TOGETHER, " ")
    console.print(Text(plain, spans=line.spans, style=line.style), soft_wrap=True, highlight=False)


def broken(text: Text, width: int | None, indent: int = 0) -> list[Text]:
    """The text in lines of at most this width, those after the first being `indent` shorter.

    A word that is wider has a line of its own, whole.
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
    """Start and end of each part that is not to be split, without the spaces between them."""
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
    """How wide each column is; None if the table cannot be made to fit."""
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
    parts = [broken(cell, width) for cell, width in zip(cells, widths, strict=True)]
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
    """Each row as lines: the first value, and below it the others, each with its heading."""
    labels = max(len(column.heading) for column in columns[1:])
    lines = []
    for row in rows:
        head = f"{columns[0].heading} ".lstrip()
        lines.append(Text(head, style="dim").append_text(row[0]))
        for column, cell in zip(columns[1:], row[1:], strict=True):
            head = f"{_INDENT}{column.heading:<{labels}}{_GAP}"
            for number, part in enumerate(broken(cell, width - len(head))):
                label = head if number == 0 else " " * len(head)
                lines.append(Text(label, style="dim").append_text(part))
    return lines


def _text(cell: str | Text) -> Text:
    return Text.from_markup(cell) if isinstance(cell, str) else cell
