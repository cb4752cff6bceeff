"""What state operators record about themselves, batch after batch, and when it may go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.spark.session.stream_session import SparkStreamSession

_PURGED_VERSION = 2
"""Older versions have one file for all batches."""


def purge_state_metadata(session: SparkStreamSession, writers: Sequence[Any]) -> None:
    """Remove the records of stateful operators that no batch the logs still hold can need.

    Nothing where Spark writes none of the version that has a file for each batch.
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
