"""The views in a terminal, as lines and in a notebook; a failing view does not affect a query."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from penstock.engine.watermark import WatermarkOperator
from penstock.observe import figures
from penstock.observe.snapshot import QuerySnapshot, SourceSnapshot
from penstock.observe.watch import Watch, default_view, watch, watch_query
from penstock.observe.watch_html import HtmlView, html_table
from penstock.observe.watch_views import LinesView, TableView, View, table
from penstock.observe.watermark_report import make_report
from tests.snapshots import batch, paced, snapshot, watermark

PATIENCE = 30
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


def rendered(*snapshots: QuerySnapshot, width: int = 140) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(table(snapshots))
    return capture.get()


def test_the_table_has_all_columns_and_notes() -> None:
    text = rendered(snapshot(watermark=watermark(), state_rows=20_000, state_memory_bytes=5 << 20))
    for part in ("clicks running", "7", "980", "12.3k", "42", "102 ms", "20k rows, 5.0 MiB"):
        assert part in text
    assert "watermark held back by seen_at of Kafka[views] (no event seen in this run)" in text
    assert "addBatch" in text


def test_the_heading_of_the_processed_rate() -> None:
    heading = [line.split("┃") for line in rendered(snapshot()).splitlines()[:2]]
    named = {" ".join(map(str.strip, cells)).strip() for cells in zip(*heading, strict=True)}
    assert {"rows/s in", "rows/s processed"} <= named
    html = html_table([snapshot()])
    assert ">rows/s processed<" in html
    assert "rows/s out" not in html


def test_headings_are_not_wider_than_the_values() -> None:
    shown = snapshot(watermark=watermark(), state_rows=20_000, state_memory_bytes=5 << 20)
    text = rendered(shown, width=115)
    assert "…" not in text
    assert "102 ms │ not set yet │ 20k rows, 5.0 MiB" in text


def test_a_narrow_terminal_shows_fewer_columns_uncut() -> None:
    shown = snapshot(
        watermark=watermark(1_699_999_000_000, 1_699_999_500_000),
        state_rows=20_000,
        state_memory_bytes=5 << 20,
    )
    headings = {}
    for width in (60, 80, 100, 120, 140):
        lines = rendered(shown, width=width).splitlines()
        assert [line for line in lines if len(line) > width] == []
        assert not any("…" in line for line in lines)
        top, bottom = (line.split("┃") for line in lines[:2])
        words = (f"{a.strip()} {b.strip()}".strip() for a, b in zip(top, bottom, strict=True))
        headings[width] = [word for word in words if word]
        for heading, value in (
            ("watermark", "2023-11-14 21:56:40Z"),
            ("state", "20k rows, 5.0 MiB"),
        ):
            assert (heading in headings[width]) == any(value in line for line in lines)
    assert headings[60] == ["query", "batch", "lag", "last batch", "watermark"]
    assert headings[80] == ["query", "batch", "lag", "last batch", "watermark", "state"]
    assert "rows/s processed" in headings[100]
    assert "phases" in headings[120]
    assert {"phases", "lag time"} <= set(headings[140])


def test_the_table_shows_errors_and_restarts() -> None:
    text = rendered(snapshot(condition="failed", error="ValueError: boom\nmore", restarts=2))
    assert "clicks: ValueError: boom" in text
    assert "restarted 2 times" in text
    assert "more" not in text


def test_the_table_before_the_first_query_and_the_first_batch() -> None:
    assert "no query yet" in rendered()
    empty = snapshot(batches=(), batch_id=None, batch_duration_ms=None, phases={}, sources=())
    assert "clicks running" in rendered(empty)


def test_markup_in_a_name_stays_text() -> None:
    assert "[bold]x" in rendered(snapshot(name="[bold]x"))


def test_a_bar_has_the_given_width() -> None:
    shares = figures.phase_shares({"addBatch": 970, "walCommit": 1, "getBatch": 29, "own": 1}, 20)
    assert sum(cells for _, cells in shares) == 20
    assert [phase for phase, _ in shares][:2] == ["walCommit", "getBatch"]
    assert figures.phase_shares({}, 20) == []
    assert figures.phase_shares({"addBatch": 0}, 20) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0"), (0.25, "0.2"), (950, "950"), (12_345, "12.3k"), (4.1e6, "4.1M")],
)
def test_counts_are_short(value: float | None, text: str) -> None:
    assert figures.count(value) == text


def test_lines_show_each_batch_and_each_change_of_condition_once() -> None:
    stream = io.StringIO()
    view = LinesView(stream)
    view.show([snapshot(batches=(batch(0),))])
    view.show([snapshot(batches=(batch(0),))])
    view.show([snapshot(batches=(batch(0), batch(1)), condition="failed", error="boom")])
    assert stream.getvalue().splitlines() == [
        "penstock: clicks batch 0: 1000 rows in 102 ms, 900 rows out, lag 42, 12.5 s",
        "penstock: clicks is running",
        "penstock: clicks batch 1: 1000 rows in 102 ms, 900 rows out, lag 42, 12.5 s",
        "penstock: clicks is failed: boom",
    ]


def test_lines_show_watermark_and_state_with_the_last_batch_only() -> None:
    stream = io.StringIO()
    shown = snapshot(
        batches=(batch(0, output_rows=None), batch(1)),
        watermark=watermark(1_699_999_000_000, 1_699_999_500_000),
        state_rows=5,
        state_memory_bytes=100,
        sources=(),
    )
    LinesView(stream).show([shown])
    first, second, _ = stream.getvalue().splitlines()
    assert first == "penstock: clicks batch 0: 1000 rows in 102 ms"
    assert "watermark 2023-11-14 21:56:40Z, watermark held back by clicked_at" in second
    assert second.endswith("state 5 rows, 100 B")


def test_every_view_shows_the_pace_of_a_query_that_has_one() -> None:
    text = "pace 10.0 s, limit 1200 rows (grow)"
    shown = paced()
    assert f"clicks: {text}" in rendered(shown)
    assert text in html_table([shown])
    stream = io.StringIO()
    LinesView(stream).show([shown])
    first, *_, last = [line for line in stream.getvalue().splitlines() if " batch " in line]
    assert text in last
    assert "pace" not in first
    assert "limit" not in rendered(snapshot()) + html_table([snapshot()])


def test_a_notebook_shows_a_snapshot_and_escapes_it() -> None:
    hostile = SourceSnapshot("<img src=x>", "<i>", '{"a":"</td>"}', "<u>", 9, 42)
    html = snapshot(name="<script>", sources=(hostile,), sink="<s>", checkpoint="<p>")._repr_html_()
    for text in ("<img src=x>", "<i>", '</td>"', "<u>", "<script>", "<s>", "<p>"):
        assert text not in html
        assert escape(text) in html
    assert "9 rows" in html


def test_a_notebook_shows_a_watermark_and_escapes_it() -> None:
    operators = [
        WatermarkOperator("a", "<b>at</b>", 60_000, ("<script>",)),
        WatermarkOperator("b", "seen_at", None, ()),
    ]
    html = make_report("min", 0, operators, {"a": 1_699_999_000_000, "b": None})._repr_html_()
    assert "<script>" not in html
    assert "&lt;b&gt;at&lt;/b&gt; of &lt;script&gt;" in html
    for text in ("no event seen in this run", "1 min", "holds the watermark back", "not set yet"):
        assert text in html
    assert "no watermark" in make_report("min", 0, [], {})._repr_html_()


def test_a_notebook_shows_a_live_watch_as_a_line_and_an_ended_one_as_a_table() -> None:
    over = Watch(lambda: [snapshot(name="<b>")], Recording, refresh=60)
    assert "stop()" in over._repr_html_()
    assert "<table" not in over._repr_html_()
    over.stop()
    assert "<table" in over._repr_html_()
    assert "<b>" not in over._repr_html_().replace("<b>&lt;b&gt;</b>", "")


def test_html_escapes_what_it_shows() -> None:
    html = html_table([snapshot(name="<script>", error="<b>", watermark=watermark())])
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "&lt;b&gt;" in html
    assert "no query yet" in html_table([])


class Recording(View):
    def __init__(self) -> None:
        self.shown: list[Sequence[QuerySnapshot]] = []
        self.twice = threading.Event()
        self.is_closed = False

    def show(self, snapshots: Sequence[QuerySnapshot]) -> None:
        self.shown.append(snapshots)
        if len(self.shown) >= 2:
            self.twice.set()

    def close(self) -> None:
        self.is_closed = True


def test_a_watch_continues_until_it_is_stopped() -> None:
    view = Recording()
    with Watch(lambda: [snapshot()], lambda: view, refresh=0.001) as running:
        assert view.twice.wait(PATIENCE)
    assert view.is_closed
    running.stop()


def test_a_watch_ends_when_is_over_is_true() -> None:
    view = Recording()
    over = Watch(
        lambda: [snapshot()], lambda: view, refresh=0.001, is_over=lambda s: len(view.shown) > 2
    )
    assert over.wait(PATIENCE)
    assert view.is_closed


def test_a_watch_that_fails_logs_the_error_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Sequence[QuerySnapshot]:
        raise RuntimeError("boom")

    view = Recording()
    assert Watch(broken, lambda: view).wait(PATIENCE)
    assert view.is_closed
    assert "The watch has failed; the queries continue" in caplog.text


def test_a_view_whose_close_fails_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Stuck(Recording):
        def close(self) -> None:
            raise RuntimeError("boom")

    Watch(lambda: [], Stuck).stop()
    assert "The watch has failed; the queries continue" in caplog.text


def test_refresh_must_be_positive() -> None:
    def no_view() -> View:
        raise AssertionError("no view was to be made")

    with pytest.raises(ValueError, match="more than 0"):
        Watch(lambda: [], no_view, refresh=0)


def test_the_default_view_without_a_terminal_prints_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(default_view(), LinesView)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Replaces standard error by a terminal until the end of the test."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    return terminal


def test_the_default_view_in_a_terminal_is_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = in_a_terminal(monkeypatch)
    view = default_view()
    assert isinstance(view, TableView)
    view.show([snapshot()])
    view.close()
    assert "clicks" in terminal.getvalue()


def test_a_watch_that_fails_restores_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = in_a_terminal(monkeypatch)

    def broken() -> Sequence[QuerySnapshot]:
        raise RuntimeError("boom")

    assert Watch(broken, default_view).wait(PATIENCE)
    assert sys.stderr is terminal
    assert HIDE_CURSOR in terminal.getvalue()
    assert terminal.getvalue().rpartition(HIDE_CURSOR)[2].count(SHOW_CURSOR) == 1


@pytest.mark.parametrize("start", [watch, partial(watch_query, "an id")])
def test_a_watch_with_an_invalid_refresh_does_not_touch_the_terminal(
    monkeypatch: pytest.MonkeyPatch, start: Callable[..., Watch]
) -> None:
    terminal = in_a_terminal(monkeypatch)
    with pytest.raises(ValueError, match="more than 0"):
        start(refresh=0)
    assert sys.stderr is terminal
    assert terminal.getvalue() == ""


def test_the_default_view_in_a_notebook_replaces_its_html(monkeypatch: pytest.MonkeyPatch) -> None:
    updates: list[str] = []

    def display(html: Any, display_id: bool) -> Any:
        assert display_id
        updates.append(html)
        return SimpleNamespace(update=updates.append)

    shell = SimpleNamespace(kernel=object())
    notebook = SimpleNamespace(HTML=str, display=display)
    ipython = SimpleNamespace(get_ipython=lambda: shell, display=notebook)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    view = default_view()
    assert isinstance(view, HtmlView)
    view.show([snapshot()])
    assert "no query yet" in updates[0]
    assert "clicks" in updates[1]
