"""The supervisor of `penstock run --restart on-failure`, with scripts that need no Spark."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
from typer.testing import CliRunner

from penstock.api.backoff import Backoff
from penstock.cli.main import app
from penstock.cli.supervisor import Stopper, supervise
from penstock.observe.observatory import RESTARTS_VARIABLE
from tests.streams import PATIENCE

AT_ONCE = Backoff(max_restarts=3, backoff=0.0, max_backoff=0.0)

COUNTING = f"""
import os, pathlib, sys
log = pathlib.Path(sys.argv[1])
with log.open("a") as file:
    file.write(os.environ["{RESTARTS_VARIABLE}"] + "\\n")
codes = [int(code) for code in sys.argv[2:]]
sys.exit(codes[len(log.read_text().splitlines()) - 1])
"""

SUPERVISING = """
import sys
from penstock.api.backoff import Backoff
from penstock.cli.supervisor import supervise
sys.exit(supervise([sys.executable, *sys.argv[2:]], Backoff(5, float(sys.argv[1]), 3600.0)))
"""

WAITING = """
import signal, sys, threading

def stop(number, frame):
    print("stopping", flush=True)
    sys.exit(7)

signal.signal(signal.SIGTERM, stop)
print("waiting", flush=True)
threading.Event().wait(600)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script that exits with the given codes, one per run."""
    path = tmp_path / "script.py"
    path.write_text(COUNTING)
    return path


def runs_of(script: Path, *codes: int, policy: Backoff = AT_ONCE) -> tuple[int, list[str]]:
    """The last exit code, and for each run its number of restarts in the environment."""
    log = script.with_name("runs")
    command = [sys.executable, str(script), str(log), *map(str, codes)]
    return supervise(command, policy), log.read_text().splitlines()


def test_a_script_that_succeeds_is_run_once(script: Path) -> None:
    assert runs_of(script, 0) == (0, ["0"])


def test_a_script_that_fails_is_restarted(script: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert runs_of(script, 1, 3, 0) == (0, ["0", "1", "2"])
    printed = capfd.readouterr().err
    assert "the script exited with code 1; restart 1 of 3 in 0 s" in printed
    assert "the script exited with code 3; restart 2 of 3 in 0 s" in printed


def test_there_are_at_most_max_restarts(script: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert runs_of(script, 1, 1, 1, 5, 0) == (5, ["0", "1", "2", "3"])
    last = capfd.readouterr().err.splitlines()[-1]
    assert last == "penstock: the script exited with code 5; giving up after 3 restarts in a row"


def test_failures_before_a_long_run_do_not_count(
    script: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, str(script), str(script.with_name("runs")), *"11110"]
    assert supervise(command, Backoff(1, 0.0, 0.0), steady_seconds=0.0) == 0
    assert capfd.readouterr().err.count("restart 1 of 1") == 4
    assert script.with_name("runs").read_text().split() == ["0", "1", "2", "3", "4"]


def test_a_usage_error_is_not_retried(script: Path) -> None:
    assert runs_of(script, 2, 0) == (2, ["0"])


def test_max_restarts_of_0(script: Path) -> None:
    assert runs_of(script, 1, 0, policy=Backoff(0, 0.0, 0.0)) == (1, ["0"])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT])
def test_the_exit_code_after_a_signal_is_that_of_a_shell(
    tmp_path: Path, number: signal.Signals
) -> None:
    script = tmp_path / "dying.py"
    script.write_text(f"import os\nos.kill(os.getpid(), {int(number)})\n")
    options = ["--restart", "on-failure", "--max-restarts", "1", "--backoff", "0"]
    result = CliRunner().invoke(app, ["run", *options, str(script)])
    assert result.exit_code == 128 + number
    assert f"the script exited with code {128 + number}; restart 1 of 1" in result.output


def test_the_signal_handlers_are_restored(script: Path) -> None:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    runs_of(script, 0)
    assert [signal.getsignal(number) for number in numbers] == before


def supervising(delay: float, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SUPERVISING, str(delay), *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_during_the_delay_prevents_the_restart(
    script: Path, number: signal.Signals
) -> None:
    log = script.with_name("runs")
    supervisor = supervising(3600, str(script), str(log), "3", "0")
    assert supervisor.stderr is not None
    assert "restart 1 of 5 in 3600 s" in supervisor.stderr.readline()
    supervisor.send_signal(number)
    supervisor.communicate(timeout=PATIENCE)
    assert supervisor.returncode == 3
    assert log.read_text() == "0\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_forwarded_and_prevents_a_restart(number: signal.Signals) -> None:
    supervisor = supervising(0, "-c", WAITING)
    assert supervisor.stdout is not None
    assert supervisor.stdout.readline() == "waiting\n"
    supervisor.send_signal(number)
    out, _ = supervisor.communicate(timeout=PATIENCE)
    assert supervisor.returncode == 7
    assert out == "stopping\n"


class RecordingProcess:
    """A running process that records the signals it is sent."""

    def __init__(self) -> None:
        self.signals: list[int] = []

    def poll(self) -> None:
        return None

    def send_signal(self, number: int) -> None:
        self.signals.append(number)


def attached(stopper: Stopper) -> list[int]:
    process = RecordingProcess()
    stopper.attach(cast("subprocess.Popen[bytes]", process))
    return process.signals


def test_the_hangups_of_a_terminal_are_one_sigterm() -> None:
    with Stopper.on_signals() as stopper:
        sent = attached(stopper)
        for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM):
            signal.raise_signal(number)
    assert sent == [signal.SIGTERM, signal.SIGTERM]


def test_under_nohup_a_hangup_has_no_effect() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stopper.on_signals() as stopper:
            sent = attached(stopper)
            signal.raise_signal(signal.SIGHUP)
            assert not stopper.is_requested
            assert not stopper.wait(0)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert sent == []


def test_the_script_is_stopped_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(WAITING)
    command = [sys.executable, "-m", "penstock.cli", "run", "--restart", "on-failure"]
    supervisor = subprocess.Popen(
        [*command, str(tmp_path / "job.py")], stdout=subprocess.PIPE, text=True
    )
    assert supervisor.stdout is not None
    assert supervisor.stdout.readline() == "waiting\n"
    supervisor.kill()
    out, _ = supervisor.communicate(timeout=PATIENCE)  # ends when the script has ended too
    assert out == "stopping\n"


def test_an_unknown_policy_is_a_usage_error(script: Path) -> None:
    wide = {"COLUMNS": "200"}  # so that the message is not wrapped
    result = CliRunner().invoke(app, ["run", "--restart", "sometimes", str(script)], env=wide)
    assert result.exit_code == 2
    assert "use never or on-failure" in result.output
    assert not script.with_name("runs").exists()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--max-restarts", "-1", ""),  # the message is typer's
        ("--backoff", "-1", "-1 is not 0 or greater"),
        ("--max-backoff", "nan", "nan is not 0 or greater"),
        ("--backoff", "inf", "inf is not 0 or greater, and finite"),
        ("--stall-seconds", "0", "0 is not greater than 0"),
    ],
)
def test_a_number_out_of_range_is_a_usage_error(
    script: Path, option: str, value: str, message: str
) -> None:
    command = ["run", "--restart", "on-failure", option, value, str(script)]
    result = CliRunner().invoke(app, command, env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert f"Invalid value for '{option}': {message}" in result.output
    assert not script.with_name("runs").exists()


@pytest.mark.parametrize("option", ["--max-restarts", "--backoff", "--max-backoff"])
def test_an_option_of_restarts_needs_restarts(script: Path, option: str) -> None:
    command = ["run", option, "3", str(script)]
    result = CliRunner().invoke(app, command, env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert f"{option}: has no effect without --restart on-failure" in result.output
    assert not script.with_name("runs").exists()
