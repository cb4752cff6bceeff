"""The report of a query's watermark and the watermarks of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

from penstock.checkpoint.timestamps import format_timestamp
from penstock.engine.runtime import QueryRuntime
from penstock.engine.watermark import WatermarkOperator


@dataclass(frozen=True)
class WatermarkInput:
    """The watermark of one input: its latest event time minus its delay.

    `watermark_ms` is None while the input has had no event in this run. `is_decisive` is true if
    the policy selects this watermark: the smallest of all inputs with the policy `min`, the
    largest with `max`.
    """

    operator_id: str
    column: str | None
    sources: tuple[str, ...]
    delay_ms: int | None
    watermark_ms: int | None
    is_decisive: bool

    @property
    def label(self) -> str:
        """The event-time column and the sources it is read from."""
        sources = ", ".join(self.sources)
        column = self.column or self.operator_id
        return f"{column} of {sources}" if sources else column


@dataclass(frozen=True)
class WatermarkReport:
    """The watermark of a query and of each of its inputs. `str()` formats it as text."""

    policy: str
    watermark_ms: int
    inputs: tuple[WatermarkInput, ...]

    @property
    def blocker(self) -> WatermarkInput | None:
        """The input that keeps the watermark from advancing; None if there is none.

        With one input, or with all inputs at the same watermark, an input is a blocker only while
        it has had no event.
        """
        decisive = [entry for entry in self.inputs if entry.is_decisive]
        if not decisive:
            return None
        silent = next((entry for entry in decisive if entry.watermark_ms is None), None)
        if silent is not None or len(decisive) == len(self.inputs) or self.policy != "min":
            return silent
        return decisive[0]

    def redacted(self, redact: Callable[[str], str]) -> WatermarkReport:
        """A copy with `redact` applied to the names of the sources."""
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
        """The HTML that a notebook displays."""
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
        headings = ("input", "watermark", "delay", "")
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
    """The report of a running query; without inputs if its sources are not initialized yet."""
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
    """Build the report from the operators and their watermarks by operator id."""
    own = [watermarks.get(operator.operator_id) or 0 for operator in operators]
    choose = max if policy == "max" else min
    chosen = choose(own, default=0)
    inputs = tuple(
        WatermarkInput(
            operator_id=operator.operator_id,
            column=operator.column,
            sources=operator.sources,
            delay_ms=operator.delay_ms,
            watermark_ms=watermarks.get(operator.operator_id),
            is_decisive=watermark == chosen,
        )
        for operator, watermark in zip(operators, own, strict=True)
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
