"""Unsupported sessions and Spark versions are rejected with a list of the supported ones."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.errors import UnsupportedError
from penstock.spark.jvm import support
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.internals import InternalClass
from penstock.spark.jvm.lines import supported_versions
from penstock.spark.jvm.support import look_up_internals, require_supported
from tests.streams import Numbers


class FrameOfConnect:
    """A stand-in for a Spark Connect DataFrame, with the attributes that are read."""

    def __init__(self) -> None:
        self.sparkSession = SessionOfConnect()


class SessionOfConnect:
    """A stand-in for a Spark Connect session, which is detected by the module of its class."""


SessionOfConnect.__module__ = "pyspark.sql.connect.session"


@pytest.fixture
def unchecked(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clears the cache of checked sessions."""
    monkeypatch.setitem(Jvm.of(spark)._made, "supported contexts", set())


def test_a_session_of_spark_connect_is_refused() -> None:
    connect: Any = FrameOfConnect()
    with pytest.raises(UnsupportedError, match=r"Spark Connect.*classic sessions only"):
        penstock.write_stream(connect)
    with pytest.raises(UnsupportedError, match=r"Spark Connect.*classic sessions only"):
        penstock.read_stream(Numbers(), connect.sparkSession)


def test_what_is_no_session_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="'nothing' is not a SparkSession"):
        require_supported("nothing")


def test_an_unsupported_version_is_refused_with_those_that_are_supported(
    spark: SparkSession, unchecked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(support, "find_line", lambda version: None)
    supported = re.escape(supported_versions())
    with pytest.raises(
        UnsupportedError, match=rf"Spark {spark.version} .* runs on Spark {supported}"
    ):
        penstock.write_stream(spark.readStream.format("rate").load())


def test_a_missing_internal_class_is_named_with_what_it_is_for(
    spark: SparkSession, unchecked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = InternalClass("org.apache.spark.Gone", "nothing much")
    monkeypatch.setitem(Jvm.of(spark).line.classes, "Gone", missing)
    with pytest.raises(
        UnsupportedError, match=r"org\.apache\.spark\.Gone \(needed for nothing much\)"
    ):
        require_supported(spark)


def test_every_internal_class_is_there(spark: SparkSession) -> None:
    assert [verdict.class_name for verdict in look_up_internals(spark) if not verdict.found] == []
