"""`trace_queries`, with the SDK's exporter to memory and over HTTP, on Spark."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pyspark.sql import SparkSession

from penstock import trace_queries, write_stream
from penstock.api import extras
from penstock.api.process import PROCESS
from penstock.errors import EnvironmentProblemError
from penstock.testing import MemoryStream


def test_the_batches_of_a_query_are_traced_until_the_end(session: SparkSession) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    stream = MemoryStream("n int", session)
    stream.add_data([1, 2, 3])

    def run() -> None:
        query = write_stream(stream.to_df()).format("noop").trigger(availableNow=True).start()
        query.awaitTermination()

    with trace_queries(provider):
        run()
    [batch] = [span for span in exporter.get_finished_spans() if span.parent is None]
    assert batch.attributes is not None
    assert batch.attributes["penstock.batch.input_rows"] == 3
    phases = [span for span in exporter.get_finished_spans() if span.parent is not None]
    assert "addBatch" in {span.name for span in phases}
    for phase in phases:
        assert (batch.start_time or 0) <= (phase.start_time or 0)
    exporter.clear()
    run()
    assert exporter.get_finished_spans() == ()
    assert PROCESS.observers == ()


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(extras, "import_module", missing)
    with pytest.raises(EnvironmentProblemError, match=r"pip install 'penstock\[otel\]'"):
        trace_queries()


class Collector(ThreadingHTTPServer):
    """Receives spans by OTLP over HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.received: list[ExportTraceServiceRequest] = []


class _Receiver(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.received.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("name", ["my-job", None])
def test_without_a_provider_of_the_program_spans_are_exported_by_otlp(
    session: SparkSession,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
    name: str | None,
) -> None:
    if name is not None:
        monkeypatch.setenv("OTEL_SERVICE_NAME", name)
    stream = MemoryStream("n int", session)
    stream.add_data([1, 2, 3])
    with trace_queries():
        query = write_stream(stream.to_df()).format("noop").trigger(availableNow=True).start()
        query.awaitTermination()
    [resource] = [one for request in collector.received for one in request.resource_spans]
    attributes = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert attributes["service.name"] == (name or "penstock")
    [scope] = resource.scope_spans
    assert scope.scope.name == "penstock"
    assert {"batch", "addBatch"} <= {span.name for span in scope.spans}
