"""The HTTP server of the live page: its responses, and the checks of token and host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock import QuerySnapshot, read_stream, serve_web, write_stream
from penstock.web.http import host_is_expected, is_loopback
from penstock.web.server import TOKEN_VARIABLE, WebServer
from tests.snapshots import snapshot, watermark
from tests.streams import Numbers, has_committed
from tests.web.calls import request

PAGE = Path(__file__).parents[2] / "src" / "penstock" / "web" / "page.html"
RUN = snapshot().run_id
STOP = f"/api/queries/{RUN}/stop"


class Stops:
    """Records the requested stops; only one run id is active."""

    def __init__(self) -> None:
        self.requested: list[str] = []

    def __call__(self, run_id: str) -> bool:
        self.requested.append(run_id)
        return run_id == RUN


def queries() -> list[QuerySnapshot]:
    return [snapshot(watermark=watermark(), input_rows_per_second=float("nan"))]


@pytest.fixture
def stops() -> Stops:
    return Stops()


@pytest.fixture
def server(stops: Stops) -> Iterator[WebServer]:
    with WebServer(0, "127.0.0.1", "the-token", queries, stops) as running:
        yield running


def test_the_page_loads_no_other_resources(server: WebServer) -> None:
    reply = request(server.port, "/")
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert reply.body == PAGE.read_bytes()
    outside = re.findall(
        r"""(?:src|href)\s*=\s*["'](?!data:)|https?://(?!www\.w3\.org/)""", reply.text
    )
    assert outside == []
    assert "innerHTML" not in reply.text


def test_the_label_of_the_processed_rate(server: WebServer) -> None:
    page = request(server.port, "/").text
    assert "rows/s processed" in page
    assert "rows/s out" not in page


def test_the_page_may_run_its_own_script_only(server: WebServer) -> None:
    policy = request(server.port, "/").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


def test_the_data_of_the_page(server: WebServer) -> None:
    reply = request(server.port, "/api/queries")
    [query] = reply.json["queries"]
    assert query["label"] == "clicks"
    assert (query["lag"], query["lagSeconds"]) == (42, 12.5)
    assert query["sources"][0]["catchUpSeconds"] == 3.5
    assert query["inputRowsPerSecond"] is None
    assert query["watermarkBlocker"] == "seen_at of Kafka[views]"
    assert query["batches"][0]["phases"]["addBatch"] == 70
    assert reply.json["health"]["healthy"] is True
    assert reply.headers["Cache-Control"] == "no-store"
    assert "the-token" not in reply.text


def test_a_stop_requires_the_token(server: WebServer, stops: Stops) -> None:
    assert request(server.port, STOP, "POST").status == 403
    assert request(server.port, STOP, "POST", X_Penstock_Token="the-tokem").status == 403
    assert request(server.port, STOP, "POST", Cookie="token=the-token").status == 403
    assert stops.requested == []
    reply = request(server.port, STOP, "POST", X_Penstock_Token="the-token")
    assert (reply.status, reply.json) == (202, {"stopping": RUN})
    assert stops.requested == [RUN]


def test_a_stop_requires_a_post(server: WebServer, stops: Stops) -> None:
    assert request(server.port, STOP, "GET", X_Penstock_Token="the-token").status == 405
    assert stops.requested == []


def test_a_page_of_another_origin_cannot_send_the_token(server: WebServer, stops: Stops) -> None:
    evil = {"Origin": "https://evil.example"}
    assert request(server.port, STOP, "POST", **evil).status == 403
    assert request(server.port, f"{STOP}?token=the-token", "POST", **evil).status == 403
    asked = {"Access_Control_Request_Headers": "x-penstock-token", **evil}
    preflight = request(server.port, STOP, "OPTIONS", **asked)
    assert preflight.status == 501
    assert not [name for name in preflight.headers if name.lower().startswith("access-control")]
    assert stops.requested == []


@pytest.mark.parametrize("host", ["dash.example", "127.0.0.1:8080"])
def test_behind_a_proxy_the_token_is_enough(server: WebServer, stops: Stops, host: str) -> None:
    """Proxies pass the Host header on or replace it; the Origin is that of the proxy."""
    seen = {"Host": host, "Origin": "https://dash.example"}
    token = {"X_Penstock_Token": "the-token"}
    assert request(server.port, "/", **seen).status == 200
    assert request(server.port, "/api/queries", **seen, **token).status == 200
    assert request(server.port, STOP, "POST", **seen, **token).status == 202
    assert stops.requested == [RUN]


