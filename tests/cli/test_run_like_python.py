"""`penstock run job.py` behaves like `python job.py`: environment, output and exit code."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

CONSOLE = (str(Path(sysconfig.get_path("scripts")) / "penstock"),)
MODULE = (sys.executable, "-m", "penstock")

WHAT_IT_SEES = '''"""Its doc."""
import inspect, json, os, pickle, re, sys

def function(x: int) -> int:
    return x

def shown(value):
    return re.sub("0x[0-9a-f]+", "0x", repr(value))

os.chdir("/")
print(json.dumps({
    "names": [name for name in list(globals()) if name.startswith("__")],
    "attributes": {k: shown(v) for k, v in list(globals().items()) if k.startswith("__")},
    "is main": vars(sys.modules["__main__"]) is globals(),
    "argv": sys.argv,
    "path": sys.path,
    "file of a function": function.__code__.co_filename,
    "source": inspect.getsource(function) + open(__file__).read(),
    "annotations": shown(function.__annotations__),
    "pickled": pickle.loads(pickle.dumps(function)) is function,
    "hook": sys.excepthook is sys.__excepthook__,
    "imported": __import__("beside").__file__ if not sys.flags.safe_path else None,
}, indent=1))
'''

AFTER_THE_END = """
import atexit, pickle, sys, threading
def function(): pass
def tell(who):
    sys.stdout.write(f"{who} {sys.argv} {pickle.loads(pickle.dumps(function)) is function}\\n")
def later():
    threading.main_thread().join()
    tell("thread")
threading.Thread(target=later).start()
atexit.register(tell, "exit handler")
sys.exit(4)
"""

SPAWNING = """
import multiprocessing
def double(x):
    return 2 * x
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(double, [1, 2, 3]))
"""

FORKING = """
import multiprocessing, time
fork = multiprocessing.get_context("fork")
started = fork.Event()
def work():
    started.set()
    time.sleep(60)
child = fork.Process(target=work)
child.start()
started.wait()
child.terminate()
child.join()
print(child.exitcode)
"""

CHAINED = """
import logging, warnings
logging.getLogger("of.the.script").warning("bare")
warnings.warn("shown in main", DeprecationWarning)
def inner():
    raise ValueError("inner")
try:
    inner()
except ValueError as error:
    raise KeyError("outer") from error
"""

OWN_HOOK = "import sys\nsys.excepthook = lambda k, e, t: print('hook', e, t.tb_lineno)\n1 / 0\n"
BROKEN_HOOK = "import sys\ndef hook(*of): raise OSError('hook')\nsys.excepthook = hook\n1 / 0\n"
EXITING_HOOK = "import sys\nsys.excepthook = lambda *of: sys.exit(9)\n1 / 0\n"


@dataclass(frozen=True)
class Ended:
    """The result of a process; the exit code is that of a shell."""

    code: int
    stdout: str
    stderr: str


def ended(*command: str | Path, folder: Path, env: Mapping[str, str] | None = None) -> Ended:
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
    )
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return Ended(code, done.stdout, done.stderr)


def assert_alike(
    *words: str | Path,
    folder: Path,
    env: Mapping[str, str] | None = None,
    launcher: tuple[str, ...] = CONSOLE,
) -> Ended:
    """Run a script both ways and compare the results; returns that of Python."""
    by_python = ended(sys.executable, *words, folder=folder, env=env)
    ours = ended(*launcher, "run", *words, folder=folder, env=env)
    first, _, rest = ours.stderr.partition("\n")
    assert first.startswith(f"penstock: {words[0]} runs on Penstock ")
    assert Ended(ours.code, ours.stdout, rest) == by_python
    return by_python


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job.py").write_text(WHAT_IT_SEES)
    (tmp_path / "beside.py").write_text("")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "link.py").symlink_to(tmp_path / "job.py")
    return tmp_path


@pytest.mark.parametrize("launcher", [CONSOLE, MODULE], ids=["penstock", "python -m penstock"])
def test_the_environment_of_a_script_is_that_under_python(
    folder: Path, launcher: tuple[str, ...]
) -> None:
    seen = assert_alike("job.py", "a", "-b", "--help", folder=folder, launcher=launcher)
    assert seen.code == 0
    assert '"imported"' in seen.stdout


@pytest.mark.parametrize("script", ["./job.py", "below/../job.py", "below/link.py", "{}/job.py"])
def test_the_path_of_the_script_is_not_normalized(folder: Path, script: str) -> None:
    assert assert_alike(script.format(folder), folder=folder).code == 0


def test_python_safe_path_is_respected(folder: Path) -> None:
    assert assert_alike("job.py", folder=folder, env={"PYTHONSAFEPATH": "1"}).code == 0


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("print('done')", 0),
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit(7)", 7),
        ("import sys; sys.exit(-1)", 255),
        ("import sys; sys.exit('no')", 1),
        ("raise SystemExit(('two', 'parts'))", 1),
        (CHAINED, 1),
        ("x = (\n", 1),
        ("raise KeyboardInterrupt('its own')", 130),
        (OWN_HOOK, 1),
        (BROKEN_HOOK, 1),
        (EXITING_HOOK, 9),
        (AFTER_THE_END, 4),
        (SPAWNING, 0),
        (FORKING, 0),
        ("# coding: latin-1\nprint(ascii('\xe9'), __doc__)\n", 0),
    ],
)
def test_output_and_exit_code_are_those_under_python(tmp_path: Path, body: str, code: int) -> None:
    (tmp_path / "job.py").write_text(body, encoding="latin-1")
    assert assert_alike("job.py", folder=tmp_path).code == code


def test_bytecode_and_zip_archives_are_run(tmp_path: Path) -> None:
    body = "import sys\nprint(__name__, __spec__ is None, sys.argv)\n1 / 0\n"
    (tmp_path / "job.py").write_text(body)
    py_compile.compile(str(tmp_path / "job.py"), cfile=str(tmp_path / "job.pyc"), doraise=True)
    assert assert_alike("job.pyc", folder=tmp_path).code == 1
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.writestr("__main__.py", "import sys, beside\nprint(__name__, sys.argv)\n")
        archive.writestr("beside.py", "print('beside')\n")
    assert assert_alike("app.zip", "a", folder=tmp_path).stdout.startswith("beside")
