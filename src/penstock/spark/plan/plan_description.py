"""Describes the analyzed plan of a query, read from the JVM in one call at the start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.spark.jvm.java_side import by_turns, records_of

SET_DIFFERENCE = "Except"
"""The optimizer makes an aggregation of it. Spark does not count it for adaptive execution."""

_STATEFUL_OPERATORS = {
    "Aggregate",
    "Deduplicate",
    "DeduplicateWithinWatermark",
    "Distinct",
    "FlatMapGroupsWithState",
    "FlatMapGroupsInPandasWithState",
    "TransformWithState",
    "TransformWithStateInPandas",
    "TransformWithStateInPySpark",
    "GlobalLimit",
    SET_DIFFERENCE,
}


@dataclass(frozen=True)
class Operator:
    """An operator: its simple class name, and the facts that decide whether it keeps state."""

    kind: str
    is_streaming: bool
    joins_streams: bool
    has_no_keys: bool

    @property
    def keeps_state(self) -> bool:
        return self.joins_streams or (self.is_streaming and self.kind in _STATEFUL_OPERATORS)


@dataclass(frozen=True)
class Watermark:
    """An operator that defines a watermark, with the indices of the leaves below it."""

    node_id: str
    column: str
    delay_ms: int
    leaves: Sequence[int]


@dataclass(frozen=True)
class LeafDescription:
    """A streaming leaf. Equal leaves have the `index` of the first of them."""

    index: int
    is_v2: bool
    name: str | None
    has_v1_source: bool
    reads_table: bool
    reads_files: bool
    has_file_metadata: bool
    source_name: str
    provider: str
    can_read_v2: bool
    provider_class: str
    table: str
    format: str
    options: Mapping[str, str]


@dataclass(frozen=True)
class PlanDescription:
    """All operators, watermarks and streaming leaves of a plan, in plan order."""

    operators: Sequence[Operator]
    watermarks: Sequence[Watermark]
    leaves: Sequence[LeafDescription]

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(operator.kind for operator in self.operators)

    @property
    def stateful_kinds(self) -> frozenset[str]:
        """The kinds of the operators that keep state between batches."""
        return frozenset(operator.kind for operator in self.operators if operator.keeps_state)

    @property
    def computes_one_partition(self) -> bool:
        """Whether it has an aggregation without keys or a limit, which skip partitions."""
        return any(op.kind == "GlobalLimit" or op.has_no_keys for op in self.operators)


def describe(jplan: Any) -> PlanDescription:
    """The description of a StreamingPlan inside the JVM."""
    operators, watermarks, leaves = [], [], []
    for kind, *fields in records_of(jplan.describe()):
        if kind == "operator":
            name, *flags = fields
            operators.append(Operator(name, *map(_is_true, flags)))
        elif kind == "watermark":
            node_id, column, delay_ms, *below = fields
            watermarks.append(Watermark(node_id, column, int(delay_ms), tuple(map(int, below))))
        else:
            leaves.append(_leaf(*fields))
    return PlanDescription(operators, watermarks, leaves)


def _leaf(
    index: str,
    is_v2: str,
    name: str,
    has_v1_source: str,
    reads_table: str,
    reads_files: str,
    has_file_metadata: str,
    source_name: str,
    provider: str,
    can_read_v2: str,
    provider_class: str,
    table: str,
    source_format: str,
    *options: str,
) -> LeafDescription:
    return LeafDescription(
        int(index),
        _is_true(is_v2),
        name.removeprefix("=") if name else None,
        _is_true(has_v1_source),
        _is_true(reads_table),
        _is_true(reads_files),
        _is_true(has_file_metadata),
        source_name,
        provider,
        _is_true(can_read_v2),
        provider_class,
        table,
        source_format,
        by_turns(options),
    )


def _is_true(text: str) -> bool:
    return text == "true"
