"""The sink names that commits record, if the session enables sink evolution.

With `spark.sql.streaming.queryEvolution.enableSinkEvolution` every commit records the sink that the
batch was written to, and the sinks that the query wrote to before (commit log `v3`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.errors.exceptions.captured import convert_exception
from pyspark.sql import SparkSession

from penstock.checkpoint import CommitMetadata
from penstock.errors import UnsupportedError
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.session.session_conf import SessionConf
from penstock.spark.sinks.batch_sinks import SparkSink

SINK_EVOLUTION = "spark.sql.streaming.queryEvolution.enableSinkEvolution"
_NO_OFFSET = "-"

Sinks = Mapping[str, Mapping[str, Any]]


def require_sink_name(jvm: Jvm, jsession: Any, sink_name: str | None) -> None:
    """Raise Spark's own error for a sink without a name if the session requires one."""
    if sink_name is None and SessionConf(jvm, jsession).is_on(SINK_EVOLUTION):
        raise convert_exception(
            jvm.cls("org.apache.spark.SparkException")(
                "STREAMING_QUERY_EVOLUTION_ERROR.UNNAMED_STREAMING_SINKS_WITH_ENFORCEMENT",
                jvm.scala_map({}),
                None,
            )
        )


def named_writer(spark: SparkSession, jwriter: Any, sink_name: str) -> Any:
    """Set the sink name of a Scala writer. UnsupportedError if this Spark has no sink names."""
    if SessionConf(Jvm.of(spark), spark._jsparkSession).find(SINK_EVOLUTION) is None:
        raise UnsupportedError(
            f"The sink cannot have the name {sink_name!r}: sinks have no names in this version of "
            f"Spark, which has no setting {SINK_EVOLUTION}."
        )
    return jwriter.name(sink_name)


class SinkNames:
    """Tracks the sinks of a query across commits. Unless `enabled`, commits record none."""

    def __init__(self, enabled: bool, sink_name: str | None, sink: SparkSink) -> None:
        self.enabled = enabled
        self._sinks: dict[str, Mapping[str, Any]] = {}
        if self.enabled and sink_name is not None:
            self._name = sink_name
            self._current: Mapping[str, Any] = {
                "sinkName": sink_name,
                "commitOffset": _NO_OFFSET,
                "providerName": sink.jtable.getClass().getName(),
                "apiVersion": "DSv2" if sink.is_v2 else "DSv1",
                "isActive": True,
            }

    def resume_after_commit(self, commit: CommitMetadata) -> None:
        """Load the sinks of the last commit, which the next one records again."""
        if commit.sinks is None:
            return
        if not self.enabled:
            named = ", ".join(commit.sinks)
            raise UnsupportedError(
                f"The commit log of this checkpoint names its sinks ({named}), and a commit "
                "without a sink name cannot follow one with a name. Nothing was run. Set "
                f"{SINK_EVOLUTION} to true and name the sink of this query: "
                "write_stream(df).name(...)."
            )
        self._sinks = dict(commit.sinks)

    def of_this_commit(self) -> Sinks:
        """The current sink as the active one, and the former ones."""
        past = {name: {**sink, "isActive": False} for name, sink in self._sinks.items()}
        self._sinks = {**past, self._name: self._current}
        return self._sinks
