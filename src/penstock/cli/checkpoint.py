"""`penstock checkpoint`: inspects, verifies and changes local checkpoints without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from penstock.checkpoint.timestamps import parse_timestamp
from penstock.checkpoint.tools import backup, source_surgery, surgery
from penstock.checkpoint.tools.activity import activity_of, exclusive
from penstock.checkpoint.tools.changes import Plan
from penstock.checkpoint.tools.compare import compare
from penstock.checkpoint.tools.fork import fork as make_fork
from penstock.checkpoint.tools.inspect import inspect, inspect_batch
from penstock.checkpoint.tools.kafka_surgery import set_offset_to_time
from penstock.checkpoint.tools.verify import verify as make_verification
from penstock.checkpoint.tools.view import CheckpointView
from penstock.cli.kafka_broker import KafkaBroker
from penstock.cli.output import output_for
from penstock.errors import PenstockError, SurgeryRefusedError

app = typer.Typer(
    help=(
        "Inspect, verify or change a checkpoint. Needs no JVM; works on local directories, written "
        "by Spark 3.5 to 4.3 or by Penstock.\n\n"
        "Commands that change a checkpoint only show the changes; with --yes they make them. Each "
        "keeps a backup in .penstock/ and can be reverted with undo. Stop the query first."
    ),
    no_args_is_help=True,
)

Directory = Annotated[str, typer.Argument(metavar="DIR", help="The checkpoint directory.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Yes = Annotated[bool, typer.Option("--yes", help="Make the changes, instead of showing them.")]
Stopped = Annotated[
    bool,
    typer.Option(
        "--stopped", help="Assume that no query is running, even if a log entry is recent."
    ),
]
Sink = Annotated[
    Path | None,
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
    json: Json = False,
) -> None:
    """Show the contents of a checkpoint: batches, offsets, watermark, state, sizes."""
    with _errors(json, NOT_READABLE):
        view = CheckpointView(directory)
        if batch is not None:
            output_for(json).batch(inspect_batch(view, batch), settings=settings)
        else:
            output_for(json).checkpoint(inspect(view), all_batches=all, settings=settings)


@app.command()
def verify(directory: Directory, json: Json = False) -> None:
    """Check whether a query can be restarted from a checkpoint.

    Exit codes: 0 it can, 1 a restart would fail or lose data, 2 the directory is not a checkpoint.
    """
    with _errors(json, NOT_READABLE):
        verification = make_verification(CheckpointView(directory))
        output_for(json).verification(verification)
        raise typer.Exit(0 if verification.will_restart else 1)


@app.command()
def diff(
    left: Annotated[str, typer.Argument(metavar="LEFT", help="The first checkpoint.")],
    right: Annotated[str, typer.Argument(metavar="RIGHT", help="The second checkpoint.")],
    json: Json = False,
) -> None:
    """Show the differences between two checkpoints.

    Exit codes: 0 no difference, 1 some differences, 2 a directory is not a checkpoint.
    """
    with _errors(json, NOT_READABLE):
        differences = compare(CheckpointView(left), CheckpointView(right))
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
    json: Json = False,
) -> None:
    """Copy a checkpoint under a new query id, for another query to continue from.

    The original is not changed, so this is safe while its query is running.
    """
    with _errors(json):
        output_for(json).fork(make_fork(CheckpointView(directory), new, at))


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
    json: Json = False,
) -> None:
    """Rewind a checkpoint, so that the next run continues after an earlier batch."""

    def plan(view: CheckpointView) -> Plan:
        if (to is None) == (to_time is None):
            raise SurgeryRefusedError("Give either --to BATCH or --to-time TIME.")
        if to is not None:
            return surgery.rewind(view, to, sink)
        return surgery.rewind_to_time(view, _millis(to_time or ""), sink)

    _carry_out(directory, plan, yes, stopped, json)


@app.command()
def replan(
    directory: Directory,
    sink: Sink = None,
    yes: Yes = False,
    stopped: Stopped = False,
    json: Json = False,
) -> None:
    """Remove the planned, uncommitted batch, so that it is planned again with new limits."""
    _carry_out(directory, lambda view: surgery.replan(view, sink), yes, stopped, json)


@app.command()
def skip(
    directory: Directory, yes: Yes = False, stopped: Stopped = False, json: Json = False
) -> None:
    """Commit the planned batch without running it. Its input is not processed."""
    _carry_out(directory, surgery.skip, yes, stopped, json)


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

    _carry_out(directory, plan, yes, stopped, json)


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
    json: Json = False,
) -> None:
    """Add a source, for a query that now has one more."""
    _carry_out(
        directory, lambda view: source_surgery.add_source(view, at, offset), yes, stopped, json
    )


@app.command()
def remove_source(
    directory: Directory,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The number or name of the source.")
    ],
    yes: Yes = False,
    stopped: Stopped = False,
    json: Json = False,
) -> None:
    """Remove a source; the numbers of those after it decrease by one."""
    _carry_out(
        directory, lambda view: source_surgery.remove_source(view, source), yes, stopped, json
    )


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
    json: Json = False,
) -> None:
    """Reorder the sources, for a query that now has them in another order."""
    _carry_out(
        directory, lambda view: source_surgery.reorder_sources(view, order), yes, stopped, json
    )


@app.command()
def undo(
    directory: Directory, yes: Yes = False, stopped: Stopped = False, json: Json = False
) -> None:
    """Undo the last command that changed the checkpoint. Repeat it to undo earlier ones."""
    with _errors(json):
        root = CheckpointView(directory).root
        last = backup.check_undo(root)
        steps = backup.reversal(root, last)
        if yes:
            with exclusive(root, "undo", stopped=stopped):
                last = backup.check_undo(root)
                steps = backup.reversal(root, last)
                backup.revert(root, last)
        output_for(json).undone(last, steps, is_done=yes)


def _carry_out(
    directory: str,
    make_plan: Callable[[CheckpointView], Plan],
    yes: bool,
    stopped: bool,
    json: bool,
) -> None:
    """Show a plan, and with `yes` apply it. The applied plan is made under the checkpoint lock."""
    with _errors(json):
        output = output_for(json)
        view = CheckpointView(directory)
        plan = make_plan(view)
        if not yes or not plan.changes:
            output.plan(plan.to_dict(view.root), None, activity_of(view.root).warning)
            return
        with exclusive(view.root, plan.operation, stopped=stopped):
            view = CheckpointView(directory)
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
def _errors(as_json: bool, code: int = REFUSED) -> Iterator[None]:
    """Print a PenstockError or OSError as a message without a traceback, and exit with `code`."""
    try:
        yield
    except (PenstockError, OSError) as exc:
        output_for(as_json).error(exc)
        raise typer.Exit(code) from exc
