"""What constraints make unique: nothing is believed of a table that another one hides, or of which nothing is known."""

from __future__ import annotations

import duckdb
import pytest

from dpsql.engines.duckdb.system_catalogue import unique_keys

COLUMNS = {"areas": {"area": "VARCHAR", "Code": "INTEGER", "size": "DOUBLE"}, "shops": {"shop": "INTEGER"}}
BOTH = {("areas", frozenset({"area"})), ("shops", frozenset({"shop"}))}


@pytest.fixture
def data() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE areas (area VARCHAR PRIMARY KEY, Code INTEGER, size DOUBLE UNIQUE)")
    connection.execute("CREATE TABLE Shops (shop INTEGER UNIQUE)")
    return connection


def test_plain_columns_with_a_constraint_are_unique(data: duckdb.DuckDBPyConnection) -> None:
    assert unique_keys(lambda sql: data.execute(sql).fetchall(), COLUMNS) == BOTH


@pytest.mark.parametrize("hides", ["TEMP TABLE Areas (area VARCHAR)", "TEMP VIEW areas AS SELECT 'n' AS area"])
def test_a_table_that_a_temporary_one_hides_is_not(data: duckdb.DuckDBPyConnection, hides: str) -> None:
    data.execute(f"CREATE {hides}")
    assert unique_keys(lambda sql: data.execute(sql).fetchall(), COLUMNS) == {("shops", frozenset({"shop"}))}


def test_where_nothing_is_told_nothing_is_unique(data: duckdb.DuckDBPyConnection) -> None:
    found = unique_keys(lambda sql: None if "temporary" in sql else data.execute(sql).fetchall(), COLUMNS)
    assert found == set() == unique_keys(lambda _: None, COLUMNS)


def test_only_keys_of_this_databases_own_tables_count_and_of_plain_columns_all_together() -> None:
    """A column that must be there is no key, and one that is compared otherwise than it is stored spoils its key."""
    data = duckdb.connect()
    for text in (
        "CREATE TABLE shops (shop INTEGER, name VARCHAR NOT NULL, size DOUBLE, code VARCHAR CHECK (code <> ''), UNIQUE (shop, code), UNIQUE (name, size))",
        "CREATE SCHEMA other",
        "CREATE TABLE other.shops (name VARCHAR UNIQUE)",
        "ATTACH ':memory:' AS away",
        "CREATE TABLE away.main.shops (code VARCHAR PRIMARY KEY)",
    ):  # fmt: skip
        data.execute(text)
    columns = {"shops": {"shop": "INTEGER", "name": "VARCHAR", "size": "DOUBLE", "code": "VARCHAR"}}
    assert unique_keys(lambda sql: data.execute(sql).fetchall(), columns) == {("shops", frozenset({"shop", "code"}))}
