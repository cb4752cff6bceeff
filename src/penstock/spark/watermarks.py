"""The operators of a query that define a watermark, in words that its author knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.engine.watermark import WatermarkOperator
from penstock.spark.gateway import Jvm
from penstock.spark.handles import Handles
from penstock.spark.leaves import Leaf
from penstock.spark.plan_kinds import Kinds


def describe_watermarks(
    jvm: Jvm, analyzed: Any, kinds: Kinds, leaves: Sequence[Leaf]
) -> list[WatermarkOperator]:
    """Each operator with its column, its delay and the sources below it, in plan order."""
    if "EventTimeWatermark" not in kinds:
        return []
    nodes = jvm.to_list(analyzed.collect(Handles.of(jvm).collector("EventTimeWatermark")))
    return [_describe(jvm, node, leaves) for node in nodes]


def _describe(jvm: Jvm, node: Any, leaves: Sequence[Leaf]) -> WatermarkOperator:
    below = jvm.to_list(node.collectLeaves())
    sources = [leaf.source for leaf in leaves if any(leaf.node.equals(found) for found in below)]
    return WatermarkOperator(
        operator_id=str(node.nodeId().toString()),
        column=str(node.eventTime().name()),
        delay_ms=int(jvm.module("EventTimeWatermark").getDelayMs(node.delay())),
        sources=tuple(str(source) for source in dict.fromkeys(sources)),
    )
