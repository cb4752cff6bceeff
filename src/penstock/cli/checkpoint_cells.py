"""The values in the tables of `penstock checkpoint`, as markup of rich."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape

from penstock.checkpoint.timestamps import to_the_second
from penstock.checkpoint.tools.compare import Difference
from penstock.checkpoint.tools.inspect import BatchReport
from penstock.checkpoint.tools.offset_text import in_words
from penstock.cli.tables import no_break


def time(millis: int | None, beside: int | None = None) -> str:
    """A time; without the date, or the year, if that is the same as in the time `beside` it."""
    if not millis:
        return "-"
    date, _, time = to_the_second(millis).partition(" ")
    other = to_the_second(beside).partition(" ")[0] if beside else ""
    if date == other:
        return time
    year, _, day = date.partition("-")
    return no_break(f"{day if other.startswith(f'{year}-') else date} {time}")


def committed(batch: BatchReport) -> str:
    if batch.status == "planned":
        return "[yellow]not yet[/]"
    if batch.status == "unreadable":
        return "[red]unreadable[/]"
    moment = time(batch.committed_at_ms, batch.planned_at_ms)
    return f"[green]{moment if batch.committed_at_ms else 'yes'}[/]"


def watermark(batch: BatchReport) -> str:
    if not batch.watermark_ms and not batch.next_watermark_ms:
        return "-"
    now, following = batch.watermark_ms, batch.next_watermark_ms
    if following is None or following == now:
        return time(now, batch.planned_at_ms)
    after = time(following, now or batch.planned_at_ms)
    return f"{time(now, batch.planned_at_ms)} {no_break(f'-> {after}')}"


def plain(value: str | None) -> str:
    return "-" if value is None else escape(value)


def words(offset: str | None) -> str:
    return escape(in_words(offset))


def number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def count(partition: Mapping[str, Any], *, is_known: bool) -> str:
    """The number of offsets of a partition in a batch, if the start of the batch is known."""
    if not is_known:
        return "?"
    if partition["count"] is not None:
        return f"{partition['count']:+,}"
    return "missing" if partition["end"] is None else "new"


def sides(difference: Difference) -> tuple[str, str]:
    """Both values; Spark's classes without their package, if the names still differ."""
    left, right = difference.in_words
    if left and right and short_class(left) != short_class(right):
        left, right = short_class(left), short_class(right)
    return plain(left), plain(right)


def retained(missing: Sequence[str]) -> str:
    return "[green]on disk[/]" if not missing else f"[red]not on disk for {escape(missing[0])}[/]"


def versions(versions: Sequence[int]) -> str:
    return ", ".join(f"v{version}" for version in versions) or "empty"


def short_class(value: str) -> str:
    return value.rpartition(".")[2] if value.startswith("org.apache.spark.") else value


def byte_count(count: int) -> str:
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")
