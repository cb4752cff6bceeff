"""The pipelines on Kafka, killed again and again while a producer goes on."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.crash.pipelines import Rows, written_files
from tests.real.feed import Feed, SteadyFeed
from tests.real.job import Job
from tests.real.kills import KilledJob, Output
from tests.real.pipelines import PIPELINES, POSTGRES, WINDOWS
from tests.real.postgres import PostgresServer
from tests.real.reports import report
from tests.real.topics import Topics, new_name

SECONDS_PER_BLOCK = 1.0

_PIPELINES = {pipeline.name: pipeline for pipeline in PIPELINES}


class KafkaOutput(Output):
    """The output of a job; records that the Kafka sink has written twice count once."""

    def __init__(self, job: Job, feed: Feed) -> None:
        self._job = job
        self._feed = feed

    def names(self) -> Iterable[str]:
        return _PIPELINES

    def expected(self, name: str) -> Rows:
        return _PIPELINES[name].expected(self._feed)

    def written(self, name: str) -> Rows:
        pipeline = _PIPELINES[name]
        if pipeline is POSTGRES:
            return self._job.batch_table.rows()
        if pipeline is WINDOWS:
            return Counter(set(self.windows()))
        table = self._job.files(pipeline)
        return written_files(table) if (table / "_spark_metadata").exists() else Rows()

    def windows(self) -> list[tuple[int, ...]]:
        """The records of the Kafka sink, repeated ones included."""
        records = self._feed.topics.read(self._job.counts)
        return [tuple(json.loads(record.value).values()) for record in records]


def test_nothing_is_lost_and_nothing_is_written_twice(
    topics: Topics, postgres: PostgresServer, tmp_path: Path, kills: int
) -> None:
    began = time.monotonic()
    feed = Feed(topics, new_name("killed"))
    job = Job(
        directory=str(tmp_path / "job"),
        bootstrap_servers=topics.bootstrap_servers,
        left=feed.left,
        right=feed.right,
        counts=new_name("counts"),
        postgres_url=postgres.url,
        jdbc_url=postgres.jdbc_url,
        table=new_name("killed").replace("-", "_"),
    )
    job.save()
    topics.create(job.counts)
    output = KafkaOutput(job, feed)
    killed = KilledJob(
        [sys.executable, "-m", "tests.real.job", job.directory],
        Path(job.directory),
        {pipeline.name: job.checkpoint(pipeline) for pipeline in PIPELINES},
        output,
    )
    with SteadyFeed(feed, SECONDS_PER_BLOCK):
        killed.kill_in_turns(kills)
    feed.close()
    killed.finish()
    _report(killed, feed, output, time.monotonic() - began)


def _report(killed: KilledJob, feed: Feed, output: KafkaOutput, seconds: float) -> None:
    half = len(killed.strikes) // 2
    report(
        f"{half} kills of the process and {half} of the JVM, each of {len(PIPELINES)} pipelines, "
        f"{seconds:.0f} s; {len(feed.sent_left)} and {len(feed.sent_right)} rows sent, none lost, "
        "none twice"
    )
    in_flight = ", ".join(f"{name} {killed.in_flight(name)}" for name in _PIPELINES)
    report(f"kills with a batch planned and not committed: {in_flight}")
    rows = ", ".join(f"{name} {output.written(name).total()}" for name in _PIPELINES)
    report(f"rows found: {rows}")
    windows = output.windows()
    repeated = len(windows) - len(set(windows))
    report(f"records that the Kafka sink, which delivers at least once, has repeated: {repeated}")
