"""The child process of `penstock crashtest`: one run of a script.

    python -m penstock.testing.crash_child RECORD KILL_AT OPTIONS SCRIPT [ARGUMENT...]

Appends the fault points that the queries reach to the file RECORD. At the point KILL_AT, given as
`point:batch`, the process kills itself; `-` disables that. OPTIONS is a JSON
object with the fields of SparkOptions. The script runs as with `penstock run`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence

from penstock.api.process import PROCESS
from penstock.api.runner import run_script
from penstock.api.spark_options import SparkOptions
from penstock.testing.crash_faults import BatchPoint, FilePointRecorder


def main(arguments: Sequence[str]) -> int:
    record, kill_at, options, script, *rest = arguments
    crash_at = None if kill_at == "-" else BatchPoint.parse(kill_at)
    with PROCESS.inject_faults(FilePointRecorder(record, crash_at, _kill)):
        return run_script(script, rest, SparkOptions(**json.loads(options)))


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
