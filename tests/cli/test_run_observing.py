"""The watch and the servers of `penstock run`."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

import penstock
from penstock.api import extras
from penstock.api.backoff import Backoff
from penstock.api.process import PROCESS
from penstock.cli.main import app
from penstock.cli.observing import STALL_SECONDS, Observing
from penstock.cli.supervisor import supervise
from penstock.observe.health import DEFAULT_STALL_SECONDS
from penstock.observe.observatory import RESTARTS_VARIABLE

SERVERS = ("metrics", "web")


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that is in use."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script that creates a file when it runs."""
    path = tmp_path / "script.py"
    path.write_text("open(__file__ + '.ran', 'w').close()\n")
    return path


def has_run(script: Path) -> bool:
    return script.with_name("script.py.ran").exists()


def run(script: Path, *options: str) -> Result:
    wide = {"COLUMNS": "400"}  # so that no message is wrapped
    return CliRunner().invoke(app, ["run", *options, str(script)], env=wide)


def test_no_server_is_started_by_default() -> None:
    before = threading.active_count()
    with Observing().running("job.py"):
        assert threading.active_count() == before


def test_metrics_and_page_are_served_in_the_block(capsys: pytest.CaptureFixture[str]) -> None:
    with Observing(metrics_port=0, web_port=0, watch=True).running("job.py"):
        names = {thread.name for thread in threading.enumerate()}
        assert {"penstock metrics", "penstock web", "penstock watch"} <= names
    line, token, *_ = capsys.readouterr().err.splitlines()  # the live table follows
    assert line.startswith(f"penstock: job.py runs on Penstock {penstock.__version__}; ")
    assert "; metrics at http://127.0.0.1:" in line
    assert "; live page at http://127.0.0.1:" in line
    assert token.startswith("penstock: token to stop a query: ")
    names = {thread.name for thread in threading.enumerate()}
    assert not {"penstock metrics", "penstock web", "penstock watch"} & names


def test_the_options_are_passed_to_a_restarted_process() -> None:
    observing = Observing(True, 9000, "0.0.0.0", 9001, "::1", 30, True, True)
    assert observing.arguments() == [
        "--stall-seconds",
        "30",
        "--watch",
        "--otel",
        "--openlineage",
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


def test_each_run_gets_the_number_of_restarts_and_the_token(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("server", SERVERS)
def test_a_port_in_use_is_a_usage_error(script: Path, server: str, taken: int) -> None:
    result = run(script, f"--{server}-port", str(taken))
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code == 2
    assert f"--{server}-port" in result.output
    assert f"cannot listen on port {taken} of 127.0.0.1: Address already in use" in result.output
    assert "or 0 for any free port" in result.output
    assert not has_run(script)


@pytest.mark.parametrize("server", SERVERS)
def test_a_host_of_another_machine_is_a_usage_error(script: Path, server: str) -> None:
    result = run(script, f"--{server}-port", "0", f"--{server}-host", "not a name")
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code == 2
    assert f"--{server}-host" in result.output
    assert "cannot listen on port 0 of not a name:" in result.output
    assert "an address of this machine" in result.output
    assert not has_run(script)


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("port", ["70000", "-1"])
def test_a_port_out_of_range_is_a_usage_error(script: Path, server: str, port: str) -> None:
    result = run(script, f"--{server}-port", port)
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code == 2
    assert f"--{server}-port" in result.output
    assert not has_run(script)


def test_one_server_is_stopped_when_the_other_cannot_listen(taken: int) -> None:
    before = threading.active_count()
    observing = Observing(metrics_port=0, web_port=taken)
    with pytest.raises(typer.BadParameter), observing.running("job.py"):
        pass
    assert threading.active_count() == before


def test_an_os_error_of_the_script_is_not_a_usage_error() -> None:
    with pytest.raises(FileNotFoundError), Observing(metrics_port=0).running("job.py"):
        raise FileNotFoundError("of the script")


def test_a_port_in_use_is_not_retried(
    script: Path, taken: int, capfd: pytest.CaptureFixture[str]
) -> None:
    options = ["--restart", "on-failure", "--backoff", "0", "--web-port", str(taken)]
    assert run(script, *options).exit_code == 2
    printed = capfd.readouterr().err
    assert printed.count("cannot listen") == 1
    assert "Traceback" not in printed
    assert not has_run(script)


def test_the_default_of_stall_seconds_is_that_of_the_health_check() -> None:
    assert STALL_SECONDS == DEFAULT_STALL_SECONDS
    assert Observing().stall_seconds == DEFAULT_STALL_SECONDS


def test_the_command_line_does_not_import_pyspark_or_the_engine() -> None:
    code = "import sys, penstock.cli.main; print({'pyspark', 'penstock.engine'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n"


def test_queries_are_traced_while_the_script_runs() -> None:
    with Observing(otel=True).running("job.py"):
        assert len(PROCESS.observers) == 1
    assert not PROCESS.observers


def test_tracing_without_its_packages_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(extras, "import_module", missing)
    with (
        pytest.raises(typer.BadParameter, match=r"pip install 'penstock\[otel\]'"),
        Observing(otel=True).running("job.py"),
    ):
        pass


def test_lineage_is_sent_while_the_script_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    with Observing(openlineage=True).running("job.py"):
        assert len(PROCESS.observers) == 1
    assert not PROCESS.observers
