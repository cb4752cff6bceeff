"""A Kafka broker of one node, without ZooKeeper."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.real.parts import fetch, java
from tests.real.servers import LOOPBACK, Server, ending_with_parent, free_port, is_listening

KAFKA = "org.apache.kafka:kafka_2.13:4.1.0"
_JAVA_OPTIONS = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_CLUSTER_ID = "cGVuc3RvY2stdGVzdHMtMQ"

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.quorum.bootstrap.servers={host}:{controller_port}
log.dirs={data}
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


class KafkaBroker(Server):
    """A broker that keeps its port and its data when it is stopped, killed and started again.

    Topics are not created on first use: `tests.real.topics.Topics` creates them.
    """

    name = "Kafka"

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(directory / "server.log")
        self.port = free_port()
        self._directory = directory
        self._properties = directory / "server.properties"

    @property
    def bootstrap_servers(self) -> str:
        """The value of the option `kafka.bootstrap.servers`."""
        return f"{LOOPBACK}:{self.port}"

    def command(self) -> Sequence[str]:
        return [*ending_with_parent(), *self._java(), "kafka.Kafka", str(self._properties)]

    def is_ready(self) -> bool:
        return is_listening(self.port)

    def start(self) -> None:
        if not self._properties.exists():
            self._format()
        super().start()

    def _format(self) -> None:
        """Write the configuration, and create the data directory."""
        text = _PROPERTIES.format(
            host=LOOPBACK,
            port=self.port,
            controller_port=free_port(),
            data=self._directory / "data",
        )
        self._properties.write_text(text)
        command = [*self._java(), "kafka.tools.StorageTool", "format", "--standalone"]
        command += ["--cluster-id", _CLUSTER_ID, "--config", str(self._properties)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)

    def _java(self) -> list[str]:
        jars = fetch("kafka", KAFKA, transitive=True)
        return [str(java()), *_JAVA_OPTIONS, "-cp", f"{jars[0].parent}/*"]
