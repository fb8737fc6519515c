"""Each break that a review of the joins found, as a test of the behaviour that closes it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.bounds.domain import of_type
from dpsql.expressions.types import BIGINT
from dpsql.plan.canonical import describe_relation
from dpsql.plan.nodes.joins import inner_join
from dpsql.plan.nodes.relation import UNIT, Field, JoinSide, Scan


def database(*statements: str) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for statement in statements:
        connection.execute(statement)
    return connection


def connect(data: duckdb.DuckDBPyConnection, tables: dict[str, Any], seen: list[str] | None = None) -> dpsql.Connection:
    """As the steward, or as an analyst who sees some tables."""
    budget: dict[str, Any] = {"epsilon": 100, "delta": 1e-6}
    if seen is not None:
        budget["analysts"] = {"ana": {"epsilon": 10, "tables": seen}}
    policy = {"dataset": "d", "search": False, "budget": budget, "tables": tables, "defaults": {"max_rows_per_unit": 1}}
    who: dict[str, Any] = {"steward": True} if seen is None else {"analyst": "ana"}
    return dpsql.connect(data, policy=policy, ledger=":memory:", **who)


def counted(data: duckdb.DuckDBPyConnection, tables: dict[str, Any], sql: str) -> float:
    """The exact answer of one count, after bounding and before noise."""
    with connect(data, tables) as db:
        [release] = dpsql.audit.trace(db, sql, salt=b"salt", mechanism="laplace")
        [statistic] = release.statistics
        return round(float(sum(statistic.values) * statistic.grid), 6)


# names ------------------------------------------------------------------------------------------------------------------


def test_tables_whose_names_differ_by_an_accented_capital_are_two() -> None:
    """DuckDB folds ASCII letters only: the columns of both were taken for those of one table."""
    data = database(
        'CREATE TABLE "É"(u INT, x INT)', 'CREATE TABLE "é"(v INT, x INT)', 'INSERT INTO "É" VALUES (1, 1), (2, 1)',
        'INSERT INTO "é" VALUES (1, 1), (1, 2), (1, 3)',
    )  # fmt: skip
    tables = {"É": {"unit": "u"}, "é": {"unit": "v"}}
    assert counted(data, tables, 'SELECT count(*) FROM "É"') == 2
    assert counted(data, tables, 'SELECT count(*) FROM "é"') == 1
    with connect(data, {"É": {"unit": "u"}}) as db, pytest.raises(dpsql.Error, match="é"):
        db.explain('SELECT count(*) FROM "é"')


def test_a_key_is_not_the_unit_whose_name_differs_by_an_accented_capital() -> None:
    """The key of a row was taken for the owner, so that a person with many rows was as many owners."""
    data = database(
        'CREATE TABLE home("É" INT, "é" INT PRIMARY KEY)', 'CREATE TABLE t(p INT REFERENCES home("é"))',
        "INSERT INTO home SELECT 7, i FROM range(50) r(i)", "INSERT INTO t SELECT i FROM range(50) r(i)",
    )  # fmt: skip
    tables = {"home": {"unit": "É", "columns": {"é": {}}}, "t": {"unit": {"p": "home.é"}}}
    assert counted(data, tables, "SELECT count(*) FROM t") == 1


def test_names_are_folded_in_one_place() -> None:
    """`str.lower` folds letters that DuckDB does not; below the session only names of functions are compared with it."""
    functions = ("exp.Anonymous", "BARS[", "name_of(", "call.name.", "function")
    root = Path(dpsql.__file__).parent
    found = [
        f"{path.name}: {line.strip()}"
        for folder in ("plan", "engines", "sensitivity", "search", "policy")
        for path in sorted((root / folder).rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"(name|table|column|alias|key|parent|references)\.lower\(\)", line)
        and not any(each in line for each in functions)
    ]
    assert found == [
        'draft.py: simple = all(_PLAIN.fullmatch(part) for part in name.split(".")) and name.lower() not in _WORDS'
    ]


def test_a_name_of_three_parts_is_not_read_as_one_of_two() -> None:
    data = database("CREATE TABLE t(u INT, x INT)")
    with connect(data, {"t": {"unit": "u", "columns": {"x": {"min": 0, "max": 1}}}}) as db:
        assert db.explain("SELECT sum(main.t.x) FROM t")
        for name in ("other.t.x", "main.main.t.x", "a.b.t.x"):
            with pytest.raises(dpsql.ParseError, match="by its table and its name"):
                db.explain(f"SELECT sum({name}) FROM t")


# keys -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "one", "two"),
    [
        ("DECIMAL(38,10)", "1234567890123456789.0000000001", "1234567890123456789.0000000002"),
        ("TIMESTAMP_NS", "'2020-01-01 00:00:00.000000001'", "'2020-01-01 00:00:00.000000002'"),
    ],
)
def test_keys_that_are_read_with_less_precision_than_they_hold_link_nobody(type_: str, one: str, two: str) -> None:
    """Verified unique as stored, and equal as read: rows of two people would have been joined as one person's."""
    data = database(
        f"CREATE TABLE parent(u INT, k {type_} PRIMARY KEY)", f"CREATE TABLE child(k {type_} REFERENCES parent(k))",
        f"INSERT INTO parent VALUES (1, {one}), (2, {two})",
    )  # fmt: skip
    tables = {"parent": {"unit": "u", "columns": {"k": {}}}, "child": {"unit": {"k": "parent.k"}}}
    with connect(data, tables, ["parent"]) as db:
        for sql in ("FROM parent a JOIN parent b ON a.k = b.k", "FROM parent a WHERE k IN (SELECT k FROM parent)"):
            with pytest.raises(dpsql.UnsupportedQuery, match="not by their owner"):
                db.explain(f"SELECT count(*) {sql}")
    with connect(data, tables) as db, pytest.raises(dpsql.PolicyError, match="could merge two units"):
        db.explain("SELECT count(*) FROM parent")


