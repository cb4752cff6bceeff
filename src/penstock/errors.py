"""Every error Penstock raises, in one tree.

    PenstockError
    ├── CheckpointError                 a checkpoint cannot be used
    │   ├── MalformedLogError           a log file cannot be parsed
    │   │   └── IncompleteLogError      ... because it is empty or truncated
    │   ├── UnsupportedLogVersionError  a log file has a newer format version
    │   ├── MissingBatchError           a log entry that recovery needs does not exist
    │   ├── CheckpointVanishedError     a file that the run uses was deleted or replaced
    │   ├── SinkAheadError              the sink's own log has batches after the checkpoint's latest
    │   ├── SinkRenamedError            of many sinks, one is gone and another is new
    │   ├── MissingMetadataError        there are logs but no `metadata` file with the query id
    │   ├── CheckpointNotEmptyError     a new query found state of another query
    │   ├── SourceCountError            the sources differ from those in the checkpoint
    │   ├── SourceEvolutionError        named sources on a checkpoint whose entries have no names
    │   ├── UnfinishedRepartitionError  a repartitioning of the state was not finished
    │   ├── ConcurrentUpdateError       another run has written the same log entry
    │   ├── CheckpointInUseError        a command on a checkpoint that a query may be using
    │   └── SurgeryRefusedError         a command that would lose data or break the checkpoint
    ├── ExecutionError                  the engine cannot run what it was given
    │   ├── InvalidSettingError         a setting of Spark has a value that the engine cannot use
    │   ├── UnknownTriggerError         also a TypeError
    │   ├── UnknownSinkError
    │   ├── InvalidBatchError           a source returned something else than the data of one batch
    │   ├── SinkFailedError             one of many sinks failed in a batch
    │   ├── FollowedQueryFailedError    the query that a trigger follows failed
    │   ├── PaceError                   the size of batches cannot be set
    │   ├── QuarantineError             what a batch leaves out could not be copied
    │   ├── StoppedError                a batch was given up because the query was stopped
    │   └── WrongThreadError            a call that is not allowed on this thread
    ├── QueryStopTimeoutError           the query did not stop within `stopTimeout`
    ├── StreamFailedError               a query failed; with the cause and the offsets
    └── EnvironmentProblemError         the machine or the session is not supported
        ├── JavaNotFoundError
        └── UnsupportedError            a Spark version, session or trigger that is out of scope

Errors that Spark's engine raises too carry Spark's error condition; `penstock.api` converts them to
PySpark's exceptions. This module imports nothing of Penstock, so that every package can import it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True)
class Condition:
    """An error in Spark's error framework: its name, its SQLSTATE and its message parameters."""

    name: str
    sql_state: str
    parameters: Mapping[str, str] = field(default_factory=dict)


class PenstockError(Exception):
    """The root of every error that Penstock itself raises.

    With a condition, the text has Spark's form: `[NAME] message SQLSTATE: state`. `remedy` is
    text of Penstock's own that follows on a new line.
    """

    pyspark_class: ClassVar[str] = "UnknownException"
    """The class of `pyspark.errors` that Spark's engine raises in the same case."""

    def __init__(
        self, message: str = "", condition: Condition | None = None, remedy: str = ""
    ) -> None:
        self._plain_message = message
        self._remedy = remedy
        self.condition = condition
        super().__init__(self.text())

    def text(self, *, with_sql_state: bool = True) -> str:
        """The message with the name of the condition, its SQLSTATE if wanted, and the remedy."""
        text = self._plain_message
        if self.condition is not None:
            state = f" SQLSTATE: {self.condition.sql_state}" if with_sql_state else ""
            text = f"[{self.condition.name}] {text}{state}"
        return f"{text}\n{self._remedy}" if self._remedy else text


class CheckpointError(PenstockError):
    """A checkpoint cannot be used. Nothing in it was changed.

    `checkpoint` is its location if the start of a query raised the error.
    """

    checkpoint: str | None = None


class MalformedLogError(CheckpointError):
    """A file in a checkpoint cannot be parsed."""


class IncompleteLogError(MalformedLogError):
    """A log file is empty or truncated."""


class UnsupportedLogVersionError(CheckpointError):
    """A log file has a format version that is newer than this release supports."""


class MissingBatchError(CheckpointError):
    """A required log entry does not exist."""


