"""`penstock checkpoint`: inspects, verifies and changes checkpoints without a JVM."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.checkpoint.paths import CheckpointPath
from penstock.checkpoint.tools import backup, surgery
from penstock.checkpoint.tools.activity import exclusive, remove_locks
from penstock.checkpoint.tools.changes import Plan
from penstock.checkpoint.tools.compare import compare
from penstock.checkpoint.tools.fork import fork as make_fork
from penstock.checkpoint.tools.inspect import inspect, inspect_batch
from penstock.checkpoint.tools.keep import check_keep
from penstock.checkpoint.tools.keep import keep as keep_present
from penstock.checkpoint.tools.locations import location_of, parse_options
from penstock.checkpoint.tools.verify import verify as make_verification
from penstock.checkpoint.tools.view import CheckpointView
from penstock.cli.checkpoint_command import (
    NOT_READABLE,
    Directory,
    Json,
    Stopped,
    StoreOptions,
    Yes,
    carry_out,
    command_errors,
    millis,
    view_of,
)
from penstock.cli.checkpoint_sources import add_source, remove_source, reorder_sources, set_offset
from penstock.cli.output import after_change, output_for
from penstock.errors import SurgeryRefusedError

app = typer.Typer(
    help=(
        "Inspect, verify or change a checkpoint, written by Spark 3.5 to 4.3 or by Penstock. Needs "
        "no JVM, except for repartition. DIR is a local directory or, with penstock[s3], a URI in "
        "an object store: s3://BUCKET/PATH (or s3a://), gs://..., abfss://..., az://...\n\n"
        "Commands that change a checkpoint only show the changes; with --yes they make them. Each "
        "keeps a backup in .penstock/ and can be reverted with undo. Stop the query first."
    ),
    no_args_is_help=True,
)

Sink = Annotated[
    str | None,
    typer.Option(
        help="The output directory of a file sink. Removes the batches from its log too, so that "
        "the sink does not skip them when they run again."
    ),
]


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
        made = make_fork(view, new, at, parse_options(option or ()))
        with after_change():
            output_for(json).fork(made)


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
        return surgery.rewind_to_time(view, millis(to_time or ""), _sink_at(sink, option))

    carry_out(directory, option, plan, yes, stopped, json)


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

    carry_out(directory, option, plan, yes, stopped, json)


@app.command()
def skip(
    directory: Directory,
    yes: Yes = False,
    stopped: Stopped = False,
    option: StoreOptions = None,
    json: Json = False,
) -> None:
    """Commit the planned batch without running it. Its input is not processed."""
    carry_out(directory, option, surgery.skip, yes, stopped, json)


for command in (set_offset, add_source, remove_source, reorder_sources):
    app.command()(command)


@app.command()
def undo(
    directory: Directory,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help="Accept the checkpoint as it is after a command that was interrupted and can no "
            "longer be undone, because Spark has used the checkpoint since.",
        ),
    ] = False,
    yes: Yes = False,
    stopped: Stopped = False,
    option: StoreOptions = None,
    json: Json = False,
) -> None:
    """Undo the last command that changed the checkpoint. Repeat it to undo earlier ones."""
    with command_errors(json):
        root = view_of(directory, option).root
        if keep:
            kept = check_keep(root)
            if yes:
                with exclusive(root, "undo --keep", stopped=stopped):
                    root = view_of(directory, option).root
                    kept = check_keep(root)
                    keep_present(root, kept)
            with after_change(is_done=yes):
                output_for(json).kept(str(root), kept, is_done=yes)
            return
        last = backup.check_undo(root)
        steps = backup.reversal(root, last)
        if yes:
            with exclusive(root, "undo", stopped=stopped):
                root = view_of(directory, option).root
                last = backup.check_undo(root)
                steps = backup.reversal(root, last)
                backup.revert(root, last)
        with after_change(is_done=yes):
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
        holders = remove_locks(root, yes=yes)
        with after_change(is_done=yes):
            output_for(json).unlocked(str(root), holders, is_done=yes)


def _sink_at(sink: str | None, option: list[str] | None) -> CheckpointPath | None:
    return None if sink is None else location_of(sink, parse_options(option or ()))