@pytest.mark.parametrize("value", ["'nan'::DOUBLE", "0.0::DOUBLE", "'nan'::FLOAT"])
def test_nan_is_one_unit_and_so_is_zero(value: str) -> None:
    """However it is spelt, it is clipped as one (to two rows in a FULL JOIN), and met by itself alone."""
    rows = f"INSERT INTO {{}} SELECT CASE WHEN i % 2 = 0 THEN {value} ELSE -({value}) END FROM range(20) r(i)"
    data = database("CREATE TABLE a(u DOUBLE)", "CREATE TABLE b(u DOUBLE)", rows.format("a"), rows.format("b"),
                    "INSERT INTO a VALUES (3), (4)", "INSERT INTO b VALUES (3), (5)")  # fmt: skip
    tables = {"a": {"unit": "u"}, "b": {"unit": "u"}}
    assert counted(data, tables, "SELECT count(*) FROM a") == 3
    assert counted(data, tables, "SELECT count(*) FROM a JOIN b ON a.u = b.u") == 2
    assert counted(data, tables, "SELECT count(*) FROM a FULL JOIN b USING (u)") == 5
    assert counted(data, tables, "SELECT count(*) FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.u = a.u)") == 1
    assert counted(data, tables, "SELECT count(*) FROM (SELECT u, count(*) FROM a GROUP BY u)") == 3


# stored structs ---------------------------------------------------------------------------------------------------------

STRUCTS = ", ".join(
    f"{name} STRUCT(u INT, k INT, _unit INT, c0 INT, c1 INT)"
    for name in ("j", "j0", "j1", "j0s", "j1s", "je", "jes", "jp0", "j0p0", "j1p0", "t", "_unit", "c0")
)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT count(*) FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.u = a.u)", 0),
        ("SELECT count(*) FROM a WHERE u IN (SELECT u FROM b)", 0),
        ("SELECT count(*) FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.u = a.u)", 2),
        ("SELECT count(*) FROM a SEMI JOIN b ON a.u = b.u", 0),
        ("SELECT count(*) FROM a ANTI JOIN b ON a.u = b.u", 2),
        ("SELECT count(*) FROM a JOIN b ON a.u = b.u", 0),
        ("SELECT count(b.y) FROM a LEFT JOIN b ON a.u = b.u", 0),
        ("SELECT count(*) FROM a FULL JOIN b USING (u)", 3),
        ("SELECT count(*) FROM c", 1),
        ("SELECT count(*) FROM c JOIN b ON b.k = c.k", 1),
        ("SELECT count(*) FROM b WHERE k IN (SELECT k FROM c) AND EXISTS (SELECT 1 FROM a WHERE a.u = b.u)", 0),
    ],
)
def test_a_stored_struct_is_never_taken_for_a_table_of_the_emitted_sql(sql: str, expected: int) -> None:
    """Inside EXISTS, `j.u` was the field `u` of the subquery's own column `j`: everybody's rows were looked at."""
    filled = ", ".join(["{'u': 5, 'k': 9, '_unit': 5, 'c0': 5, 'c1': 5}"] * STRUCTS.count("STRUCT"))
    data = database(
        "CREATE TABLE a(u INT)", "INSERT INTO a VALUES (1), (2)",
        f"CREATE TABLE b(u INT, y INT, k INT PRIMARY KEY, {STRUCTS})", f"INSERT INTO b VALUES (5, 1, 9, {filled})",
        f"CREATE TABLE c(k INT REFERENCES b(k), {STRUCTS})", f"INSERT INTO c VALUES (9, {filled})",
    )  # fmt: skip
    tables = {"a": {"unit": "u"}, "b": {"unit": "u", "columns": {"y": {}, "k": {}}}, "c": {"unit": {"k": "b.k"}}}
    assert counted(data, tables, sql) == expected


