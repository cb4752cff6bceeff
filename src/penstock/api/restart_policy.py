"""The policy that decides whether a failed query is restarted, and after which delay."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.errors import AnalysisException

from penstock.api.backoff import Backoff
from penstock.engine.causes import with_causes
from penstock.errors import (
    CheckpointError,
    FollowedQueryFailedError,
    InvalidSettingError,
    PaceError,
    UnsupportedError,
)

FATAL: tuple[type[BaseException], ...] = (
    CheckpointError,
    AnalysisException,
    UnsupportedError,
    FollowedQueryFailedError,
    PaceError,
    InvalidSettingError,
)
"""Errors that a restart cannot fix: the checkpoint, the query or the environment is wrong, or the
query that this one follows has ended."""


@dataclass(frozen=True)
class RestartPolicy(Backoff):
    """A Backoff with a set of fatal errors.

    Consecutive failures are counted; a run that has committed a batch resets the count.
    """

    fatal: tuple[type[BaseException], ...] = FATAL

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            self.is_fatal(Exception())
        except TypeError:
            problem = f"fatal must be a tuple of exception classes, not {self.fatal!r}"
            raise TypeError(problem) from None

    def is_fatal(self, error: BaseException | None) -> bool:
        """Whether an error, or one of its causes, ends the query without a restart.

        True for instances of `fatal`, and for any BaseException that is not an Exception, such as
        KeyboardInterrupt.
        """
        return any(
            isinstance(cause, self.fatal) or not isinstance(cause, Exception)
            for cause in with_causes(error, implicit=False)
        )
