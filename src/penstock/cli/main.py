"""The `penstock` command."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli import checkpoint, quarantine
from penstock.cli.bisect import bisect
from penstock.cli.crashtest import crashtest
from penstock.cli.output import output_for
from penstock.cli.repartition import repartition
from penstock.cli.run import run

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",  # joins the lines of a docstring into paragraphs
)
app.add_typer(checkpoint.app, name="checkpoint")
app.add_typer(quarantine.app, name="quarantine")

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        from penstock import __version__

        typer.echo(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def penstock(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """A micro-batch stream-execution engine in Python that drives Spark."""


@app.command()
def version() -> None:
    """Print the version."""
    from penstock import __version__

    typer.echo(__version__)


@app.command()
def dashboard() -> None:
    """Print a Grafana dashboard for Penstock's metrics, as JSON to import."""
    from importlib.resources import files

    typer.echo((files("penstock.web") / "grafana-dashboard.json").read_text(), nl=False)


@app.command()
def doctor(
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show every internal class that was checked.")
    ] = False,
    json: Json = False,
) -> None:
    """Check Python, Java, Spark and the internals of Spark that Penstock uses.

    Exit codes: 0 Penstock can run, 1 it cannot; the output shows what is missing.
    """
    from penstock.api.doctor import diagnose

    diagnosis = diagnose()
    output_for(json).diagnosis(diagnosis, verbose=verbose)
    raise typer.Exit(0 if diagnosis.is_healthy else 1)


app.command(context_settings={"allow_interspersed_args": False})(run)
app.command(context_settings={"allow_interspersed_args": False})(crashtest)
app.command(context_settings={"ignore_unknown_options": True})(bisect)
checkpoint.app.command()(repartition)
