"""Queries on a standalone cluster: lost executors, workers and drivers, and a second driver."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow.parquet
import pytest

from penstock.api.runner import Outcome
from tests.docs.blocks import blocks_of, commands_of
from tests.docs.reader import Reader
from tests.killing import newest
from tests.processes import running, tail
from tests.real.cluster import SPARK_HOME, Cluster, Worker
from tests.real.cluster_input import ClusterInput
from tests.real.cluster_job import PROPERTIES
from tests.real.kills import PATIENCE, KilledJob, Victim
from tests.real.parts import ROOT, java
from tests.real.reports import report
from tests.real.servers import LOOPBACK, wait_until

JOB = ROOT / "tests" / "real" / "cluster_job.py"
FEATURES = ROOT / "tests" / "real" / "feature_job.py"
EXECUTORS_KILLED = 6
DRIVERS_KILLED = 4
_LOADED = re.compile(
    r"loaded instance .*operatorId=(\d+), partitionId=(\d+),.* queryRunId=([0-9a-f-]+)"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with two workers. A test that loses one adds another."""
    started = Cluster.start(tmp_path_factory.mktemp("cluster"), workers=2)
    yield started
    started.stop()


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    file = tmp_path / "spark.conf"
    file.write_text(PROPERTIES)
    return file


ENVIRONMENT = {
    "SPARK_LOCAL_IP": LOOPBACK,
    "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    "PYSPARK_PYTHON": sys.executable,
}


def on_penstock(cluster: Cluster, properties: Path, *words: str | Path) -> list[str]:
    """The command that runs a job on Penstock and the cluster."""
    assigned = [f"{key}={value}" for key, value in ENVIRONMENT.items()]
    options = ["--master", cluster.url, "--properties-file", str(properties)]
    command = ["env", *assigned, sys.executable, "-m", "penstock", "run", *options]
    return [*command, *map(str, words)]


def submitted(cluster: Cluster, properties: Path, *words: str | Path) -> list[str]:
    """The command that runs a job by spark-submit, in client mode."""
    assigned = [f"{key}={value}" for key, value in ENVIRONMENT.items()]
    options = ["--master", cluster.url, "--properties-file", str(properties)]
    home = f"JAVA_HOME={java().parent.parent}"
    submit = str(SPARK_HOME / "bin" / "spark-submit")
    return ["env", *assigned, home, submit, *options, *map(str, words)]


class RunningJob:
    """The job while it runs: its batches, and what is done to its executors in one of them."""

    def __init__(self, child: subprocess.Popen[bytes], input: ClusterInput, log: Path) -> None:
        self._child = child
        self._input = input
        self._log = log
        self.lost_in_batch = 0

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        wait_until(lambda: self._child.poll() is not None or condition(), PATIENCE)
        assert self._child.poll() is None, f"the job has ended:\n{tail(self._log)}"
        assert condition(), f"{what} did not come true:\n{tail(self._log)}"

    def in_a_batch(self, lose: Callable[[], None]) -> None:
        """Call a function while a batch is planned and not committed, and wait for later ones."""
        before = {name: newest(path, "commits") for name, path in self._checkpoints.items()}
        self.wait_for(lambda: self._running_batches(before), "a batch that runs")
        lose()
        self.lost_in_batch += bool(self._running_batches(before))
        self.progress()

    def progress(self) -> None:
        """Wait until every query has committed two more batches."""
        wanted = {name: newest(path, "commits") + 2 for name, path in self._checkpoints.items()}
        self.wait_for(
            lambda: all(
                newest(self._checkpoints[name], "commits") >= batch
                for name, batch in wanted.items()
            ),
            f"batches {wanted}",
        )

    def _running_batches(self, before: dict[str, int]) -> list[str]:
        """The queries that run a batch after those in `before`."""
        return [
            name
            for name, path in self._checkpoints.items()
            if newest(path, "offsets") > max(newest(path, "commits"), before[name])
        ]

    @property
    def _checkpoints(self) -> dict[str, Path]:
        return self._input.checkpoints()


def kill_executor(worker: Worker) -> None:
    for pid in worker.executors():
        os.kill(pid, signal.SIGKILL)


