"""The engine's settings, under Spark's names."""

from __future__ import annotations

from dataclasses import fields

import pytest

from penstock.engine.settings import KEYS, Settings
from penstock.errors import InvalidSettingError


def test_every_setting_has_a_name_of_sparks() -> None:
    assert set(KEYS) == {setting.name for setting in fields(Settings)}
    assert all(key.startswith("spark.sql.streaming.") for key in KEYS.values())


def test_the_defaults_are_sparks() -> None:
    assert Settings() == Settings(
        polling_delay_ms=10,
        no_data_batches=True,
        min_batches_to_retain=100,
        stop_timeout_ms=0,
        progress_retention=100,
        no_data_progress_interval_ms=10_000,
        available_now_wrapper=False,
        verify_new_checkpoint=True,
        force_delete_temporary_checkpoint=False,
    )


@pytest.mark.parametrize(("text", "value"), [("true", True), (" TRUE ", True), ("false", False)])
def test_settings_are_read_by_their_kind(text: str, value: bool) -> None:
    durations = {
        "spark.sql.streaming.pollingDelay": 1,
        "spark.sql.streaming.stopTimeout": 2,
        "spark.sql.streaming.noDataProgressEventInterval": 3,
    }
    texts = dict.fromkeys(KEYS.values(), text) | {
        "spark.sql.streaming.minBatchesToRetain": "4",
        "spark.sql.streaming.numRecentProgressUpdates": "5",
    }
    assert Settings.read(durations.__getitem__, texts.__getitem__) == Settings(
        polling_delay_ms=1,
        no_data_batches=value,
        min_batches_to_retain=4,
        stop_timeout_ms=2,
        progress_retention=5,
        no_data_progress_interval_ms=3,
        available_now_wrapper=value,
        verify_new_checkpoint=value,
        force_delete_temporary_checkpoint=value,
        check_unfinished_repartition=value,
        verify_metadata_exists=value,
    )


def test_what_this_spark_has_no_setting_for_it_does_not_do() -> None:
    known = {"spark.sql.streaming.noDataMicroBatches.enabled": "true"}
    settings = Settings.read(lambda key: 1, known.get)
    assert settings.no_data_batches
    assert not settings.check_unfinished_repartition
    assert not settings.verify_metadata_exists
    assert settings.min_batches_to_retain == 100


@pytest.mark.parametrize("retained", [0, -1])
def test_settings_that_retain_no_batch_are_refused(retained: int) -> None:
    texts = {"spark.sql.streaming.minBatchesToRetain": str(retained)}
    with pytest.raises(InvalidSettingError) as caught:
        Settings.read(lambda key: 1, texts.get)
    assert str(caught.value).startswith(
        "requirement failed: minBatchesToRetain has to be positive\n"
        f"spark.sql.streaming.minBatchesToRetain is {retained}."
    )
