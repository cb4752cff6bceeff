"""`penstock run`: runs a script with its queries on Penstock, and restarts it when it fails."""

from __future__ import annotations

import itertools
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType
from typing import Annotated

import typer

from penstock.api.backoff import Backoff
from penstock.api.spark_options import SparkOptions
from penstock.cli.observing import LOOPBACK, STALL_SECONDS, Observing
from penstock.cli.spark_options import takes_spark_options

_USAGE_ERROR = 2
_LAST_PORT = 65535
STEADY_SECONDS = 600.0
"""How long a run has to last for the failures before it to be forgotten."""

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
        int, typer.Option(metavar="N", help="The maximum number of restarts.")
    ] = 10,
    backoff: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="The delay before the first restart; it doubles each time."
        ),
    ] = 1.0,
    max_backoff: Annotated[
        float, typer.Option(metavar="SECONDS", help="The maximum delay before a restart.")
    ] = 60.0,
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
    if watch:
        spark = spark.with_default(_PROGRESS_BAR, "false")  # it would overwrite the table
    if restart == "never":
        from penstock.api.runner import run_script

        with observing.running(script):
            code = run_script(script, arguments or (), spark)
        raise typer.Exit(code)
    if restart != "on-failure":
        raise typer.BadParameter(
            f"{restart!r} is not a restart policy; use never or on-failure", param_hint="--restart"
        )
    try:
        policy = Backoff(max_restarts, backoff, max_backoff)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    command = [sys.executable, "-m", "penstock.cli", "run"]
    command += [*spark.arguments(), *observing.arguments()]
    command += [script, *(arguments or ())]
    raise typer.Exit(supervise(command, policy))


def supervise(
    command: Sequence[str], policy: Backoff, steady_seconds: float = STEADY_SECONDS
) -> int:
    """Run a command, restart it when it fails as the policy allows, and return its exit code.

    Failures before a run that has lasted `steady_seconds` do not count.

    The exit code of a run that was killed by signal n is 128 + n, as in a shell. SIGTERM and
    SIGINT are forwarded to the command and prevent further restarts. The environment of each run
    has the number of restarts in PENSTOCK_RESTARTS and the same PENSTOCK_WEB_TOKEN.
    """
    from penstock.observe.observatory import RESTARTS_VARIABLE

    environment = {"PENSTOCK_WEB_TOKEN": secrets.token_urlsafe(16), **os.environ}
    child: subprocess.Popen[bytes] | None = None
    # A pipe, because a handler runs inside the wait that it ends: an Event would deadlock there.
    wake_up, woken = os.pipe()
    stopped = False

    def forward(number: int, _frame: FrameType | None) -> None:
        nonlocal stopped
        if not stopped:
            os.write(woken, b"\0")
        stopped = True
        if child is not None and child.poll() is None:
            child.send_signal(number)

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, forward) for number in numbers}
    try:
        failures = 0
        for restarts in itertools.count():
            environment[RESTARTS_VARIABLE] = str(restarts)
            began = time.monotonic()
            child = subprocess.Popen(command, start_new_session=True, env=environment)
            if stopped:  # the signal came before there was a child to forward it to
                child.terminate()
            code = _exit_code(child.wait())
            failures = 1 if time.monotonic() - began >= steady_seconds else failures + 1
            if code in (0, _USAGE_ERROR) or stopped or failures > policy.max_restarts:
                return code
            delay = policy.delay(failures)
            typer.echo(
                f"penstock: the script exited with code {code}; restart {failures} of "
                f"{policy.max_restarts} in {delay:g} s",
                err=True,
            )
            if select.select([wake_up], [], [], delay)[0]:
                return code
        raise AssertionError("the loop returns")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(wake_up)
        os.close(woken)


def _exit_code(returncode: int) -> int:
    """The exit code as in a shell: 128 + n if signal n killed the process."""
    return returncode if returncode >= 0 else 128 - returncode
