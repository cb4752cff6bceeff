"""The progress record of a trigger, and its JSON in Spark's form."""

from __future__ import annotations

import json
import math

import pytest

from penstock.checkpoint.timestamps import format_timestamp
from penstock.engine.progress import (
    SinkProgress,
    SourceProgress,
    StateOperatorProgress,
    StreamingQueryProgress,
)

STATE = StateOperatorProgress(
    {
        "operatorName": "stateStoreSave",
        "numRowsTotal": 5,
        "numRowsUpdated": 2,
        "allUpdatesTimeMs": 3,
        "numRowsRemoved": 1,
        "allRemovalsTimeMs": 4,
        "commitTimeMs": 6,
        "memoryUsedBytes": 100,
        "numRowsDroppedByWatermark": 1,
        "numShufflePartitions": 2,
        "numStateStoreInstances": 2,
        "customMetrics": {"loadedMapCacheHitCount": 3, "stateOnCurrentVersionSizeBytes": 9},
    },
    frozenset({"stateOnCurrentVersionSizeBytes"}),
)


def source(**changes: object) -> SourceProgress:
    values: dict[str, object] = {
        "description": "Numbers[a]",
        "start_offset": None,
        "end_offset": '{"logOffset":3}',
        "latest_offset": "not json",
        "num_input_rows": 4,
        "input_rows_per_second": 8.0,
        "processed_rows_per_second": 2.0,
    }
    return SourceProgress(**{**values, **changes})  # type: ignore[arg-type]


def progress(**changes: object) -> StreamingQueryProgress:
    values: dict[str, object] = {
        "id": "the-id",
        "run_id": "the-run",
        "name": None,
        "timestamp": "2025-03-01T10:00:00.000Z",
        "batch_id": 3,
        "batch_duration_ms": 2000,
        "duration_ms": {"walCommit": 5, "addBatch": 7},
        "event_time": {"watermark": "w", "avg": "a"},
        "state_operators": [STATE],
        "sources": [source(), source(num_input_rows=6)],
        "sink": SinkProgress("the sink", 10, {"m": "1"}),
        "observed_metrics": {"o": {"rows": 1}},
    }
    return StreamingQueryProgress(**{**values, **changes})  # type: ignore[arg-type]


def test_the_fields_are_sparks_in_sparks_order() -> None:
    assert list(progress().to_dict()) == [
        "id",
        "runId",
        "name",
        "timestamp",
        "batchId",
        "batchDuration",
        "numInputRows",
        "inputRowsPerSecond",
        "processedRowsPerSecond",
        "durationMs",
        "eventTime",
        "stateOperators",
        "sources",
        "sink",
        "observedMetrics",
    ]


def test_rows_and_rates_are_the_sums_over_the_sources() -> None:
    shown = progress().to_dict()
    assert shown["numInputRows"] == progress().num_input_rows == 10
    assert shown["inputRowsPerSecond"] == 16.0
    assert shown["processedRowsPerSecond"] == 4.0


def test_phases_and_event_times_are_sorted_by_name() -> None:
    shown = progress().to_dict()
    assert list(shown["durationMs"]) == ["addBatch", "walCommit"]
    assert list(shown["eventTime"]) == ["avg", "watermark"]


def test_empty_fields_are_left_out() -> None:
    bare = progress(duration_ms={}, event_time={}, observed_metrics={}, state_operators=[])
    shown = bare.to_dict()
    assert not {"durationMs", "eventTime", "observedMetrics"} & set(shown)
    assert shown["stateOperators"] == []


@pytest.mark.parametrize("rate", [math.inf, math.nan])
def test_a_rate_that_is_no_number_is_left_out(rate: float) -> None:
    endless = source(input_rows_per_second=rate)
    assert "inputRowsPerSecond" not in endless.to_dict()
    assert "inputRowsPerSecond" not in progress(sources=[endless]).to_dict()
    assert "processedRowsPerSecond" in endless.to_dict()


def test_rates_have_one_decimal_unless_they_are_not_to_be_rounded() -> None:
    rated = source(input_rows_per_second=1 / 3, metrics={"avgOffsetsBehindLatest": "1.25"})
    shown = progress(sources=[rated]).to_dict()
    assert shown["inputRowsPerSecond"] == shown["sources"][0]["inputRowsPerSecond"] == 0.3
    assert shown["sources"][0]["metrics"] == {"avgOffsetsBehindLatest": "1.3"}
    exact = progress(sources=[rated], is_rounded=False).to_dict()
    assert exact["inputRowsPerSecond"] == exact["sources"][0]["inputRowsPerSecond"] == 1 / 3
    assert exact["sources"][0]["metrics"] == {"avgOffsetsBehindLatest": "1.25"}


def test_a_source_has_its_offsets_as_json_where_they_are() -> None:
    assert source(metrics={"lag": "3"}).to_dict() == {
        "description": "Numbers[a]",
        "startOffset": None,
        "endOffset": {"logOffset": 3},
        "latestOffset": "not json",
        "numInputRows": 4,
        "inputRowsPerSecond": 8.0,
        "processedRowsPerSecond": 2.0,
        "metrics": {"lag": "3"},
    }
    assert "metrics" not in source().to_dict()


def test_a_sink_that_does_not_count_has_minus_one() -> None:
    assert SinkProgress("s").to_dict() == {"description": "s", "numOutputRows": -1}
    assert SinkProgress("s", 0, {"m": "1"}).to_dict()["metrics"] == {"m": "1"}


def test_the_json_is_one_line_and_the_text_is_many() -> None:
    assert json.loads(progress().json) == json.loads(str(progress())) == progress().to_dict()
    assert "\n" not in progress().json
    assert '"id":"the-id"' in progress().json
    assert '\n  "id": "the-id"' in str(progress())


def test_state_operators_without_a_batch_have_state_but_no_work() -> None:
    idle = STATE.without_execution().to_dict()
    assert idle == {
        **STATE.to_dict(),
        "numRowsUpdated": 0,
        "allUpdatesTimeMs": 0,
        "numRowsRemoved": 0,
        "allRemovalsTimeMs": 0,
        "commitTimeMs": 0,
        "numRowsDroppedByWatermark": 0,
        "customMetrics": {"loadedMapCacheHitCount": 0, "stateOnCurrentVersionSizeBytes": 9},
    }
    assert list(idle) == list(STATE.to_dict())
    plain = StateOperatorProgress({"numRowsTotal": 1}).without_execution().to_dict()
    assert "customMetrics" not in plain
    assert plain["numRowsTotal"] == 1


@pytest.mark.parametrize(
    ("millis", "shown"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_740_823_195_007, "2025-03-01T09:59:55.007Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
    ],
)
def test_a_timestamp_is_in_utc_with_milliseconds(millis: int, shown: str) -> None:
    assert format_timestamp(millis) == shown
