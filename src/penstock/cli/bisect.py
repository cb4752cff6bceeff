"""`penstock bisect`: narrows a failing batch to the smallest range that fails."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from penstock.api.spark_options import SparkOptions
from penstock.cli.output import output_for
from penstock.cli.run import Script
from penstock.cli.spark_options import takes_spark_options
from penstock.redaction import DEFAULT_REDACTOR

_NOT_REPRODUCED = 1
_USAGE_ERROR = 2
_STOPPED = 130


@takes_spark_options
def bisect(
    script: Script,
    checkpoint: Annotated[
        str, typer.Option(help="The checkpoint of the query. It is not changed.")
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            help="The arguments of the script, after -- if they look like options of bisect.",
            show_default=False,
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            help="The batch to bisect. By default the planned, uncommitted one.",
            show_default=False,
        ),
    ] = None,
    with_sink: Annotated[
        bool,
        typer.Option(
            "--with-sink",
            help="Call the script's foreachBatch or foreach function or Python sink with the rows "
            "of each trial. By default no sink is called.",
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    *,
    spark: SparkOptions,
) -> None:
    """Narrow a failing batch of a query to the smallest range of offsets, or files, that fails.

    The script is run as with `penstock run` until it starts the query of the checkpoint. Instead
    of the query, parts of the batch are run on copies of the checkpoint. Other queries of the
    script are not started.

    Exit codes: 0 found, 1 the batch did not fail when it was run again, 2 it could
    not be bisected, 130 interrupted.
    """
    from penstock.debug.bisect_script import bisect_script
    from penstock.debug.bisection import Bisection
    from penstock.errors import PenstockError

    try:
        with (
            tempfile.TemporaryDirectory(prefix="penstock-bisect-") as work,
            contextlib.redirect_stdout(sys.stderr),  # standard output is for the report only
        ):
            bisection = Bisection(
                checkpoint, Path(work), batch, tell=lambda trial: _print_trial(str(trial))
            )
            report = bisect_script(bisection, script, arguments or (), spark, with_sink=with_sink)
    except (PenstockError, OSError) as exc:
        output_for(json).error(_first_of_many(exc))
        raise typer.Exit(_USAGE_ERROR) from exc
    except KeyboardInterrupt as exc:
        raise typer.Exit(_STOPPED) from exc
    output_for(json).bisection(report)
    raise typer.Exit(0 if report.is_found else _NOT_REPRODUCED)


def _print_trial(text: str) -> None:
    """Print a text to standard error, with secrets redacted."""
    typer.echo(DEFAULT_REDACTOR.text(text), err=True)


def _first_of_many(error: Exception) -> Exception:
    """The error; of those of `shutil.copytree` the first, with the number of the others."""
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):
        (_, _, first), *others = error.args[0]
        return shutil.Error(f"{first}, and {len(others)} more errors" if others else str(first))
    return error
