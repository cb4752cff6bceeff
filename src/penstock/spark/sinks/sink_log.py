"""Reads the log that a file sink keeps in its output directory."""

from __future__ import annotations

from penstock.checkpoint.file_numbers import file_number
from penstock.spark.jvm.hadoop_files import HadoopFiles
from penstock.spark.session.stream_session import SparkStreamSession
from penstock.spark.sinks.batch_sinks import SparkSink

SKIP_KNOWN_BATCHES = "skipKnownBatches"
"""The writer's option to start although the sink will skip batches not yet planned."""

_LOG = "_spark_metadata"
_COMPACT = ".compact"
_DESCRIPTION = "FileSink["


def latest_batch_of(sink: SparkSink, session: SparkStreamSession) -> int | None:
    """The newest batch in the log of a file sink; None if it is empty or not a file sink.

    Lists one directory. The sink regards every batch up to this one as written and skips it.
    """
    if not sink.writes_files:
        return None
    path = sink.description.removeprefix(_DESCRIPTION).removesuffix("]")
    names = HadoopFiles(session.jvm, path, session.hadoop_conf()).list_names(_LOG)
    numbers = [file_number(name.removesuffix(_COMPACT)) for name in names]
    return max((number for number in numbers if number is not None), default=None)
