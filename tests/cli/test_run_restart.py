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
