"""Brings jars from Maven Central by their coordinates.

Each set of jars is a directory under `.parts/` in the project, or under the directory that the
environment variable PENSTOCK_PARTS names. A set that is there is used as it is: no network, no
Maven. Maven uses its own configuration, so mirrors and proxies are set up there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from penstock.errors import JavaNotFoundError
from penstock.spark.jvm.java_home import find_java

ROOT = Path(__file__).parents[2]
PARTS = Path(os.environ.get("PENSTOCK_PARTS") or ROOT / ".parts")

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>penstock</groupId>
  <artifactId>parts</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_ALONE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


class MissingPartError(Exception):
    """Something that the tests of real jobs need is not installed, or cannot be fetched."""


def java() -> Path:
    """The `java` program. Raises MissingPartError if there is none that Spark can run on."""
    try:
        return find_java().home / "bin" / "java"
    except JavaNotFoundError as error:
        raise MissingPartError(str(error)) from error


def fetch(name: str, *coordinates: str, transitive: bool = False) -> tuple[Path, ...]:
    """The jars of `group:artifact:version` coordinates; with their dependencies if `transitive`.

    They are fetched at most once: a directory under `PARTS` is complete as soon as it has its name.
    Raises MissingPartError if Maven or Java is missing, or if Maven fails.
    """
    directory = PARTS / f"{name}-{_digest(coordinates, transitive)}"
    if not directory.exists():
        PARTS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=PARTS, prefix=f".{name}-") as folder:
            _run_maven(name, Path(folder), coordinates, transitive)
            try:
                (Path(folder) / "jars").rename(directory)
            except OSError:  # another process was faster
                if not directory.exists():
                    raise
    return tuple(sorted(directory.glob("*.jar")))


def _digest(coordinates: Sequence[str], transitive: bool) -> str:
    text = "\n".join([*coordinates, str(transitive)])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _run_maven(name: str, folder: Path, coordinates: Sequence[str], transitive: bool) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingPartError(
            f"Maven is needed to fetch {name} ({', '.join(coordinates)}), and `mvn` is not on the "
            "PATH. Install it, on Debian with: apt-get install maven"
        )
    java()
    pom = folder / "pom.xml"
    dependencies = "\n".join(_dependency(coordinate, transitive) for coordinate in coordinates)
    pom.write_text(_POM.format(dependencies=dependencies))
    command = [maven, "--batch-mode", "--quiet", "--file", str(pom), _PLUGIN]
    command += [f"-DoutputDirectory={folder / 'jars'}", "-DincludeScope=runtime"]
    ran = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if ran.returncode != 0:
        told = "\n".join(ran.stdout.splitlines()[-15:])
        raise MissingPartError(f"Maven could not fetch {name} ({', '.join(coordinates)}):\n{told}")


def _dependency(coordinate: str, transitive: bool) -> str:
    group, artifact, version = map(escape, coordinate.split(":"))
    return (
        f"    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{'' if transitive else _ALONE}</dependency>"
    )
