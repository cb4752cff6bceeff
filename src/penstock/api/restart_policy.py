"""Which failures of a query are followed by another run, and after how long."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.errors import AnalysisException

from penstock.api.backoff import Backoff
from penstock.errors import CheckpointError, UnsupportedError

FATAL: tuple[type[BaseException], ...] = (CheckpointError, AnalysisException, UnsupportedError)
"""Errors that another try does not mend: the checkpoint, the query or the machine is at fault."""


@dataclass(frozen=True)
class RestartPolicy(Backoff):
    """Failures in a row are counted; a run that has committed a batch starts a new count."""

    fatal: tuple[type[BaseException], ...] = FATAL

    def is_fatal(self, error: BaseException | None) -> bool:
        """Whether an error, or one that caused it, ends the query at once.

        What is no Exception, such as KeyboardInterrupt, always does.
        """
        while error is not None:
            if isinstance(error, self.fatal) or not isinstance(error, Exception):
                return True
            error = error.__cause__
        return False
