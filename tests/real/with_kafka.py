"""Runs a Python program with a Kafka broker of its own: `python -m tests.real.with_kafka PROGRAM`.

The program finds the broker in the environment variable KAFKA_BOOTSTRAP_SERVERS, and the jars of
Spark's Kafka connector, for `spark.jars`, in SPARK_JARS.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.real.jars import kafka_connector, spark_jars
from tests.real.kafka import KafkaBroker
from tests.real.parts import MissingPartError


def run(command: list[str]) -> int:
    """Run a command with a broker; returns its exit code."""
    jars = spark_jars(kafka_connector())
    with (
        tempfile.TemporaryDirectory(prefix="penstock-kafka-") as folder,
        KafkaBroker(Path(folder)) as broker,
    ):
        environment = {
            **os.environ,
            "KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "SPARK_JARS": jars,
        }
        return subprocess.run(command, env=environment, check=False).returncode


def main() -> int:
    print("Starting a Kafka broker ...", flush=True)
    try:
        return run([sys.executable, *sys.argv[1:]])
    except MissingPartError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
