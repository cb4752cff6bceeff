"""The base class of the sinks that write to Delta and Iceberg tables, and their arguments."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Literal, get_args

from pyspark.sql import DataFrame

from penstock.sinks.exactly_once_sink import ExactlyOnceSink
from penstock.sinks.identity import Identity, OnRewind, check_arguments
from penstock.sinks.latest_batches import LatestBatches

LakeMode = Literal["append", "overwrite"]


def check_lake_arguments(mode: str, name: str | None, on_rewind: str) -> None:
    """Raise ValueError for an invalid argument that the sinks of Delta and Iceberg have."""
    if mode not in get_args(LakeMode):
        raise ValueError(f"mode must be one of {get_args(LakeMode)}, not {mode!r}")
    check_arguments(name, on_rewind)


def writer_options(
    options: Mapping[str, str] | None, is_own: Callable[[str], bool]
) -> dict[str, str]:
    """The user's options of the writer, as texts.

    Raises ValueError if there is one that the sink sets: `is_own` gets its name in lower case.
    """
    given = {key: str(value) for key, value in (options or {}).items()}
    taken = [key for key in given if is_own(key.lower())]
    if taken:
        raise ValueError(f"the sink sets the options {', '.join(taken)} itself")
    return given


class LakeSink(ExactlyOnceSink):
    """Records a batch in the commit that writes its rows.

    The table is searched for a batch only if it is not known which batches it has: for the first
    batch of a run, when a batch is written again, and if `_is_changed` says so.
    """

    def __init__(
        self,
        table: str,
        mode: LakeMode,
        options: Mapping[str, str],
        name: str | None,
        on_rewind: OnRewind,
    ) -> None:
        super().__init__(table, options, name, on_rewind)
        self._mode = mode
        self._latest = LatestBatches()

    def _write_new(self, identity: Identity, df: DataFrame, *, is_kept: bool) -> bool:
        is_new = self._latest.has_passed(identity) and not self._is_changed(df, identity)
        if not is_new and self._is_there(df, identity):
            return False
        self._commit(identity, df)
        self._latest.remember(identity)
        return True

    def _is_changed(self, df: DataFrame, identity: Identity) -> bool:
        """Whether another process may have written the table after the last batch of this one.

        Always False for a table that refuses a batch which it has, in the commit itself.
        """
        return False

    @abstractmethod
    def _is_there(self, df: DataFrame, identity: Identity) -> bool:
        """Whether the table has the batch, or a later one, under a present or former name.

        May create a missing table with the columns of `df`.
        """

    @abstractmethod
    def _commit(self, identity: Identity, df: DataFrame) -> None:
        """Write the rows and record the batch, in one commit of the table."""
