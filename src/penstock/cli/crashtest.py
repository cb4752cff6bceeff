"""`penstock crashtest`: a script killed at every point of the protocol, and its output compared."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.output import output_for
from penstock.redaction import DEFAULT_REDACTOR

_USAGE_ERROR = 2


def crashtest(
    script: Annotated[Path, typer.Argument(help="The script to run.", exists=True, dir_okay=False)],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            help="Its arguments, in which {checkpoint}, {output} and {work} stand for paths that "
            "are new for each crash. If none are given, {checkpoint} and {output}.",
            show_default=False,
        ),
    ] = None,
    format: Annotated[
        str, typer.Option(help="The format that Spark is to read {output} in.")
    ] = "parquet",
    reader: Annotated[
        Path | None,
        typer.Option(
            help="A Python file whose read_output(workspace) returns the output instead.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    point: Annotated[
        list[str] | None, typer.Option(help="Crash at this point only. Repeatable.")
    ] = None,
    every_batch: Annotated[
        bool, typer.Option("--every-batch", help="Crash at each point in every batch.")
    ] = False,
    timeout: Annotated[float, typer.Option(help="Seconds that one run may take.")] = 300.0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Kill a script at every point of a batch, run it again, and compare its output.

    The script is run as by `penstock run`, in a process of its own, which is killed for real. It
    is to process the input there is and end, as with trigger(availableNow=True). Exit codes: 0 no
    crash made a difference to the output, 1 one did, 2 the test could not be made.
    """
    from penstock.errors import PenstockError
    from penstock.testing import FaultPoint
    from penstock.testing import crash_script as crashing

    known = {known.value for known in FaultPoint}
    for name in point or ():
        if name not in known:
            raise typer.BadParameter(
                f"{name!r} is none of {', '.join(p.value for p in FaultPoint)}",
                param_hint="--point",
            )
    points = [FaultPoint(name) for name in point] if point else None
    try:
        read_output = crashing.reader_from(reader) if reader else crashing.files_reader(format)
        with tempfile.TemporaryDirectory(prefix="penstock-crash-") as folder:
            run = crashing.ScriptRun(
                script,
                Path(folder),
                arguments or crashing.DEFAULT_ARGUMENTS,
                timeout,
                tell=lambda line: typer.echo(line, err=True),
            )
            killed, not_passed = crashing.crash_test_script(run, points, every_batch=every_batch)
            report = crashing.judge(run, killed, not_passed, read_output)
    except PenstockError as exc:
        typer.echo(f"penstock: {DEFAULT_REDACTOR.text(str(exc))}", err=True)
        raise typer.Exit(_USAGE_ERROR) from exc
    output_for(json).crash_report(report)
    raise typer.Exit(0 if report.is_exactly_once else 1)
