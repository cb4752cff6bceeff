"""The Spark settings that the engine uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from penstock.errors import InvalidSettingError


def _boolean(text: str | None) -> bool:
    return text is not None and text.strip().lower() == "true"


@dataclass(frozen=True)
class Settings:
    """Read from the session when a query starts. Some are read again later, as Spark does.

    Raises InvalidSettingError if no batch is to be retained: a restart needs the last two.
    """

    polling_delay_ms: int = 10
    no_data_batches: bool = True
    min_batches_to_retain: int = 100
    stop_timeout_ms: int = 0
    progress_retention: int = 100
    no_data_progress_interval_ms: int = 10_000
    available_now_wrapper: bool = False
    verify_new_checkpoint: bool = True
    force_delete_temporary_checkpoint: bool = False
    check_unfinished_repartition: bool = True
    verify_metadata_exists: bool = True

    def __post_init__(self) -> None:
        if self.min_batches_to_retain <= 0:
            raise InvalidSettingError(
                "requirement failed: minBatchesToRetain has to be positive",
                remedy=f"{KEYS['min_batches_to_retain']} is {self.min_batches_to_retain}. The log "
                "entries that a restart needs would be removed, so nothing was run. Set it to 1 "
                "or more.",
            )

    @classmethod
    def read(cls, millis: Callable[[str], int], text: Callable[[str], str | None]) -> Settings:
        """Read all settings: `millis` returns a duration in milliseconds, `text` other values.

        `text` returns None for a setting that this Spark does not have; what it would turn on is
        off then. The caller turns on what this Spark always does.
        """
        values: dict[str, int | bool] = {}
        for setting in fields(cls):
            key = KEYS[setting.name]
            if setting.name.endswith("_ms"):
                values[setting.name] = millis(key)
            elif isinstance(setting.default, bool):
                values[setting.name] = _boolean(text(key))
            elif (value := text(key)) is not None:
                values[setting.name] = int(value)
        return cls(**values)  # type: ignore[arg-type]  # the names decide the types


KEYS = {
    "polling_delay_ms": "spark.sql.streaming.pollingDelay",
    "no_data_batches": "spark.sql.streaming.noDataMicroBatches.enabled",
    "min_batches_to_retain": "spark.sql.streaming.minBatchesToRetain",
    "stop_timeout_ms": "spark.sql.streaming.stopTimeout",
    "progress_retention": "spark.sql.streaming.numRecentProgressUpdates",
    "no_data_progress_interval_ms": "spark.sql.streaming.noDataProgressEventInterval",
    "available_now_wrapper": "spark.sql.streaming.triggerAvailableNowWrapper.enabled",
    "verify_new_checkpoint": "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart",
    "force_delete_temporary_checkpoint": "spark.sql.streaming.forceDeleteTempCheckpointLocation",
    "check_unfinished_repartition": "spark.sql.streaming.checkUnfinishedRepartitionOnRestart",
    "verify_metadata_exists": "spark.sql.streaming.checkpoint.verifyMetadataExists.enabled",
}
