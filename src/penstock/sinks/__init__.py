"""Sinks that write each batch exactly once: each is a PythonSink, for `sink` and for `to`."""

from penstock.sinks.jdbc_sink import jdbc

__all__ = ["jdbc"]
