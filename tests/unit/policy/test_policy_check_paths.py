"""`dpsql check` along paths of foreign keys, at the caps, and what it says of windows and of columns nobody sees."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from dpsql.policy import PolicyFinding, check_facts, constraint_facts, load_policy
from dpsql.policy.check import _windows


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        yield opened


def policy_of(tables: dict[str, Any], **budget: Any) -> Any:
    return load_policy({"dataset": "d", "budget": {"epsilon": 9, **budget}, "tables": tables})


def found(
    connection: duckdb.DuckDBPyConnection, tables: dict[str, Any]
) -> dict[tuple[str, str], tuple[bool, str, str]]:
    findings = check_facts(connection, policy_of(tables))
    return {(each.table, each.fact): (each.ok, each.kind, each.text) for each in findings}


VILLAGE = """
    CREATE TABLE homes(id INT, place INT); INSERT INTO homes VALUES (1, 10), (2, 10), (3, 20), (4, NULL);
    CREATE TABLE people(id INT, home INT); INSERT INTO people VALUES (1, 1), (2, 1), (3, 2), (4, 3), (5, 4), (6, NULL);
    CREATE TABLE visits(person INT);
    INSERT INTO visits VALUES (1), (2), (3), (4), (4), (5), (6), (NULL), (NULL)
"""
TABLES: dict[str, Any] = {
    "homes": {"unit": "place", "columns": {"id": {}}},
    "people": {"unit": {"home": "homes.id"}, "columns": {"id": {}}},
    "visits": {"unit": {"person": "people.id"}},
}


@pytest.fixture
def village(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Visits are of people, who are of homes, which are of places: 10 has 3 visits, 20 has 2, and 4 have no place."""
    connection.execute(VILLAGE)
    return connection


@pytest.mark.parametrize(("cap", "said"), [
    (1, "2 units have more than 1 rows and are down-weighted to 1"),
    (2, "1 units have more than 2 rows and are down-weighted to 2"),
    (3, "no unit has more than 3 rows"),
    (4, "no unit has more than 4 rows"),
    (5000, "no unit has more than 5,000 rows"),
])  # fmt: skip
def test_rows_are_counted_for_the_owner_at_the_end_of_the_path(
    village: duckdb.DuckDBPyConnection, cap: int, said: str
) -> None:
    told = found(village, {**TABLES, "visits": {**TABLES["visits"], "max_rows_per_unit": cap}})
    assert told["visits", "max_rows_per_unit"] == (True, "information", said)
    assert told["visits", "owner"] == (True, "information", "4 rows have no owner and are ignored")
    assert told["homes", "owner"][2] == "1 rows have no owner and are ignored"
    assert told["visits", "foreign_key:person->people.id"] == (
        True,
        "verified",
        "each person has exactly one people.id",
    )


def test_where_all_rows_have_an_owner_it_is_said(village: duckdb.DuckDBPyConnection) -> None:
    village.execute("DELETE FROM homes WHERE place IS NULL")
    told = found(village, TABLES)
    assert told["homes", "owner"] == (True, "information", "every row has an owner")
    assert told["people", "foreign_key:home->homes.id"][:2] == (False, "violated")
    assert (
        told["people", "foreign_key:home->homes.id"][2]
        == "0 keys of homes.id occur more than once; 1 rows have no parent"
    )


def test_a_unit_has_one_row_only_if_its_path_leads_there_once(village: duckdb.DuckDBPyConnection) -> None:
    tables = {**TABLES, "visits": {**TABLES["visits"], "unique": True}}
    fact = ("visits", policy_of(tables).unique_fact("visits"))
    assert found(village, tables)[fact][:2] == (False, "violated")
    assert found(village, tables)[fact][2].startswith("2 units have more than one row")
    village.execute("DELETE FROM visits WHERE person IN (2, 3, 4); INSERT INTO visits VALUES (4)")
    assert found(village, tables)[fact] == (True, "verified", "each unit has at most one row")
    assert ("visits", "max_rows_per_unit") not in found(village, tables)


