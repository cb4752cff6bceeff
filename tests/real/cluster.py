"""A standalone Spark cluster from the PySpark wheel: a master and workers of one core."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark

from tests.real.parts import java
from tests.real.servers import LOOPBACK, Server, ending_with_parent, free_port

SPARK_HOME = Path(pyspark.__file__).parent
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_DAEMON_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Daemon(Server):
    """A process that `spark-class` runs, with a page of JSON about itself."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(directory / "daemon.log")
        self.port, self._web_port = free_port(), free_port()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def state(self) -> dict[str, Any]:
        """What the daemon tells about itself; empty if it does not answer."""
        with (
            contextlib.suppress(OSError, ValueError),
            urllib.request.urlopen(f"http://{LOOPBACK}:{self._web_port}/json/", timeout=5) as page,
        ):
            told: dict[str, Any] = json.load(page)
            return told
        return {}

    def _command(self, main: str, *arguments: str) -> list[str]:
        environment = {
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _DAEMON_OPTIONS,
            "JAVA_HOME": str(java().parent.parent),
        }
        assigned = [f"{key}={value}" for key, value in environment.items()]
        options = ["--host", LOOPBACK, "--port", str(self.port)]
        options += ["--webui-port", str(self._web_port)]
        run = [str(SPARK_HOME / "bin" / "spark-class"), main, *options, *arguments]
        return [*ending_with_parent(), "env", *assigned, *run]


class Master(Daemon):
    """The master of a cluster."""

    name = "the Spark master"

    @property
    def url(self) -> str:
        return f"spark://{LOOPBACK}:{self.port}"

    def command(self) -> Sequence[str]:
        return self._command("org.apache.spark.deploy.master.Master")

    def is_ready(self) -> bool:
        return self.state().get("status") == "ALIVE"

    def workers(self) -> list[int]:
        """The ports of the workers that are alive."""
        return [w["port"] for w in self.state().get("workers", ()) if w["state"] == "ALIVE"]

    def applications(self) -> list[str]:
        """The names of the running and waiting applications."""
        return [application["name"] for application in self.state().get("activeapps", ())]


class Worker(Daemon):
    """A worker with one core; its executors and their Python processes are in its group."""

    name = "a Spark worker"

    def __init__(self, directory: Path, master: Master) -> None:
        super().__init__(directory)
        self.directory = directory
        self._master = master

    def command(self) -> Sequence[str]:
        return self._command(
            "org.apache.spark.deploy.worker.Worker",
            *("--cores", "1", "--memory", "1g"),
            *("--work-dir", str(self.directory / "work"), self._master.url),
        )

    def is_ready(self) -> bool:
        return self.port in self._master.workers()

    def executors(self) -> list[int]:
        """The process ids of the executors that this worker has started."""
        listed = subprocess.run(
            ["ps", "-eww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
        ).stdout
        processes = [line.split(None, 2) for line in listed.splitlines()]
        return [
            int(pid)
            for pid, parent, command in processes
            if parent == str(self.pid) and EXECUTOR in command
        ]

    def executor_logs(self) -> str:
        """What the executors of this worker have logged, of all applications."""
        logs = sorted((self.directory / "work").glob("app-*/*/stderr"))
        return "\n".join(log.read_text(errors="replace") for log in logs)

    def lose(self) -> None:
        """End the worker, its executors and their Python processes at once, as with its machine."""
        os.killpg(self.pid, signal.SIGKILL)
        self.kill()


@dataclass
class Cluster:
    """A running master and its workers."""

    directory: Path
    master: Master
    workers: list[Worker]

    @classmethod
    def start(cls, directory: Path, workers: int) -> Cluster:
        master = Master(directory / "master")
        cluster = cls(directory, master, [])
        try:
            master.start()
            for _ in range(workers):
                cluster.add_worker()
        except BaseException:
            cluster.stop()
            raise
        return cluster

    @property
    def url(self) -> str:
        return self.master.url

    def add_worker(self) -> Worker:
        """Start one more worker, with a directory of its own."""
        worker = Worker(self.directory / f"worker-{len(self.workers)}", self.master)
        self.workers.append(worker)
        worker.start()
        return worker

    def running_workers(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.is_running]

    def stop(self) -> None:
        for worker in self.running_workers():
            worker.lose()
        self.master.kill()
