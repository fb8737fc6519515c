"""`dpsql check`: planted violations are found, and only constraints count without looking."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pandas as pd
import pytest

from dpsql.policy import PolicyFinding, check_facts, constraint_facts, load_policy


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        yield opened


def findings(connection: duckdb.DuckDBPyConnection, **tables: Any) -> dict[tuple[str, str], PolicyFinding]:
    found = check_facts(connection, policy_of(tables))
    assert len({(each.table, each.fact) for each in found}) == len(found)
    return {(each.table, each.fact): each for each in found}


def policy_of(tables: dict[str, Any]) -> Any:
    return load_policy({"dataset": "d", "budget": {"epsilon": 1}, "tables": tables})


def only_error(connection: duckdb.DuckDBPyConnection, **tables: Any) -> str:
    [finding] = [each for each in check_facts(connection, policy_of(tables)) if not each.ok]
    assert finding.kind == "error"
    return f"{finding.table} {finding.fact}: {finding.text}"


def test_a_unit_that_stands_twice_violates_unique(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1), (2), (2), (3), (3), (NULL), (NULL)) AS v(id)")
    finding = findings(connection, t={"unit": "id", "unique": True})["t", "unique:id"]
    assert (finding.ok, finding.kind) == (False, "violated")
    assert "2 units have more than one row" in finding.text


def test_null_units_do_not_violate_unique(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1), (2), (NULL), (NULL)) AS v(id)")
    found = findings(connection, t={"unit": "ID", "unique": True})
    assert (found["t", "unique:id"].ok, found["t", "unique:id"].kind) == (True, "verified")
    assert found["t", "owner"].text == "2 rows have no owner and are ignored"
    assert found["t", "owner"].kind == "information"


def test_unique_speaks_of_the_owner_not_of_the_key(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("CREATE TABLE people AS SELECT * FROM (VALUES (1, 7), (2, 7), (3, 8)) AS v(id, home)")
    connection.execute("CREATE TABLE cards(person INT UNIQUE); INSERT INTO cards VALUES (1), (2), (3)")
    tables = {
        "people": {"unit": "home", "columns": {"id": {}}},
        "cards": {"unit": {"person": "people.id"}, "unique": True},
    }
    fact = 'unique:["foreign_key:person->people.id", "home"]'
    finding = findings(connection, **tables)["cards", fact]
    assert (finding.kind, "1 units" in finding.text) == ("violated", True)
    assert ("cards", fact) not in constraint_facts(connection, policy_of(tables))


@pytest.fixture
def shop(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    connection.execute("CREATE TABLE customers(id INT); INSERT INTO customers VALUES (1), (2), (3), (NULL)")
    connection.execute("CREATE TABLE orders(customer_id INT); INSERT INTO orders VALUES (1), (1), (2), (NULL)")
    return connection


SHOP = {"customers": {"unit": "id"}, "orders": {"unit": {"customer_id": "customers.id"}}}
FACT = ("orders", "foreign_key:customer_id->customers.id")


def test_a_foreign_key_that_holds(shop: duckdb.DuckDBPyConnection) -> None:
    finding = findings(shop, **SHOP)[FACT]
    assert (finding.ok, finding.kind) == (True, "verified")


def test_a_child_without_a_parent_violates_the_foreign_key(shop: duckdb.DuckDBPyConnection) -> None:
    shop.execute("INSERT INTO orders VALUES (9), (9)")
    finding = findings(shop, **SHOP)[FACT]
    assert (finding.ok, finding.kind) == (False, "violated")
    assert "0 keys of customers.id occur more than once; 2 rows have no parent" in finding.text


def test_a_parent_key_that_stands_twice_violates_the_foreign_key(shop: duckdb.DuckDBPyConnection) -> None:
    shop.execute("INSERT INTO customers VALUES (3)")
    finding = findings(shop, **SHOP)[FACT]
    assert (finding.ok, finding.kind) == (False, "violated")
    assert "1 keys of customers.id occur more than once; 0 rows" in finding.text


def test_a_foreign_key_of_another_type_is_an_error(shop: duckdb.DuckDBPyConnection) -> None:
    shop.execute("ALTER TABLE orders ALTER customer_id TYPE VARCHAR")
    text = only_error(shop, **SHOP)
    assert text.startswith("orders foreign_key:customer_id->customers.id: customer_id is VARCHAR")
    assert "give both the same type" in text


def test_rows_over_the_cap_are_information(shop: duckdb.DuckDBPyConnection) -> None:
    tables = {**SHOP, "orders": {**SHOP["orders"], "max_rows_per_unit": 1}}
    finding = findings(shop, **tables)["orders", "max_rows_per_unit"]
    assert (finding.ok, finding.kind) == (True, "information")
    assert finding.text.startswith("1 units have more than 1 rows")
    assert findings(shop, **SHOP)["orders", "max_rows_per_unit"].text.startswith("not declared: private searches")
    policy = load_policy({"dataset": "d", "budget": {"epsilon": 1}, "search": False, "tables": SHOP})
    [default] = [
        each for each in check_facts(shop, policy) if (each.table, each.fact) == ("orders", "max_rows_per_unit")
    ]
    assert default.text.startswith("no unit has more than 50 rows")


def test_rows_outside_the_declarations_are_information(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(
        "CREATE TABLE t AS SELECT * FROM (VALUES (1, 5.0::DOUBLE, 'a', DATE '2020-01-01'), "
        "(2, 50, 'b', DATE '2030-01-01'), (3, 'nan', 'x', NULL), (4, -1, NULL, NULL), (5, NULL, 'y', NULL)) "
        "AS v(id, x, s, d)"
    )
    columns = {
        "x": {"min": 0, "max": 10.5},
        "s": {"values": ["a", "b"], "nulls": False},
        "d": {"max": "2026-12-31"},
        "id": {"min": 2},
    }
    found = findings(connection, t={"unit": "row", "columns": columns})
    assert found["t", "bounds:x"].text == "3 rows are outside min and max of x"
    assert found["t", "values:s"].text == "2 rows are outside the values of s"
    assert found["t", "nulls:s"].text.startswith("1 rows are NULL in s")
    assert found["t", "bounds:d"].text.startswith("1 rows")
    assert found["t", "bounds:id"].text.startswith("1 rows")
    assert all(each.ok for each in found.values())
    assert ("t", "owner") not in found


def test_time_zones_are_read_in_utc(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("SET TimeZone = 'America/New_York'")
    connection.execute("CREATE TABLE t AS SELECT TIMESTAMPTZ '2020-01-01 02:00:00+00' AS at_")
    declared = {"unit": "row", "columns": {"at_": {"min": "2020-01-01"}}}
    assert findings(connection, t=declared)["t", "bounds:at_"].text.startswith("0 rows")


@pytest.mark.parametrize(
    ("data_type", "spec", "reason"),
    [
        ("TINYINT", {"max": 1000}, "max = 1000 is not a value of TINYINT"),
        ("INTEGER", {"min": 0.5}, "min = 0.5 is not a value of INTEGER"),
        ("DECIMAL(10,2)", {"min": 0.005}, "min = 0.005 is not a value of DECIMAL(10,2)"),
        ("DOUBLE", {"min": "2020-01-01"}, "does not match type DOUBLE: write a number"),
        ("FLOAT", {"max": "1e300"}, "is not a value of FLOAT"),
        ("VARCHAR", {"min": 3}, "only numbers, dates and time stamps have min and max"),
        ("BOOLEAN", {"min": 0}, "list `values` instead"),
        ("DATE", {"min": "2020-01-01 10:00:00"}, "does not match type DATE: write a date"),
        ("DATE", {"min": 5}, "does not match type DATE: write a date"),
        ("TIMESTAMP", {"min": 5}, "write a date or a timestamp"),
        ("VARCHAR", {"values": [True, False]}, "YAML reads yes, no, on and off as booleans"),
        ("VARCHAR", {"values": [1]}, "the value 1 is a number, not a VARCHAR"),
        ("INTEGER", {"values": ["1"]}, "the value '1' is a text, not a INTEGER"),
        ("TINYINT", {"values": [300]}, "300 is not a value of TINYINT"),
        ("ENUM('a', 'it''s')", {"values": ["it's", "c"]}, "'c' is not a value of ENUM"),
        ("UUID", {"values": ["x"]}, "'x' is not a value of UUID"),
        ("INTEGER[]", {}, "its type INTEGER[] is not supported"),
        ("BLOB", {}, "leave the column out of the policy"),
    ],
)
def test_declarations_that_do_not_fit_the_type(
    connection: duckdb.DuckDBPyConnection, data_type: str, spec: dict[str, Any], reason: str
) -> None:
    connection.execute(f"CREATE TABLE t(c {data_type})")
    text = only_error(connection, t={"unit": "row", "columns": {"c": spec}})
    assert text.startswith("t column:c: c: ")
    assert reason in text


@pytest.mark.parametrize(
    ("data_type", "spec"),
    [
        ("HUGEINT", {"min": -5, "max": 10**30}),
        ("DECIMAL(10,2)", {"min": 0.25, "max": 10}),
        ("FLOAT", {"min": 0.1}),
        ("DOUBLE", {"max": "1e300"}),
        ("TIMESTAMP", {"min": "2020-01-01", "max": "2020-01-02"}),
        ("TIMESTAMP WITH TIME ZONE", {"max": "2020-01-02 10:00:00"}),
        ("BOOLEAN", {"values": [True]}),
        ("ENUM('a', 'it''s')", {"values": ["it's"]}),
        ("DECIMAL(3,1)", {"values": [1, 2]}),
        ("UUID", {"values": ["00000000-0000-0000-0000-000000000001"]}),
        ("VARCHAR", {"values": ["x'; DROP TABLE t; --"]}),
    ],
)
def test_declarations_that_fit_the_type(
    connection: duckdb.DuckDBPyConnection, data_type: str, spec: dict[str, Any]
) -> None:
    connection.execute(f"CREATE TABLE t(c {data_type}); INSERT INTO t VALUES (NULL)")
    found = findings(connection, t={"unit": "row", "columns": {"c": spec}})
    assert all(each.ok for each in found.values())
    assert found["t", "table"].kind == "verified"
    assert {"t"} == {each.table for each in found.values()}


def test_what_is_not_there_is_an_error(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("CREATE TABLE orders(id INT, amount INT); CREATE VIEW v AS SELECT * FROM orders")
    assert only_error(connection, ordres={"unit": "id"}).endswith("did you mean orders?")
    assert only_error(connection, zebra={"public": True}) == "zebra table: there is no such table in the database"
    assert "did you mean amount?" in only_error(connection, orders={"unit": "id", "columns": {"amont": {}}})
    assert only_error(connection, orders={"unit": "uid"}).startswith("orders column:uid: there is no column uid")
    assert "it is a view" in only_error(connection, v={"unit": "id"})


def test_the_database_of_another_schema_is_not_there(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("CREATE SCHEMA other; CREATE TABLE other.t(id INT PRIMARY KEY)")
    assert "no such table" in only_error(connection, t={"unit": "id"})
    assert constraint_facts(connection, policy_of({"t": {"unit": "id"}})) == frozenset()


def test_names_are_quoted(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute('CREATE TABLE "select ""x"(" u""" INT, "c d" INT); INSERT INTO "select ""x" VALUES (1, 5)')
    connection.execute('CREATE TABLE "kid"("p q" INT); INSERT INTO kid VALUES (1)')
    found = findings(
        connection,
        **{
            'select "x': {"unit": ' u"', "unique": True, "columns": {"c d": {"max": 3}}},
            "kid": {"unit": {"p q": 'select "x. u"'}},
        },
    )
    assert found['select "x', 'unique: u"'].kind == "verified"
    assert found['select "x', "bounds:c d"].text.startswith("1 rows")
    assert found["kid", 'foreign_key:p q->select "x. u"'].kind == "verified"


