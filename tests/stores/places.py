"""Where a checkpoint is in a test: its location, and the names of its log entries."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from pyspark.sql import SparkSession

from tests.real.hdfs import HdfsCluster
from tests.real.parts import ROOT
from tests.real.s3 import BUCKET, S3Server
from tests.stores.numbers_job import writer_to
from tests.streams import PATIENCE, Numbers


class Place(Protocol):
    """A checkpoint location on some store."""

    @property
    def location(self) -> str: ...

    def entries(self, log: str) -> list[int]:
        """The batch ids in a log."""


class OnS3:
    """A new prefix in the bucket of a server."""

    def __init__(self, server: S3Server) -> None:
        self._server = server
        self.prefix = f"checkpoint-{uuid.uuid4().hex[:8]}"

    @property
    def location(self) -> str:
        return f"s3a://{BUCKET}/{self.prefix}"

    def entries(self, log: str) -> list[int]:
        names = [key.rpartition("/")[2] for key in self._server.keys(f"{self.prefix}/{log}/")]
        return sorted(int(name) for name in names if name.isdigit())


class OnHdfs:
    """A new directory in a cluster."""

    def __init__(self, cluster: HdfsCluster, session: SparkSession) -> None:
        self.location = f"{cluster.uri}/checkpoint-{uuid.uuid4().hex[:8]}"
        jvm = session.sparkContext._jvm
        assert jvm is not None
        self._path = jvm.org.apache.hadoop.fs.Path
        self._conf = session._jsparkSession.sessionState().newHadoopConf()

    def entries(self, log: str) -> list[int]:
        path = self._path(f"{self.location}/{log}")
        files = path.getFileSystem(self._conf)
        if not files.exists(path):
            return []
        names = [str(status.getPath().getName()) for status in files.listStatus(path)]
        return sorted(int(name) for name in names if name.isdigit())


@contextmanager
def started(job: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs a job of this package, from when its query is started; killed at the end.

    The job prints `started` then.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", f"tests.stores.{job}", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


@contextmanager
def job(place: Place, out: Path, conf: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process that runs `numbers_job`; see `started`."""
    with started("numbers_job", place.location, str(out), json.dumps(conf)) as process:
        yield process


def finish_and_check(session: SparkSession, place: Place, out: Path, more: int = 2) -> None:
    """A last run finishes the planned batch and some more; each batch has exactly its number."""
    batches = list(range(place.entries("offsets")[-1] + 1 + more))
    query = writer_to(out, session, Numbers(len(batches), at_most=1), place.location).start()
    query.processAllAvailable()
    query.stop()
    assert place.entries("offsets")[-50:] == batches[-50:]
    assert place.entries("commits") == place.entries("offsets")
    assert {int(path.name): path.read_text() for path in out.iterdir()} == {
        batch_id: f"[{batch_id}]" for batch_id in batches
    }
