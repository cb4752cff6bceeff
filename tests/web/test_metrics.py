"""The metrics endpoint, the health endpoint and the metrics of the Grafana dashboard."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock import QuerySnapshot, serve_metrics
from penstock.engine.read_limit import LimitUnit
from penstock.engine.source_pace import PaceReason, SourcePace
from penstock.observe.snapshot import SinkSnapshot, SourceSnapshot
from penstock.web.http import HttpServer
from tests.snapshots import NOW, snapshot, watermark
from tests.web.calls import request

DASHBOARD = Path(str(files("penstock.web") / "grafana-dashboard.json"))


class Shown:
    """The queries that the server shows."""

    def __init__(self) -> None:
        self.queries: list[QuerySnapshot] = []

    def __call__(self) -> list[QuerySnapshot]:
        return self.queries


@pytest.fixture
def shown() -> Shown:
    return Shown()


@pytest.fixture
def server(shown: Shown) -> Iterator[HttpServer]:
    with serve_metrics(0, source=shown, stall_seconds=30) as running:
        yield running


def samples(server: HttpServer) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text = request(server.port, "/metrics").text
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(server: HttpServer, name: str, **labels: str) -> float | None:
    """The value of the one sample of that name that has these labels; None if there is none."""
    found = [
        figure
        for (sample, has), figure in samples(server).items()
        if sample == name and labels.items() <= dict(has).items()
    ]
    assert len(found) <= 1
    return found[0] if found else None


def full(**changes: object) -> QuerySnapshot:
    return snapshot(
        watermark=watermark(1_699_999_000_000, 1_699_999_500_000),
        state_rows=20,
        state_memory_bytes=4096,
        restarts=2,
        **changes,
    )


def test_the_metrics_of_a_query(server: HttpServer, shown: Shown) -> None:
    shown.queries = [full()]
    expected = {
        "penstock_batches_total": 8,
        "penstock_input_rows_total": 8000,
        "penstock_output_rows_total": 7200,
        "penstock_late_rows_total": 3,
        "penstock_quarantined_parts_total": 2,
        "penstock_failures_total": 0,
        "penstock_restarts_total": 2,
        "penstock_batch_id": 7,
        "penstock_state_rows": 20,
        "penstock_state_memory_bytes": 4096,
        "penstock_watermark_delay_seconds": 1000,
        "penstock_last_progress_timestamp_seconds": NOW - 2,
        "penstock_source_lag": 42,
        "penstock_source_lag_seconds": 12.5,
        "penstock_source_catch_up_seconds": 3.5,
        "penstock_trigger_age_seconds": 0,
        "penstock_batch_duration_seconds_count": 8,
    }
    assert {name: value(server, name, query="clicks") for name in expected} == expected
    assert value(server, "penstock_query_condition", condition="running") == 1
    assert value(server, "penstock_query_condition", condition="failed") == 0


def test_the_metrics_of_a_paced_query(server: HttpServer, shown: Shown) -> None:
    pace = SourcePace(10_000, 4000, LimitUnit.ROWS, PaceReason.GROW)
    shown.queries = [full(sources=(SourceSnapshot("Kafka", pace=pace), SourceSnapshot("Rate")))]
    assert value(server, "penstock_pace_target_seconds", query="clicks") == 10
    assert value(server, "penstock_source_pace_limit", unit="rows", source="0") == 4000
    assert value(server, "penstock_source_pace_reason", reason="grow") == 1
    assert value(server, "penstock_source_pace_reason", reason="at the job's limit") == 0
    assert full(sources=(SourceSnapshot("Kafka", pace=pace),)).to_dict()["sources"][0]["pace"] == {
        "targetMs": 10_000,
        "limit": 4000,
        "unit": "rows",
        "reason": "grow",
    }


def test_histograms_are_cumulative(server: HttpServer, shown: Shown) -> None:
    shown.queries = [full()]
    name = "penstock_batch_duration_seconds_bucket"
    assert [value(server, name, le=bound) for bound in ("0.1", "0.25", "+Inf")] == [0, 8, 8]
    phase = "penstock_batch_phase_seconds_sum"
    assert value(server, phase, phase="addBatch") == pytest.approx(0.56)


def test_metrics_without_a_value_are_left_out(server: HttpServer, shown: Shown) -> None:
    shown.queries = [snapshot(watermark=watermark(None, None), sources=())]
    names = {name for name, _ in samples(server)}
    absent = ("state_rows", "watermark_delay_seconds", "source_lag")
    assert not names & {f"penstock_{name}" for name in absent}


def test_the_metrics_of_a_process_without_queries(server: HttpServer) -> None:
    assert samples(server) == {}
    assert request(server.port, "/healthz").json == {"healthy": True, "queries": 0, "unhealthy": []}


def test_names_with_quotes_and_newlines_are_escaped(server: HttpServer, shown: Shown) -> None:
    shown.queries = [snapshot(name='a"b\\c\nd')]
    assert value(server, "penstock_batches_total", query='a"b\\c\nd') == 8


def test_health(server: HttpServer, shown: Shown) -> None:
    shown.queries = [full()]
    assert request(server.port, "/healthz").status == 200
    shown.queries = [full(), full(id="x", name="late", trigger_age=31.0)]
    reply = request(server.port, "/healthz")
    assert reply.status == 503
    [unhealthy] = reply.json["unhealthy"]
    assert unhealthy["query"] == "late"
    assert "in the same trigger for 31 s" in unhealthy["reason"]


def test_other_paths_and_methods_are_refused(server: HttpServer) -> None:
    assert request(server.port, "/").status == 404
    assert request(server.port, "/metrics", "POST").status == 405
    head = request(server.port, "/healthz", "HEAD")
    assert (head.status, head.body) == (200, b"")


def test_an_internal_error_is_logged_and_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> list[QuerySnapshot]:
        raise RuntimeError("inner workings")

    with serve_metrics(0, source=broken) as running:
        reply = request(running.port, "/healthz")
    assert reply.status == 500
    assert "inner workings" not in reply.text
    assert "inner workings" in caplog.text


def test_the_server_listens_on_loopback_by_default(server: HttpServer) -> None:
    assert server.host == "127.0.0.1"
    assert server.url == f"http://127.0.0.1:{server.port}/"


@pytest.mark.parametrize("path", ["/metrics", "/healthz"])
def test_a_foreign_host_header_is_refused_on_loopback(server: HttpServer, path: str) -> None:
    assert request(server.port, path, Host="evil.example").status == 421
    assert request(server.port, path, Host=f"evil.example:{server.port}").status == 421
    assert request(server.port, path, Host=f"localhost:{server.port}").status == 200


def test_any_host_header_is_accepted_on_other_addresses(shown: Shown) -> None:
    with serve_metrics(0, "0.0.0.0", source=shown) as running:
        assert request(running.port, "/healthz", Host="metrics.box.example").status == 200


def test_every_metric_of_the_dashboard_exists(server: HttpServer, shown: Shown) -> None:
    shown.queries = [full()]
    known = {name for name, _ in samples(server)}
    dashboard = json.loads(DASHBOARD.read_text())
    expressions = [
        target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])
    ]
    expressions += [v["query"] for v in dashboard["templating"]["list"] if v["type"] == "query"]
    used = {name for text in expressions for name in re.findall(r"penstock_\w+", text)}
    assert len(used) >= 10
    assert used <= known


def test_the_metrics_of_many_sinks(server: HttpServer, shown: Shown) -> None:
    lake = SinkSnapshot("lake", "parquet", "written", 20, 1, batches=5, retries=2, failures=1)
    shown.queries = [full(sinks=(lake,))]
    for name, expected in (("batches", 5), ("retries", 2), ("failures", 1)):
        assert value(server, f"penstock_sink_{name}_total", sink="lake") == expected
    assert value(server, "penstock_sink_seconds_count", sink="lake") == 0
