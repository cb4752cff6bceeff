"""Where a query's watermark stands, and which of its inputs keeps it there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

from penstock.checkpoint.timestamps import format_timestamp
from penstock.engine.runtime import QueryRuntime
from penstock.engine.watermark import WatermarkOperator


@dataclass(frozen=True)
class WatermarkInput:
    """One input with a watermark of its own: the latest event it has seen, less its delay.

    `watermark_ms` is None while it has seen no event in this run. `is_decisive` says that the
    query's watermark cannot pass this one: the others are as far or, under the policy, don't count.
    """

    operator_id: str
    column: str | None
    sources: tuple[str, ...]
    delay_ms: int | None
    watermark_ms: int | None
    is_decisive: bool

    @property
    def label(self) -> str:
        """The column, and where it comes from."""
        sources = ", ".join(self.sources)
        column = self.column or self.operator_id
        return f"{column} of {sources}" if sources else column


@dataclass(frozen=True)
class WatermarkReport:
    """The watermark of a query and of each of its inputs. `str()` tells it to people."""

    policy: str
    watermark_ms: int
    inputs: tuple[WatermarkInput, ...]

    @property
    def blocker(self) -> WatermarkInput | None:
        """The input that keeps the watermark from moving on; None if they all keep pace.

        A single input is only ever a blocker while it has seen no event.
        """
        decisive = [entry for entry in self.inputs if entry.is_decisive]
        if not decisive:
            return None
        silent = next((entry for entry in decisive if entry.watermark_ms is None), None)
        if silent is not None or len(decisive) == len(self.inputs) or self.policy != "min":
            return silent
        return decisive[0]

    def redacted(self, redact: Callable[[str], str]) -> WatermarkReport:
        """The same with the names of sources as they may be shown."""
        inputs = (
            replace(entry, sources=tuple(redact(source) for source in entry.sources))
            for entry in self.inputs
        )
        return replace(self, inputs=tuple(inputs))

    def __str__(self) -> str:
        if not self.inputs:
            return self._head()
        return "\n".join([self._head(), *(f"  {self._line(entry)}" for entry in self.inputs)])

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        head = f"<div>{escape(self._head())}</div>"
        if not self.inputs:
            return head
        rows = "".join(
            "<tr>"
            + "".join(
                f"<td style='text-align:left'>{escape(cell)}</td>"
                for cell in (entry.label, _where(entry), _delay(entry), self._verdict(entry))
            )
            + "</tr>"
            for entry in self.inputs
        )
        headings = ("input", "stands", "delay", "")
        columns = "".join(f"<th style='text-align:left'>{heading}</th>" for heading in headings)
        return f"{head}<table><thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table>"

    def _head(self) -> str:
        if not self.inputs:
            return "This query has no watermark: no input has one (DataFrame.withWatermark)."
        return f"Watermark {_moment(self.watermark_ms)}, the {self.policy} of {len(self.inputs)}:"

    def _line(self, entry: WatermarkInput) -> str:
        delay = "" if entry.delay_ms is None else f", delay {_delay(entry)}"
        verdict = self._verdict(entry)
        arrow = f"  <- {verdict}" if verdict else ""
        return f"{entry.label}: {_where(entry)}{delay}{arrow}"

    def _verdict(self, entry: WatermarkInput) -> str:
        if entry is self.blocker:
            return "holds the watermark back"
        return "decides" if entry.is_decisive and len(self.inputs) > 1 else ""


def report_watermark(runtime: QueryRuntime | None) -> WatermarkReport:
    """The report of a running query; an empty one of a query that has not got to its sources."""
    if runtime is None:
        return WatermarkReport("min", 0, ())
    tracker = runtime.watermark
    return make_report(
        tracker.policy,
        tracker.current_watermark,
        runtime.plan.describe_watermarks(),
        tracker.operator_watermarks,
    )


def make_report(
    policy: str,
    watermark_ms: int,
    operators: Sequence[WatermarkOperator],
    watermarks: Mapping[str, int | None],
) -> WatermarkReport:
    """The report, from what each operator is and where it stands."""
    standing = [watermarks.get(operator.operator_id) or 0 for operator in operators]
    choose = max if policy == "max" else min
    chosen = choose(standing, default=0)
    inputs = tuple(
        WatermarkInput(
            operator_id=operator.operator_id,
            column=operator.column,
            sources=operator.sources,
            delay_ms=operator.delay_ms,
            watermark_ms=watermarks.get(operator.operator_id),
            is_decisive=stands_at == chosen,
        )
        for operator, stands_at in zip(operators, standing, strict=True)
    )
    return WatermarkReport(policy, watermark_ms, inputs)


def _where(entry: WatermarkInput) -> str:
    if entry.watermark_ms is None:
        return "no event seen in this run"
    return f"at {_moment(entry.watermark_ms)}"


def _delay(entry: WatermarkInput) -> str:
    return "" if entry.delay_ms is None else _duration(entry.delay_ms)


def _moment(millis: int) -> str:
    return "not set yet (no event so far)" if millis == 0 else format_timestamp(millis)


def _duration(millis: int) -> str:
    for unit, name in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if millis >= unit and millis % unit == 0:
            return f"{millis // unit} {name}"
    return f"{millis} ms"