class CheckpointVanishedError(CheckpointError):
    """A file that the run has read or written was deleted or replaced."""


class SinkAheadError(CheckpointError):
    """The sink's own log has batches that the checkpoint has not planned."""


class SinkRenamedError(CheckpointError):
    """One of many sinks is gone and another is new, which may be a rename."""


class MissingMetadataError(CheckpointError):
    """Offsets or commits exist, but not the `metadata` file with the query's id."""

    pyspark_class = "SparkRuntimeException"


class CheckpointNotEmptyError(CheckpointError):
    """A new query found files of an earlier query in its checkpoint."""

    pyspark_class = "UnsupportedOperationException"


class SourceCountError(CheckpointError):
    """The sources of the query differ from those in the checkpoint."""


class SourceEvolutionError(CheckpointError):
    """Source evolution was enabled for a checkpoint that was created without it."""

    pyspark_class = "AnalysisException"


class UnfinishedRepartitionError(CheckpointError):
    """The latest batch is a change of the number of state partitions, and is not committed."""


class ConcurrentUpdateError(CheckpointError):
    """Another run has written the log entry that this run was about to write."""


class CheckpointInUseError(CheckpointError):
    """A query is running, or may be running, on a checkpoint that a command is to change."""


class SurgeryRefusedError(CheckpointError):
    """A requested change would lose data or leave a checkpoint that cannot be restarted."""


class ExecutionError(PenstockError):
    """The engine cannot run what it was given."""


class InvalidSettingError(ExecutionError):
    """A setting of Spark has a value that the engine cannot use. Nothing was written."""

    pyspark_class = "IllegalArgumentException"


class UnknownTriggerError(ExecutionError, TypeError):
    """The trigger is of an unknown type. PySpark raises a TypeError for `trigger("5 seconds")`."""


class UnknownSinkError(ExecutionError):
    """The sink is of an unknown type."""


class InvalidBatchError(ExecutionError):
    """A source returned something else than the data of one batch."""


class SinkFailedError(ExecutionError):
    """One of many sinks failed in a batch, in its last attempt. `__cause__` is its error.

    `sink` is its name. If several have failed, these are the attributes of the first.
    """

    def __init__(
        self, sink: str, batch_id: int, attempts: int, reason: str, message: str | None = None
    ) -> None:
        times = "" if attempts == 1 else f" after {attempts} attempts"
        super().__init__(message or f"Sink {sink} failed in batch {batch_id}{times}: {reason}")
        self.sink = sink
        self.batch_id = batch_id
        self.attempts = attempts
        self.reason = reason


class FollowedQueryFailedError(ExecutionError):
    """The query whose batches this one follows, by its trigger, has failed."""


class PaceError(ExecutionError):
    """The size of batches cannot be set, by the trigger or by the sources of the query."""


class QuarantineError(ExecutionError):
    """What a batch leaves out could not be copied, so the batch was not run."""


class StoppedError(ExecutionError):
    """A batch was given up because the query was stopped. It runs again at the next start."""


class WrongThreadError(ExecutionError):
    """A method was called on a thread on which it is not allowed."""


class QueryStopTimeoutError(PenstockError, TimeoutError):
    """The thread of a query did not end within the time limit of a stop."""


class StreamFailedError(PenstockError):
    """A query failed. `__cause__` is the error, `parameters` are those of `STREAM_FAILED`.

    The offsets are those of the failed batch: one JSON text per source, `-` for no offset.
    `batch_id` is None if the query failed before a batch was planned.
    """

    checkpoint: str | None = None
    batch_id: int | None = None

    pyspark_class = "StreamingQueryException"

    def __init__(
        self,
        message: str,
        parameters: Mapping[str, str],
        debug: str,
        start_offset: str,
        end_offset: str,
    ) -> None:
        super().__init__(message)
        self.parameters = dict(parameters)
        self.debug = debug
        self.start_offset = start_offset
        self.end_offset = end_offset


class EnvironmentProblemError(PenstockError):
    """Penstock does not run on this machine or in this session."""


class JavaNotFoundError(EnvironmentProblemError):
    """No Java installation that Spark can run on was found."""


class UnsupportedError(EnvironmentProblemError):
    """A feature that is out of scope; the message says what is supported."""
