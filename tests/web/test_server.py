"""The live page over HTTP: what it serves, to whom, and who may stop a query."""

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
from tests.web.calls import ask

PAGE = Path(__file__).parents[2] / "src" / "penstock" / "web" / "page.html"
RUN = snapshot().run_id
STOP = f"/api/queries/{RUN}/stop"


class Stops:
    """Remembers what was to be stopped; knows one run."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, run_id: str) -> bool:
        self.asked.append(run_id)
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


def test_the_page_is_one_file_that_needs_nothing_else(server: WebServer) -> None:
    reply = ask(server.port, "/")
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert reply.body == PAGE.read_bytes()
    outside = re.findall(
        r"""(?:src|href)\s*=\s*["'](?!data:)|https?://(?!www\.w3\.org/)""", reply.text
    )
    assert outside == []
    assert "innerHTML" not in reply.text


def test_the_page_calls_what_is_processed_by_its_name(server: WebServer) -> None:
    page = ask(server.port, "/").text
    assert "rows/s processed" in page
    assert "rows/s out" not in page


def test_the_page_may_run_its_own_script_only(server: WebServer) -> None:
    policy = ask(server.port, "/").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


def test_the_data_of_the_page(server: WebServer) -> None:
    reply = ask(server.port, "/api/queries")
    [query] = reply.json["queries"]
    assert query["label"] == "clicks"
    assert query["lag"] == 42
    assert query["inputRowsPerSecond"] is None
    assert query["watermarkBlocker"] == "seen_at of Kafka[views]"
    assert query["batches"][0]["phases"]["addBatch"] == 70
    assert reply.json["health"]["healthy"] is True
    assert reply.headers["Cache-Control"] == "no-store"
    assert "the-token" not in reply.text


def test_stopping_takes_the_token(server: WebServer, stops: Stops) -> None:
    assert ask(server.port, STOP, "POST").status == 403
    assert ask(server.port, STOP, "POST", X_Penstock_Token="the-tokem").status == 403
    assert ask(server.port, STOP, "POST", Cookie="token=the-token").status == 403
    assert stops.asked == []
    reply = ask(server.port, STOP, "POST", X_Penstock_Token="the-token")
    assert (reply.status, reply.json) == (202, {"stopping": RUN})
    assert stops.asked == [RUN]


def test_stopping_takes_a_post_of_this_page(server: WebServer, stops: Stops) -> None:
    token = {"X_Penstock_Token": "the-token"}
    assert ask(server.port, STOP, "GET", **token).status == 405
    assert ask(server.port, STOP, "POST", Origin="https://evil.example", **token).status == 403
    assert ask(server.port, STOP, "POST", Origin="null", **token).status == 403
    assert stops.asked == []
    own = f"http://127.0.0.1:{server.port}"
    assert ask(server.port, STOP, "POST", Origin=own, **token).status == 202


def test_stopping_what_does_not_run(server: WebServer) -> None:
    path = "/api/queries/00000000-0000-0000-0000-000000000000/stop"
    assert ask(server.port, path, "POST", X_Penstock_Token="the-token").status == 404
    assert ask(server.port, "/api/queries/..%2f/stop", "POST").status == 404


def test_no_other_page_is_let_in_by_name(server: WebServer) -> None:
    assert ask(server.port, "/api/queries", Host="evil.example").status == 421
    assert ask(server.port, "/", Host=f"localhost:{server.port}").status == 200
    options = ask(server.port, STOP, "OPTIONS", Origin="https://evil.example")
    assert options.status == 501
    assert not [name for name in options.headers if name.lower().startswith("access-control")]


def test_a_body_that_is_too_large_is_refused(server: WebServer) -> None:
    assert ask(server.port, STOP, "POST", Content_Length="100000000").status == 413
    assert ask(server.port, STOP, "POST", Content_Length="65537").status == 413


@pytest.mark.parametrize("length", ["-1", "abc", "", "1_0", "+5", "²", "9" * 5000])
def test_a_length_that_is_no_number_is_refused(server: WebServer, length: str) -> None:
    """And at once: nothing is read of a body that has no end."""
    assert ask(server.port, STOP, "POST", Content_Length=length).status == 400


def test_a_body_is_read_and_of_no_interest(server: WebServer) -> None:
    reply = ask(server.port, STOP, "POST", b"x" * 65536, X_Penstock_Token="the-token")
    assert reply.status == 202


def test_an_address_that_is_none_is_refused(
    server: WebServer, stops: Stops, caplog: pytest.LogCaptureFixture
) -> None:
    assert ask(server.port, "/", Host="[").status == 421
    assert ask(server.port, "http://[/", Host="127.0.0.1").status == 400
    token = {"X_Penstock_Token": "the-token"}
    assert ask(server.port, STOP, "POST", Origin="http://[", **token).status == 403
    assert stops.asked == []
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
def test_who_the_server_answers_to(header: str | None, bound_to: str, expected: bool) -> None:
    assert host_is_expected(header, bound_to) is expected


def test_what_is_loopback() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("box.example")


def test_beyond_this_machine_reading_takes_the_token_too(stops: Stops) -> None:
    with WebServer(0, "0.0.0.0", "the-token", queries, stops) as server:
        assert ask(server.port, "/").status == 200
        assert ask(server.port, "/api/queries").status == 401
        assert ask(server.port, "/api/queries", X_Penstock_Token="the-token").status == 200


def test_a_token_is_made_unless_one_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
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
        names = [q["name"] for q in ask(server.port, "/api/queries").json["queries"]]
        assert "to_be_stopped" in names
        path = f"/api/queries/{query.runId}/stop"
        assert ask(server.port, path, "POST", X_Penstock_Token="secret").status == 202
        assert query.awaitTermination(60)
        assert ask(server.port, path, "POST", X_Penstock_Token="secret").status == 404
