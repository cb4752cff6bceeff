"""The `penstock` command."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli import checkpoint
from penstock.cli.bisect import bisect
from penstock.cli.crashtest import crashtest
from penstock.cli.output import output_for
from penstock.cli.run import run

app = typer.Typer(
    help="A micro-batch stream-execution engine in Python that drives Spark.",
    no_args_is_help=True,
    add_completion=False,
)
app.add_typer(checkpoint.app, name="checkpoint")

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@app.command()
def version() -> None:
    """Print the version."""
    from penstock import __version__

    typer.echo(__version__)


@app.command()
def doctor(json: Json = False) -> None:
    """Check Python, Java, Spark and every internal class of Spark that Penstock needs."""
    from penstock.api.doctor import diagnose

    diagnosis = diagnose()
    output_for(json).diagnosis(diagnosis)
    raise typer.Exit(0 if diagnosis.is_healthy else 1)


app.command(context_settings={"allow_interspersed_args": False})(run)
app.command(context_settings={"allow_interspersed_args": False})(crashtest)
app.command(context_settings={"ignore_unknown_options": True})(bisect)
