"""The folder of a test of `penstock crashtest`: to which test it belongs, and its removal.

It contains for each crash, by name: the directory NAME, which is `{work}` of its runs;
`NAME.killed` and `NAME.restarted`, the fault points that these runs reached, with their output in
`.log`; and `NAME.json` when the crash is finished. The run without a crash has the name
`uncrashed`, and its points are in `uncrashed.reached`. `crashtest.json` identifies the test, and
`reader.log` is the log of the session that reads the output. Other files are never removed.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

from penstock.engine.faults import FaultPoint
from penstock.errors import ExecutionError
from penstock.testing.crash_faults import BatchPoint

REFERENCE = "uncrashed"
READER_LOG = "reader.log"
_IDENTITY = "crashtest.json"

_OF_A_RUN = re.compile(
    rf"({REFERENCE}|({'|'.join(point.value for point in FaultPoint)})_-?[0-9]+(_[0-9]+)?)"
    r"(\.json|\.json\.new|\.(reached|killed|restarted)(\.log)?)?"
)
_OF_THE_TEST = frozenset({_IDENTITY, f"{_IDENTITY}.new", READER_LOG})


def name_of(crash_point: BatchPoint) -> str:
    return str(crash_point).replace(":", "_")


def has_test(folder: Path) -> bool:
    """Whether a test was begun in this folder and is not finished."""
    return (folder / _IDENTITY).is_file()


def check_has_test(folder: Path) -> None:
    """Raise ExecutionError unless `has_test`."""
    if not has_test(folder):
        raise ExecutionError(
            f"{folder} has no interrupted crash test: there is no {_IDENTITY} in it. Give --resume "
            "the directory that the interrupted command printed, or start a new test without it."
        )


def claim(folder: Path, tested: dict[str, Any]) -> None:
    """Write `crashtest.json` with the identity `tested`, or compare it with the one there.

    Raises ExecutionError, and writes nothing, if the folder is that of another test, or has files
    but no test.
    """
    if has_test(folder):
        found = read(folder / _IDENTITY)
        changed = ", ".join(key for key in tested if found.get(key) != tested[key])
        if changed:
            raise ExecutionError(
                f"{folder} has the runs of another crash test (other {changed}). Start a new test "
                "without --resume."
            )
    elif any(folder.iterdir()):
        raise ExecutionError(
            f"{folder} is not empty and has no crash test. Choose an empty directory, since the "
            "files of a test are removed at its end."
        )
    else:
        write(folder / _IDENTITY, tested)


def has_finished_crashes(folder: Path) -> bool:
    """Whether a test in this folder can be resumed without repeating all of its crashes."""
    others = {_IDENTITY, f"{REFERENCE}.json"}
    return any(file.name not in others for file in folder.glob("*.json"))


def remove(folder: Path) -> list[str]:
    """Remove what the test made, and the folder unless it has other files, whose names it returns.

    What cannot be removed is left.
    """
    others = []
    for path in sorted(folder.iterdir()):
        if not _is_of_test(path.name):
            others.append(path.name)
        elif path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()
    return others


def new_directory(path: Path) -> Path:
    """Create an empty directory; files that an interrupted run left in it are removed."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    return path


def write(file: Path, document: dict[str, Any]) -> None:
    """Write a JSON file atomically."""
    written = file.with_name(f"{file.name}.new")
    written.write_text(json.dumps(document))
    written.replace(file)


def read(file: Path, *fields: str) -> dict[str, Any]:
    """The object in a JSON file. Raises ExecutionError if it has not all of these fields."""
    try:
        document = json.loads(file.read_text())
    except ValueError as exc:
        raise _damaged(file, str(exc)) from exc
    if not isinstance(document, dict):
        raise _damaged(file, "it has no JSON object")
    if missing := [field for field in fields if field not in document]:
        raise _damaged(file, f"it has no {', '.join(missing)}")
    return document


def _damaged(file: Path, why: str) -> ExecutionError:
    return ExecutionError(
        f"{file} is damaged ({why}), so this crash test cannot be resumed. Start a new test "
        "without --resume."
    )


def _is_of_test(name: str) -> bool:
    return name in _OF_THE_TEST or _OF_A_RUN.fullmatch(name) is not None