# merged columns ---------------------------------------------------------------------------------------------------------

EXTREMES = {
    "HUGEINT": "170141183460469231731687303715884105727", "UBIGINT": "18446744073709551615", "TINYINT": "-128",
    "BIGINT": "-9223372036854775808", "DECIMAL(18,18)": "0.999999999999999999", "DECIMAL(18,4)": "99999999999999.9999",
    "DECIMAL(38,10)": "9999999999999999999999999999.9999999999", "DOUBLE": "'-inf'", "DATE": "'5877642-06-25 (BC)'",
    "TIMESTAMP": "'2020-01-01'", "TIMESTAMP_S": "'2020-01-01'", "VARCHAR": "'é'", "UUID": "'00000000-0000-0000-0000-000000000001'",
}  # fmt: skip
KINDS = [
    ["HUGEINT", "UBIGINT", "TINYINT", "BIGINT", "DECIMAL(18,18)", "DECIMAL(18,4)", "DECIMAL(38,10)", "DOUBLE"],
    ["DATE", "TIMESTAMP", "TIMESTAMP_S"],
    ["VARCHAR", "UUID"],
]


@pytest.mark.parametrize("kind", KINDS, ids=["numbers", "moments", "texts"])
def test_a_column_that_using_merges_from_two_types_never_raises(kind: list[str]) -> None:
    """DuckDB's own COALESCE casts one side to the other's type, and fails on a value that does not fit."""
    for one in kind:
        for two in kind:
            data = database(
                f"CREATE TABLE a(u INT, k {one})", f"INSERT INTO a VALUES (1, {EXTREMES[one]}), (2, NULL)",
                f"CREATE TABLE b(u INT, k {two})", f"INSERT INTO b VALUES (3, {EXTREMES[two]}), (4, NULL)",
            )  # fmt: skip
            tables = {name: {"unit": "u", "columns": {"k": {}}} for name in ("a", "b")}
            counts = counted(data, tables, "SELECT count(k) FROM a FULL JOIN b USING (u, k)")
            assert counts == 2 - ([one, two].count("DATE") % 2), (one, two)  # such a date is no timestamp


# names that are hidden --------------------------------------------------------------------------------------------------


def test_a_hint_does_not_name_a_table_that_the_analyst_may_not_see() -> None:
    data = database(
        "CREATE TABLE orders(secret_key INT PRIMARY KEY, cid INT)", "CREATE TABLE payments(cid INT, x INT)",
        "CREATE TABLE items(o INT REFERENCES orders(secret_key), x INT)",
    )  # fmt: skip
    tables = {
        "orders": {"unit": "cid", "columns": {"secret_key": {}}}, "payments": {"unit": "cid", "columns": {"x": {}}},
        "items": {"unit": {"o": "orders.secret_key"}, "columns": {"x": {}}},
    }  # fmt: skip
    sql = "SELECT count(*) FROM items i JOIN payments p ON i.x = p.x"
    with connect(data, tables) as db, pytest.raises(dpsql.UnsupportedQuery, match=r"i\.o = orders\.secret_key"):
        db.explain(sql)
    with connect(data, tables, ["items", "payments"]) as db:
        with pytest.raises(dpsql.UnsupportedQuery) as refused:
            db.explain(sql)
        assert "secret_key" not in str(refused.value) and "orders" not in str(refused.value)
        assert "<unit>" in db.explain("SELECT count(*) FROM items a JOIN items b ON a.o = b.o").sql


# replay -----------------------------------------------------------------------------------------------------------------


def test_joins_over_different_columns_are_never_one_release() -> None:
    """The table `x` with a column `y.z`, and the table `x.y` with a column `z`: both are called `x.y.z` in a join."""

    def described(column: str) -> object:
        scan = Scan((Field(column, BIGINT, of_type(BIGINT), True, UNIT),), False, 1, False, "t", "u")
        parts = [JoinSide(scan, ("x.y.z",))]
        return describe_relation(inner_join(parts, [], lambda table, columns: False))

    assert described("y.z") != described("z")
    assert described("z") == described("z")