def test_executors_and_workers_are_lost_in_a_batch(
    cluster: Cluster, properties: Path, tmp_path: Path
) -> None:
    began = time.monotonic()
    input, log = ClusterInput(tmp_path), tmp_path / "job.log"
    input.add(4)
    with (
        running(on_penstock(cluster, properties, JOB, tmp_path), log) as child,
        input.arriving(),
    ):
        job = RunningJob(child, input, log)
        job.progress()
        for number in range(EXECUTORS_KILLED):
            worker = cluster.running_workers()[number % 2]
            job.wait_for(worker.executors, "an executor in place of the one that was killed")
            job.in_a_batch(lambda: kill_executor(worker))  # noqa: B023 - called at once
        job.in_a_batch(cluster.running_workers()[0].lose)
        added = cluster.add_worker()
        job.wait_for(added.executors, "an executor on the worker that was added")
        job.progress()
        job.wait_for(lambda: loaded_stores(added), "state on the worker that was added")
        child.send_signal(signal.SIGTERM)
        assert child.wait(PATIENCE) == Outcome.TERMINATED, tail(log)
    assert input.extra() == []
    input.close()
    drained(on_penstock(cluster, properties, JOB, tmp_path, "drain"), log)
    assert (input.extra(), input.lost()) == ([], [])
    stores = [loaded_stores(worker) for worker in cluster.workers]
    moved = {store for one in stores for store in one if sum(store in s for s in stores) > 1}
    assert moved, f"no state store was on two workers: {stores}"
    report(
        f"cluster: {EXECUTORS_KILLED} executors and a worker killed, {job.lost_in_batch} of them "
        f"while a batch ran; a worker added; {len(moved)} state stores moved; rows read "
        f"{input.rows_read()}, written {input.rows_written()}, none lost, none twice; "
        f"{time.monotonic() - began:.0f} s"
    )


def loaded_stores(worker: Worker) -> set[tuple[str, str, str]]:
    """The state stores that executors of a worker have loaded: operator, partition and run."""
    return set(_LOADED.findall(worker.executor_logs()))


def drained(command: Sequence[str], log: Path) -> None:
    """Run a job that ends by itself."""
    with running(command, log) as child:
        assert child.wait(3 * PATIENCE) == 0, tail(log)


@pytest.mark.parametrize("last", ["Penstock", "Spark"])
def test_the_driver_is_killed(
    cluster: Cluster, properties: Path, tmp_path: Path, last: str
) -> None:
    """The rest of the input is processed by Penstock, or by Spark's own engine."""
    began = time.monotonic()
    input = ClusterInput(tmp_path)
    input.add(4)
    killed = KilledJob(
        on_penstock(cluster, properties, JOB, tmp_path),
        tmp_path,
        input.checkpoints(),
        input,
    )
    with input.arriving():
        for number in range(DRIVERS_KILLED):
            victim = list(Victim)[number % 2]
            strike = killed.kill(victim)
            assert strike.problems == (), f"after kill {number + 1} ({victim.value})"
    input.close()
    if last == "Spark":
        killed.command = submitted(cluster, properties, JOB, tmp_path)
    killed.finish()
    engine = {"Penstock": "penstock.api.query", "Spark": "pyspark.sql.streaming.query"}[last]
    assert killed.log.read_text().splitlines().count(f"queries of {engine}") >= 1
    in_flight = sum(bool(strike.in_flight) for strike in killed.strikes)
    report(
        f"cluster: {DRIVERS_KILLED} drivers killed, {in_flight} of them with a batch planned and "
        f"not committed; the rest by {last}; rows read {input.rows_read()}, written "
        f"{input.rows_written()}, none lost, none twice; {time.monotonic() - began:.0f} s"
    )


def test_of_two_drivers_on_one_checkpoint_one_goes_on(
    cluster: Cluster, properties: Path, tmp_path: Path
) -> None:
    # With few retained batches the one would purge what the other has read, before they collide.
    retained = "spark.sql.streaming.minBatchesToRetain 100"
    properties.write_text(f"{PROPERTIES}{retained}\nspark.cores.max 1\n")
    input = ClusterInput(tmp_path, ["windowed"])
    input.add(2)
    logs = [tmp_path / "first.log", tmp_path / "second.log"]
    command = on_penstock(cluster, properties, JOB, tmp_path, "windowed")
    with running(command, logs[0]) as first, input.arriving():
        RunningJob(first, input, logs[0]).progress()
        with running(command, logs[1]) as second:
            children = [first, second]
            wait_until(lambda: any(child.poll() is not None for child in children), PATIENCE)
            codes = [child.poll() for child in children]
            assert sorted(codes, key=str) == [Outcome.QUERY_FAILED, None], codes
            loser = codes.index(Outcome.QUERY_FAILED)
            RunningJob(children[1 - loser], input, logs[1 - loser]).progress()
    # The second driver may begin with a batch that the first has planned and not committed. Both
    # then write it, and the log of the sink refuses one of them before the commit log does.
    refusal = "Multiple streaming jobs detected for|Race while writing batch"
    assert re.search(refusal, logs[loser].read_text()), tail(logs[loser])
    warning = f" is used by query .* \\(process {first.pid} on "
    assert re.search(warning, logs[1].read_text()), tail(logs[1])
    input.close()
    drained([*command, "drain"], logs[0])
    assert (input.extra(), input.lost()) == ([], [])


