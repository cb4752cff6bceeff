"""Removes old metadata files of stateful operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.spark.session.stream_session import SparkStreamSession

_PURGED_VERSION = 2
"""The first version with one file per batch; older ones have one file for all batches."""


def purge_state_metadata(session: SparkStreamSession, writers: Sequence[Any]) -> None:
    """Remove the metadata of stateful operators that no batch in the logs needs any more.

    Does nothing if this Spark does not write a metadata file per batch.
    """
    jvm = session.jvm
    if not jvm.line.has("OperatorStateMetadataFiles"):
        return
    for writer in writers:
        if writer.operatorStateMetadataVersion() == _PURGED_VERSION:
            state = jvm.cls("org.apache.hadoop.fs.Path")(writer.getStateInfo().checkpointLocation())
            files = jvm.new(
                "OperatorStateMetadataFiles",
                stateCheckpointPath=state.getParent(),
                sparkSession=session.jsession,
                statefulOperator=writer,
            )
            files.purgeMetadataFiles()
