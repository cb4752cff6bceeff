"""Shared fixtures: one Spark session without log output, started when a test first needs it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from penstock.api.install import uninstall
from penstock.spark.jvm.lines import version_number
from tests.class_archive import short_lived_jvm
from tests.sessions import start_session

# For every JVM that the tests start, in child processes too.
if "SPARK_SUBMIT_OPTS" not in os.environ:
    os.environ["SPARK_SUBMIT_OPTS"] = short_lived_jvm()


def pytest_configure(config: pytest.Config) -> None:
    """Allow what PySpark before 4.2 does: it leaves the sockets of a result to be collected."""
    if version_number(pyspark.__version__) < (4, 2):
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Keep pytest's format of captured records.

    After an error with a query context, PySpark has a logger that does not propagate. pytest adds
    its handlers to such loggers, and this one sets a format of its own, in JSON, on each handler.
    """
    plugin: Any = session.config.pluginmanager.get_plugin("logging-plugin")
    if plugin is not None:
        for handler in (plugin.caplog_handler, plugin.report_handler):
            handler.setFormatter = lambda formatter: None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what the installed line of Spark does not have: `pytest.mark.since("4.1", "what")`.

    `pytest.mark.until("4.2", "what")` is for what a later line no longer does.
    """
    line = version_number(pyspark.__version__)
    for mark in item.iter_markers("since"):
        first, what = mark.args
        if line < version_number(first):
            pytest.skip(f"{what}: since Spark {first}")
    for mark in item.iter_markers("until"):
        last, what = mark.args
        if line > version_number(last):
            pytest.skip(f"{what}: until Spark {last}")


@pytest.fixture(scope="session")
def spark_conf() -> Mapping[str, str]:
    """Further settings of the session; tests that need a connector override it."""
    return {}


@pytest.fixture(scope="session")
def spark(
    tmp_path_factory: pytest.TempPathFactory, spark_conf: Mapping[str, str]
) -> Iterator[SparkSession]:
    """The session of a test run. Tests that change settings use `spark.newSession()`."""
    session = start_session(tmp_path_factory.mktemp("warehouse"), spark_conf)
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def spark_s_own_writer() -> Iterator[None]:
    """Revert `penstock.install()`, which running a script in this process does, after each test."""
    yield
    uninstall()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The path of a checkpoint for this test. The directory does not exist yet."""
    return tmp_path / "checkpoint"
