"""The blocks of the page about Kafka, with a broker and a database, and the demo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psycopg

from tests.docs.blocks import EXECUTED, blocks_of
from tests.real.jars import kafka_connector, postgres_driver, spark_jars
from tests.real.kafka import KafkaBroker
from tests.real.parts import ROOT
from tests.real.postgres import PostgresServer
from tests.real.topics import Topics

CLICKS = [
    {"page": page, "at": f"2026-01-01T12:{minute:02d}:00Z"}
    for minute in range(3)
    for page in ("/", "/", "/buy")
]
LAST = {"page": "/", "at": "2026-01-02T00:00:00Z"}
"""Its watermark closes the windows of the others."""


def test_the_jobs_of_the_page_work(
    own_broker: KafkaBroker, postgres: PostgresServer, tmp_path: Path
) -> None:
    topics = Topics(own_broker.bootstrap_servers)
    topics.create("clicks", 2)
    topics.create("clicks-per-minute")
    topics.write("clicks", [json.dumps(click) for click in [*CLICKS, LAST]])
    jars = spark_jars(kafka_connector(), postgres_driver())
    ran = subprocess.run(
        [sys.executable, "-m", "tests.docs.follow", "kafka.md"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "PYSPARK_SUBMIT_ARGS": f"--jars {jars} pyspark-shell",
            "KAFKA_BOOTSTRAP_SERVERS": own_broker.bootstrap_servers,
            "DATABASE_URL": postgres.url,
            "JDBC_URL": postgres.jdbc_url,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    blocks = [b for b in blocks_of(ROOT / "docs" / "kafka.md") if b.kind in EXECUTED]
    assert ran.stdout.count(" works ") == len(blocks)
    counts = [json.loads(record.value) for record in topics.read("clicks-per-minute")]
    assert sorted((count["page"], count["count"]) for count in counts) == [
        *[("/", 2)] * 3,
        *[("/buy", 1)] * 3,
    ]
    with psycopg.connect(postgres.url) as connection:
        pages = connection.execute("SELECT page FROM clicks ORDER BY page").fetchall()
    assert [page for (page,) in pages] == ["/"] * 7 + ["/buy"] * 3


def test_the_demo_works() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.real.with_kafka", "examples/demo_kafka.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Nothing lost, nothing duplicated." in ran.stdout
