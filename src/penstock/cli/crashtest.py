"""`penstock crashtest`: kills a script at every fault point and compares its output."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.api.spark_options import SparkOptions
from penstock.checkpoint.commands import command_line
from penstock.cli.numbers import positive
from penstock.cli.output import OutputLostError, output_for
from penstock.cli.spark_options import takes_spark_options

if TYPE_CHECKING:
    from penstock.testing import FaultPoint
    from penstock.testing.crash_report import CrashReport

_USAGE_ERROR = 2
_INTERRUPTED = 130


@takes_spark_options
def crashtest(
    script: Annotated[Path, typer.Argument(help="The script to run.", exists=True, dir_okay=False)],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            help="The arguments of the script. {checkpoint}, {output} and {work} are replaced by "
            "paths that are new for each crash. By default {checkpoint} and {output}.",
            show_default=False,
        ),
    ] = None,
    format: Annotated[
        str, typer.Option(help="The format in which Spark reads {output}.")
    ] = "parquet",
    reader: Annotated[
        Path | None,
        typer.Option(
            help="A Python file with a function read_output(workspace) that returns the output "
            "instead.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    point: Annotated[
        list[str] | None, typer.Option(help="Crash at this fault point only. Repeatable.")
    ] = None,
    every_batch: Annotated[
        bool, typer.Option("--every-batch", help="Crash at each point in every batch.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(callback=positive, help="The time limit of one run, in seconds.")
    ] = 300.0,
    jobs: Annotated[
        int,
        typer.Option(
            min=1,
            help="The number of concurrent runs; 1 if the script cannot run several times at once.",
        ),
    ] = 2,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Resume the interrupted test of this directory, which the interrupted command "
            "printed.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    *,
    spark: SparkOptions,
) -> None:
    """Kill a script at every fault point of a batch, run it again, and compare its output.

    The script is run as with `penstock run`, in a child process that is killed with SIGKILL. It
    must process the available input and end, as with trigger(availableNow=True). Ctrl-C prints the
    results so far and how to resume. Exit codes: 0 no crash changed the output, 1 a crash changed
    it, 2 the test could not be run, 130 it was interrupted.
    """
    from penstock.errors import PenstockError
    from penstock.testing import crash_folder

    points = _points(point)
    folder = resume or Path(tempfile.mkdtemp(prefix="penstock-crash-"))
    try:
        if resume is not None:
            crash_folder.check_has_test(resume)
        report = _test(
            script, folder, arguments, format, reader, points, every_batch, timeout, jobs, spark
        )
    except (PenstockError, OSError) as exc:
        output_for(json).error(exc)
        if resume is None:
            is_kept = crash_folder.has_finished_crashes(folder)
            _keep_or_remove(folder, "the finished crashes are kept", is_kept=is_kept)
        raise typer.Exit(_USAGE_ERROR) from exc
    except KeyboardInterrupt:
        _keep_or_remove(folder, "interrupted", is_kept=crash_folder.has_test(folder))
        raise typer.Exit(_INTERRUPTED) from None
    try:
        output_for(json).crash_report(report)
    except OutputLostError:
        _print_how_to_resume("the report was not printed", folder)
        raise
    if report.not_tried:
        _print_how_to_resume("interrupted", folder)
        raise typer.Exit(_INTERRUPTED)
    _remove(folder)
    raise typer.Exit(0 if report.is_exactly_once else 1)


def _points(names: list[str] | None) -> list[FaultPoint] | None:
    from penstock.testing import FaultPoint

    known = [known.value for known in FaultPoint]
    for name in names or ():
        if name not in known:
            raise typer.BadParameter(
                f"{name!r} is not a fault point. The fault points are {', '.join(known)}.",
                param_hint="--point",
            )
    return [FaultPoint(name) for name in names] if names else None


def _test(
    script: Path,
    folder: Path,
    arguments: list[str] | None,
    format: str,
    reader: Path | None,
    points: list[FaultPoint] | None,
    every_batch: bool,
    timeout: float,
    jobs: int,
    spark: SparkOptions,
) -> CrashReport:
    from penstock.testing import crash_outputs, crash_process, crash_script

    run = crash_process.ScriptRun(
        script,
        folder,
        arguments or crash_process.DEFAULT_ARGUMENTS,
        timeout,
        tell=lambda line: typer.echo(line, err=True),
        options=spark,
    )
    read_output = (
        crash_outputs.reader_from(reader) if reader else crash_outputs.files_reader(format)
    )
    outputs = crash_outputs.Outputs(folder, read_output, spark)
    results = crash_script.crash_test_script(
        run, points, every_batch=every_batch, jobs=jobs, check_output=outputs.check
    )
    typer.echo("comparing the output ...", err=True)
    return outputs.compare(results)


def _keep_or_remove(folder: Path, why: str, *, is_kept: bool) -> None:
    """Print how to resume a test that ended early, or remove its folder."""
    if is_kept:
        _print_how_to_resume(why, folder)
    else:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove what the test made; the folder is kept if it has other files."""
    from penstock.testing import crash_folder

    others = crash_folder.remove(folder)
    if others:
        names = ", ".join(others)
        typer.echo(
            f"penstock: {folder} is kept: it has files that the test did not make: {names}",
            err=True,
        )


def _print_how_to_resume(why: str, folder: Path) -> None:
    option = command_line("--resume", folder)
    typer.echo(f"penstock: {why}. Repeat the command with `{option}` to continue.", err=True)
