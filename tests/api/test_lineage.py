"""`lineage` on Spark, to a server over HTTP and to a file, as OpenLineage configures them."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from pyspark.sql import SparkSession

import penstock
from penstock.api import extras
from penstock.api.process import PROCESS
from penstock.errors import EnvironmentProblemError
from tests.streams import LineFiles


class Collector(ThreadingHTTPServer):
    """Receives events over HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.received: list[dict[str, Any]] = []
        self.paths: set[str] = set()


class _Receiver(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append(json.loads(body))
        self.server.paths.add(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The client finds no configuration but that of the test; it adds variables of its own."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("OPENLINEAGE")]:
        del os.environ[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def collector(no_configuration: None) -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        os.environ["OPENLINEAGE_URL"] = f"http://127.0.0.1:{server.server_port}"
        yield server
        server.shutdown()
        thread.join()


def validated(event: dict[str, Any]) -> RunEvent:
    """The event as the client's own classes, which check it."""
    run, job = event["run"], event["job"]
    return RunEvent(
        eventTime=event["eventTime"],
        producer=event["producer"],
        eventType=RunState(event["eventType"]),
        run=Run(run["runId"]),
        job=Job(job["namespace"], job["name"]),
        inputs=[InputDataset(one["namespace"], one["name"]) for one in event["inputs"]],
        outputs=[OutputDataset(one["namespace"], one["name"]) for one in event["outputs"]],
    )


def copy_lines(session: SparkSession, tmp_path: Path) -> penstock.StreamingQuery:
    """Start a query from files to files, over two files in two batches."""
    lines = LineFiles(tmp_path / "in")
    lines.add("a", "b")
    lines.add("c")
    writer = penstock.write_stream(lines.stream(session)).format("json").queryName("copy")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    return writer.trigger(availableNow=True).start(str(tmp_path / "out"))


def test_events_go_to_the_url_in_the_environment(
    session: SparkSession, collector: Collector, tmp_path: Path
) -> None:
    os.environ["OPENLINEAGE_NAMESPACE"] = "shop"
    with penstock.lineage():
        query = copy_lines(session, tmp_path)
        query.awaitTermination()
        copy = str(query.runId)
    assert PROCESS.observers == ()
    found = collector.received
    assert collector.paths == {"/api/v1/lineage"}
    assert [event["eventType"] for event in found] == ["START", "RUNNING", "RUNNING", "COMPLETE"]
    assert {validated(event).run.runId for event in found} == {copy}
    assert {(e["job"]["namespace"], e["job"]["name"]) for e in found} == {("shop", "copy")}
    for event, rows in zip(found[1:3], (2, 1), strict=True):
        [read], [written] = event["inputs"], event["outputs"]
        assert (read["namespace"], read["name"]) == ("file", str(tmp_path / "in"))
        assert read["inputFacets"]["inputStatistics"]["rowCount"] == rows
        assert (written["namespace"], written["name"]) == ("file", str(tmp_path / "out"))
    [read], [written] = found[3]["inputs"], found[3]["outputs"]
    assert (read["name"], written["name"]) == (str(tmp_path / "in"), str(tmp_path / "out"))
    assert not read["inputFacets"]


def test_events_go_to_the_file_in_openlineage_yml(session: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "openlineage.yml").write_text(
        f"transport:\n  type: file\n  log_file_path: {tmp_path}/events\n  append: true\n"
    )
    with penstock.lineage(namespace="jobs"):
        copy_lines(session, tmp_path).awaitTermination()
    lines = (tmp_path / "events").read_text().splitlines()
    assert [json.loads(line)["eventType"] for line in lines][-1] == "COMPLETE"
    assert json.loads(lines[0])["job"]["namespace"] == "jobs"


def test_a_server_that_does_not_answer_does_not_stop_a_query(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collector() as closed:
        port = closed.server_port
    (tmp_path / "openlineage.yml").write_text(
        f"transport:\n  type: http\n  url: http://127.0.0.1:{port}\n  timeout: 1\n"
        "  retry:\n    total: 0\n"
    )
    with penstock.lineage():
        query = copy_lines(session, tmp_path)
        query.awaitTermination()
    assert query.exception() is None


def test_an_invalid_configuration_is_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "openlineage.yml").write_text("transport:\n  type: file\n")
    with pytest.raises(EnvironmentProblemError, match="log_file_path"):
        penstock.lineage()
    assert PROCESS.observers == ()


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(extras, "import_module", missing)
    with pytest.raises(EnvironmentProblemError, match=r"pip install 'penstock\[openlineage\]'"):
        penstock.lineage()
