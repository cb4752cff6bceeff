"""The JDBC sink on Apache Derby, which is among Spark's own jars."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.sinks.jdbc_contract import Database, JdbcContract
from tests.sinks.sink_contract import Tables


class DerbyInMemory(Database):
    url = "jdbc:derby:memory:sinks;create=true"


class TestOnDerby(JdbcContract):
    @pytest.fixture
    def database(self) -> Database:
        return DerbyInMemory()

    @pytest.mark.extended  # crashes between the steps of the sink are in every run of the suite
    def test_a_crash_at_any_point_changes_nothing(
        self, session: SparkSession, tables: Tables
    ) -> None:
        super().test_a_crash_at_any_point_changes_nothing(session, tables)

    @pytest.mark.extended
    def test_a_crash_at_the_points_of_many_sinks_changes_nothing(
        self, session: SparkSession, database: Database
    ) -> None:
        super().test_a_crash_at_the_points_of_many_sinks_changes_nothing(session, database)
