"""The options of spark-submit as arguments of the Spark session that a script creates.

PySpark starts the JVM of a script with the arguments in `PYSPARK_SUBMIT_ARGS`, after the settings
of the script's session builder, and then sets those of the builder again. So the precedence is
that of spark-submit: settings in the script, then these options, then a properties file.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import unquote, urlsplit

SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"

PROPERTIES = {
    "--master": "spark.master",
    "--deploy-mode": "spark.submit.deployMode",
    "--name": "spark.app.name",
    "--packages": "spark.jars.packages",
    "--exclude-packages": "spark.jars.excludes",
    "--repositories": "spark.jars.repositories",
    "--jars": "spark.jars",
    "--py-files": "spark.submit.pyFiles",
    "--files": "spark.files",
    "--archives": "spark.archives",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--driver-class-path": "spark.driver.extraClassPath",
    "--driver-library-path": "spark.driver.extraLibraryPath",
    "--executor-memory": "spark.executor.memory",
    "--executor-cores": "spark.executor.cores",
    "--num-executors": "spark.executor.instances",
    "--total-executor-cores": "spark.cores.max",
    "--queue": "spark.yarn.queue",
    "--principal": "spark.kerberos.principal",
    "--keytab": "spark.kerberos.keytab",
}
"""The properties that have an option of their own, which takes precedence if both are given."""

_SHELL = "pyspark-shell"
"""What PySpark starts in place of an application: the last word of the arguments."""


@dataclass(frozen=True)
class SparkOptions:
    """The options: `conf` are the properties of `--conf`, `named` the others by their name."""

    conf: Mapping[str, str] = field(default_factory=dict)
    named: Mapping[str, str] = field(default_factory=dict)

    def with_default(self, key: str, value: str) -> SparkOptions:
        """These options with a property that is not given."""
        return replace(self, conf={key: value, **self.conf})

    def arguments(self) -> list[str]:
        """The options as arguments of spark-submit, and of `penstock run`."""
        words = [word for name, value in self.named.items() for word in (name, value)]
        return words + [word for item in self.conf.items() for word in ("--conf", "=".join(item))]

    def submit_arguments(self, inherited: str | None) -> str:
        """The value of `PYSPARK_SUBMIT_ARGS`: what it was, with these options taking precedence.

        Raises ValueError if a quote in the inherited value is not closed.
        """
        words = shlex.split(inherited or "")
        if _SHELL in words:
            words = words[: len(words) - 1 - words[::-1].index(_SHELL)]
        # As an option, a property takes precedence over the same option in the inherited value.
        own = {
            name: self.conf[key]
            for name, key in PROPERTIES.items()
            if key in self.conf and name not in self.named
        }
        words += [word for item in own.items() for word in item]
        return shlex.join([*words, *self.arguments(), _SHELL])

    @contextlib.contextmanager
    def in_environment(self) -> Iterator[None]:
        """Set `PYSPARK_SUBMIT_ARGS` in the block, for a JVM that is started in it."""
        before = os.environ.get(SUBMIT_ARGUMENTS)
        if not self.conf and not self.named:
            yield
            return
        os.environ[SUBMIT_ARGUMENTS] = self.submit_arguments(before)
        try:
            yield
        finally:
            if before is None:
                os.environ.pop(SUBMIT_ARGUMENTS, None)
            else:
                os.environ[SUBMIT_ARGUMENTS] = before

    def module_path(self) -> list[str]:
        """The entries of `sys.path` for the local files of `--py-files`.

        PySpark adds these files when the session is created. spark-submit adds them before, so that
        a script can import them in its first lines. As with spark-submit, `.py` files are copied to
        a temporary directory, which is the entry.
        """
        given = self.named.get("--py-files") or self.conf.get(PROPERTIES["--py-files"]) or ""
        local = [path for part in given.split(",") if (path := _local_path(part)) is not None]
        modules = [path for path in local if path.endswith(".py")]
        entries = [path for path in local if path not in modules]
        if modules:
            folder = tempfile.mkdtemp(prefix="penstock-py-files-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            for module in modules:
                shutil.copy(module, folder)
            entries.insert(0, folder)
        return entries


NO_OPTIONS = SparkOptions()


def _local_path(location: str) -> str | None:
    """The path of an existing local file; None for anything else, such as a URL or a pattern."""
    location = location.strip()
    parts = urlsplit(location)
    path = unquote(parts.path) if parts.scheme == "file" else location
    return path if os.path.isfile(path) else None
