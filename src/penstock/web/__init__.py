"""The HTTP servers of the live page and the Prometheus metrics."""
