"""Describes the watermark operators of a query by column, delay and sources."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.data_stream import DataStream
from penstock.engine.watermark import WatermarkOperator
from penstock.spark.plan.plan_description import PlanDescription


def describe_watermarks(
    description: PlanDescription, sources: Sequence[DataStream]
) -> list[WatermarkOperator]:
    """Each operator with its column, its delay and the sources below it, in plan order."""
    return [
        WatermarkOperator(
            operator_id=watermark.node_id,
            column=watermark.column,
            delay_ms=watermark.delay_ms,
            sources=tuple(
                str(source) for source in dict.fromkeys(sources[i] for i in watermark.leaves)
            ),
        )
        for watermark in description.watermarks
    ]
