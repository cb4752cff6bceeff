"""The commands of `penstock checkpoint` that change the sources of a query and their offsets."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.checkpoint.tools import source_surgery
from penstock.checkpoint.tools.changes import Plan
from penstock.checkpoint.tools.kafka_surgery import set_offset_to_time
from penstock.checkpoint.tools.view import CheckpointView
from penstock.cli.checkpoint_command import (
    Directory,
    Json,
    Stopped,
    StoreOptions,
    Yes,
    carry_out,
    millis,
)
from penstock.cli.kafka_broker import KafkaBroker
from penstock.errors import SurgeryRefusedError


def set_offset(
    directory: Directory,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The number or name of the source.")
    ],
    offset: Annotated[
        str | None,
        typer.Argument(metavar="[JSON]", help="The offset, or - for the initial offset."),
    ] = None,
    kafka_timestamp: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Instead of JSON: start every partition of a Kafka source at its first record "
            "with this timestamp or a later one. A time such as 2026-11-01T00:00Z, or "
            "milliseconds since the epoch. Asks the broker; needs penstock[kafka].",
        ),
    ] = None,
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT,...", help="The brokers, for --kafka-timestamp."),
    ] = None,
    kafka_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="An option of librdkafka for the connection, such as security.protocol=SSL. "
            "Can be repeated.",
        ),
    ] = None,
    yes: Yes = False,
    stopped: Stopped = False,
    option: StoreOptions = None,
    json: Json = False,
) -> None:
    """Set the offset at which the next batch of a source starts."""

    def plan(view: CheckpointView) -> Plan:
        if (offset is None) == (kafka_timestamp is None):
            raise SurgeryRefusedError("Give either the offset as JSON or --kafka-timestamp TIME.")
        if offset is not None:
            return source_surgery.set_offset(view, source, offset)
        time_ms = millis(kafka_timestamp or "", or_number=True)
        broker = KafkaBroker(bootstrap_servers, kafka_option or ())
        return set_offset_to_time(view, source, time_ms, broker)

    carry_out(directory, option, plan, yes, stopped, json)


def add_source(
    directory: Directory,
    at: Annotated[
        str | None,
        typer.Option(help="The number or name of the new source. By default the last number."),
    ] = None,
    offset: Annotated[
        str, typer.Option(help="The offset at which it starts; - for the initial offset.")
    ] = "-",
    yes: Yes = False,
    stopped: Stopped = False,
    option: StoreOptions = None,
    json: Json = False,
) -> None:
    """Add a source, for a query that now has one more."""

    def plan(view: CheckpointView) -> Plan:
        return source_surgery.add_source(view, at, offset)

    carry_out(directory, option, plan, yes, stopped, json)


def remove_source(
    directory: Directory,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The number or name of the source.")
    ],
    yes: Yes = False,
    stopped: Stopped = False,
    option: StoreOptions = None,
    json: Json = False,
) -> None:
    """Remove a source; the numbers of those after it decrease by one."""

    def plan(view: CheckpointView) -> Plan:
        return source_surgery.remove_source(view, source)

    carry_out(directory, option, plan, yes, stopped, json)


def reorder_sources(
    directory: Directory,
    order: Annotated[
        list[int],
        typer.Argument(
            metavar="N...", help="The old numbers in the new order: 2 0 1 makes source 2 source 0."
        ),
    ],
    yes: Yes = False,
    stopped: Stopped = False,
    option: StoreOptions = None,
    json: Json = False,
) -> None:
    """Reorder the sources, for a query that now has them in another order."""

    def plan(view: CheckpointView) -> Plan:
        return source_surgery.reorder_sources(view, order)

    carry_out(directory, option, plan, yes, stopped, json)
