"""The settings page has exactly the streaming settings of the installed Spark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.engine.settings import KEYS
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.lines import NEWEST

PAGE = (Path(__file__).parents[2] / "docs" / "settings.md").read_text()
PREFIX = "spark.sql.streaming."
_ROW = re.compile(
    r"^\| `(spark\.sql\.streaming\.[^`]+)` \| (honoured|no meaning|refused) \| .+ \|$"
)


def rows(page: str) -> dict[str, str]:
    """The settings in the tables of a page, with their status."""
    found = [(row[1], row[2]) for line in page.splitlines() if (row := _ROW.match(line))]
    assert len(found) == page.count(f"\n| `{PREFIX}"), "a row does not match"
    assert len(found) == len(dict(found)), "a setting is listed twice"
    return dict(found)


def settings_of_spark(spark: SparkSession) -> set[str]:
    """The registered streaming settings of Spark, including internal and static ones."""
    jvm = Jvm.of(spark)
    entries = jvm.module("org.apache.spark.sql.internal.SQLConf").getConfigEntries().iterator()
    found: set[str] = set()
    while entries.hasNext():
        found.add(str(entries.next().key()))
    return {key for key in found if key.startswith(PREFIX)}


@pytest.mark.since(NEWEST.name, "the settings that the tables have")
def test_the_tables_have_the_settings_of_the_installed_spark(spark: SparkSession) -> None:
    known, listed = settings_of_spark(spark), set(rows(PAGE))
    assert len(known) > 90
    assert known - listed == set(), "not in docs/settings.md"
    assert listed - known == set(), "not in Spark"


def test_the_settings_of_the_engine_are_in_its_table() -> None:
    of_the_engine = PAGE.partition("## Honoured by the engine")[2].partition("\n## ")[0]
    assert set(KEYS.values()) <= set(rows(of_the_engine))
