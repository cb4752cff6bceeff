"""The JDBC sink on Apache Derby, which is among Spark's own jars."""

from __future__ import annotations

import pytest

from tests.sinks.jdbc_contract import Database, JdbcContract


class DerbyInMemory(Database):
    url = "jdbc:derby:memory:sinks;create=true"


class TestOnDerby(JdbcContract):
    @pytest.fixture
    def database(self) -> Database:
        return DerbyInMemory()
