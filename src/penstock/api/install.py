"""Makes `df.writeStream` and `spark.streams` of PySpark start and list queries on Penstock."""

from __future__ import annotations

from pyspark.sql import SparkSession, SQLContext

from penstock.api.manager import StreamingQueryManager, streams
from penstock.api.process import PROCESS
from penstock.api.writer import DataStreamWriter
from penstock.spark.jvm.pyspark_api import data_frame_class

_DataFrame = data_frame_class()
_REPLACED = (
    (_DataFrame, "writeStream"),
    (SparkSession, "streams"),
    (SQLContext, "streams"),
)


def install() -> None:
    """Run the streaming queries that this process starts from now on with Penstock.

    Replaces `DataFrame.writeStream`, `SparkSession.streams` and `SQLContext.streams` for the whole
    process. Existing `foreachBatch` functions, listeners and code that uses the returned query
    work unchanged. Queries that are already running are not affected. Calling it again has no
    effect; `uninstall` reverts it.

        penstock.install()
        query = df.writeStream.format("console").start()  # runs on Penstock
    """
    with PROCESS.lock:
        if PROCESS.replaced_members:
            return
        for owner, name in _REPLACED:
            PROCESS.replaced_members[owner, name] = vars(owner)[name]
        _DataFrame.writeStream = property(DataStreamWriter)
        SparkSession.streams = property(streams)  # type: ignore[assignment,method-assign]
        SQLContext.streams = property(_streams_of_context)  # type: ignore[assignment,method-assign]


def uninstall() -> None:
    """Revert `install`: new queries run on Spark's own engine again.

    Queries that Penstock is running continue. Has no effect if Penstock is not installed.
    """
    with PROCESS.lock:
        for (owner, name), original in PROCESS.replaced_members.items():
            setattr(owner, name, original)
        PROCESS.replaced_members.clear()


def _streams_of_context(context: SQLContext) -> StreamingQueryManager:
    """The query manager of the session of a SQLContext."""
    return streams(context.sparkSession)


def is_installed() -> bool:
    """Whether `install` is in effect."""
    return bool(PROCESS.replaced_members)
