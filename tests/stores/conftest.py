"""Fixtures: an S3 server and an HDFS cluster on loopback, and the settings that reach both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.real.hdfs import HdfsCluster
from tests.real.jars import spark_jars
from tests.real.s3 import S3Server, s3a_connector
from tests.stores.places import OnS3

FEW_RETRIES = {
    "attempts.maximum": "1",
    "retry.limit": "2",
    "retry.interval": "20ms",
    "retry.throttle.limit": "2",
    "retry.throttle.interval": "20ms",
}
"""So that a store that does not answer is noticed within seconds, not minutes."""


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def s3(s3_server: S3Server) -> Iterator[S3Server]:
    """The server, without requests, faults and delay."""
    s3_server.forget()
    yield s3_server
    s3_server.forget()


@pytest.fixture(scope="session")
def s3_conf(s3_server: S3Server) -> dict[str, str]:
    """The settings of a session that reaches the server."""
    retries = {f"spark.hadoop.fs.s3a.{key}": value for key, value in FEW_RETRIES.items()}
    return {**s3_server.conf(), **retries, "spark.jars": spark_jars(s3a_connector())}


@pytest.fixture(scope="session")
def spark_conf(s3_conf: dict[str, str]) -> Mapping[str, str]:
    return s3_conf


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsCluster]:
    with HdfsCluster(tmp_path_factory.mktemp("hdfs")) as cluster:
        yield cluster


@pytest.fixture
def place(s3: S3Server) -> OnS3:
    """A new checkpoint location on the server."""
    return OnS3(s3)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An empty directory for the output of a query."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder
