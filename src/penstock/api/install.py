"""Let every streaming query of the program run on Penstock, without an edit to it."""

from __future__ import annotations

from pyspark.sql import SparkSession, SQLContext
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from penstock.api.manager import StreamingQueryManager, streams
from penstock.api.process import PROCESS
from penstock.api.writer import DataStreamWriter

_REPLACED = (
    (ClassicDataFrame, "writeStream"),
    (SparkSession, "streams"),
    (SQLContext, "streams"),
)


def install() -> None:
    """From now on `df.writeStream` and `spark.streams` are Penstock's. Doing it twice is fine.

    So are the `streams` of a SQLContext. Queries that run already go on as they are.
    `foreachBatch` functions, listeners and whatever holds a query need not know.
    """
    with PROCESS.lock:
        if PROCESS.replaced_members:
            return
        for owner, name in _REPLACED:
            PROCESS.replaced_members[owner, name] = vars(owner)[name]
        ClassicDataFrame.writeStream = property(DataStreamWriter)  # type: ignore[assignment,method-assign]
        SparkSession.streams = property(streams)  # type: ignore[assignment,method-assign]
        SQLContext.streams = property(_streams_of_context)  # type: ignore[assignment,method-assign]


def uninstall() -> None:
    """Give them back to Spark's own engine. Queries that Penstock runs go on."""
    with PROCESS.lock:
        for (owner, name), original in PROCESS.replaced_members.items():
            setattr(owner, name, original)
        PROCESS.replaced_members.clear()


def _streams_of_context(context: SQLContext) -> StreamingQueryManager:
    """The queries of a session, asked for by the name it had before it was one."""
    return streams(context.sparkSession)


def is_installed() -> bool:
    return bool(PROCESS.replaced_members)
