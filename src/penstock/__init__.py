"""Penstock: a micro-batch stream-execution engine in Python that drives Spark."""

from importlib.metadata import PackageNotFoundError, version

from penstock.api.errors import StreamingQueryException
from penstock.api.manager import StreamingQueryManager
from penstock.api.query import StreamingQuery
from penstock.api.sink import PythonSink
from penstock.api.writer import DataStreamWriter, write_stream
from penstock.errors import PenstockError
from penstock.spark.python_source import PythonSource, read_stream

try:
    __version__ = version("penstock")
except PackageNotFoundError:  # run from a checkout that is not installed
    __version__ = "0+unknown"

__all__ = [
    "DataStreamWriter",
    "PenstockError",
    "PythonSink",
    "PythonSource",
    "StreamingQuery",
    "StreamingQueryException",
    "StreamingQueryManager",
    "__version__",
    "read_stream",
    "write_stream",
]
