"""A part beside its whole costs one share: DuckDB's own numbers without noise, and no further than the joint claim."""

from __future__ import annotations

import random
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from property_price import price_violations
from property_world import Database, Row, make_policy, opened, reordered, tame_world, traced, wild_world, without_unit
from test_equals_duckdb import EPSILON, answer

from dpsql.audit.comparison import compare, compare_equal
from dpsql.audit.grammar.query_writer import Query
from dpsql.sensitivity.unit_weight import Term

bound: Any = import_module("dpsql.sensitivity.bound")
PAIRS = (
    "sum(CASE WHEN flag THEN x ELSE 0 END), sum(x)",
    "sum(n), sum(n) FILTER (WHERE note LIKE 'n%')",
    "count(*) FILTER (WHERE x > 3), count(*)",
    "count_if(flag), count(*)",
    "count(debt) FILTER (WHERE n > 2), count(debt)",
    "sum(CASE WHEN flag THEN amount END), sum(amount), sum(CASE WHEN n > 1 THEN amount ELSE 0 END)",
    "sum(debt), sum(debt) FILTER (WHERE flag IS NULL), count(DISTINCT note)",
    "sum(CASE WHEN flag THEN fine ELSE 0 END), sum(fine)",
)
KEYS = ("", "kind", "note", "size", "level")


def _sql(pair: str, key: str, table: str) -> str:
    return f"SELECT {key + ', ' if key else ''}{pair} FROM {table}{' GROUP BY ' + key if key else ''}"


@pytest.mark.parametrize("pair", PAIRS)
def test_it_equals_duckdb(pair: str) -> None:
    rng = random.Random(2)
    with opened(tame_world(rng, 6), make_policy(6, 6)) as database:
        for table, key, mechanism in (
            ("orders", "", "laplace"),
            ("visits", "size", "gaussian"),
            ("orders", "size", "laplace"),
        ):
            sql = _sql(pair, key, table)
            prepared = database.db.prepare(sql, epsilon=EPSILON, delta=1e-6, mechanism=mechanism)
            assert any(len(share) == 2 for share, _ in prepared.bill.releases[0].bounded.shares), sql
            made = {row[:1] if key else (): row[bool(key) :] for row in answer(database, prepared)}
            for row in database.raw.execute(sql).fetchall():
                for mine, theirs in zip(made[row[:1] if key else ()], row[bool(key) :], strict=True):
                    assert float(mine) == pytest.approx(float(theirs or 0), abs=1e-4), sql


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_no_unit_moves_both_further_than_one(mechanism: str) -> None:
    rng, touched = random.Random(7), 0
    tables = wild_world(rng)
    with ExitStack() as stack:

        def enter(chosen: dict[str, list[Row]]) -> Database:
            return stack.enter_context(opened(chosen, make_policy()))

        whole, same = enter(tables), enter(reordered(tables, rng))
        fewer = [enter(without_unit(tables, unit, unit, rng)) for unit in (1, 2, 3, 4)]
        for pair in PAIRS:
            for table in ("orders", "visits"):
                query = Query(_sql(pair, rng.choice(KEYS), table), 0, mechanism, 1.0)
                larger = traced(whole, query)
                for database in fewer:
                    made = compare(larger, traced(database, query))
                    assert made.violations == [], query.sql
                    touched += bool(made.touched)
                assert compare_equal(larger, traced(same, query)) == []
    assert touched > 40


def _at_the_bound() -> list[str]:
    """A unit far over its rows, half of them in the part and half in the rest, all at the bound."""
    rows: list[Row] = [{"id": 1, "x": 20.0, "flag": i % 2 == 0, "kind": "abc"[i % 3], "n": 8} for i in range(24)]
    found: list[str] = []
    for pair in ("sum(CASE WHEN flag THEN x ELSE 0 END), sum(x)", "count(*) FILTER (WHERE flag), count(*)"):
        for key in ("", "kind"):
            query = Query(_sql(pair, key, "orders"), 0, "laplace", 1.0)
            with opened({"orders": rows}, make_policy()) as one, opened({}, make_policy()) as two:
                made = compare(traced(one, query), traced(two, query))
                found += made.violations
                assert made.violations or max(made.ratios.values()) > 0.99
    return found


def test_part_and_rest_bounded_one_by_one_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _at_the_bound() == []
    original = bound._terms

    def alone(*args: Any) -> list[Term]:
        return [replace(t, argument=a, others=()) for t in original(*args) for a in (t.argument, *t.others)]

    monkeypatch.setattr(bound, "_terms", alone)
    assert any("part0 and rest1" in violation for violation in _at_the_bound())


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_price_covers_the_noise_and_no_more(mechanism: str) -> None:
    with opened({}, make_policy()) as database:
        for pair in PAIRS:
            assert price_violations(database, Query(_sql(pair, "kind", "orders"), 1, mechanism, 1.0)) == []
        one = database.db.explain("SELECT sum(x) FROM orders", epsilon=1, mechanism=mechanism).releases[0].statistics
        two = database.db.explain(_sql(PAIRS[0], "", "orders"), epsilon=1, mechanism=mechanism).releases[0].statistics
        assert [s.scale for s in two] == pytest.approx([one[0].scale] * 2, rel=1e-3)


@pytest.mark.parametrize("sql", [
    "SELECT sum(CASE WHEN flag THEN x ELSE 1 END), sum(x) FROM orders",
    "SELECT sum(CASE WHEN flag THEN x ELSE 0 END), sum(n) FROM orders",
    "SELECT sum(CASE WHEN flag THEN x ELSE 0 END), avg(x) FROM orders",
    "SELECT count(x) FILTER (WHERE flag), count(*) FROM orders",
])  # fmt: skip
def test_what_is_no_part_has_shares_of_its_own(sql: str) -> None:
    with opened({}, make_policy()) as database:
        [priced] = database.db.prepare(sql, epsilon=1, delta=1e-6, mechanism="gaussian").bill.releases
        assert not any(s.name.startswith("rest") for s in priced.bounded.statistics)


def test_the_share_of_a_part_has_an_interval() -> None:
    rows: list[Row] = [{"x": 10.0, "flag": i % 4 == 0} for i in range(400)]
    sql = "SELECT sum(CASE WHEN flag THEN x ELSE 0 END) / sum(x) AS share FROM visits"
    with opened({"visits": rows}, make_policy()) as database:
        result = database.db.query(sql, epsilon=100.0, mechanism="laplace")
        [[low, high]], [[share]] = result.intervals().to_numpy().tolist(), result.fetchall()
        assert low < share < high and high - low < 0.2 and abs(share - 0.25) < 0.05
