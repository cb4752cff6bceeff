"""Every error Penstock raises, in one tree.

    PenstockError
    ├── CheckpointError                 the files of a checkpoint cannot be used as they are
    │   ├── MalformedLogError           a log file does not read as what its name says
    │   │   └── IncompleteLogError      ... because it ends too early (a torn or empty file)
    │   ├── UnsupportedLogVersionError  a log file was written by something newer
    │   ├── MissingBatchError           a log entry that recovery needs is not there
    │   ├── CheckpointVanishedError     what this run had read or written is gone or replaced
    │   ├── SinkAheadError              the sink has batches that the checkpoint does not know
    │   ├── MissingMetadataError        logs without the file that holds the query id
    │   ├── CheckpointNotEmptyError     a new query on a directory that holds another's state
    │   ├── SourceCountError            the query has not the sources the checkpoint has
    │   ├── SourceEvolutionError        named sources on a checkpoint whose entries have no names
    │   ├── UnfinishedRepartitionError  the state is being spread over another number of partitions
    │   ├── ConcurrentUpdateError       another run wrote the entry that this run was to write
    │   ├── CheckpointInUseError        a query is running on the checkpoint that is to be changed
    │   └── SurgeryRefusedError         a change by hand that would lose data or leave a wreck
    ├── ExecutionError                  the engine was given something it cannot run
    │   ├── UnknownTriggerError
    │   ├── UnknownSinkError
    │   ├── InvalidBatchError           a source returned data that is not what it announced
    │   └── WrongThreadError            a call on a thread where it would wait for itself
    ├── QueryStopTimeoutError           the query's thread outlived `stopTimeout`
    ├── StreamFailedError               why a query died; carries the cause and its offsets
    └── EnvironmentProblemError         the machine or the session is not one Penstock runs on
        ├── JavaNotFoundError
        └── UnsupportedError            a Spark version, session or trigger that is out of scope

An error that Spark's engine raises too carries Spark's condition as plain data; `penstock.api`
makes PySpark's exceptions of these. This module imports nothing of ours, so that every room may
import it.
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

    With a condition, the text is what Spark makes of it: `[NAME] message SQLSTATE: state`. A
    remedy is what Spark's text does not say, and follows it.
    """

    pyspark_class: ClassVar[str] = "UnknownException"
    """The class of `pyspark.errors` that Spark's engine raises in the same case."""

    def __init__(
        self, message: str = "", condition: Condition | None = None, remedy: str = ""
    ) -> None:
        text = message
        if condition is not None:
            text = f"[{condition.name}] {message} SQLSTATE: {condition.sql_state}"
        super().__init__(f"{text}\n{remedy}" if remedy else text)
        self.condition = condition


class CheckpointError(PenstockError):
    """A checkpoint cannot be used as it is. Nothing in it was changed.

    `checkpoint` is its location, where the error was raised by the start of a query.
    """

    checkpoint: str | None = None


class MalformedLogError(CheckpointError):
    """A file in a checkpoint does not have the form its place promises."""


class IncompleteLogError(MalformedLogError):
    """A log file ends before its content does, as an empty file does."""


class UnsupportedLogVersionError(CheckpointError):
    """A log file has a version newer than the newest one this release knows."""


class MissingBatchError(CheckpointError):
    """A log entry that is required is not there."""


class CheckpointVanishedError(CheckpointError):
    """A file that a run has read or written is gone, or another is in its place."""


class SinkAheadError(CheckpointError):
    """The sink's own log has batches that the checkpoint has no plan of."""


class MissingMetadataError(CheckpointError):
    """Offsets or commits exist, but not the `metadata` file with the query's id."""

    pyspark_class = "SparkRuntimeException"


class CheckpointNotEmptyError(CheckpointError):
    """A query that starts afresh found files of an earlier query in its checkpoint."""

    pyspark_class = "UnsupportedOperationException"


class SourceCountError(CheckpointError):
    """The checkpoint and the query disagree about the number of sources."""


class SourceEvolutionError(CheckpointError):
    """Source evolution was turned on for a checkpoint that was begun without it."""

    pyspark_class = "AnalysisException"


class UnfinishedRepartitionError(CheckpointError):
    """The last thing begun on the checkpoint is a change of the number of state partitions."""


class ConcurrentUpdateError(CheckpointError):
    """Another run has written the log entry this run was about to write."""


class CheckpointInUseError(CheckpointError):
    """A query runs, or may be running, on a checkpoint that a command is to change."""


class SurgeryRefusedError(CheckpointError):
    """A change asked for by hand would lose data or leave a checkpoint that cannot run."""


class ExecutionError(PenstockError):
    """The engine was given something it cannot run."""


class UnknownTriggerError(ExecutionError):
    """The trigger is none that the engine knows."""


class UnknownSinkError(ExecutionError):
    """The sink is none that the engine knows how to write to."""


class InvalidBatchError(ExecutionError):
    """A source returned data that does not fit what it announced."""


class WrongThreadError(ExecutionError):
    """A call was made on a thread on which it cannot work."""


class QueryStopTimeoutError(PenstockError, TimeoutError):
    """The thread of a query was still running when the time to stop had passed."""


class StreamFailedError(PenstockError):
    """A query died. `__cause__` is what killed it, `parameters` are those of `STREAM_FAILED`.

    The offsets are those of the batch it died in, one JSON text a source, `-` where there is none.
    `batch_id` is None if it died before a batch was planned.
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
    """The machine or the session is not one that Penstock runs on."""


class JavaNotFoundError(EnvironmentProblemError):
    """There is no Java that Spark can run on."""


class UnsupportedError(EnvironmentProblemError):
    """What was asked for is out of scope; the message says what is supported."""
