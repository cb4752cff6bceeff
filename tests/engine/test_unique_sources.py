"""The read limits of the sources under each trigger."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.engine.available_now import AvailableNowDataStreamWrapper
from penstock.engine.data_stream import DataStream, Source
from penstock.engine.offsets import LongOffset, Offset, SerializedOffset
from penstock.engine.read_limit import (
    ALL_AVAILABLE,
    CompositeReadLimit,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    ReadMinRows,
)
from penstock.engine.unique_sources import (
    all_support_available_now,
    for_available_now,
    with_own_limits,
    without_limits,
)
from tests.engine.numbers import NumberSource, NumberStream
from tests.memory_world.sources import Abilities

LIMITED = Abilities(admission_control=True, available_now=True, limit=ReadMaxRows(2))


def stream(name: str = "a", abilities: Abilities | None = None, rows: int = 5) -> NumberStream:
    return NumberStream(name, range(rows), [], abilities)


# Processing time.


def test_with_processing_time_every_source_has_its_own_limit() -> None:
    limited, plain = stream("a", LIMITED), NumberSource("b", [], [])
    unique = with_own_limits([limited, plain])
    assert [(u.stream, u.limit, u.original) for u in unique] == [
        (limited, ReadMaxRows(2), limited),
        (plain, ALL_AVAILABLE, plain),
    ]


def test_a_source_used_twice_is_there_once_in_order() -> None:
    a, b = stream("a"), stream("b")
    unique = with_own_limits([b, a, b])
    assert [u.stream for u in unique] == [b, a]


# Once.


def test_once_ignores_read_limits_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    limited = stream("a", LIMITED)
    [unique] = without_limits([limited])
    assert unique.limit == ALL_AVAILABLE
    assert (
        "The read limit MaxRows: 2 for Numbers[a] is ignored when Trigger.Once is used."
        in caplog.text
    )


def test_once_logs_nothing_for_a_source_without_limit(caplog: pytest.LogCaptureFixture) -> None:
    [unique] = without_limits([stream()])
    assert unique.limit == ALL_AVAILABLE
    assert caplog.text == ""


# Available now.


def test_available_now_prepares_sources_that_support_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    able = stream("a", LIMITED)
    [unique] = for_available_now([able])
    assert unique.stream is able
    assert unique.limit == ReadMaxRows(2)
    assert able.held_at == 4
    assert caplog.text == ""


def test_available_now_wraps_sources_that_cannot(caplog: pytest.LogCaptureFixture) -> None:
    unable = NumberStream("a", range(5), [], Abilities(True, limit=ReadMaxRows(2)))
    [unique] = for_available_now([unable])
    assert isinstance(unique.stream, AvailableNowDataStreamWrapper)
    assert unique.original is unable
    assert unique.limit == ALL_AVAILABLE
    assert "Activating the wrapper implementation of Trigger.AvailableNow" in caplog.text
    assert (
        "The read limit MaxRows: 2 is ignored because source Numbers[a] does not support running "
        "Trigger.AvailableNow queries."
    ) in caplog.text


def test_every_source_without_support_for_available_now_logs_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert all_support_available_now([stream("a", LIMITED)])
    assert caplog.text == ""
    assert not all_support_available_now([stream("a", LIMITED), stream("b"), stream("c")])
    for name in "bc":
        assert f"source [Numbers[{name}]] does not support Trigger.AvailableNow" in caplog.text
    assert "Numbers[a]" not in caplog.text
    assert "Falling back to single batch execution" in caplog.text


# The wrapper.


@pytest.mark.parametrize(
    "delegate",
    [
        NumberSource("v1", range(5), []),
        NumberStream("v2", range(5), []),
        NumberStream("v2 with admission control", range(5), [], Abilities(True)),
    ],
    ids=str,
)
def test_a_wrapped_source_keeps_its_offset(delegate: NumberSource | NumberStream) -> None:
    wrapper = AvailableNowDataStreamWrapper(delegate)
    wrapper.prepare_for_trigger_available_now()
    delegate.rows.append(5)
    assert wrapper.latest_offset(None, ReadMaxRows(1)) == LongOffset(4)
    assert wrapper.report_latest_offset() == LongOffset(5)


def test_a_wrapped_v1_source_with_admission_control_has_no_initial_offset() -> None:
    class Limited(NumberSource):
        supports_admission_control = True

        def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset | None:
            self.calls.append(f"latest_offset {start} {limit}")
            return super().latest_offset(start, limit)

    delegate = Limited("a", range(5), [])
    wrapper = AvailableNowDataStreamWrapper(delegate)
    wrapper.prepare_for_trigger_available_now()
    assert delegate.calls[0] == "latest_offset None All Available"
    assert wrapper.latest_offset(None, ALL_AVAILABLE) == LongOffset(4)


def test_a_wrapper_delegates_everything_else() -> None:
    calls: list[str] = []
    wrapper = AvailableNowDataStreamWrapper(NumberStream("a", range(5), calls))
    assert str(wrapper) == "Numbers[a]"
    assert wrapper.supports_admission_control
    assert wrapper.supports_trigger_available_now
    assert wrapper.default_read_limit() == ALL_AVAILABLE
    assert isinstance(wrapper.deserialize_offset("3"), LongOffset)
    assert wrapper.get_batch(LongOffset(0), LongOffset(2)) == [1, 2]
    assert wrapper.metrics(LongOffset(2)) == {"consumed": "2"}
    wrapper.commit(LongOffset(2))
    wrapper.stop()
    assert calls == ["a.get_batch 0 2", "a.commit 2", "a.stop"]


# The defaults of a source.


class Least(Source):
    """A source that implements only the abstract methods."""

    def get_offset(self) -> Offset | None:
        return LongOffset(7)

    def get_batch(self, start: Offset | None, end: Offset) -> object:
        return None

    def commit(self, end: Offset) -> None:
        pass

    def stop(self) -> None:
        pass


def test_by_default_a_source_supports_no_optional_feature() -> None:
    source: DataStream = Least()
    assert not source.supports_admission_control
    assert not source.supports_trigger_available_now
    assert not source.accepts_latest_seen_offset
    assert source.default_read_limit() == ALL_AVAILABLE
    assert source.report_latest_offset() is None
    assert source.deserialize_offset("7") == SerializedOffset("7") == LongOffset(7)
    assert source.latest_offset(None, ReadMaxRows(1)) == LongOffset(7)
    assert source.metrics(None) == {}
    source.set_latest_seen_offset(LongOffset(1))
    with pytest.raises(NotImplementedError, match=r"does not support Trigger\.AvailableNow"):
        source.prepare_for_trigger_available_now()


@pytest.mark.parametrize(
    ("limit", "shown"),
    [
        (ALL_AVAILABLE, "All Available"),
        (ReadMaxRows(1), "MaxRows: 1"),
        (ReadMinRows(1, 2), "MinRows: 1, MaxTriggerDelayMs: 2"),
        (ReadMaxFiles(1), "MaxFiles: 1"),
        (ReadMaxBytes(1), "MaxBytes: 1"),
        (
            CompositeReadLimit((ReadMinRows(1, 2), ReadMaxRows(3))),
            "Composite: [MinRows: 1, MaxTriggerDelayMs: 2, MaxRows: 3]",
        ),
    ],
)
def test_read_limits_are_values_with_a_text(limit: ReadLimit, shown: str) -> None:
    assert str(limit) == shown
    assert limit == replace(limit)
    assert limit != ReadMaxRows(99)
