"""Re-exports the Python source API for packages that may not import `penstock.spark`."""

from penstock.spark.sources.python_source import PythonSource, read_stream

__all__ = ["PythonSource", "read_stream"]
