"""What `penstock run` lets one see of the queries while the script runs."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import typer

LOOPBACK = "127.0.0.1"

STALL_SECONDS = 600.0
"""As `penstock.observe.health` has it, whose import would make every command slower to start."""


@dataclass(frozen=True)
class Observing:
    """What was asked for. A port of None is a server that is not wanted."""

    watch: bool = False
    metrics_port: int | None = None
    metrics_host: str = LOOPBACK
    web_port: int | None = None
    web_host: str = LOOPBACK
    stall_seconds: float = STALL_SECONDS

    def arguments(self) -> list[str]:
        """The same as options of `penstock run`."""
        options = ["--stall-seconds", f"{self.stall_seconds:g}"]
        if self.watch:
            options.append("--watch")
        if self.metrics_port is not None:
            options += ["--metrics-port", str(self.metrics_port)]
            options += ["--metrics-host", self.metrics_host]
        if self.web_port is not None:
            options += ["--web-port", str(self.web_port), "--web-host", self.web_host]
        return options

    @contextlib.contextmanager
    def running(self, script: str) -> Iterator[None]:
        """Show and serve meanwhile.

        One line on standard error says that the script runs on Penstock, in which version, and
        where things are to be found; a second one the token to stop a query on the live page.

        Raises typer.BadParameter at the start if a server cannot listen where it is to.
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
            typer.echo(line, err=True)
            if token is not None:
                typer.echo(f"penstock: token to stop a query: {token}", err=True)
            if self.watch:
                stack.enter_context(penstock.watch())
            yield


@contextlib.contextmanager
def _listening(server: str, host: str, port: int) -> Iterator[None]:
    """Around the start of a server: an address it cannot have is an error of the command line."""
    try:
        yield
    except OSError as error:
        if _is_of_host(error):
            option, advice = "host", "Give an address of this machine, or 0.0.0.0 for all it has."
        else:
            option, advice = "port", "Give another port; 0 takes any that is free."
        raise typer.BadParameter(
            f"cannot listen on port {port} of {host}: {error.strerror or error}. {advice}",
            param_hint=f"--{server}-{option}",
        ) from None


def _is_of_host(error: OSError) -> bool:
    """Whether another port would not help."""
    return isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
