"""The totals of many sinks, and their lines in the views."""

from __future__ import annotations

import io

from rich.console import Console

from penstock.engine.named_sinks import SinkOutcome, SinkStatus
from penstock.errors import SinkFailedError
from penstock.observe.sink_sums import SinkSums
from penstock.observe.snapshot import SinkSnapshot
from penstock.observe.watch_html import html_snapshot
from penstock.observe.watch_views import table
from tests.snapshots import snapshot

LAKE = SinkOutcome("lake", "to s3", SinkStatus.WRITTEN, 20, 3)
ALERTS = SinkOutcome("alerts", "mail", SinkStatus.DONE_BEFORE)


def test_the_totals_count_batches_retries_and_failures() -> None:
    sums = SinkSums()
    sums.add(())
    assert sums.snapshot(str) == ()
    sums.add((LAKE, ALERTS))
    sums.add((LAKE, SinkOutcome("alerts", "mail", SinkStatus.WRITTEN, 5, 1)))
    sums.add_failure(SinkFailedError("alerts", 2, 1, "down"))
    sums.add_failure(ValueError("not of a sink"))
    lake, alerts = sums.snapshot(str.upper)
    assert (lake.name, lake.description, lake.status) == ("lake", "TO S3", "written")
    assert (lake.batches, lake.retries, lake.failures, lake.attempts) == (2, 4, 0, 3)
    assert (alerts.batches, alerts.retries, alerts.failures) == (1, 0, 1)
    assert sum(lake.seconds.counts) == 2


def test_a_sink_that_fails_before_its_first_batch_is_there() -> None:
    sums = SinkSums()
    sums.add_failure(SinkFailedError("alerts", 0, 1, "down"))
    [alerts] = sums.snapshot(str)
    assert (alerts.status, alerts.failures) == ("", 1)


def test_the_views_have_a_line_for_each_sink() -> None:
    sinks = (
        SinkSnapshot("lake", "<b>", "written", 20, 1, retries=2),
        SinkSnapshot("alerts", status="done before"),
    )
    shown = snapshot(sinks=sinks)
    console = Console(width=120, file=io.StringIO())
    with console.capture() as captured:
        console.print(table([shown]))
    text = captured.get()
    assert f"{shown.label} -> lake: written in 20 ms, 2 retries so far" in text
    assert f"{shown.label} -> alerts: done before" in text
    assert "<td style='text-align:left'>&lt;b&gt;</td>" in html_snapshot(shown)
