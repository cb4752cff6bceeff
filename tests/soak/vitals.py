"""The resources of a query that must not grow, and how they are measured."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import SparkSession

_MEGABYTE = 1 << 20
_UNCHANGED = 5


@dataclass(frozen=True)
class Vitals:
    """The resources of a Python process and its JVM at one moment."""

    python_rss_mb: float
    jvm_heap_mb: float
    py4j_references: int
    python_threads: int
    jvm_threads: int
    python_descriptors: int
    jvm_descriptors: int

    def as_figures(self) -> dict[str, float]:
        return asdict(self)


def take(spark: SparkSession) -> Vitals:
    """Measure now, after a garbage collection, so that only referenced objects count."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    for _ in range(2):
        jvm.java.lang.System.gc()
    management = jvm.java.lang.management.ManagementFactory
    pid = int(jvm.java.lang.ProcessHandle.current().pid())
    return Vitals(
        python_rss_mb=_resident() / _MEGABYTE,
        jvm_heap_mb=management.getMemoryMXBean().getHeapMemoryUsage().getUsed() / _MEGABYTE,
        py4j_references=references(spark),
        python_threads=threading.active_count(),
        jvm_threads=int(management.getThreadMXBean().getThreadCount()),
        python_descriptors=_descriptors(os.getpid()),
        jvm_descriptors=_descriptors(pid),
    )


def references(spark: SparkSession) -> int:
    """The number of JVM objects that py4j keeps alive for Python.

    A thread of py4j releases the objects that Python has dropped, once per second; they are counted
    when it has nothing more to release.
    """
    server = spark.sparkContext._gateway.java_gateway_server  # type: ignore[union-attr]
    bindings = server.getGateway().getBindings()
    counts = [int(bindings.size())]
    while len(counts) < _UNCHANGED or len(set(counts[-_UNCHANGED:])) > 1:
        time.sleep(0.5)
        counts.append(int(bindings.size()))
    return counts[-1]


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))
