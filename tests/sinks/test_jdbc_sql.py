"""The statements of the JDBC sink by database, and its arguments."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ExecutionError
from penstock.sinks import jdbc
from penstock.sinks.identity import Identity
from penstock.sinks.jdbc_sink import _beside, _matched, _staging_name
from penstock.sinks.jdbc_sql import Derby, Dialect, PostgreSql, dialect_of

COLUMNS = ["page", "count"]


@pytest.mark.parametrize(
    ("url", "dialect"),
    [
        ("jdbc:postgresql://db/web", PostgreSql),
        ("jdbc:derby:memory:web", Derby),
        ("JDBC:Derby:memory:web", Derby),
        ("jdbc:sqlite:web.db", Dialect),
    ],
)
def test_a_url_names_its_dialect(url: str, dialect: type[Dialect]) -> None:
    assert dialect_of(url) is dialect


def test_the_driver_of_postgresql_is_known() -> None:
    options = jdbc("jdbc:postgresql://db/web", "t").secret_options()
    assert options["driver"] == "org.postgresql.Driver"
    assert jdbc("jdbc:postgresql:x", "t", driver="a.B").secret_options()["driver"] == "a.B"
    assert "driver" not in jdbc("jdbc:derby:memory:x", "t").secret_options()


def test_a_batch_is_appended_by_its_attempt() -> None:
    assert Dialect().append("web.counts", "web.staging", COLUMNS) == (
        'INSERT INTO web.counts ("page", "count") SELECT "page", "count" FROM web.staging '
        'WHERE "penstock_attempt" = ?'
    )


def test_standard_sql_merges_by_deleting_and_inserting() -> None:
    dialect = Dialect()
    assert dialect.merge("web.counts", "web.staging", COLUMNS, ["page"]) == [
        "DELETE FROM web.counts WHERE EXISTS (SELECT 1 FROM web.staging s "
        'WHERE s."penstock_attempt" = ? AND s."page" = web.counts."page")',
        dialect.append("web.counts", "web.staging", COLUMNS),
    ]


def test_postgresql_merges_in_one_statement() -> None:
    dialect = PostgreSql()
    [statement] = dialect.merge("counts", "staging", COLUMNS, ["page"])
    assert statement == (
        dialect.append("counts", "staging", COLUMNS)
        + ' ON CONFLICT ("page") DO UPDATE SET "count" = EXCLUDED."count"'
    )
    [statement] = dialect.merge("counts", "staging", ["page"], ["page"])
    assert statement.endswith(' ON CONFLICT ("page") DO NOTHING')


def test_tables_are_created_with_the_columns_of_others() -> None:
    assert Dialect().create_staging("staging", "counts", ["page"]) == (
        'CREATE TABLE staging AS SELECT "page", 0 AS "penstock_attempt" FROM counts WHERE 1 = 0'
    )
    assert PostgreSql().create_staging("staging", "counts", ["page"]) == (
        'CREATE UNLOGGED TABLE staging AS SELECT "page", 0 AS "penstock_attempt" FROM counts '
        "WITH NO DATA"
    )
    assert PostgreSql().create_target("counts", "staging", COLUMNS, ["page"]) == [
        'CREATE TABLE counts AS SELECT "page", "count" FROM staging WITH NO DATA',
        'ALTER TABLE counts ADD PRIMARY KEY ("page")',
    ]
    assert len(PostgreSql().create_target("counts", "staging", COLUMNS, [])) == 1
    assert len(Derby().create_target("counts", "staging", COLUMNS, ["page"])) == 1


def test_identifiers_are_quoted_as_the_database_does() -> None:
    assert Dialect("`").columns(["a b", "c`d"]) == "`a b`, `c``d`"


@pytest.mark.parametrize(
    ("table", "ledger"),
    [
        ("counts", "ledger"),
        ("web.counts", "web.ledger"),
        ('"a.b".web."c.d"', '"a.b".web.ledger'),
        ('"c.d"', "ledger"),
        ("`web`.`counts`", "`web`.ledger"),
    ],
)
def test_own_tables_are_in_the_schema_of_the_target(table: str, ledger: str) -> None:
    assert _beside(table, "ledger") == ledger


def test_each_sink_of_a_query_has_a_staging_table_of_its_own() -> None:
    names = {
        _staging_name(Identity(query, sink, batch_id), table)
        for query in ("q", "r")
        for sink in ("a", "b")
        for table in ("web.counts", "web.clicks")
        for batch_id in (0, 1)
    }
    assert len(names) == 8
    assert all(name.startswith("web.penstock_") and len(name) < 40 for name in names)


def test_columns_are_matched_by_name_and_then_by_case() -> None:
    assert _matched(["a", "B"], ["A", "a", "b"], "t") == ["a", "b"]
    with pytest.raises(ExecutionError, match="The table t has no columns 'c', but a, b"):
        _matched(["c"], ["a", "b"], "t")
    with pytest.raises(ExecutionError, match="has 2 columns 'AB'"):
        _matched(["AB"], ["ab", "aB"], "t")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "replace"}, "mode must be one of"),
        ({"mode": "merge"}, "keys are for the mode merge"),
        ({"mode": "append", "keys": ["k"]}, "keys are for the mode merge"),
        ({"name": "a b"}, "cannot be the name of a sink"),
        ({"on_rewind": "write"}, "on_rewind must be one of"),
    ],
)
def test_invalid_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        jdbc("jdbc:derby:memory:x", "t", **arguments)


def test_keys_are_a_list() -> None:
    with pytest.raises(TypeError, match="must be a list of columns"):
        jdbc("jdbc:derby:memory:x", "t", keys="page")


def test_the_text_of_a_sink_has_no_secrets() -> None:
    sink = jdbc("jdbc:derby:memory:x;password=hunter2", "t", password="hunter2")
    assert str(sink) == "JdbcSink[t]"
    assert "hunter2" not in repr(sink)
    assert sink.secret_options()["password"] == "hunter2"
