"""What `penstock run` lets one see of the queries while the script runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import typer

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Observing:
    """What was asked for. A port of None is a server that is not wanted."""

    watch: bool = False
    metrics_port: int | None = None
    metrics_host: str = LOOPBACK
    web_port: int | None = None
    web_host: str = LOOPBACK
    stall_seconds: float = 600.0

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
    def running(self) -> Iterator[None]:
        """Show and serve meanwhile. Says on standard error where things are to be found."""
        import penstock

        with contextlib.ExitStack() as stack:
            if self.metrics_port is not None:
                metrics = penstock.serve_metrics(
                    self.metrics_port, self.metrics_host, stall_seconds=self.stall_seconds
                )
                stack.enter_context(metrics)
                typer.echo(f"penstock: metrics at {metrics.url}metrics", err=True)
            if self.web_port is not None:
                web = penstock.serve_web(
                    self.web_port, self.web_host, stall_seconds=self.stall_seconds
                )
                stack.enter_context(web)
                typer.echo(f"penstock: live page at {web.address}", err=True)
                typer.echo(f"penstock: token to stop a query: {web.token}", err=True)
            if self.watch:
                stack.enter_context(penstock.watch())
            yield
