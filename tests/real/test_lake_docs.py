"""The blocks of the pages about Delta and Iceberg, with a broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import EXECUTED, blocks_of
from tests.real.delta_log import current_rows
from tests.real.jars import kafka_connector, spark_jars
from tests.real.kafka import KafkaBroker
from tests.real.lakehouses import lakehouse_jars, lakehouse_settings
from tests.real.parts import ROOT
from tests.real.topics import Topics

PAGES = ["/", "/", "/buy"]


def _follow(page: str, lakehouse: str, broker: KafkaBroker, directory: Path) -> None:
    """Run the blocks of a page in a directory, with three clicks in the topic `clicks`."""
    topics = Topics(broker.bootstrap_servers)
    topics.create("clicks")
    at = "2026-01-01T12:00:00Z"
    topics.write("clicks", [json.dumps({"page": name, "at": at}) for name in PAGES])
    jars = spark_jars(kafka_connector(), lakehouse_jars(lakehouse))
    # The blocks of a page share one session, which has to have the extensions from its start.
    settings = lakehouse_settings(directory / "warehouse", lakehouse)
    conf = " ".join(f"--conf {key}={value}" for key, value in settings.items())
    ran = subprocess.run(
        [sys.executable, "-m", "tests.docs.follow", page],
        cwd=directory,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "PYSPARK_SUBMIT_ARGS": f"--jars {jars} {conf} pyspark-shell",
            "KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    blocks = [b for b in blocks_of(ROOT / "docs" / page) if b.kind in EXECUTED]
    assert ran.stdout.count(" works ") == len(blocks)


@pytest.mark.delta
def test_the_jobs_of_the_page_about_delta_work(own_broker: KafkaBroker, tmp_path: Path) -> None:
    _follow("delta.md", "delta", own_broker, tmp_path)
    clicks = current_rows(tmp_path / "tables" / "clicks")
    assert sorted(row["page"] for row in clicks) == PAGES
    counts = current_rows(tmp_path / "tables" / "clicks_by_page")
    assert {row["page"]: row["count"] for row in counts} == {"/": 2, "/buy": 1}


@pytest.mark.iceberg
def test_the_jobs_of_the_page_about_iceberg_work(own_broker: KafkaBroker, tmp_path: Path) -> None:
    _follow("iceberg.md", "iceberg", own_broker, tmp_path)
    tables = tmp_path / "warehouse" / "web"
    for table, snapshots in (("clicks", 1), ("clicks_by_page", 1)):
        metadata = tables / table / "metadata"
        newest = max(metadata.glob("v*.metadata.json"), key=lambda path: path.stat().st_mtime_ns)
        summary = json.loads(newest.read_text())["snapshots"][-1]["summary"]
        assert summary["total-records"] == ("3" if table == "clicks" else "2")
        assert len(json.loads(newest.read_text())["snapshots"]) == snapshots
