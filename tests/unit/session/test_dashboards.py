"""What BI tools wrap around a query is still that query; probes for columns are free and tell nothing of the data."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql

POLICY: dict[str, Any] = {
    "dataset": "shop",
    "search": False,
    "budget": {"epsilon": 100, "delta": 1e-6},
    "tables": {
        "customers": {
            "unit": "id",
            "unique": True,
            "columns": {"region": {"values": ["north", "south"]}, "age": {"min": 18, "max": 110, "minmax": "policy"}},
        },
        "orders": {
            "unit": "customer_id",
            "max_rows_per_unit": 5,
            "columns": {
                "amount": {"min": 0, "max": 500},
                "placed": {"min": date(2024, 1, 1), "max": date(2024, 12, 31), "minmax": "policy"},
                "stamped": {"min": date(2024, 1, 1), "max": date(2024, 12, 31), "minmax": "policy"},
                "sent": {"min": date(2024, 1, 1), "max": date(2024, 12, 31)},
                "tip": {},
                "weight": {"bounds": "auto"},
            },
        },
        "stores": {"public": True},
    },
}


def _database(path: Path, rows: int) -> Path:
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            f"CREATE TABLE customers AS SELECT i AS id, ['north', 'south'][i % 2 + 1] AS region, 20 + i % 70 AS age "
            f"FROM range({rows}) r(i)"
        )
        connection.execute("ALTER TABLE customers ADD PRIMARY KEY (id)")
        connection.execute(
            f"CREATE TABLE orders AS SELECT i % 100 AS customer_id, i % 50 * 1.0 AS amount, DATE '2024-03-01' + (i % 99)::INT "
            f"AS placed, TIMESTAMP '2024-03-01 10:00:00' AS stamped, DATE '2024-03-01' AS sent, i % 3.0 AS tip, "
            f"i % 7 * 1.0 AS weight FROM range({rows}) r(i)"
        )
        connection.execute("CREATE TABLE stores AS SELECT 1 AS id, 'Main Street' AS name")
    return path


@pytest.fixture
def db(tmp_path: Path) -> dpsql.Connection:
    return _connect(_database(tmp_path / "shop.duckdb", 300))


def _connect(path: Path) -> dpsql.Connection:
    return dpsql.connect(path, policy=POLICY, ledger=path.with_suffix(".ledger"), analyst="ana", dialect="postgres")


def _entries(db: dpsql.Connection) -> str:
    return repr(db.budget().dataset.spent)


PROBES = [
    ("SELECT * FROM orders WHERE 1=0", 7),
    ("SELECT * FROM orders LIMIT 0", 7),
    ("SELECT * FROM (SELECT * FROM orders) t WHERE false", 7),
    ("SELECT * FROM (SELECT * FROM orders) t WHERE (1 = 0) AND placed > DATE '2024-06-01'", 7),
    ("SELECT * FROM orders WHERE 'a' = 'b' ORDER BY placed", 7),
    ("SELECT * FROM orders WHERE 1 <> 1", 7),
    ("SELECT o.amount, c.region FROM orders o JOIN customers c ON o.customer_id = c.id LIMIT 0", 2),
    ("SELECT region, count(*) AS n, avg(age) AS a FROM customers GROUP BY region LIMIT 0", 3),
    ("SELECT region, count(*) AS n FROM customers WHERE 1 = 0 GROUP BY region", 2),
    ("SELECT * FROM (SELECT region, count(*) AS n FROM customers GROUP BY region) AS virtual_table LIMIT 0", 2),
    ("SELECT * FROM (SELECT region, count(*) AS n FROM customers GROUP BY region) AS virtual_table WHERE 1 = 0", 2),
    ("WITH t AS (SELECT region, count(*) AS n FROM customers GROUP BY region) SELECT n FROM t LIMIT 0", 1),
    ("SELECT customer_id, count(*) AS n FROM orders GROUP BY customer_id LIMIT 0", 2),
    ("SELECT count(*) FROM orders LIMIT 0", 1),
    ("SELECT sum(tip) FROM orders LIMIT 0", 1),
    ("SELECT avg(weight) FROM orders LIMIT 0", 1),
    ("SELECT avg(s) FROM (SELECT customer_id, sum(weight) AS s FROM orders GROUP BY customer_id) t LIMIT 0", 1),
    ("SELECT amount FROM orders UNION ALL SELECT age FROM customers LIMIT 0", 1),
    ("SELECT * FROM stores WHERE 1 = 0", 2),
    ("(SELECT * FROM orders LIMIT 0)", 7),
]


@pytest.mark.parametrize(("sql", "width"), PROBES, ids=[sql for sql, _ in PROBES])
def test_a_probe_has_columns_and_no_rows_and_is_free(db: dpsql.Connection, sql: str, width: int) -> None:
    before, kept = _entries(db), _ledger(db)
    result = db.query(sql)
    assert len(result.columns) == len(result.types) == width
    assert result.fetchall() == []
    assert result.cost.epsilon == 0 and not result.replayed
    assert any("no rows were requested" in note for note in result.notes)
    assert db.describe(sql) == (result.columns, result.types)
    assert db.explain(sql).cost.epsilon == 0
    assert (_entries(db), _ledger(db)) == (before, kept)


def _ledger(db: dpsql.Connection) -> object:
    return db.ledger.last(None, None)


def test_a_probe_has_the_types_of_the_answer(db: dpsql.Connection) -> None:
    assert db.query("SELECT * FROM orders LIMIT 0").types[:4] == ("DOUBLE", "DATE", "TIMESTAMP", "DATE")
    for sql in ("SELECT region, count(*) AS n, avg(age) AS a FROM customers GROUP BY region", "SELECT * FROM stores"):
        assert db.query(f"SELECT * FROM ({sql}) t LIMIT 0").types == db.query(sql).types


def test_a_probe_is_answered_without_a_table_to_read(db: dpsql.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> object:
        raise AssertionError("the data were touched")

    monkeypatch.setattr(type(db.engine), "run", refuse)
    for sql, _ in PROBES:
        db.query(sql)


def test_a_probe_is_the_same_on_any_data(db: dpsql.Connection, tmp_path: Path) -> None:
    empty = _connect(_database(tmp_path / "empty.duckdb", 0))
    for sql, _ in PROBES:
        one, two = db.query(sql), empty.query(sql)
        assert (one.columns, one.types, one.notes) == (two.columns, two.types, two.notes)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) AS n FROM orders WHERE 1 = 0",
        "SELECT count(*) AS n FROM customers WHERE 1 = 0 GROUP BY ROLLUP (region)",
        "SELECT count(*) AS n FROM customers WHERE 1 = 0 GROUP BY ()",
        "SELECT count(*) AS n FROM customers WHERE 1 = 0 GROUP BY GROUPING SETS ((region), ())",
        "SELECT count(*) AS n FROM orders WHERE 1 = 1 LIMIT 10",
        "SELECT count(*) AS n FROM orders WHERE 1 = 0 OR amount > 3",
        "SELECT count(*) AS n FROM orders WHERE NOT (1 = 0)",
    ],
)
def test_what_may_have_a_row_is_no_probe(db: dpsql.Connection, sql: str) -> None:
    assert len(db.query(sql)) >= 1


@pytest.mark.parametrize("sql", ["SELECT * FROM orders WHERE 1=1", "SELECT * FROM orders LIMIT 1"])
def test_rows_are_still_private(db: dpsql.Connection, sql: str) -> None:
    with pytest.raises(dpsql.UnsupportedQuery):
        db.query(sql)


def test_a_probe_refuses_what_does_not_exist(db: dpsql.Connection) -> None:
    for sql in ("SELECT nope FROM orders LIMIT 0", "SELECT * FROM nope WHERE 1=0", "SELECT rowid FROM orders LIMIT 0"):
        with pytest.raises(dpsql.Error):
            db.query(sql)


# charts -----------------------------------------------------------------------------------------------------------------

INNER = "SELECT region, count(*) AS n FROM customers GROUP BY region"


def test_a_query_in_brackets_is_the_query(db: dpsql.Connection) -> None:
    plain = db.query(INNER)
    wrapped = db.query(f"SELECT * FROM ({INNER}) t LIMIT 1000")
    assert wrapped.cost.epsilon == 0
    assert sorted(wrapped.fetchall(), key=str) == sorted(plain.fetchall(), key=str)
    assert db.query(f"SELECT count(*) AS rows FROM ({INNER}) t").fetchall() == [(2,)]


def test_a_chart_over_a_virtual_table(db: dpsql.Connection) -> None:
    chart = """SELECT date_trunc('month', placed) AS month, sum(amount) AS total
        FROM (SELECT placed, amount FROM orders) AS virtual_table
        WHERE placed >= TO_DATE('2024-03-01', 'YYYY-MM-DD') AND placed < DATE '2024-06-01'
        GROUP BY date_trunc('month', placed) ORDER BY total DESC LIMIT 1000"""
    with pytest.raises(dpsql.Error) as refused:
        db.query(chart.replace("TO_DATE('2024-03-01', 'YYYY-MM-DD')", "nope"))
    assert "nope" in str(refused.value)
    assert db.query(chart.replace("TO_DATE('2024-03-01', 'YYYY-MM-DD')", "DATE '2024-03-01'")).cost.epsilon > 0
    above = (
        f"SELECT region AS region, sum(n) AS s FROM ({INNER}) AS virtual_table GROUP BY region ORDER BY s DESC LIMIT 10"
    )
    assert len(db.query(above)) == 2


def test_a_filter_list_of_declared_values_is_free(db: dpsql.Connection) -> None:
    for sql in (
        "SELECT DISTINCT region FROM customers",
        "SELECT region FROM customers GROUP BY region ORDER BY region LIMIT 100",
    ):
        result = db.query(sql)
        assert {row[0] for row in result.fetchall()} == {"north", "south"} and result.cost.epsilon == 0


# MIN and MAX ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT min(placed), max(placed) FROM orders",
        "SELECT MIN(placed) AS lo, MAX(o.placed) AS hi FROM orders o LIMIT 1",
        "SELECT min(placed), max(placed) FROM (SELECT * FROM orders) AS virtual_table",
        "SELECT min(p), max(p) FROM (SELECT placed AS p, amount FROM orders) AS virtual_table",
        "WITH t AS (SELECT min(placed) AS a, max(placed) AS b FROM orders) SELECT a, b FROM t",
    ],
)
def test_the_policy_answers_min_and_max(db: dpsql.Connection, sql: str) -> None:
    before = _entries(db)
    result = db.query(sql)
    assert result.fetchall() == [(date(2024, 1, 1), date(2024, 12, 31))]
    assert result.types == ("DATE", "DATE") and result.cost.epsilon == 0
    assert [output.noisy for output in result.plan.outputs] == [False, False]
    assert any("placed are the bounds that the policy declares" in note for note in result.notes)
    assert any("placed are the bounds" in note for note in db.explain(sql).notes)
    assert _entries(db) == before


def test_the_policy_answers_numbers_and_timestamps_and_beside_other_aggregates(db: dpsql.Connection) -> None:
    assert db.query("SELECT min(age), max(age) - min(age) AS w FROM customers").fetchall() == [(18, 92)]
    assert db.query("SELECT max(stamped) AS m FROM orders").fetchall() == [(datetime(2024, 12, 31),)]
    both = db.query("SELECT max(placed) AS m, count(*) AS n FROM orders")
    assert both.fetchall()[0][0] == date(2024, 12, 31) and both.cost.epsilon > 0
    assert any("placed are the bounds" in note for note in both.notes)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT max(placed) FROM orders WHERE amount > 3",
        "SELECT max(placed) FROM (SELECT placed FROM orders WHERE amount > 3) t",
        "SELECT max(o.placed) FROM orders o JOIN customers c ON o.customer_id = c.id",
        "SELECT max(sent) FROM orders",
        "SELECT max(placed) FILTER (WHERE amount > 3) FROM orders",
    ],
)
def test_the_policy_answers_for_all_rows_of_a_column_that_says_so_only(db: dpsql.Connection, sql: str) -> None:
    try:
        notes = db.query(sql).notes
    except dpsql.Error:
        notes = ()
    assert not any("the policy declares" in note for note in notes)


def test_minmax_needs_bounds_to_answer_with() -> None:
    for column, words in (
        ({"minmax": "policy"}, "not declared"),
        ({"min": 0, "max": 1, "minmax": "data"}, "minmax: policy"),
    ):
        tables = {"t": {"unit": "u", "columns": {"x": column}}}
        with pytest.raises(dpsql.PolicyError, match=words):
            dpsql.connect({}, policy={**POLICY, "tables": tables}, ledger=":memory:")
