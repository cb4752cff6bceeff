"""Sources written in Python, for the rooms that do not speak to Spark themselves."""

from penstock.spark.sources.python_source import PythonSource, read_stream

__all__ = ["PythonSource", "read_stream"]
