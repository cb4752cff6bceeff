"""The command `penstock quarantine`: shows and retries what the batches of a query leave out."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

import typer

from penstock.api.spark_options import SparkOptions
from penstock.checkpoint.tools.quarantine_files import quarantine_report, quarantined_batch
from penstock.cli.checkpoint_command import (
    NOT_READABLE,
    Directory,
    Json,
    StoreOptions,
    command_errors,
    view_of,
)
from penstock.cli.output import output_for
from penstock.cli.run import Script
from penstock.cli.spark_options import takes_spark_options

app = typer.Typer(
    help=(
        "Show or retry what the batches of a query leave out because it makes them fail. list "
        "and show need no JVM."
    ),
    no_args_is_help=True,
)


_STOPPED = 130


@app.command("list")
def list_(directory: Directory, option: StoreOptions = None, json: Json = False) -> None:
    """List the batches that leave something out, and the failures that are counted.

    Exit codes: 0 the list was printed, 2 the directory is not a checkpoint.
    """
    with command_errors(json, NOT_READABLE):
        output_for(json).quarantine(quarantine_report(view_of(directory, option)))


@app.command()
def show(
    directory: Directory,
    batch: Annotated[int, typer.Argument(metavar="N", help="The batch.")],
    option: StoreOptions = None,
    json: Json = False,
) -> None:
    """Show what one batch leaves out: the source, the file or the offsets, the error.

    Exit codes: 0 it was printed, 2 the batch leaves out nothing.
    """
    with command_errors(json, NOT_READABLE):
        output_for(json).quarantined(quarantined_batch(view_of(directory, option), batch))


@app.command()
@takes_spark_options
def retry(
    directory: Directory,
    script: Script,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            help="The arguments of the script, after -- if they look like options of retry.",
            show_default=False,
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(help="Retry this batch only. By default all.", show_default=False),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            help="Write the resulting rows to this directory, as Parquet. By default they are "
            "only counted.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    *,
    spark: SparkOptions,
) -> None:
    """Run what batches leave out through the query as the script has it now.

    The script is run as with `penstock run` until it starts the query of the checkpoint. Instead
    of the query, each part that was left out is read from its source again and run. The sink is not
    called, and the checkpoint is not changed. Not for stateful queries.

    Exit codes: 0 every part passes, 1 a part fails, 2 they could not be run, 130 interrupted.
    """
    from penstock.debug.quarantine_retry import retry_script

    with command_errors(json, NOT_READABLE):
        try:
            # Standard output is for the report only.
            with contextlib.redirect_stdout(sys.stderr):
                report = retry_script(
                    directory, script, arguments or (), spark, batch_id=batch, output=output
                )
        except KeyboardInterrupt as exc:
            raise typer.Exit(_STOPPED) from exc
        output_for(json).retry(report)
        raise typer.Exit(0 if report.has_passed else 1)
