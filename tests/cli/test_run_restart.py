"""`penstock run --restart on-failure` runs the script again with the same arguments."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from penstock.cli.main import app

SCRIPT = """
import json, sys
from pathlib import Path

runs = Path(sys.argv[1])
with runs.open("a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
raise SystemExit(0 if len(runs.read_text().split("\\n")) > 2 else 5)
"""


def test_each_run_has_the_arguments(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(SCRIPT)
    given = [str(tmp_path / "runs"), "--option", "value"]
    options = ["--restart", "on-failure", "--backoff", "0"]
    result = CliRunner().invoke(app, ["run", *options, str(tmp_path / "job.py"), *given])
    assert result.exit_code == 0, result.output
    runs = (tmp_path / "runs").read_text().splitlines()
    assert [json.loads(run) for run in runs] == [given, given]


def test_a_script_that_exits_with_2_is_restarted(tmp_path: Path) -> None:
    """2 is the code of a usage error of the command, which is not restarted."""
    (tmp_path / "job.py").write_text(SCRIPT.replace("else 5", "else 2"))
    options = ["--restart", "on-failure", "--backoff", "0"]
    command = ["run", *options, str(tmp_path / "job.py"), str(tmp_path / "runs")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert len((tmp_path / "runs").read_text().splitlines()) == 2
    assert "the script exited with code 2; restart 1 of 10" in result.output


def test_a_usage_error_of_a_supervised_run_is_not_restarted(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(SCRIPT)
    options = ["--restart", "on-failure", "--backoff", "0", "--metrics-host", "192.0.2.1"]
    command = ["run", *options, "--metrics-port", "0", str(tmp_path / "job.py")]
    result = CliRunner().invoke(app, [*command, str(tmp_path / "runs")])
    assert result.exit_code == 2, result.output
    assert "restart" not in result.output
    assert not (tmp_path / "runs").exists()


def test_what_a_script_starts_has_no_supervisor(tmp_path: Path) -> None:
    script = "import os\nraise SystemExit('PENSTOCK_SUPERVISOR' in os.environ)"
    (tmp_path / "job.py").write_text(script)
    command = ["run", "--restart", "on-failure", "--max-restarts", "0"]
    result = CliRunner().invoke(app, [*command, str(tmp_path / "job.py")])
    assert result.exit_code == 0, result.output
