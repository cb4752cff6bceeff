"""Two sinks of a query must not record their batches in the same place under the same name."""

from __future__ import annotations

import pytest

from penstock import PythonSink
from penstock.api.sink_specs import sink_spec
from penstock.engine.named_sinks import NamedSink
from penstock.sinks import delta, iceberg, jdbc

URL = "jdbc:postgresql://db/web?password=hunter2"


def attach(first: PythonSink, second: PythonSink) -> None:
    """Describe two sinks of a query, `a` and `b`."""
    sink_spec(NamedSink("b"), second, None, [sink_spec(NamedSink("a"), first, None, [])])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (jdbc(URL, "orders", name="pg"), jdbc(URL, "users", name="pg")),
        (jdbc(URL, "orders", name="b"), jdbc(URL, "users")),
        (delta("/lake/t", name="x"), delta("/lake/t", name="x")),
        (iceberg("lake.t", name="x"), iceberg("lake.t", name="x")),
    ],
)
def test_two_sinks_with_the_same_record_are_refused(first: PythonSink, second: PythonSink) -> None:
    with pytest.raises(ValueError, match=r"the sinks 'a', .*, and 'b', .*name=") as caught:
        attach(first, second)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (jdbc(URL, "orders"), jdbc(URL, "users")),
        (jdbc(URL, "orders", name="pg"), jdbc(URL, "users", name="pg", ledger="other")),
        (jdbc(URL, "orders", name="x"), delta("/lake/t", name="x")),
        (delta("/lake/t", name="x"), delta("/lake/u", name="x")),
        (delta("/lake/t"), delta("/lake/t")),
    ],
)
def test_sinks_with_records_of_their_own_are_accepted(
    first: PythonSink, second: PythonSink
) -> None:
    attach(first, second)