def test_executors_need_pyspark_only(cluster: Cluster, properties: Path, tmp_path: Path) -> None:
    """Penstock comes from an archive, and the executors load no module of it."""
    archive = shutil.make_archive(str(tmp_path / "penstock"), "zip", ROOT / "src", "penstock")
    out = tmp_path / "features"
    out.mkdir()
    command = submitted(cluster, properties, "--py-files", archive, FEATURES, out)
    drained([word for word in command if not word.startswith("PYTHONPATH=")], tmp_path / "log")
    results = json.loads((out / "results.json").read_text())
    assert results["penstock"].startswith(archive)
    assert sorted(results["python_source_and_sink"]) == list(range(100))
    assert sorted(results["deduplicated"]) == list(range(60))
    seen = {name: results[name] for name in ("udf_and_foreach_batch", "foreach")}
    for rows in seen.values():
        assert sorted(n for n, _ in rows) == list(range(100))
    counts = results["pandas_with_state"]
    assert sorted((key, count) for key, count, _ in counts) == [(key, 25) for key in range(4)]
    places = {row[-1] for row in [*seen["udf_and_foreach_batch"], *seen["foreach"], *counts]}
    processes = {int(place.split()[0]) for place in places}
    assert results["driver"] not in processes
    assert [place for place in places if len(place.split()) > 1] == []  # no module of Penstock


def test_the_commands_of_the_page_work(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    orders = tmp_path / "orders"
    orders.mkdir()
    blocks = blocks_of(ROOT / "docs" / "cluster.md")
    done: list[str] = []
    for block in blocks:
        if block.kind == "python":
            Reader().follow(block)
        for command in commands_of(block) if block.kind == "sh" else ():
            number = len(done)
            order = {"at": f"2026-01-0{number + 1} 00:00:00", "item": "tea"}
            (orders / f"{number}.json").write_text(json.dumps(order))
            done.append(_as_on_page(command.line, cluster, tmp_path))
    assert [re.sub("batch .* is", "batch is", line) for line in done] == [
        f"{cluster.url}: batch is done"
    ] * 3
    rows = [
        row["orders"]
        for file in (tmp_path / "counts").glob("*.parquet")
        for row in pyarrow.parquet.ParquetFile(file).read().to_pylist()
    ]
    assert rows == [1, 1]  # the third window is open


def _as_on_page(line: str, cluster: Cluster, folder: Path) -> str:
    """Run a command of the page on this cluster and return the last line of its output."""
    line = line.replace("spark://master:7077", cluster.url).replace("/shared/", f"{folder}/")
    program, *words = shlex.split(line.replace("/usr/bin/python3", sys.executable))
    programs = {
        "penstock": [sys.executable, "-m", "penstock"],
        "spark-submit": [str(SPARK_HOME / "bin" / "spark-submit")],
    }
    home = {"JAVA_HOME": str(java().parent.parent)}
    ran = subprocess.run(
        [*programs[program], *words],
        cwd=folder,
        env={**os.environ, **ENVIRONMENT, **home},
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout.splitlines()[-1]


def test_cluster_mode_is_refused_by_spark_and_by_penstock(
    cluster: Cluster, properties: Path, tmp_path: Path
) -> None:
    def told(command: Sequence[str]) -> str:
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert ran.returncode != 0
        return " ".join((ran.stdout + ran.stderr).replace("│", " ").split())

    words = ("--deploy-mode", "cluster", JOB, tmp_path)
    assert (
        "Cluster deploy mode is currently not supported for python applications on standalone "
        "clusters." in told(submitted(cluster, properties, *words))
    )
    assert "`spark-submit --deploy-mode cluster`" in told(on_penstock(cluster, properties, *words))
