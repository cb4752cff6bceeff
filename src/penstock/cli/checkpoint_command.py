"""The options and the steps that the commands of `penstock checkpoint` share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated

import typer

from penstock.checkpoint.timestamps import parse_timestamp
from penstock.checkpoint.tools import backup
from penstock.checkpoint.tools.activity import activity_of, exclusive
from penstock.checkpoint.tools.changes import Plan
from penstock.checkpoint.tools.locations import parse_options
from penstock.checkpoint.tools.view import CheckpointView
from penstock.cli.output import OutputLostError, after_change, output_for
from penstock.errors import PenstockError, SurgeryRefusedError

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
REFUSED = 1
NOT_READABLE = 2


def view_of(directory: str, option: list[str] | None) -> CheckpointView:
    """The checkpoint that a command was given, with the options of its object store."""
    return CheckpointView(directory, parse_options(option or ()))


def carry_out(
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
            activity = activity_of(view.root).warning_of_preview(stopped=stopped)
            output.plan(plan.to_dict(view.root), None, activity)
            return
        with exclusive(view.root, plan.operation, stopped=stopped):
            view = view_of(directory, option)
            plan = make_plan(view)
            described = plan.to_dict(view.root)
            made = backup.apply(view.root, plan)
        with after_change():
            output.plan(described, made, None)


def millis(text: str, *, or_number: bool = False) -> int:
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
        with suppress(OutputLostError):
            output_for(as_json).error(exc)
        raise typer.Exit(code) from exc
