"""The options of `penstock run` that show or serve the queries while the script runs."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import typer

LOOPBACK = "127.0.0.1"

STALL_SECONDS = 600.0
"""`DEFAULT_STALL_SECONDS` of `penstock.observe.health`, which is slow to import."""


@dataclass(frozen=True)
class Observing:
    """The options. A server whose port is None is not started."""

    watch: bool = False
    metrics_port: int | None = None
    metrics_host: str = LOOPBACK
    web_port: int | None = None
    web_host: str = LOOPBACK
    stall_seconds: float = STALL_SECONDS
    otel: bool = False
    openlineage: bool = False

    def arguments(self) -> list[str]:
        """These options as arguments of `penstock run`."""
        options = ["--stall-seconds", f"{self.stall_seconds:g}"]
        if self.watch:
            options.append("--watch")
        if self.otel:
            options.append("--otel")
        if self.openlineage:
            options.append("--openlineage")
        if self.metrics_port is not None:
            options += ["--metrics-port", str(self.metrics_port)]
            options += ["--metrics-host", self.metrics_host]
        if self.web_port is not None:
            options += ["--web-port", str(self.web_port), "--web-host", self.web_host]
        return options

    @contextlib.contextmanager
    def running(self, script: str) -> Iterator[None]:
        """Run the servers, the watch, the tracing and the lineage in the block.

        Prints one line to standard error with the version of Penstock and the URLs, and a second
        one with the token for stopping a query on the live page.

        Raises typer.BadParameter if a server cannot listen on its address, or if the packages for
        tracing or lineage are not installed.
        """
        import penstock

        line = f"penstock: {script} runs on Penstock {penstock.__version__}"
        token = None
        with contextlib.ExitStack() as stack:
            if self.metrics_port is not None:
                with _listening("metrics", self.metrics_host, self.metrics_port):
                    metrics = penstock.serve_metrics(
                        self.metrics_port, self.metrics_host, stall_seconds=self.stall_seconds
                    )
                stack.enter_context(metrics)
                line += f"; metrics at {metrics.url}metrics"
            if self.web_port is not None:
                with _listening("web", self.web_host, self.web_port):
                    web = penstock.serve_web(
                        self.web_port, self.web_host, stall_seconds=self.stall_seconds
                    )
                stack.enter_context(web)
                line += f"; live page at {web.address}"
                token = web.token
            if self.otel:
                with _installed("--otel"):
                    stack.enter_context(penstock.trace_queries())
            if self.openlineage:
                with _installed("--openlineage"):
                    stack.enter_context(penstock.lineage())
            typer.echo(line, err=True)
            if token is not None:
                typer.echo(f"penstock: token to stop a query: {token}", err=True)
            if self.watch:
                stack.enter_context(penstock.watch())
            yield


@contextlib.contextmanager
def _installed(option: str) -> Iterator[None]:
    """Convert the error for a missing package to typer.BadParameter."""
    from penstock.errors import EnvironmentProblemError

    try:
        yield
    except EnvironmentProblemError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


@contextlib.contextmanager
def _listening(server: str, host: str, port: int) -> Iterator[None]:
    """Convert an OSError from the start of a server to typer.BadParameter."""
    try:
        yield
    except OSError as error:
        if _is_of_host(error):
            option, advice = "host", "Use an address of this machine, or 0.0.0.0 for all of them."
        else:
            option, advice = "port", "Use another port, or 0 for any free port."
        raise typer.BadParameter(
            f"cannot listen on port {port} of {host}: {error.strerror or error}. {advice}",
            param_hint=f"--{server}-{option}",
        ) from None


def _is_of_host(error: OSError) -> bool:
    """Whether the error is caused by the host, so that another port would fail too."""
    return isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
