"""The jars of Spark's connectors, for the setting `spark.jars` of a session.

They are named one by one instead of in `spark.jars.packages`: the newest releases of some are not
on Maven Central, and those of an earlier line of Spark work.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyspark

from penstock.spark.jvm.lines import version_number
from tests.real.parts import fetch

KAFKA_CONNECTORS = {
    "3.5": ("2.12", "3.5.8", "3.5.8", "3.4.1", "2.11.1"),
    "4.0": ("2.13", "4.0.2", "4.0.0", "3.9.1", "2.12.1"),
    "4.1": ("2.13", "4.1.2", "4.0.0", "3.9.1", "2.12.1"),
    "4.2": ("2.13", "4.2.0", "4.0.0", "3.9.1", "2.12.1"),
    "4.3": ("2.13", "4.2.0", "4.0.0", "3.9.1", "2.12.1"),
}
"""By line of Spark: Scala, connector, token provider, kafka-clients, commons-pool2."""

POSTGRES_DRIVER = "org.postgresql:postgresql:42.7.7"


def installed_line() -> str:
    """The line of the installed Spark, such as 4.3."""
    major, minor, *_ = version_number(pyspark.__version__)
    return f"{major}.{minor}"


def kafka_connector(line: str | None = None) -> tuple[Path, ...]:
    """The jars of Spark's Kafka source and sink, for a line of Spark; by default the installed."""
    line = line or installed_line()
    scala, connector, tokens, clients, pool = KAFKA_CONNECTORS[line]
    return fetch(
        f"spark-kafka-{line}",
        f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{connector}",
        f"org.apache.spark:spark-token-provider-kafka-0-10_{scala}:{tokens}",
        f"org.apache.kafka:kafka-clients:{clients}",
        f"org.apache.commons:commons-pool2:{pool}",
    )


def postgres_driver() -> tuple[Path, ...]:
    """The jar of PostgreSQL's JDBC driver."""
    return fetch("postgres-jdbc", POSTGRES_DRIVER)


def spark_jars(*sets: Iterable[Path]) -> str:
    """The value of `spark.jars` for some sets of jars."""
    return ",".join(str(jar) for jars in sets for jar in jars)
