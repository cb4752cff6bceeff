"""The jars of Delta and Iceberg by line of Spark, and the settings of a session that uses them.

Both are compiled against the internals of one line: there are none for the lines that are missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.real.jars import installed_line
from tests.real.parts import fetch

DELTA = {
    "4.0": ("io.delta:delta-spark_2.13:4.0.0", "io.delta:delta-storage:4.0.0"),
    "4.1": ("io.delta:delta-spark_4.1_2.13:4.1.0", "io.delta:delta-storage:4.1.0"),
    "4.2": (
        "io.delta:delta-spark_4.2_2.13:4.4.0",
        "io.delta:delta-storage:4.4.0",
        "io.delta:delta-kernel-api:4.4.0",
        "io.delta:delta-kernel-defaults:4.4.0",
    ),
}
ICEBERG = {
    "4.0": ("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.1",),
    "4.1": ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",),
}
LAKEHOUSES: Mapping[str, Mapping[str, tuple[str, ...]]] = {"delta": DELTA, "iceberg": ICEBERG}

ICEBERG_CATALOG = "lake"
"""The catalog of Iceberg tables, a directory."""

_EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}


def available(line: str | None = None) -> list[str]:
    """The lakehouses that a line of Spark has, by default the installed one."""
    return [name for name, lines in LAKEHOUSES.items() if (line or installed_line()) in lines]


def lakehouse_jars(*names: str) -> tuple[Path, ...]:
    """The jars of some lakehouses for the installed line of Spark."""
    line = installed_line()
    return tuple(jar for name in names for jar in fetch(f"{name}-{line}", *LAKEHOUSES[name][line]))


def lakehouse_settings(warehouse: Path, *names: str) -> Mapping[str, str]:
    """The settings of a session for some lakehouses; Iceberg's tables are in `warehouse`."""
    settings: dict[str, str] = {}
    if names:
        settings["spark.sql.extensions"] = ",".join(_EXTENSIONS[name] for name in names)
    if "delta" in names:
        settings["spark.sql.catalog.spark_catalog"] = (
            "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
        # The log of a small table needs no more tasks; Delta's default is 50.
        settings["spark.databricks.delta.snapshotPartitions"] = "1"
    if "iceberg" in names:
        catalog = f"spark.sql.catalog.{ICEBERG_CATALOG}"
        settings[catalog] = "org.apache.iceberg.spark.SparkCatalog"
        settings[f"{catalog}.type"] = "hadoop"
        settings[f"{catalog}.warehouse"] = warehouse.as_uri()
        # Tables are written by other processes, too.
        settings[f"{catalog}.cache-enabled"] = "false"
    return settings