def test_a_path_with_a_column_of_another_type_has_no_owners_to_count(village: duckdb.DuckDBPyConnection) -> None:
    village.execute("ALTER TABLE homes ALTER id TYPE BIGINT")
    told = found(village, TABLES)
    for table in ("people", "visits"):
        assert (table, "owner") not in told and (table, "max_rows_per_unit") not in told
    assert told["homes", "owner"][0] and told["homes", "max_rows_per_unit"][0]
    assert told["people", "foreign_key:home->homes.id"] == (
        False, "error", "home is INTEGER and homes.id is BIGINT: give both the same type",
    )  # fmt: skip
    assert told["visits", "foreign_key:person->people.id"][0]


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE people",
        "ALTER TABLE people DROP id",
        "DROP TABLE people; CREATE VIEW people AS SELECT 1 AS id, 1 AS home",
    ],
)
def test_a_parent_that_is_not_there_is_an_error_and_owns_nothing(
    village: duckdb.DuckDBPyConnection, change: str
) -> None:
    village.execute(change)
    told = found(village, TABLES)
    assert told["visits", "foreign_key:person->people.id"] == (
        False, "error", "there is no people.id in the database",
    )  # fmt: skip
    if "VIEW" not in change:
        assert ("visits", "owner") not in told
    assert ("people", "owner") not in told


@pytest.mark.parametrize(("unit", "key", "holds"), [("id", "id", True), ("ID", "id", True), ("place", "id", False)])
def test_a_unique_key_of_rows_is_no_unique_unit(
    connection: duckdb.DuckDBPyConnection, unit: str, key: str, holds: bool
) -> None:
    """Through two tables: only where each step leads to the column that holds the unit itself."""
    connection.execute(
        "CREATE TABLE homes(id INT PRIMARY KEY, place INT);"
        "CREATE TABLE people(id INT PRIMARY KEY REFERENCES homes(id));"
        "CREATE TABLE cards(person INT PRIMARY KEY REFERENCES people(id))"
    )
    tables = {
        "homes": {"unit": unit, "columns": {"id": {}, "place": {}}},
        "people": {"unit": {"id": f"homes.{key}"}, "columns": {"id": {}}},
        "cards": {"unit": {"person": "people.id"}},
    }
    facts = constraint_facts(connection, policy_of(tables))
    links = {("people", f"foreign_key:id->homes.{key}"), ("cards", "foreign_key:person->people.id")}
    steps = ["foreign_key:person->people.id", f"foreign_key:id->homes.{key}", unit.lower()]
    unique = {("people", f"unique:{json.dumps(steps[1:])}"), ("cards", f"unique:{json.dumps(steps)}")}
    own = {("homes", f"unique:{unit.lower()}")} if holds else set()
    assert {(table, fact.lower()) for table, fact in facts if fact != "owned"} == links | (
        unique if holds else set()
    ) | own


