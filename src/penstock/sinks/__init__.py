"""Sinks that write each batch exactly once: each is a PythonSink, for `sink` and for `to`."""

from penstock.sinks.delta_sink import delta
from penstock.sinks.iceberg_sink import iceberg
from penstock.sinks.jdbc_sink import jdbc

__all__ = ["delta", "iceberg", "jdbc"]
