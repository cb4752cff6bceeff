"""The pipelines on Kafka, killed again and again while a producer goes on."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path

from tests.crash.harness import some
from tests.crash.pipelines import Rows, written_files
from tests.real.feed import Feed, SteadyFeed
from tests.real.job import Job
from tests.real.kills import KilledJob, Victim
from tests.real.pipelines import JOINED, PARQUET, PIPELINES, POSTGRES, WINDOWS, Pipeline
from tests.real.postgres import PostgresServer
from tests.real.reports import report
from tests.real.topics import Topics, new_name

SECONDS_PER_BLOCK = 1.0


class Output:
    """What the pipelines of a job have written, compared with what was sent."""

    def __init__(self, job: Job, feed: Feed) -> None:
        self._job = job
        self._feed = feed

    def written(self, pipeline: Pipeline) -> Rows:
        """The rows in a sink. Records that the Kafka sink has written twice count once."""
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

    def extra(self) -> list[str]:
        """Rows that are there twice, or were never sent. Right at any time.

        Windows too: one is written when the watermark has passed it, and all its rows were sent.
        """
        problems = []
        for pipeline in PIPELINES:
            if extra := self.written(pipeline) - pipeline.expected(self._feed):
                problems.append(
                    f"{pipeline.name}: {extra.total()} rows twice or wrong: {some(extra)}"
                )
        return problems

    def lost(self) -> list[str]:
        """Rows that were sent and are not there. Right when everything is processed."""
        problems = []
        for pipeline in PIPELINES:
            if lost := pipeline.expected(self._feed) - self.written(pipeline):
                problems.append(f"{pipeline.name}: {lost.total()} rows lost: {some(lost)}")
        return problems


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
    output = Output(job, feed)
    killed = KilledJob(
        [sys.executable, "-m", "tests.real.job", job.directory],
        Path(job.directory),
        {pipeline.name: job.checkpoint(pipeline) for pipeline in PIPELINES},
        output.extra,
    )
    with SteadyFeed(feed, SECONDS_PER_BLOCK):
        for _ in range(kills):
            for victim in Victim:
                strike = killed.kill(victim)
                assert strike.problems == (), f"after kill {len(killed.strikes)} ({victim.value})"
    feed.close()
    killed.drain()
    assert output.extra() == []
    assert output.lost() == []
    _report(killed, feed, output, time.monotonic() - began)


def _report(killed: KilledJob, feed: Feed, output: Output, seconds: float) -> None:
    in_flight = Counter(name for strike in killed.strikes for name in strike.in_flight)
    windows = output.windows()
    half = len(killed.strikes) // 2
    report(
        f"{half} kills of the process and {half} of the JVM, each of {len(PIPELINES)} pipelines, "
        f"{seconds:.0f} s; {len(feed.sent_left)} and {len(feed.sent_right)} rows sent, none lost, "
        "none twice"
    )
    report(
        "kills with a batch planned and not committed: "
        + ", ".join(f"{pipeline.name} {in_flight[pipeline.name]}" for pipeline in PIPELINES)
    )
    rows = ", ".join(
        f"{pipeline.name} {output.written(pipeline).total()}"
        for pipeline in (PARQUET, WINDOWS, JOINED, POSTGRES)
    )
    report(f"rows found: {rows}")
    repeated = len(windows) - len(set(windows))
    report(f"records that the Kafka sink, which delivers at least once, has repeated: {repeated}")
