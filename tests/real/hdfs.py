"""An HDFS cluster on loopback with one data node: Hadoop's own, for its tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyspark

from tests.real.jars import installed_line
from tests.real.parts import fetch, java
from tests.real.s3 import HADOOP
from tests.real.servers import LOOPBACK, Server, ending_with_parent, free_port

TEST_LIBRARIES = (
    "org.junit.jupiter:junit-jupiter-api:5.10.2",
    "org.junit.platform:junit-platform-commons:1.10.2",
    "org.opentest4j:opentest4j:1.3.0",
    "org.mockito:mockito-core:4.11.0",
)
"""Without them its classes cannot be loaded."""


class HdfsCluster(Server):
    """A name node and a data node in one process."""

    name = "HDFS"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "hdfs.log")
        self._folder = folder
        self.port = free_port()

    @property
    def uri(self) -> str:
        return f"hdfs://{LOOPBACK}:{self.port}"

    def command(self) -> Sequence[str]:
        hadoop = HADOOP[installed_line()]
        jars = fetch(
            f"hdfs-{hadoop}",
            f"org.apache.hadoop:hadoop-client-minicluster:{hadoop}",
            *TEST_LIBRARIES,
        )
        of_spark = Path(pyspark.__file__).parent / "jars"
        arguments = ["-datanodes", "1", "-nnport", str(self.port), "-format"]
        return [
            *ending_with_parent(),
            str(java()),
            "-Xmx512m",
            f"-Dtest.build.data={self._folder / 'data'}",
            "-cp",
            f"{jars[0].parent}/*:{of_spark}/*",
            "org.apache.hadoop.test.MiniDFSClusterManager",
            *arguments,
            "-writeDetails",
            str(self._folder / "details"),
        ]

    def is_ready(self) -> bool:
        return (self._folder / "details").exists()
