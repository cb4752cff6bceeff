"""`penstock run`: runs a script with its queries on Penstock, and restarts it when it fails."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Annotated, Any

import typer

from penstock.api.backoff import Backoff
from penstock.api.spark_options import SparkOptions
from penstock.cli.numbers import not_negative, positive
from penstock.cli.observing import LOOPBACK, STALL_SECONDS, Observing
from penstock.cli.spark_options import takes_spark_options
from penstock.cli.supervisor import connect_to_supervisor, supervise

_LAST_PORT = 65535
_PROGRESS_BAR = "spark.ui.showConsoleProgress"


def existing_file(path: str) -> str:
    """Return the path unchanged. Raises typer.BadParameter if it is not an existing file."""
    if not os.path.exists(path):
        raise typer.BadParameter(f"File {path!r} does not exist.")
    if os.path.isdir(path):
        raise typer.BadParameter(f"File {path!r} is a directory.")
    return path


# A str, because Path would change `./job.py` to `job.py`.
Script = Annotated[str, typer.Argument(help="The script to run.", callback=existing_file)]


@takes_spark_options
def run(
    script: Script,
    arguments: Annotated[
        list[str] | None, typer.Argument(help="The arguments of the script.", show_default=False)
    ] = None,
    restart: Annotated[
        str, typer.Option(metavar="WHEN", help="When to restart the script: never or on-failure.")
    ] = "never",
    max_restarts: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help=f"The maximum number of restarts in a row; {Backoff.max_restarts} by default.",
        ),
    ] = None,
    backoff: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            callback=not_negative,
            help="The delay before the first restart, which doubles each time; "
            f"{Backoff.backoff:g} by default.",
        ),
    ] = None,
    max_backoff: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            callback=not_negative,
            help=f"The maximum delay before a restart; {Backoff.max_backoff:g} by default.",
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show the queries live.")] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=_LAST_PORT,
            help="Serve /metrics and /healthz on this port; 0 for any free port.",
        ),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address that metrics are served on.")
    ] = LOOPBACK,
    web_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=_LAST_PORT,
            help="Serve the live page on this port; 0 for any free port.",
        ),
    ] = None,
    web_host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address that the page is served on.")
    ] = LOOPBACK,
    stall_seconds: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            callback=positive,
            help="A query that is longer in one trigger is reported as unhealthy.",
        ),
    ] = STALL_SECONDS,
    otel: Annotated[
        bool, typer.Option("--otel", help="Trace the batches with OpenTelemetry.")
    ] = False,
    openlineage: Annotated[
        bool, typer.Option("--openlineage", help="Send OpenLineage events of the queries.")
    ] = False,
    *,
    spark: SparkOptions,
) -> None:
    """Run an unchanged PySpark script with its streaming queries on Penstock.

    SIGTERM and the first Ctrl-C stop the queries when the running batch is committed, a second one
    at once.

    Exit codes: 0 the script ended, 1 it failed, 2 it was not run because of a usage error or a
    port in use, 3 a query failed, 130 it was stopped by Ctrl-C, 143 by SIGTERM; otherwise the exit
    code of the script.
    """
    observing = Observing(
        watch, metrics_port, metrics_host, web_port, web_host, stall_seconds, otel, openlineage
    )
    policy = _policy(restart, max_restarts, backoff, max_backoff)
    if watch:
        spark = spark.with_default(_PROGRESS_BAR, "false")  # it would overwrite the table
    if policy is None:
        from penstock.api.runner import run_script

        with observing.running(script):
            connect_to_supervisor()
            code = run_script(script, arguments or (), spark)
        raise typer.Exit(code)
    command = [sys.executable, "-m", "penstock.cli", "run"]
    command += [*spark.arguments(), *observing.arguments()]
    command += [script, *(arguments or ())]
    raise typer.Exit(supervise(command, policy))


def _policy(
    restart: str, max_restarts: int | None, backoff: float | None, max_backoff: float | None
) -> Backoff | None:
    """The policy of the options of restarts; None for no restarts."""
    options = {"max_restarts": max_restarts, "backoff": backoff, "max_backoff": max_backoff}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if restart == "on-failure":
        return replace(Backoff(), **given)
    if restart != "never":
        raise typer.BadParameter(
            f"{restart!r} is not a restart policy; use never or on-failure", param_hint="--restart"
        )
    for name in given:
        raise typer.BadParameter(
            "has no effect without --restart on-failure", param_hint=f"--{name.replace('_', '-')}"
        )
    return None