def test_a_stop_of_an_unknown_run_is_not_found(server: WebServer) -> None:
    path = "/api/queries/00000000-0000-0000-0000-000000000000/stop"
    assert request(server.port, path, "POST", X_Penstock_Token="the-token").status == 404
    assert request(server.port, "/api/queries/..%2f/stop", "POST").status == 404


def test_with_a_foreign_host_header_reading_requires_the_token(server: WebServer) -> None:
    assert request(server.port, "/api/queries", Host="evil.example").status == 401
    assert request(server.port, "/api/queries", Host=f"localhost:{server.port}").status == 200


def test_a_body_that_is_too_large_is_refused(server: WebServer) -> None:
    assert request(server.port, STOP, "POST", Content_Length="100000000").status == 413
    assert request(server.port, STOP, "POST", Content_Length="65537").status == 413


@pytest.mark.parametrize("length", ["-1", "abc", "", "1_0", "+5", "²", "9" * 5000])
def test_an_invalid_content_length_is_refused(server: WebServer, length: str) -> None:
    """The body is not read, so the request cannot block the server."""
    assert request(server.port, STOP, "POST", Content_Length=length).status == 400


def test_a_body_is_read_and_ignored(server: WebServer) -> None:
    reply = request(server.port, STOP, "POST", b"x" * 65536, X_Penstock_Token="the-token")
    assert reply.status == 202


def test_invalid_urls_in_request_and_headers_are_refused(
    server: WebServer, stops: Stops, caplog: pytest.LogCaptureFixture
) -> None:
    assert request(server.port, "/api/queries", Host="[").status == 401
    assert request(server.port, "http://[/", Host="127.0.0.1").status == 400
    assert request(server.port, STOP, "POST", Origin="http://[").status == 403
    assert stops.requested == []
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("header", "bound_to", "expected"),
    [
        ("127.0.0.1:80", "127.0.0.1", True),
        ("[::1]:80", "::1", True),
        ("LOCALHOST", "127.0.0.1", True),
        ("10.0.0.7:80", "0.0.0.0", True),
        ("box.example:80", "box.example", True),
        ("evil.example", "0.0.0.0", False),
        ("127.0.0.1.evil.example", "127.0.0.1", False),
        ("", "127.0.0.1", False),
        (None, "127.0.0.1", False),
        ("[", "127.0.0.1", False),
        ("[nothing]", "127.0.0.1", False),
    ],
)
def test_host_is_expected(header: str | None, bound_to: str, expected: bool) -> None:
    assert host_is_expected(header, bound_to) is expected


def test_is_loopback() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("box.example")


def test_reading_on_other_addresses_requires_the_token(stops: Stops) -> None:
    with WebServer(0, "0.0.0.0", "the-token", queries, stops) as server:
        assert request(server.port, "/").status == 200
        assert request(server.port, "/api/queries").status == 401
        assert request(server.port, "/api/queries", X_Penstock_Token="the-token").status == 200
        name = {"Host": "driver.shop.svc.example", "X_Penstock_Token": "the-token"}
        assert request(server.port, "/", Host=name["Host"]).status == 200
        assert request(server.port, "/api/queries", **name).status == 200
        assert request(server.port, STOP, "POST", **name).status == 202


def test_the_token_is_random_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    with serve_web(0) as first, serve_web(0) as second:
        assert len(first.token) >= 20
        assert first.token != second.token
        assert first.address == f"http://127.0.0.1:{first.port}/#token={first.token}"
    monkeypatch.setenv(TOKEN_VARIABLE, "given")
    with serve_web(0) as third:
        assert third.token == "given"


def test_a_real_query_stops_at_its_batch_boundary(spark: SparkSession) -> None:
    rows = read_stream(Numbers(5), spark.newSession())
    query = write_stream(rows).format("noop").queryName("to_be_stopped").start()
    has_committed(query, 0)
    with serve_web(0, token="secret") as server:
        names = [q["name"] for q in request(server.port, "/api/queries").json["queries"]]
        assert "to_be_stopped" in names
        path = f"/api/queries/{query.runId}/stop"
        assert request(server.port, path, "POST", X_Penstock_Token="secret").status == 202
        assert query.awaitTermination(60)
        assert request(server.port, path, "POST", X_Penstock_Token="secret").status == 404
