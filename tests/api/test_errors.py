"""The errors of a query as PySpark's exceptions and in its status."""

from __future__ import annotations

from pathlib import Path

import pyspark.errors
import pytest
from pyspark.errors.exceptions import captured
from pyspark.sql import SparkSession

from penstock import StreamingQueryException, write_stream
from penstock.api.exceptions import as_pyspark
from penstock.errors import (
    Condition,
    MalformedLogError,
    MissingMetadataError,
    StreamFailedError,
)
from penstock.observe.observatory import snapshots
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.pyspark_api import HAS_CONDITIONS, condition_of
from tests.streams import LineFiles


def test_a_converted_error_is_of_both_classes_and_keeps_its_attributes() -> None:
    inner = MalformedLogError("It is torn.", Condition("TORN", "KD002", {"text": "x"}))
    error = MissingMetadataError("It is gone.", Condition("GONE", "42K03", {"at": "here"}), "Look.")
    error.__cause__, error.checkpoint = inner, "file:/here"
    both = as_pyspark(error)
    assert isinstance(both, MissingMetadataError)
    assert isinstance(both, pyspark.errors.SparkRuntimeException)
    state = " SQLSTATE: 42K03" if HAS_CONDITIONS else ""
    assert str(both) == f"[GONE] It is gone.{state}\nLook."
    assert str(error) == "[GONE] It is gone. SQLSTATE: 42K03\nLook."
    assert (condition_of(both), both.getSqlState()) == ("GONE", "42K03")
    assert both.getMessageParameters() == {"at": "here"}
    assert both.checkpoint == "file:/here"
    assert isinstance(both.__cause__, pyspark.errors.PySparkException)
    assert condition_of(both.__cause__) == "TORN"
    assert as_pyspark(both) is both


def test_an_error_that_is_its_own_cause_is_converted() -> None:
    error = MalformedLogError("It is torn.")
    error.__cause__ = error
    both = as_pyspark(error)
    assert isinstance(both, pyspark.errors.PySparkException)
    assert both.__cause__ is both


def test_a_failed_query_raises_the_class_that_pyspark_raises() -> None:
    """It has what programs read, also after the end of the JVM, which PySpark's class would ask."""
    failure = StreamFailedError("It died.", {"message": "It died."}, "plan", "-", "-")
    failure.__cause__ = ValueError("boom")
    error = StreamingQueryException(failure)
    assert isinstance(error, captured.StreamingQueryException)
    assert isinstance(error, pyspark.errors.StreamingQueryException)
    state = " SQLSTATE: XXKST\nplan" if HAS_CONDITIONS else ""
    texts = (str(error), error.getMessage(), error._desc, error.desc)
    assert set(texts) == {f"[STREAM_FAILED] It died.{state}"}
    assert error.__cause__ is error._cause is error.cause is failure.__cause__
    assert (condition_of(error), error.getQueryContext()) == ("STREAM_FAILED", [])
    assert error.getMessageParameters() == {"message": "It died."}


@pytest.mark.since("4.0", "conditions of errors about logs")
def test_a_newer_log_version_has_its_condition_in_the_cause(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    lines = LineFiles(tmp_path / "in")
    lines.add("a")
    writer = write_stream(lines.stream(session)).format("noop").trigger(availableNow=True)
    writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()
    (checkpoint / "commits" / "0").write_text("v9\n{}")
    query = writer.start()
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination()
    cause = raised.value.cause and raised.value.cause.__cause__
    assert isinstance(cause, pyspark.errors.PySparkException)
    newest = Jvm.of(session).line.newest_commit_log
    kind = "EXACT_MATCH_VERSION" if newest is None else "MAX_SUPPORTED_VERSION"
    read = {"matchVersion": "1"} if newest is None else {"maxSupportedVersion": str(newest)}
    assert condition_of(cause) == f"INVALID_LOG_VERSION.{kind}"
    assert cause.getMessageParameters() == {**read, "version": "9"}


@pytest.mark.since("4.0", "a condition for files that cannot be read")
def test_a_java_error_is_shown_in_one_line(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    lines = LineFiles(tmp_path / "in")
    lines.add('{"a":')
    reader = session.readStream.schema("a int").option("mode", "FAILFAST")
    writer = write_stream(reader.json(str(lines.directory))).format("noop")
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination()
    error = raised.value
    reason = error.getMessageParameters()["message"]
    assert reason.startswith("[FAILED_READ_FILE.NO_HINT] Encountered error while reading file ")
    assert "\n" not in reason
    assert (
        str(error).split("\n")[0].endswith(f"terminated with exception: {reason} SQLSTATE: XXKST")
    )
    assert query.status["message"] == f"Terminated with exception: {reason}"
    assert next(s.error for s in snapshots() if s.run_id == query.runId) == reason
    assert isinstance(error.cause, pyspark.errors.UnknownException)
    assert condition_of(error.cause) == "FAILED_READ_FILE.NO_HINT"
    assert "\tat org.apache.spark" in error.cause._stackTrace  # type: ignore[attr-defined]
