"""What `penstock run` shows and serves while a script runs."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.api.backoff import Backoff
from penstock.api.observe import RESTARTS_VARIABLE
from penstock.cli.main import app
from penstock.cli.observing import Observing
from penstock.cli.run import supervise


def test_nothing_is_served_unless_asked_for() -> None:
    before = threading.active_count()
    with Observing().running():
        assert threading.active_count() == before


def test_metrics_and_page_are_served_meanwhile(capsys: pytest.CaptureFixture[str]) -> None:
    with Observing(metrics_port=0, web_port=0, watch=True).running():
        names = {thread.name for thread in threading.enumerate()}
        assert {"penstock metrics", "penstock web", "penstock watch"} <= names
    said = capsys.readouterr().err
    assert "penstock: metrics at http://127.0.0.1:" in said
    assert "penstock: live page at http://127.0.0.1:" in said
    assert "penstock: token to stop a query: " in said
    names = {thread.name for thread in threading.enumerate()}
    assert not {"penstock metrics", "penstock web", "penstock watch"} & names


def test_the_options_survive_a_restart() -> None:
    observing = Observing(True, 9000, "0.0.0.0", 9001, "::1", stall_seconds=30)
    assert observing.arguments() == [
        "--stall-seconds",
        "30",
        "--watch",
        "--metrics-port",
        "9000",
        "--metrics-host",
        "0.0.0.0",
        "--web-port",
        "9001",
        "--web-host",
        "::1",
    ]
    assert Observing().arguments() == ["--stall-seconds", "600"]


def test_each_run_is_told_how_many_there_were(tmp_path: Path) -> None:
    script = tmp_path / "count.py"
    script.write_text(
        "import os, sys, pathlib\n"
        f"out = pathlib.Path({str(tmp_path / 'seen')!r})\n"
        f"seen = os.environ[{RESTARTS_VARIABLE!r}] + ' ' + os.environ['PENSTOCK_WEB_TOKEN']\n"
        "out.write_text((out.read_text() if out.exists() else '') + seen + '\\n')\n"
        "sys.exit(1)\n"
    )
    code = supervise([sys.executable, str(script)], Backoff(2, 0.0, 0.0))
    assert code == 1
    lines = [line.split() for line in (tmp_path / "seen").read_text().splitlines()]
    assert [number for number, _ in lines] == ["0", "1", "2"]
    assert len({token for _, token in lines}) == 1


def test_the_options_are_in_the_help() -> None:
    shown = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).output
    for option in ("--watch", "--metrics-port", "--web-port", "--stall-seconds"):
        assert option in shown
