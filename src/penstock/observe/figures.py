"""Formatting of numbers for all views."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.checkpoint.timestamps import to_the_second
from penstock.observe.snapshot import PHASES, QuerySnapshot

NOTHING = "-"


def count(value: float | None) -> str:
    """A number with about three significant digits: 950, 12.3k, 4.1M."""
    if value is None:
        return NOTHING
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= unit:
            divisor = 1e3 if name == "k" else unit
            return f"{value / divisor:.3g}{name}"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def size(value: int | None) -> str:
    """A number of bytes with a binary unit."""
    if value is None:
        return NOTHING
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= unit:
            return f"{value / unit:.1f} {name}"
    return f"{value} B"


def duration(millis: float | None) -> str:
    """A duration in milliseconds, or from 10 s on in seconds."""
    if millis is None:
        return NOTHING
    return f"{millis:.0f} ms" if millis < 10_000 else f"{millis / 1000:.1f} s"


def lag(snapshot: QuerySnapshot) -> str:
    """The lag in the unit of the sources and, if it is known and not 0, in time: `4.1k, 12.0 s`."""
    amount, time = count(snapshot.lag), lag_time(snapshot)
    return f"{amount}, {time}" if snapshot.lag_seconds else amount


def lag_time(snapshot: QuerySnapshot) -> str:
    """The lag in time."""
    seconds = snapshot.lag_seconds
    return duration(None if seconds is None else seconds * 1000)


def state(snapshot: QuerySnapshot) -> str:
    """Rows and memory of the state; `-` for a stateless query."""
    if snapshot.state_rows is None:
        return NOTHING
    return f"{count(snapshot.state_rows)} rows, {size(snapshot.state_memory_bytes)}"


def watermark(snapshot: QuerySnapshot) -> str:
    """The watermark, to the second."""
    report = snapshot.watermark
    if report is None:
        return NOTHING
    if report.watermark_ms == 0:
        return "not set yet"
    return f"{to_the_second(report.watermark_ms)}Z"


def blocker(snapshot: QuerySnapshot) -> str | None:
    """A phrase that names the input that holds the watermark back; None if none does."""
    entry = snapshot.watermark.blocker if snapshot.watermark else None
    if entry is None:
        return None
    why = " (no event seen in this run)" if entry.watermark_ms is None else ""
    return f"watermark held back by {entry.label}{why}"


def pace(snapshot: QuerySnapshot) -> str | None:
    """The target of `pace()` and the read limits of the last batch, with the reason of each.

    For example `pace 10.0 s, limit 1200 rows (grow)`. None for a query without `pace()`.
    """
    paces = [source.pace for source in snapshot.sources if source.pace is not None]
    if not paces:
        return None
    limits = (f"limit {count(p.limit)} {p.unit.value} ({p.reason.value})" for p in paces)
    return ", ".join((f"pace {duration(paces[0].target_ms)}", *limits))


def phase_shares(phases: Mapping[str, int], width: int) -> list[tuple[str, int]]:
    """The phases in order, each with the number of cells it takes of a bar `width` cells wide.

    The numbers add up to the width, unless no phase took any time. A phase that took time gets at
    least one cell while there is room.
    """
    ordered = [p for p in PHASES if phases.get(p)] + [
        p for p in phases if p not in PHASES and phases[p]
    ]
    total = sum(phases[phase] for phase in ordered)
    shares, position, spent = [], 0, 0
    for phase in ordered:
        spent += phases[phase]
        end = max(round(width * spent / total), min(position + 1, width))
        if end > position:
            shares.append((phase, end - position))
        position = end
    return shares
