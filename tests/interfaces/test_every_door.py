"""The same query through every door: the same plan, the same cost, and one charge."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import registry
from typer.testing import CliRunner

import dpsql.pandas
from dpsql.interfaces.cli.main import app
from dpsql.interfaces.magic import Magic

registry.register("dpsql", "dpsql.interfaces.sqlalchemy_dialect", "DpsqlDialect")

POLICY = """
dataset: clinic
search: false
budget: {epsilon: 5, delta: 1e-6, analysts: {ana: {epsilon: 4}}}
limits: {epsilon: 1}
tables: {t: {unit: u, unique: true, columns: {age: {min: 0, max: 110}, k: {values: [a, b], nulls: false}}}}
"""
SQL = "SELECT k, count(*) AS n, avg(age) AS a FROM t WHERE age > 30 GROUP BY k ORDER BY k"
BOUND = SQL.replace("30", "?")
NAMED = SQL.replace("30", ":low")
PRICE = "5%"
Rows = list[tuple[Any, ...]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "t.duckdb")) as own:
        own.execute(
            "CREATE TABLE t AS SELECT range AS u, (range % 90)::INTEGER AS age, ['a', 'b'][range % 2 + 1] AS k FROM range(3000)"
        )
    (tmp_path / "policy.yaml").write_text(POLICY)
    return tmp_path


def connect(folder: Path) -> dpsql.Connection:
    return dpsql.connect(folder / "t.duckdb", policy=folder / "policy.yaml", analyst="ana")


def by_sql(folder: Path) -> Rows:
    with connect(folder) as db:
        return db.query(SQL, price=PRICE).fetchall()


def by_sql_with_parameters(folder: Path) -> Rows:
    with connect(folder) as db:
        return db.query(BOUND.replace("?", "$1"), [30], price=PRICE).fetchall()


def by_hint(folder: Path) -> Rows:
    with connect(folder) as db:
        return db.query(SQL.replace("SELECT", f"SELECT /*+ price({PRICE}) */", 1)).fetchall()


def by_cursor(folder: Path) -> Rows:
    with connect(folder) as db:
        return db.cursor().execute(NAMED, {"low": 30}, price=PRICE).fetchall()


def by_setting(folder: Path) -> Rows:
    with connect(folder) as db:
        cursor = db.cursor().execute(f"SET dpsql.price = {PRICE!r}")
        return cursor.execute(BOUND, (30,)).fetchall()


def by_pandas(folder: Path) -> Rows:
    with connect(folder) as db, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        db.settle(f"SET dpsql.price = {PRICE!r}")
        return list(pd.read_sql(BOUND, db, params=[30]).itertuples(index=False, name=None))


def by_polars(folder: Path) -> Rows:
    with connect(folder) as db:
        return pl.read_database(BOUND, db, execute_options={"parameters": [30], "price": PRICE}).rows()


def by_sqlalchemy(folder: Path) -> Rows:
    engine = sa.create_engine(f"dpsql:///{folder}/t.duckdb?analyst=ana")
    t = sa.Table("t", sa.MetaData(), autoload_with=engine)
    asked = (
        sa.select(t.c.k, sa.func.count().label("n"), sa.func.avg(t.c.age).label("a"))
        .where(t.c.age > 30)
        .group_by(t.c.k)
        .order_by(t.c.k)
    )
    with engine.connect() as connection:
        rows = [tuple(row) for row in connection.execute(asked.execution_options(price=PRICE))]
    engine.dispose()
    return rows


def by_command_line(folder: Path) -> Rows:
    command = [
        "query",
        str(folder / "t.duckdb"),
        SQL,
        "--analyst",
        "ana",
        "--price",
        PRICE,
        "--format",
        "json",
    ]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    return [tuple(row) for row in said["rows"]]


def by_magic(folder: Path) -> Rows:
    ipython = pytest.importorskip("IPython.core.interactiveshell")
    shell = ipython.InteractiveShell.instance()
    magic = Magic(shell)
    magic(f"connect {folder}/t.duckdb --analyst ana")
    rows: Rows = magic(f"--price {PRICE}", SQL).fetchall()
    magic("close")
    return rows


DOORS = [
    by_magic,
    by_sql,
    by_sql_with_parameters,
    by_hint,
    by_cursor,
    by_setting,
    by_pandas,
    by_polars,
    by_sqlalchemy,
    by_command_line,
]


def spent(folder: Path) -> tuple[Any, int]:
    with connect(folder) as db:
        return db.budget().dataset.spent, sum(entry.kind == "charge" for entry in db.ledger.log())


@pytest.mark.parametrize("door", DOORS)
def test_each_door_charges_the_same_once(folder: Path, door: Callable[[Path], Rows]) -> None:
    with connect(folder) as db:
        plan = db.explain(SQL, price=PRICE)
    rows = door(folder)
    assert [row[0] for row in rows] == ["a", "b"]
    assert spent(folder)[1] == 1
    again = by_sql(folder)
    assert [(k, n, pytest.approx(a)) for k, n, a, *_ in rows] == again
    assert spent(folder)[1] == 1
    with connect(folder) as db:
        assert db.query(SQL, price=PRICE).replayed
        assert str(db.explain(SQL, price=PRICE)) == str(plan)
        [entry] = [entry for entry in db.ledger.log() if entry.kind == "charge"]
        assert entry.cost == plan.cost


def test_all_doors_together_charge_once(folder: Path) -> None:
    first = by_sql(folder)
    before = spent(folder)
    for door in DOORS:
        assert [(k, n, pytest.approx(a)) for k, n, a, *_ in door(folder)] == first, door.__name__
    assert spent(folder) == before


def test_the_accessor_asks_what_the_sql_asks(folder: Path) -> None:
    """A private frame has an account of its own, so it is compared with SQL over itself."""
    with duckdb.connect(str(folder / "t.duckdb"), read_only=True) as own:
        frame = own.execute("SELECT * FROM t").df()
    people = frame.dp.protect(
        unit="u", bounds={"age": (0, 110)}, values={"k": ["a", "b"]}, epsilon=5, max_rows_per_unit=1
    )
    kept = people[people.age > 30].groupby("k")["age"]
    sql = "SELECT k, count(age) AS count, avg(age) AS mean FROM df WHERE age > 30 GROUP BY k ORDER BY k"
    plans = kept.explain().agg(["count", "mean"], price=PRICE), people.explain().sql(sql, price=PRICE)
    assert plans[0].cost == plans[1].cost and plans[0].releases == plans[1].releases
    first = kept.agg(["count", "mean"], price=PRICE)
    left = people.budget().dataset.spent
    again = people.sql(sql, price=PRICE)
    assert again.replayed and people.budget().dataset.spent == left
    assert first.fetchall() == again.fetchall()[:2]