def test_registered_frames_are_tables(connection: duckdb.DuckDBPyConnection) -> None:
    connection.register("frame", pd.DataFrame({"id": [1, 2, 2]}))
    assert findings(connection, frame={"unit": "id", "unique": True})["frame", "unique:id"].kind == "violated"


def test_constraints_guarantee_facts(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(
        "CREATE TABLE customers(ID INT PRIMARY KEY, email VARCHAR UNIQUE, a INT, b INT, UNIQUE(a, b));"
        "CREATE TABLE orders(customer_id INT REFERENCES customers(id), other INT);"
        "CREATE TABLE loose(customer_id INT, a INT, b INT, UNIQUE(a, b))"
    )
    tables = {
        "customers": {"unit": "id"},
        "orders": {"unit": {"customer_id": "Customers.Id"}},
        "loose": {"unit": {"customer_id": "customers.id"}},
    }
    assert constraint_facts(connection, policy_of(tables)) == {
        ("customers", "unique:id"),
        ("customers", "owned"),
        ("orders", "foreign_key:customer_id->Customers.Id"),
    }
    assert constraint_facts(connection, policy_of({"customers": {"unit": "email"}})) == {("customers", "unique:email")}
    assert constraint_facts(connection, policy_of({"customers": {"unit": "a"}})) == frozenset()
    assert constraint_facts(connection, policy_of({"customers": {"unit": "row"}})) == frozenset()
    assert constraint_facts(connection, policy_of({"customers": {"public": True}})) == frozenset()


def test_a_unique_foreign_key_to_the_unit_is_a_unique_unit(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(
        "CREATE TABLE people(id INT PRIMARY KEY);CREATE TABLE cards(person INT PRIMARY KEY REFERENCES people(id))"
    )
    tables = {"people": {"unit": "id"}, "cards": {"unit": {"person": "people.id"}}}
    assert constraint_facts(connection, policy_of(tables)) == {
        ("people", "unique:id"),
        ("people", "owned"),
        ("cards", "owned"),
        ("cards", 'unique:["foreign_key:person->people.id", "id"]'),
        ("cards", "foreign_key:person->people.id"),
    }


def test_a_collation_makes_a_constraint_worthless(connection: duckdb.DuckDBPyConnection) -> None:
    """DuckDB lets both `a` and `A` into a UNIQUE column under NOCASE, and groups them together."""
    connection.execute("CREATE TABLE t(u VARCHAR COLLATE NOCASE UNIQUE); INSERT INTO t VALUES ('a'), ('A')")
    policy = policy_of({"t": {"unit": "u", "unique": True}})
    assert constraint_facts(connection, policy) == frozenset()
    assert findings(connection, t={"unit": "u", "unique": True})["t", "unique:u"].kind == "violated"
    connection.execute("CREATE OR REPLACE TABLE t(u VARCHAR UNIQUE)")
    assert constraint_facts(connection, policy) == {("t", "unique:u")}
    connection.execute("SET default_collation = 'nocase'")
    assert constraint_facts(connection, policy) == frozenset()


def test_a_temporary_table_hides_the_constraint_of_a_stored_one(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    connection.execute("CREATE TABLE t(id INT PRIMARY KEY); CREATE TEMP TABLE t(id INT)")
    assert constraint_facts(connection, policy_of({"t": {"unit": "id"}})) == frozenset()


def test_a_temporary_parent_is_not_the_parent_of_the_constraint(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    connection.execute("CREATE TABLE p(id INT PRIMARY KEY); CREATE TABLE c(p_id INT REFERENCES p(id))")
    policy = policy_of({"p": {"unit": "id"}, "c": {"unit": {"p_id": "p.id"}}})
    assert ("c", "foreign_key:p_id->p.id") in constraint_facts(connection, policy)
    connection.execute("CREATE TEMP TABLE p(id INT PRIMARY KEY)")
    assert ("c", "foreign_key:p_id->p.id") not in constraint_facts(connection, policy)


def test_an_engine_failure_verifies_nothing(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.execute("CREATE TABLE t(id INT)")

    def fail(checker: Any, *_: object) -> int:
        return int(checker.reader.rows("SELECT error('boom')")[0][0])

    monkeypatch.setattr("dpsql.policy.check._Checker.count", fail)
    text = only_error(connection, t={"unit": "id", "unique": True})
    assert text.startswith("t table: the database could not check it: ") and text.endswith("boom")
