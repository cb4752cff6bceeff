"""`penstock bisect`: a batch that fails, narrowed to the smallest range of it that does."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.output import output_for
from penstock.cli.run import Script, key_value
from penstock.redaction import DEFAULT_REDACTOR

_NOT_REPRODUCED = 1
_USAGE_ERROR = 2
_STOPPED = 130


def bisect(
    script: Script,
    checkpoint: Annotated[str, typer.Option(help="The query's checkpoint. It is only read.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            help="Its arguments. Those that look like an option of this command come after --.",
            show_default=False,
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            help="The batch; if not given, the one that is planned and not committed.",
            show_default=False,
        ),
    ] = None,
    with_sink: Annotated[
        bool,
        typer.Option(
            "--with-sink",
            help="Call the script's own foreachBatch or foreach function or Python sink. It really "
            "gets the rows, in each trial again. Without this no sink is called.",
        ),
    ] = False,
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A setting of Spark. Repeatable."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Narrow a failing batch of a query to the smallest range of offsets, or files, that fails.

    The script is run as by `penstock run` until it starts the query of the checkpoint. In its
    place, parts of the batch are run on copies of the checkpoint. Other queries of the script are
    not started.

    Exit codes: 0 found, 1 the batch does not fail when it is run again, 2 it could
    not be bisected, 130 stopped.
    """
    from penstock.debug.bisect_script import bisect_script
    from penstock.debug.bisection import Bisection
    from penstock.errors import PenstockError

    settings = dict(key_value(setting) for setting in conf or ())
    try:
        with (
            tempfile.TemporaryDirectory(prefix="penstock-bisect-") as work,
            contextlib.redirect_stdout(sys.stderr),  # what the script prints is no result
        ):
            bisection = Bisection(
                checkpoint, Path(work), batch, tell=lambda trial: _say(str(trial))
            )
            report = bisect_script(
                bisection, script, arguments or (), settings, with_sink=with_sink
            )
    except PenstockError as exc:
        _say(f"penstock: {exc}")
        raise typer.Exit(_USAGE_ERROR) from exc
    except OSError as exc:
        _say(f"penstock: {_told(exc)}")
        raise typer.Exit(_USAGE_ERROR) from exc
    except KeyboardInterrupt as exc:
        raise typer.Exit(_STOPPED) from exc
    output_for(json).bisection(report)
    raise typer.Exit(0 if report.is_found else _NOT_REPRODUCED)


def _say(text: str) -> None:
    typer.echo(DEFAULT_REDACTOR.text(text), err=True)


def _told(error: OSError) -> str:
    """What went wrong with a file. Copying a directory tells of each one: that is the first."""
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):
        (_, _, first), *others = error.args[0]
        return f"{first}, and {len(others)} more like it" if others else str(first)
    return str(error)
