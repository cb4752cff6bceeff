"""The Prometheus metrics and the health endpoint of the queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from penstock.observe.health import DEFAULT_STALL_SECONDS, check_health
from penstock.observe.histogram import HistogramSnapshot
from penstock.observe.observatory import snapshots
from penstock.observe.snapshot import QuerySnapshot, SourceSnapshot
from penstock.web.http import HttpServer, Request, Response, host_is_expected, is_loopback

_QUERY = ("query", "query_id")
_CONDITIONS = ("starting", "running", "stopping", "restarting", "ended", "failed")

Snapshots = Callable[[], Sequence[QuerySnapshot]]


class QueryCollector(Collector):
    """Creates the metrics of all queries at each scrape. Has no state of its own."""

    def __init__(self, source: Snapshots) -> None:
        self._source = source

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        queries = self._source()
        yield from _histograms(queries)
        yield from _counters(queries)
        yield from _gauges(queries)
        yield from _per_source(queries)
        yield from _per_paced_source(queries)
        yield from _per_sink(queries)


def serve_metrics(
    port: int,
    host: str = "127.0.0.1",
    *,
    stall_seconds: float = DEFAULT_STALL_SECONDS,
    source: Snapshots = snapshots,
) -> HttpServer:
    """Serve `/metrics` for Prometheus and `/healthz` for health checks.

    `/healthz` returns 503, with the queries and reasons as JSON, if the latest run of a query has
    failed or a query has been in the same trigger for more than `stall_seconds`. By default the
    server listens on the loopback address only; with another `host` any Host header is accepted.
    With port 0 any free port is used. Raises OSError if it cannot listen on the address. Call
    `stop` of the returned server, or use it as a context manager, to end it.

        server = penstock.serve_metrics(9404)
        print(server.url)
    """
    only_here = is_loopback(host)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(QueryCollector(source))

    def answer(request: Request) -> Response:
        if only_here and not host_is_expected(request.headers.get("host"), host):
            return Response.error(421, "the Host header is not that of this server")
        if request.method != "GET":
            return Response.error(405, "only GET is supported")
        if request.path == "/metrics":
            encode, content_type = choose_encoder(request.headers.get("accept", ""))
            return Response(body=encode(registry), content_type=content_type)
        if request.path == "/healthz":
            health = check_health(source(), stall_seconds)
            return Response.json(health.to_dict(), 200 if health.is_healthy else 503)
        return Response.error(404, "not found; the paths are /metrics and /healthz")

    return HttpServer("penstock metrics", host, port, answer)


def _labels(query: QuerySnapshot) -> list[str]:
    return [query.label, query.id]


def _histograms(queries: Sequence[QuerySnapshot]) -> Iterator[Metric]:
    batch = HistogramMetricFamily(
        "penstock_batch_duration_seconds", "Time from trigger to commit of a batch.", labels=_QUERY
    )
    phase = HistogramMetricFamily(
        "penstock_batch_phase_seconds",
        "Time a batch spent in a phase.",
        labels=(*_QUERY, "phase"),
    )
    for query in queries:
        totals = query.totals
        batch.add_metric(_labels(query), *_buckets(totals.batch_seconds))
        for name, histogram in totals.phase_seconds.items():
            phase.add_metric([*_labels(query), name], *_buckets(histogram))
    yield batch
    yield phase


def _buckets(histogram: HistogramSnapshot) -> tuple[list[tuple[str, float]], float]:
    pairs = [(str(bound), float(number)) for bound, number in histogram.cumulative()]
    return [*pairs[:-1], ("+Inf", pairs[-1][1])], histogram.total


def _counters(queries: Sequence[QuerySnapshot]) -> Iterator[Metric]:
    table: dict[str, tuple[str, Callable[[QuerySnapshot], int]]] = {
        "batches": ("Batches committed.", lambda q: q.totals.batches),
        "input_rows": ("Rows read from the sources.", lambda q: q.totals.input_rows),
        "output_rows": ("Rows written, for sinks that count.", lambda q: q.totals.output_rows),
        "late_rows": ("Rows dropped by watermark.", lambda q: q.totals.late_rows),
        "quarantined_parts": (
            "Files, records or other parts that batches have left out.",
            lambda q: q.totals.quarantined_parts,
        ),
        "failures": ("Runs that failed.", lambda q: q.totals.failures),
        "restarts": ("Restarts of the query after a failure.", lambda q: q.restarts),
    }
    for name, (help_text, value) in table.items():
        family = CounterMetricFamily(f"penstock_{name}", help_text, labels=_QUERY)
        for query in queries:
            family.add_metric(_labels(query), value(query))
        yield family


def _gauges(queries: Sequence[QuerySnapshot]) -> Iterator[Metric]:
    table: dict[str, tuple[str, Callable[[QuerySnapshot], float | None]]] = {
        "batch_id": ("Id of the last batch.", lambda q: q.batch_id),
        "input_rows_per_second": ("Input rate.", lambda q: q.input_rows_per_second),
        "processed_rows_per_second": ("Processing rate.", lambda q: q.processed_rows_per_second),
        "last_progress_timestamp_seconds": ("Time of the last progress record.", _last_progress),
        "trigger_age_seconds": (
            "Duration of the active trigger so far, 0 between triggers.",
            lambda q: q.trigger_age or 0.0,
        ),
        "watermark_delay_seconds": ("Time between the watermark and now.", _delay),
        "state_rows": ("Rows in the state.", lambda q: q.state_rows),
        "state_memory_bytes": ("Memory used by the state.", lambda q: q.state_memory_bytes),
    }
    for name, (help_text, value) in table.items():
        family = GaugeMetricFamily(f"penstock_{name}", help_text, labels=_QUERY)
        for query in queries:
            if (figure := value(query)) is not None:
                family.add_metric(_labels(query), figure)
        yield family
    yield _condition_metric(queries)


def _condition_metric(queries: Sequence[QuerySnapshot]) -> Metric:
    family = GaugeMetricFamily(
        "penstock_query_condition",
        "1 for the current condition of the query, 0 for the others.",
        labels=(*_QUERY, "condition"),
    )
    for query in queries:
        for condition in _CONDITIONS:
            family.add_metric([*_labels(query), condition], float(query.condition == condition))
    return family


def _per_source(queries: Sequence[QuerySnapshot]) -> Iterator[Metric]:
    table: dict[str, tuple[str, Callable[[SourceSnapshot], float | None]]] = {
        "lag": (
            "Difference of the latest offset and the end of the last batch, in the source's unit.",
            lambda s: s.lag,
        ),
        "lag_seconds": (
            "Time since the source had nothing beyond the end of the last batch.",
            lambda s: s.lag_seconds,
        ),
        "catch_up_seconds": (
            "Time to process the lag at the rate of the last batch, for Kafka.",
            lambda s: s.catch_up_seconds,
        ),
    }
    for name, (help_text, value) in table.items():
        labels = (*_QUERY, "source", "description")
        family = GaugeMetricFamily(f"penstock_source_{name}", help_text, labels=labels)
        for query in queries:
            for number, source in enumerate(query.sources):
                if (figure := value(source)) is not None:
                    family.add_metric([*_labels(query), str(number), source.description], figure)
        yield family


def _per_paced_source(queries: Sequence[QuerySnapshot]) -> Iterator[Metric]:
    """The metrics of queries with `pace()`; no samples for the others."""
    source_labels = (*_QUERY, "source", "description")
    target = GaugeMetricFamily(
        "penstock_pace_target_seconds", "Wanted duration of a batch.", labels=_QUERY
    )
    limit = GaugeMetricFamily(
        "penstock_source_pace_limit",
        "Read limit of the last batch, set by pace().",
        labels=(*source_labels, "unit"),
    )
    reason = GaugeMetricFamily(
        "penstock_source_pace_reason",
        "1 for the reason of this limit, 0 for the others.",
        labels=(*source_labels, "reason"),
    )
    for query in queries:
        paced = [(number, s, s.pace) for number, s in enumerate(query.sources) if s.pace]
        for _, _, pace in paced[:1]:
            target.add_metric(_labels(query), pace.target_ms / 1000)
        for number, source, pace in paced:
            labels = [*_labels(query), str(number), source.description]
            limit.add_metric([*labels, pace.unit.value], pace.limit)
            for one in type(pace.reason):
                reason.add_metric([*labels, one.value], float(one is pace.reason))
    yield from (target, limit, reason)


def _per_sink(queries: Sequence[QuerySnapshot]) -> Iterator[Metric]:
    """The metrics of queries with many sinks; no samples for the others."""
    labels = (*_QUERY, "sink")
    seconds = HistogramMetricFamily(
        "penstock_sink_seconds", "Time one of many sinks took for a batch.", labels=labels
    )
    counters = {
        name: CounterMetricFamily(f"penstock_sink_{name}", help_text, labels=labels)
        for name, help_text in (
            ("batches", "Batches written to one of many sinks."),
            ("retries", "Calls of one of many sinks after a failed one."),
            ("failures", "Runs that failed because of one of many sinks."),
        )
    }
    for query in queries:
        for sink in query.sinks:
            values = [*_labels(query), sink.name]
            seconds.add_metric(values, *_buckets(sink.seconds))
            for name, family in counters.items():
                family.add_metric(values, getattr(sink, name))
    yield seconds
    yield from counters.values()


def _last_progress(query: QuerySnapshot) -> float | None:
    return query.last_progress_at


def _delay(query: QuerySnapshot) -> float | None:
    """Seconds between the watermark and now; None while the watermark is not set."""
    if query.watermark is None or query.watermark.watermark_ms == 0:
        return None
    return query.taken_at - query.watermark.watermark_ms / 1000
