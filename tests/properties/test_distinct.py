"""COUNT(DISTINCT x): DuckDB's own number without noise, no further than claimed between neighbours, bugs are found."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from property_price import price_violations
from property_world import (
    Database,
    Row,
    make_policy,
    opened,
    reordered,
    tame_world,
    traced,
    wild_world,
    without_unit,
    without_unowned,
)
from test_equals_duckdb import EPSILON, answer

from dpsql.audit.comparison import compare, compare_equal
from dpsql.audit.grammar.query_writer import Query
from dpsql.engines.sql import distinct_counts
from dpsql.errors import Error

Patch = pytest.MonkeyPatch
COLUMNS = ("x", "n", "amount", "kind", "flag", "day", "seen", "note", "big", "fine", "temp", "mood")
OTHERS = ("lower(note)", "n + level", "CASE WHEN flag THEN kind END", "round(x / 7)", "x * 0", "day + level", "id")
KEYS = ("", "kind", "note", "flag", "kind, note", "x", "id % 3", "upper(kind)", "level")


def _query(rng: random.Random, table: str) -> Query:
    def one() -> str:
        it = rng.choice(COLUMNS + (OTHERS if table != "visits" else OTHERS[:-1]))
        call = rng.choice(("count(DISTINCT {})", "count(DISTINCT {})", "approx_count_distinct({})"))
        where = rng.choice(("", "", " FILTER (WHERE n > 2)", " FILTER (WHERE flag)"))
        return call.format(it) + where

    asked = [one() for _ in range(rng.randint(1, 2))] + rng.sample(("count(*)", "sum(n)", "avg(x)"), rng.randint(0, 1))
    keys = [k for k in rng.choice(KEYS if table != "visits" else KEYS[:6]).split(", ") if k]
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    sql = f"SELECT {', '.join([*keys, *asked])} FROM {table}{group}"
    return Query(sql, len(keys), rng.choice(("laplace", "gaussian")), 1.0)


@pytest.mark.parametrize("seed", range(2))
def test_it_equals_duckdb(seed: int) -> None:
    rng = random.Random(seed)
    with opened(tame_world(rng, 6), make_policy(6, 6)) as database:
        for table in ("visits", "orders", "people", "members"):
            for it in (*COLUMNS, "round(x / 7)", "CASE WHEN flag THEN kind END", "lower(note)"):
                for key in [rng.choice(("level", "size"))]:
                    sql = f"SELECT {key}, count(DISTINCT {it}), count(DISTINCT {it}) FILTER (WHERE n > 2) FROM {table} GROUP BY {key}"
                    wanted = {row[0]: row[1:] for row in database.raw.execute(sql).fetchall()}
                    prepared = database.db.prepare(
                        sql, epsilon=EPSILON, delta=1e-6, mechanism=rng.choice(("laplace", "gaussian"))
                    )
                    assert {row[0]: row[1:] for row in answer(database, prepared) if row[0] in wanted} == wanted, sql


def test_nan_is_one_value_and_zero_has_no_sign() -> None:
    rows: list[Row] = [{"x": value} for value in (0.0, -0.0, float("nan"), float("nan"), float("inf"), None, 1.0)]
    sql = "SELECT count(DISTINCT x), count(DISTINCT -x), count(DISTINCT x) FILTER (WHERE x <= 1) FROM visits"
    with opened({"visits": rows}, make_policy()) as database:
        assert answer(database, database.db.prepare(sql, epsilon=EPSILON, delta=1e-6, mechanism="laplace")) == [
            (4, 4, 2)
        ]
        assert database.raw.execute(sql).fetchall() == [(4, 4, 2)]


# neighbours -------------------------------------------------------------------------------------------------------------


def _search(seed: int, queries: int) -> tuple[list[str], int]:
    """Violations over random queries in one wild world with five neighbours, and how many pairs were touched."""
    rng = random.Random(seed)
    tables, found, touched = wild_world(rng), list[str](), 0
    with ExitStack() as stack:

        def enter(chosen: dict[str, list[Row]]) -> Database:
            return stack.enter_context(opened(chosen, make_policy()))

        whole, same = enter(tables), enter(reordered(without_unowned(tables), rng))
        fewer = [enter(without_unit(tables, unit, unit % 9, rng)) for unit in range(1, 6)]
        for _ in range(queries):
            query = _query(rng, rng.choice(("orders", "orders", "people", "members", "visits")))
            try:
                whole.db.prepare(query.sql, epsilon=1.0, delta=1e-6, mechanism=query.mechanism)
            except Error as refusal:
                raise AssertionError(query.sql) from refusal
            larger = traced(whole, query)
            for database in fewer:
                made = compare(larger, traced(database, query))
                touched += bool(made.touched)
                found += [f"{query.sql}: {violation}" for violation in made.violations]
            found += [f"{query.sql}: {v}" for v in compare_equal(larger, traced(same, query))]
    return found, touched


@pytest.mark.parametrize("seed", range(2))
def test_no_unit_moves_it_further_than_claimed(seed: int) -> None:
    found, touched = _search(seed, 20)
    assert found == []
    assert touched > 50


def _shared(units: int) -> dict[str, list[Row]]:
    """Unit 0 has the values of everybody else, too."""
    mine = [{"id": 0, "note": f"n{i}", "level": 1 + i % 4} for i in range(1, units)]
    return {"orders": [*mine, *({"id": i, "note": f"n{i}", "level": 1 + i % 4} for i in range(1, units))]}


def _one_shared_by_many() -> list[str]:
    found = []
    for sql in ("SELECT count(DISTINCT note) FROM orders", "SELECT level, count(DISTINCT note) FROM orders GROUP BY 1"):
        query = Query(sql, 0, "laplace", 1.0)
        fewer = {"orders": [row for row in _shared(30)["orders"] if row["id"] != 0]}
        with opened(_shared(30), make_policy()) as one, opened(fewer, make_policy()) as two:
            found += compare(traced(one, query), traced(two, query)).violations
    return found


def _many_of_one() -> list[str]:
    rows: list[Row] = [{"id": 1, "note": f"n{i}", "level": 1 + i % 4} for i in range(30)]
    found = []
    for sql in ("SELECT count(DISTINCT note) FROM orders", "SELECT level, count(DISTINCT note) FROM orders GROUP BY 1"):
        with opened({"orders": rows}, make_policy()) as one, opened({}, make_policy()) as two:
            query = Query(sql, 0, "laplace", 1.0)
            found += compare(traced(one, query), traced(two, query)).violations
    return found


def test_every_unit_of_a_value_counts_for_it() -> None:
    """Nine units have one value: it is counted once, and once still when some of them are gone."""
    sql = "SELECT count(DISTINCT note) FROM orders"
    for units in (1, 2, 9):
        rows: list[Row] = [{"id": unit, "note": "same"} for unit in range(units)]
        with opened({"orders": rows}, make_policy()) as database:
            assert answer(database, database.db.prepare(sql, epsilon=EPSILON, delta=1e-6, mechanism="laplace")) == [
                (1,)
            ]


@pytest.mark.parametrize(("sql", "cap"), [
    ("SELECT count(DISTINCT note) FROM orders", 4),
    ("SELECT count(DISTINCT flag) FROM orders", 2),
    ("SELECT count(DISTINCT size) FROM orders", 3),
    ("SELECT count(DISTINCT id % 7) FROM orders", 1),
    ("SELECT count(DISTINCT id) FILTER (WHERE n > 3) FROM orders", 1),
    ("SELECT size, count(DISTINCT id) FILTER (WHERE n > 3) FROM orders GROUP BY size", 3),
    ("SELECT count(DISTINCT CASE WHEN flag THEN 'a' WHEN n > 1 THEN 'b' END) FROM orders", 2),
    ("SELECT count(DISTINCT note) FROM visits", 1),
    ("SELECT kind, count(DISTINCT note) FROM people GROUP BY kind", 1),
    ("SELECT note, count(DISTINCT flag) FROM orders GROUP BY note", 4),
])  # fmt: skip
def test_the_cap_is_the_least_that_is_known(sql: str, cap: int) -> None:
    with opened({}, make_policy()) as database:
        [statistic] = [s for s in database.db.explain(sql).releases[0].statistics if s.name.startswith("distinct")]
        assert statistic.sensitivity == cap


# planted bugs -----------------------------------------------------------------------------------------------------------


def _no_cap(patch: Patch) -> None:
    patch.setattr(distinct_counts, "_kept", lambda dialect, pairs, names, cap, salt: pairs)


def _distinct_before_the_cap(patch: Patch) -> None:
    original: Any = distinct_counts._kept

    def kept(dialect: Any, pairs: str, names: Any, cap: int, salt: str) -> str:
        listed = ", ".join([*names, "x"])
        return str(
            original(dialect, f"SELECT min(u) AS u, {listed} FROM ({pairs}) GROUP BY {listed}", names, cap, salt)
        )

    patch.setattr(distinct_counts, "_kept", kept)


@pytest.mark.parametrize(("plant", "check"), [
    (_no_cap, _many_of_one),
    (_distinct_before_the_cap, _one_shared_by_many),
], ids=["no cap", "distinct before the cap"])  # fmt: skip
def test_a_planted_bug_is_reported(
    plant: Callable[[Patch], None], check: Callable[[], list[str]], monkeypatch: Patch
) -> None:
    assert check() == []
    plant(monkeypatch)
    assert check()


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_price_covers_the_noise(mechanism: str) -> None:
    sql = "SELECT kind, count(DISTINCT note), avg(x) FROM orders GROUP BY kind"
    with opened({}, make_policy()) as database:
        assert price_violations(database, Query(sql, 1, mechanism, 1.0)) == []


@pytest.mark.parametrize("sql", ["SELECT sum(DISTINCT n) FROM orders", "SELECT avg(DISTINCT n) FROM orders"])
def test_other_distinct_aggregates_are_refused_with_what_works(sql: str) -> None:
    with opened({}, make_policy()) as database:
        with pytest.raises(Error) as refusal:
            database.db.explain(sql)
        assert "count(DISTINCT n)" in str(refusal.value.hint)
        database.db.explain("SELECT count(DISTINCT n) FROM orders")
