"""`penstock checkpoint`: inspects, verifies and changes checkpoints without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from penstock.checkpoint.paths import CheckpointPath
from penstock.checkpoint.timestamps import parse_timestamp
from penstock.checkpoint.tools import backup, source_surgery, surgery
from penstock.checkpoint.tools.activity import activity_of, exclusive, remove_locks
from penstock.checkpoint.tools.changes import Plan
from penstock.checkpoint.tools.compare import compare
from penstock.checkpoint.tools.fork import fork as make_fork
from penstock.checkpoint.tools.inspect import inspect, inspect_batch
from penstock.checkpoint.tools.kafka_surgery import set_offset_to_time
from penstock.checkpoint.tools.locations import location_of, parse_options
from penstock.checkpoint.tools.verify import verify as make_verification
from penstock.checkpoint.tools.view import CheckpointView
from penstock.cli.kafka_broker import KafkaBroker
from penstock.cli.output import output_for
from penstock.errors import PenstockError, SurgeryRefusedError

app = typer.Typer(
    help=(
        "Inspect, verify or change a checkpoint, written by Spark 3.5 to 4.3 or by Penstock. Needs "
        "no JVM. DIR is a local directory or, with penstock[s3], a URI in an object store: "
        "s3://BUCKET/PATH (or s3a://), gs://..., abfss://..., az://...\n\n"
        "Commands that change a checkpoint only show the changes; with --yes they make them. Each "
        "keeps a backup in .penstock/ and can be reverted with undo. Stop the query first."
    ),
    no_args_is_help=True,
)

Directory = Annotated[
    str, typer.Argument(metavar="DIR", help="The checkpoint: a directory, or a URI.")
]
StoreOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="KEY=VALUE",
        help="A setting of the object store's client, such as endpoint, region or profile; what is "
        "not given comes from the environment and the AWS profile. Can be repeated.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Yes = Annotated[bool, typer.Option("--yes", help="Make the changes, instead of showing them.")]
Stopped = Annotated[
    bool,
    typer.Option(
        "--stopped",
        help="Assume that no query is running, even if a log entry is recent or, in an object "
        "store, a process that was killed has left its lock.",
    ),
]
Sink = Annotated[
    str | None,
    typer.Option(
        help="The output directory of a file sink. Removes the batches from its log too, so that "
        "the sink does not skip them when they run again."
    ),
]

REFUSED = 1
NOT_READABLE = 2


@app.command()
def show(
    directory: Directory,
    batch: Annotated[
        int | None, typer.Argument(metavar="N", help="Show the details of this batch.")
    ] = None,
    all: Annotated[
        bool, typer.Option("--all", help="Show all batches, not only the last ten.")
    ] = False,
    settings: Annotated[
        bool, typer.Option("--settings", help="Show the recorded settings too.")
    ] = False,
    option: StoreOptions = None,
    json: Json = False,
) -> None:
    """Show the contents of a checkpoint: batches, offsets, watermark, state, sizes."""
    with command_errors(json, NOT_READABLE):
        view = view_of(directory, option)
        if batch is not None:
            output_for(json).batch(inspect_batch(view, batch), settings=settings)
        else:
            output_for(json).checkpoint(inspect(view), all_batches=all, settings=settings)


@app.command()
def verify(directory: Directory, option: StoreOptions = None, json: Json = False) -> None:
    """Check whether a query can be restarted from a checkpoint.

    Exit codes: 0 it can, 1 a restart would fail or lose data, 2 the directory is not a checkpoint.
    """
    with command_errors(json, NOT_READABLE):
        verification = make_verification(view_of(directory, option))
        output_for(json).verification(verification)
        raise typer.Exit(0 if verification.will_restart else 1)


@app.command()
def diff(
    left: Annotated[str, typer.Argument(metavar="LEFT", help="The first checkpoint.")],
    right: Annotated[str, typer.Argument(metavar="RIGHT", help="The second checkpoint.")],
    option: StoreOptions = None,
    json: Json = False,
) -> None:
    """Show the differences between two checkpoints.

    Exit codes: 0 no difference, 1 some differences, 2 a directory is not a checkpoint.
    """
    with command_errors(json, NOT_READABLE):
        differences = compare(view_of(left, option), view_of(right, option))
        output_for(json).differences(left, right, differences)
        raise typer.Exit(1 if differences else 0)


@app.command()
def fork(
    directory: Directory,
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="The directory of the copy; must not exist.")
    ],
    at: Annotated[
        int | None, typer.Option(help="The batch after which the copy continues.")
    ] = None,
    option: StoreOptions = None,
    json: Json = False,
) -> None:
    """Copy a checkpoint under a new query id, for another query to continue from.

    The original is not changed, so this is safe while its query is running.
    """
    with command_errors(json):
        view = view_of(directory, option)
        output_for(json).fork(make_fork(view, new, at, parse_options(option or ())))


@app.command()
def rewind(
    directory: Directory,
    to: Annotated[
        int | None, typer.Option(min=0, help="The batch after which the next run continues.")
    ] = None,
    to_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Continue after the last batch that was planned before this time, such as "
            "2026-11-01T00:00Z.",
        ),
    ] = None,
    sink: Sink = None,
    yes: Yes = False,
    stopped: Stopped = False,
    option: StoreOptions = None,
    json: Json = False,
) -> None:
    """Rewind a checkpoint, so that the next run continues after an earlier batch."""

    def plan(view: CheckpointView) -> Plan:
        if (to is None) == (to_time is None):
            raise SurgeryRefusedError("Give either --to BATCH or --to-time TIME.")
        if to is not None:
            return surgery.rewind(view, to, _sink_at(sink, option))
        return surgery.rewind_to_time(view, _millis(to_time or ""), _sink_at(sink, option))

    _carry_out(directory, option, plan, yes, stopped, json)


@app.command()
def replan(
    directory: Directory,
    sink: Sink = None,
    yes: Yes = False,
    stopped: Stopped = False,
    option: StoreOptions = None,
    json: Json = False,
) -> None:
    """Remove the planned, uncommitted batch, so that it is planned again with new limits."""

    def plan(view: CheckpointView) -> Plan:
        return surgery.replan(view, _sink_at(sink, option))

    _carry_out(directory, option, plan, yes, stopped, json)


@app.command()
def skip(
    directory: Directory,
    yes: Yes = False,
    stopped: Stopped = False,
    option: StoreOptions = None,
    json: Json = False,
) -> None:
    """Commit the planned batch without running it. Its input is not processed."""
    _carry_out(directory, option, surgery.skip, yes, stopped, json)


@app.command()
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
        time_ms = _millis(kafka_timestamp or "", or_number=True)
        broker = KafkaBroker(bootstrap_servers, kafka_option or ())
        return set_offset_to_time(view, source, time_ms, broker)

    _carry_out(directory, option, plan, yes, stopped, json)


@app.command()
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

    _carry_out(directory, option, plan, yes, stopped, json)


@app.command()
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

    _carry_out(directory, option, plan, yes, stopped, json)


@app.command()
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

    _carry_out(directory, option, plan, yes, stopped, json)


@app.command()
def undo(
    directory: Directory,
    yes: Yes = False,
    stopped: Stopped = False,
    option: StoreOptions = None,
    json: Json = False,
) -> None:
    """Undo the last command that changed the checkpoint. Repeat it to undo earlier ones."""
    with command_errors(json):
        root = view_of(directory, option).root
        last = backup.check_undo(root)
        steps = backup.reversal(root, last)
        if yes:
            with exclusive(root, "undo", stopped=stopped):
                root = view_of(directory, option).root
                last = backup.check_undo(root)
                steps = backup.reversal(root, last)
                backup.revert(root, last)
        output_for(json).undone(last, steps, is_done=yes)


@app.command()
def unlock(
    directory: Directory,
    yes: Yes = False,
    option: StoreOptions = None,
    json: Json = False,
) -> None:
    """Remove the lock that a killed process has left in an object store.

    A local directory needs no such command: the system ends a lock with its process.
    """
    with command_errors(json):
        root = view_of(directory, option).root
        output_for(json).unlocked(str(root), remove_locks(root, yes=yes), is_done=yes)


def view_of(directory: str, option: list[str] | None) -> CheckpointView:
    """The checkpoint that a command was given, with the options of its object store."""
    return CheckpointView(directory, parse_options(option or ()))


def _sink_at(sink: str | None, option: list[str] | None) -> CheckpointPath | None:
    return None if sink is None else location_of(sink, parse_options(option or ()))


def _carry_out(
    directory: str,
    option: list[str] | None,
    make_plan: Callable[[CheckpointView], Plan],
    yes: bool,
    stopped: bool,
    json: bool,
) -> None:
    """Show a plan, and with `yes` apply it. The applied plan is made under the checkpoint lock."""
    with command_errors(json):
        output = output_for(json)
        view = view_of(directory, option)
        plan = make_plan(view)
        if not yes or not plan.changes:
            output.plan(plan.to_dict(view.root), None, activity_of(view.root).warning)
            return
        with exclusive(view.root, plan.operation, stopped=stopped):
            view = view_of(directory, option)
            plan = make_plan(view)
            described = plan.to_dict(view.root)
            made = backup.apply(view.root, plan)
        output.plan(described, made, None)


def _millis(text: str, *, or_number: bool = False) -> int:
    """Parse a time; with `or_number` a number is milliseconds since the epoch."""
    if or_number and text.isdecimal():
        return int(text)
    try:
        return parse_timestamp(text)
    except ValueError as exc:
        raise SurgeryRefusedError(str(exc)) from exc


@contextmanager
def command_errors(as_json: bool, code: int = REFUSED) -> Iterator[None]:
    """Print a PenstockError or OSError as a message without a traceback, and exit with `code`."""
    try:
        yield
    except (PenstockError, OSError) as exc:
        output_for(as_json).error(exc)
        raise typer.Exit(code) from exc
