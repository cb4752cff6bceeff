"""The options of spark-submit on the command line of the commands that start Spark."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ParamSpec
from urllib.parse import urlsplit

import typer

from penstock.api.spark_options import PROPERTIES, SUBMIT_ARGUMENTS, SparkOptions

_PANEL = "Spark options, as for spark-submit"
_MASTER = re.compile(r"(spark|k8s)://.+|yarn|local(\[.+\])?|local-cluster\[.+\]")
_PATTERN = frozenset("*?[{")

Command = ParamSpec("Command")


def _option(*names: str, metavar: str, help: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=_PANEL)


_CONF = Annotated[
    list[str] | None,
    _option("--conf", "-c", metavar="KEY=VALUE", help="A Spark property. Repeatable."),
]

_NAMED = {
    "--master": ("URL", "spark://host:port, yarn, k8s://https://host:port or local[N]."),
    "--deploy-mode": ("MODE", "Only client: the driver runs in this process."),
    "--name": ("NAME", "The name of the application."),
    "--properties-file": ("FILE", "A file with properties, instead of conf/spark-defaults.conf."),
    "--packages": ("LIST", "Maven coordinates of jars, comma-separated."),
    "--exclude-packages": ("LIST", "What to leave out of the dependencies of the packages."),
    "--repositories": ("LIST", "Additional repositories for the packages."),
    "--jars": ("LIST", "Jars for the driver and the executors, comma-separated."),
    "--py-files": ("LIST", "Files .py, .zip and .egg to import on the driver and the executors."),
    "--files": ("LIST", "Files for the working directory of each executor."),
    "--archives": ("LIST", "Archives to unpack in the working directory of each executor."),
    "--driver-memory": ("SIZE", "The memory of the driver's JVM, such as 2g."),
    "--driver-java-options": ("OPTIONS", "Java options of the driver."),
    "--driver-class-path": ("PATH", "Additional class path of the driver."),
    "--driver-library-path": ("PATH", "Additional library path of the driver."),
    "--executor-memory": ("SIZE", "The memory of each executor, such as 4g."),
    "--executor-cores": ("N", "The cores of each executor."),
    "--num-executors": ("N", "The number of executors (YARN, Kubernetes)."),
    "--total-executor-cores": ("N", "The cores of all executors (standalone)."),
    "--queue": ("NAME", "The queue (YARN)."),
    "--principal": ("NAME", "The Kerberos principal."),
    "--keytab": ("FILE", "The file with the keytab of the principal."),
}
_LISTS_OF_FILES = ("--jars", "--py-files", "--files", "--archives")
_FILES = ("--properties-file", "--keytab")


def takes_spark_options(command: Callable[Command, None]) -> Callable[Command, None]:
    """Add Spark's options to a command, which gets them as its parameter `spark`."""
    annotations: dict[str, Any] = {"conf": _CONF}
    for name, (metavar, help) in _NAMED.items():
        option = _option(name, metavar=metavar, help=help)
        annotations[_parameter(name)] = Annotated[str | None, option]
    signature = inspect.signature(command, eval_str=True)
    own = [known for known in signature.parameters.values() if known.name != "spark"]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in annotations.items()
    ]

    @functools.wraps(command)
    def with_options(*args: Command.args, **values: Command.kwargs) -> None:
        given = {name: values.pop(name, None) for name in annotations}
        values["spark"] = _spark_options(given)
        command(*args, **values)

    kept = {name: kind for name, kind in command.__annotations__.items() if name != "spark"}
    with_options.__annotations__ = {**kept, **annotations}
    with_options.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*own, *added]
    )
    return with_options


def _parameter(name: str) -> str:
    return name.removeprefix("--").replace("-", "_")


def _spark_options(given: Mapping[str, Any]) -> SparkOptions:
    """The options that were given. Raises typer.BadParameter for one that Spark would refuse."""
    conf = dict(key_value(setting) for setting in given["conf"] or ())
    named = {name: value for name in _NAMED if (value := given[_parameter(name)]) is not None}
    for name in ("--master", "--deploy-mode"):
        if name in named:
            _check(name, named[name], name)
        elif PROPERTIES[name] in conf:
            _check(name, conf[PROPERTIES[name]], "--conf")
    for name in named.keys() & _FILES:
        named[name] = _absolute(named[name], name)
    for name in named.keys() & _LISTS_OF_FILES:
        parts = [part.strip() for part in named[name].split(",") if part.strip()]
        named[name] = ",".join(_absolute(part, name) for part in parts)
    options = SparkOptions(conf, named)
    try:
        options.submit_arguments(os.environ.get(SUBMIT_ARGUMENTS))
    except ValueError as error:
        raise typer.BadParameter(
            f"{os.environ[SUBMIT_ARGUMENTS]!r} cannot be split into words: {error}.",
            param_hint=SUBMIT_ARGUMENTS,
        ) from None
    return options


def _check(name: str, value: str, hint: str) -> None:
    """Refuse a master or deploy mode with which the driver cannot run here."""
    if name == "--master":
        if not _MASTER.fullmatch(value):
            raise typer.BadParameter(
                f"{value!r} is not a master URL. Use spark://host:port, yarn, "
                "k8s://https://host:port, local[N] or local[*].",
                param_hint=hint,
            )
    elif value == "cluster":
        raise typer.BadParameter(
            "Penstock runs the driver in this process, which is Spark's client mode. To run it in "
            "the cluster, call penstock.install() in the program and submit it with "
            "`spark-submit --deploy-mode cluster`.",
            param_hint=hint,
        )
    elif value != "client":
        raise typer.BadParameter(f"{value!r} is not a deploy mode; use client.", param_hint=hint)


def _absolute(location: str, option: str) -> str:
    """A local path as an absolute one, since the script may change the working directory.

    URIs are returned unchanged, paths with wildcards without a check. `#name`, the name under which
    an archive is unpacked, is kept. Raises typer.BadParameter if a local file does not exist.
    """
    if urlsplit(location).scheme:
        return location
    if _PATTERN.intersection(location):
        return os.path.abspath(location)
    has_alias = option == "--archives"
    path, hash_sign, alias = location.partition("#") if has_alias else (location, "", "")
    if not os.path.exists(path):
        raise typer.BadParameter(f"File {path!r} does not exist.", param_hint=option)
    if os.path.isdir(path):
        raise typer.BadParameter(f"File {path!r} is a directory.", param_hint=option)
    return f"{os.path.abspath(path)}{hash_sign}{alias}"


def key_value(setting: str) -> tuple[str, str]:
    """Split `key=value`. Raises typer.BadParameter if it is not a property of Spark."""
    key, equals, value = setting.partition("=")
    if not equals or not key:
        raise typer.BadParameter(f"{setting!r} is not key=value", param_hint="--conf")
    if not key.startswith("spark."):
        raise typer.BadParameter(
            f"Spark ignores {key!r}, since the names of its properties begin with 'spark.'. Write "
            f"'spark.{key}', or 'spark.hadoop.{key}' for a property of Hadoop.",
            param_hint="--conf",
        )
    return key, value
