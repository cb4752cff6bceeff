"""One run of a script under `penstock crashtest`, in a process of its own.

    python -m penstock.testing.crash_child PASSAGES KILL_AT SCRIPT [ARGUMENT...]

The points that its queries pass are noted in the file PASSAGES. At KILL_AT, `point:batch`, the
process is killed; `-` is nowhere. The script runs as under `penstock run`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from penstock.api.process import PROCESS
from penstock.api.runner import run_script
from penstock.testing.crash_faults import Passage, PassagesToFile


def main(arguments: Sequence[str]) -> int:
    passages, kill_at, script, *rest = arguments
    strike_at = None if kill_at == "-" else Passage.parse(kill_at)
    with PROCESS.inject_faults(PassagesToFile(passages, strike_at, _kill)):
        return run_script(script, rest)


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
