"""`penstock checkpoint`: look into a checkpoint, verify it, change it. No JVM, local paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from penstock.checkpoint.tools import backup, source_surgery, surgery
from penstock.checkpoint.tools.activity import activity_of, exclusive
from penstock.checkpoint.tools.changes import Plan
from penstock.checkpoint.tools.compare import compare
from penstock.checkpoint.tools.fork import fork as make_fork
from penstock.checkpoint.tools.inspect import inspect, inspect_batch
from penstock.checkpoint.tools.verify import verify as make_verification
from penstock.checkpoint.tools.view import CheckpointView
from penstock.cli.output import output_for
from penstock.errors import PenstockError

app = typer.Typer(
    help=(
        "Look into a checkpoint, verify it, change it. Needs no JVM; reads local directories, of "
        "Spark 3.5 to 4.3 and of Penstock.\n\n"
        "Commands that change a checkpoint show what they would do, and do it with --yes; each "
        "keeps a backup in .penstock/ and can be taken back with undo. Stop the query first."
    ),
    no_args_is_help=True,
)

Directory = Annotated[str, typer.Argument(metavar="DIR", help="The checkpoint.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it. Without this, only show it.")]
Stopped = Annotated[
    bool,
    typer.Option("--stopped", help="No query runs here, even if the logs have just grown."),
]
Sink = Annotated[
    Path | None,
    typer.Option(
        help="The output directory of a file sink: cut its log back too, so that batches planned "
        "anew are not skipped there."
    ),
]

REFUSED = 1
NOT_READABLE = 2


@app.command()
def show(
    directory: Directory,
    batch: Annotated[int | None, typer.Argument(metavar="N", help="One batch, closely.")] = None,
    all: Annotated[bool, typer.Option("--all", help="All batches, not only the last ten.")] = False,
    settings: Annotated[
        bool, typer.Option("--settings", help="The recorded settings as well.")
    ] = False,
    json: Json = False,
) -> None:
    """Show what is in a checkpoint: batches, offsets, watermark, state, sizes."""
    with _errors(json, NOT_READABLE):
        view = CheckpointView(directory)
        if batch is not None:
            output_for(json).batch(inspect_batch(view, batch), settings=settings)
        else:
            output_for(json).checkpoint(inspect(view), all_batches=all, settings=settings)


@app.command()
def verify(directory: Directory, json: Json = False) -> None:
    """Check that a restart will work.

    Exit code: 0 it will, 1 it will fail or lose data, 2 there is no checkpoint to check.
    """
    with _errors(json, NOT_READABLE):
        verification = make_verification(CheckpointView(directory))
        output_for(json).verification(verification)
        raise typer.Exit(0 if verification.will_restart else 1)


@app.command()
def diff(
    left: Annotated[str, typer.Argument(metavar="LEFT", help="One checkpoint.")],
    right: Annotated[str, typer.Argument(metavar="RIGHT", help="The other.")],
    json: Json = False,
) -> None:
    """Show where two checkpoints differ.

    Exit code: 0 nowhere, 1 somewhere, 2 one of them is no checkpoint.
    """
    with _errors(json, NOT_READABLE):
        differences = compare(CheckpointView(left), CheckpointView(right))
        output_for(json).differences(left, right, differences)
        raise typer.Exit(1 if differences else 0)


@app.command()
def fork(
    directory: Directory,
    new: Annotated[str, typer.Argument(metavar="NEW", help="Where the copy goes; not there yet.")],
    at: Annotated[int | None, typer.Option(help="Let the copy continue after this batch.")] = None,
    json: Json = False,
) -> None:
    """Copy a checkpoint, under a new query id, for another query to continue from.

    The original is only read, so this works beside a running query.
    """
    with _errors(json):
        output_for(json).fork(make_fork(CheckpointView(directory), new, at))


@app.command()
def rewind(
    directory: Directory,
    to: Annotated[int, typer.Option(min=0, help="The batch after which the next run continues.")],
    sink: Sink = None,
    yes: Yes = False,
    stopped: Stopped = False,
    json: Json = False,
) -> None:
    """Go back: the next run continues after batch N, which counts as committed."""
    _carry_out(directory, lambda view: surgery.rewind(view, to, sink), yes, stopped, json)


@app.command()
def replan(
    directory: Directory,
    sink: Sink = None,
    yes: Yes = False,
    stopped: Stopped = False,
    json: Json = False,
) -> None:
    """Drop the planned, uncommitted batch, so that new limits apply to it."""
    _carry_out(directory, lambda view: surgery.replan(view, sink), yes, stopped, json)


@app.command()
def skip(
    directory: Directory, yes: Yes = False, stopped: Stopped = False, json: Json = False
) -> None:
    """Mark the planned batch as done without running it. Its input is passed over."""
    _carry_out(directory, surgery.skip, yes, stopped, json)


@app.command()
def set_offset(
    directory: Directory,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Its number or name.")],
    offset: Annotated[
        str, typer.Argument(metavar="JSON", help="Its offset, or - for its beginning.")
    ],
    yes: Yes = False,
    stopped: Stopped = False,
    json: Json = False,
) -> None:
    """Let the next batch of a source start at another offset."""
    _carry_out(
        directory,
        lambda view: source_surgery.set_offset(view, source, offset),
        yes,
        stopped,
        json,
    )


@app.command()
def add_source(
    directory: Directory,
    at: Annotated[
        str | None, typer.Option(help="Its number among the sources, last if not given; or name.")
    ] = None,
    offset: Annotated[str, typer.Option(help="Where it starts; - for its beginning.")] = "-",
    yes: Yes = False,
    stopped: Stopped = False,
    json: Json = False,
) -> None:
    """Make room for one more source."""
    _carry_out(
        directory, lambda view: source_surgery.add_source(view, at, offset), yes, stopped, json
    )


@app.command()
def remove_source(
    directory: Directory,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Its number or name.")],
    yes: Yes = False,
    stopped: Stopped = False,
    json: Json = False,
) -> None:
    """Forget a source; those after it move up by one."""
    _carry_out(
        directory, lambda view: source_surgery.remove_source(view, source), yes, stopped, json
    )


@app.command()
def reorder_sources(
    directory: Directory,
    order: Annotated[
        list[int], typer.Argument(metavar="N...", help="2 0 1: number 2 becomes number 0, ...")
    ],
    yes: Yes = False,
    stopped: Stopped = False,
    json: Json = False,
) -> None:
    """Put the sources in another order, as they now come in the query."""
    _carry_out(
        directory, lambda view: source_surgery.reorder_sources(view, order), yes, stopped, json
    )


@app.command()
def undo(
    directory: Directory, yes: Yes = False, stopped: Stopped = False, json: Json = False
) -> None:
    """Take back the last command that changed the checkpoint; again for the one before."""
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
    """Show a plan, and with `yes` carry it out. The plan is made while the checkpoint is held."""
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


@contextmanager
def _errors(as_json: bool, code: int = REFUSED) -> Iterator[None]:
    """Show an error of ours as what it is, a message, and exit."""
    try:
        yield
    except (PenstockError, OSError) as exc:
        output_for(as_json).error(exc)
        raise typer.Exit(code) from exc
