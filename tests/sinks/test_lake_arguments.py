"""The arguments of the sinks of Delta and Iceberg, and the identity of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock import SinkBatch
from penstock.errors import ExecutionError
from penstock.sinks import delta, iceberg
from penstock.sinks.delta_sink import _app_ids, app_id_of
from penstock.sinks.iceberg_sink import _summary
from penstock.sinks.identity import Identity
from penstock.sinks.latest_batches import LatestBatches


@pytest.mark.parametrize(
    ("create", "arguments", "message"),
    [
        (delta, {}, "either the path or the name"),
        (delta, {"path": "/lake", "table": "t"}, "either the path or the name"),
        (delta, {"path": "/lake", "mode": "merge"}, "mode must be one of"),
        (delta, {"path": "/lake", "options": {"TXNAPPID": "x"}}, "sets the options TXNAPPID"),
        (iceberg, {"table": "t", "mode": "merge"}, "mode must be one of"),
        (iceberg, {"table": "t", "name": "a/b"}, "cannot be the name of a sink"),
        (
            iceberg,
            {"table": "t", "options": {"snapshot-property.penstock.sink": "x"}},
            "sets the options snapshot-property.penstock.sink itself",
        ),
    ],
)
def test_invalid_arguments_are_refused(
    create: Callable[..., object], arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        create(**arguments)


def test_a_sink_is_described_by_its_table() -> None:
    assert str(delta("/lake/t")) == "DeltaSink[/lake/t]"
    assert str(delta(table="web.t")) == "DeltaSink[web.t]"
    assert str(iceberg("lake.web.t")) == "IcebergSink[lake.web.t]"


def test_a_batch_has_the_name_of_its_sink_and_its_former_names() -> None:
    alone, one_of_many = SinkBatch("q", 7, 1), SinkBatch("q", 7, 1, "lake", "old")
    assert Identity.of(alone, None) == Identity("q", "-", 7, 1, may_follow_spark=True)
    assert Identity.of(one_of_many, None) == Identity("q", "lake", 7, 1, ("old", "-"), True)
    assert Identity.of(SinkBatch("q", 7, 1, "lake"), None).former == ("-",)
    assert Identity.of(one_of_many, "mine") == Identity("q", "mine", 7, 1)


def test_a_batch_was_planned_anew_if_both_times_are_known_and_differ() -> None:
    known, unknown = Identity("q", "-", 7, 1), Identity("q", "-", 7)
    assert [known.is_planned_anew(at) for at in (1, 2, None)] == [False, True, False]
    assert not unknown.is_planned_anew(1)


def test_tables_record_the_identity() -> None:
    assert app_id_of("q", "lake") == "penstock/q/lake"
    assert _summary(Identity("q", "lake", 7)) == {
        "snapshot-property.penstock.query-id": "q",
        "snapshot-property.penstock.sink": "lake",
        "snapshot-property.penstock.batch-id": "7",
    }


def test_a_sink_without_a_name_knows_the_transactions_of_deltas_own_sink() -> None:
    batch = SinkBatch("q", 7, 1, "lake")
    assert _app_ids(Identity.of(batch, None)) == ["penstock/q/lake", "penstock/q/-", "q"]
    assert _app_ids(Identity.of(batch, "mine")) == ["penstock/q/mine"]


def test_a_table_is_looked_into_until_a_batch_is_known() -> None:
    latest, batches = LatestBatches(), [Identity("q", "-", n) for n in range(3)]
    assert not latest.has_passed(batches[1])
    latest.remember(batches[1])
    assert [latest.has_passed(batch) for batch in batches] == [False, False, True]
    assert not latest.has_passed(Identity("q", "other", 2))
    latest.forget(batches[2])
    assert not latest.has_passed(batches[2])


def test_a_batch_outside_of_a_query_has_no_identity(session: SparkSession) -> None:
    with pytest.raises(ExecutionError, match="does not know which query writes the batch"):
        delta("/lake/t").add_batch(0, session.range(1))