def test_the_very_columns_of_a_foreign_key_must_be_constrained(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(
        "CREATE TABLE people(id INT PRIMARY KEY, other INT UNIQUE);"
        "CREATE TABLE dogs(id INT PRIMARY KEY);"
        "CREATE TABLE cards(a INT REFERENCES people(id), b INT REFERENCES people(other), c INT REFERENCES dogs(id))"
    )
    for column, key, held in (("a", "id", True), ("b", "other", True), ("a", "other", False), ("c", "id", False)):
        tables = {
            "people": {"unit": key, "columns": {"id": {}, "other": {}}},
            "cards": {"unit": {column: f"people.{key}"}},
        }
        facts = constraint_facts(connection, policy_of(tables))
        assert (("cards", f"foreign_key:{column}->people.{key}") in facts) == held


def test_rows_outside_the_values_of_a_public_table_are_counted(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(
        "CREATE TABLE kinds(k VARCHAR); INSERT INTO kinds VALUES ('a'), ('b'), (NULL);"
        "CREATE TABLE t(id INT, k VARCHAR); INSERT INTO t VALUES (1, 'a'), (2, 'x'), (3, 'y'), (4, NULL)"
    )
    tables = {
        "kinds": {"public": True, "columns": {"k": {}}},
        "t": {"unit": "id", "columns": {"k": {"values": {"from": "kinds.k"}}}},
    }
    told = found(connection, tables)
    assert told["t", "values:k"] == (True, "information", "2 rows of k are not in kinds.k")
    assert ("t", "nulls:k") not in told and ("t", "bounds:k") not in told and ("kinds", "owner") not in told


def test_both_bounds_are_inside_and_null_is_neither(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("CREATE TABLE t(x INT); INSERT INTO t VALUES (-1), (0), (5), (10), (11), (12), (NULL)")
    for declared, rows in (({"min": 0, "max": 10}, 3), ({"min": 0}, 1), ({"max": 10}, 2), ({"max": 11}, 1)):
        told = found(connection, {"t": {"unit": "row", "columns": {"x": declared}}})
        assert told["t", "bounds:x"] == (True, "information", f"{rows} rows are outside min and max of x")
    told = found(connection, {"t": {"unit": "row", "columns": {"x": {"nulls": False}}}})
    assert set(told) == {("t", "table"), ("t", "nulls:x")}
    assert told["t", "nulls:x"][2] == "1 rows are NULL in x despite `nulls: false`"


def test_a_cap_that_is_searched_for_is_not_counted(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("CREATE TABLE t(id INT)")
    told = found(connection, {"t": {"unit": "id", "max_rows_per_unit": "auto"}})
    assert told["t", "max_rows_per_unit"] == (
        True, "information", "left to a private search: `dpsql bounds` shows it",
    )  # fmt: skip


def test_columns_of_unknown_types_are_hidden_only_where_a_public_table_lists_none(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    connection.execute("CREATE TABLE t(id INT, raw BLOB, list INT[])")
    told = found(connection, {"t": {"public": True}})
    assert {fact for _, fact in told} == {"table", "column:raw", "column:list"}
    assert told["t", "column:raw"] == (True, "information", "hidden from analysts: its type BLOB is not supported")
    for tables in ({"t": {"public": True, "columns": {"id": {}}}}, {"t": {"unit": "id"}}):
        assert not {fact for _, fact in found(connection, tables)} & {"column:raw", "column:list"}


def test_a_table_with_an_error_is_not_looked_into_and_the_others_are(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("CREATE TABLE t(id INT); CREATE VIEW v AS SELECT 1 AS id")
    told = found(connection, {"v": {"unit": "id", "columns": {"x": {}}}, "t": {"unit": "id"}})
    assert {fact for table, fact in told if table == "v"} == {"table", "column:x"}
    assert told["v", "table"] == (False, "error", "it is a view: declare the tables behind it instead")
    assert told["v", "column:x"][:2] == (False, "error") and told["v", "column:x"][2].startswith("there is no column x")
    assert told["t", "table"] == (True, "verified", "the table and its columns exist, with usable types")


def test_every_account_that_starts_afresh_is_reminded_of() -> None:
    purposes = {"report": {"epsilon": 1}, "research": {"epsilon": 2, "every": "year"}}
    analysts = {"ana": {"epsilon": 3, "every": "month", "purposes": purposes}, "bob": {"epsilon": 1}}
    said = _windows(policy_of({"t": {"unit": "row"}}, analysts=analysts))
    assert all(each.table == "budget" and each.ok and each.kind == "information" for each in said)
    words = "what the analyst learns over many windows adds up, and only the dataset's cap of epsilon 9 bounds it"
    told = {each.fact: each.text for each in said}
    assert told["ana"] == f"epsilon 3 resets every month: {words}"
    assert told["ana for research"] == f"epsilon 2 resets every year: {words}"
    assert "bob" not in told
    assert check_facts(duckdb.connect(), policy_of({"t": {"unit": "row"}}, analysts=analysts))[1:] == said
    assert isinstance(said[0], PolicyFinding)
