"""`trace_queries`: begins and ends the tracing of this process, with `observe/tracing.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.api.extras import import_extra
from penstock.api.process import PROCESS
from penstock.api.reporting import Reporting

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from penstock.observe.tracing import BatchSpans

_SERVICE_NAME = "service.name"


class Tracing(Reporting):
    """The tracing that `trace_queries` began. Also a context manager, which ends it."""

    def __init__(self, spans: BatchSpans, provider: Any, *, is_own: bool) -> None:
        self._spans = spans
        self._provider = provider
        self._is_own = is_own

    def stop(self) -> None:
        """Make no spans for queries that are started from now on, and export the pending spans."""
        PROCESS.remove_observer(self._spans)
        if self._is_own:
            self._provider.shutdown()
        elif hasattr(self._provider, "force_flush"):
            self._provider.force_flush()


def trace_queries(tracer_provider: TracerProvider | None = None) -> Tracing:
    """Make OpenTelemetry spans for the batches of the queries that are started from now on.

    A span for each batch, with a child for each phase and each of many sinks, linked to the span of
    the batch before. The spans go to `tracer_provider`; by default to the one that the program has
    set, and if it has set none, to a collector by OTLP over HTTP, as configured by the environment
    variables of OpenTelemetry such as `OTEL_EXPORTER_OTLP_ENDPOINT`.

    Call `stop` of the result, or use it as a context manager, to end it and export the
    pending spans. Raises EnvironmentProblemError without the extra: `pip install 'penstock[otel]'`.

        with penstock.trace_queries():
            query = penstock.write_stream(df).format("noop").start()
            query.awaitTermination()
    """
    _import("opentelemetry.trace")
    spans = _import("penstock.observe.tracing")
    given = tracer_provider or _provider_of_program()
    provider = given or _exporting_provider()
    made: BatchSpans = spans.BatchSpans(provider.get_tracer("penstock"))
    PROCESS.add_observer(made)
    return Tracing(made, provider, is_own=given is None)


def _provider_of_program() -> Any:
    """The global provider, if it is one of the SDK; None if the program has set none."""
    provider = _import("opentelemetry.trace").get_tracer_provider()
    return provider if hasattr(provider, "force_flush") else None


def _exporting_provider() -> Any:
    """A new provider, which is not set as the global one."""
    sdk = _import("opentelemetry.sdk.trace")
    resources = _import("opentelemetry.sdk.resources")
    export = _import("opentelemetry.sdk.trace.export")
    otlp = _import("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    # What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say takes precedence.
    detected = resources.OTELResourceDetector().detect()
    resource = resources.Resource.create({_SERVICE_NAME: "penstock"}).merge(detected)
    provider = sdk.TracerProvider(resource=resource)
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    return provider


def _import(name: str) -> Any:
    return import_extra(name, "otel", "Tracing")
