"""Branches of which a row is in one cost one share: DuckDB's own numbers, and no further than the joint claim."""

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
disjoint: Any = import_module("dpsql.sensitivity.disjoint_branches")
BRANCHES = (
    "sum(CASE WHEN n = 1 THEN x END), sum(CASE WHEN n = 2 THEN x ELSE 0 END), sum(x) FILTER (WHERE n > 2)",
    "count(*) FILTER (WHERE kind = 'a'), count(*) FILTER (WHERE kind = 'b')",
    "count_if(x < 3), count_if(x >= 3 AND x < 10), count_if(x >= 10), count(DISTINCT note)",
    "sum(n) FILTER (WHERE flag), sum(n) FILTER (WHERE NOT flag), sum(n) FILTER (WHERE flag IS NULL)",
    "avg(x) FILTER (WHERE kind = 'a'), avg(x) FILTER (WHERE kind = 'b')",
    "sum(CASE WHEN kind IN ('a', 'b') THEN 1 ELSE 0 END), sum(CASE WHEN NOT kind IN ('a', 'b') THEN 1 ELSE 0 END)",
    "sum(debt) FILTER (WHERE kind = 'a'), sum(debt) FILTER (WHERE kind <> 'a'), count(*)",
)
OVERLAPPING = (
    "count(*) FILTER (WHERE n > 1), count(*) FILTER (WHERE n > 2)",
    "sum(x) FILTER (WHERE kind = 'a'), sum(x) FILTER (WHERE flag)",
    "sum(x) FILTER (WHERE kind = 'a'), sum(n) FILTER (WHERE kind = 'b')",
    "sum(CASE WHEN kind = 'a' THEN x ELSE 1 END), sum(CASE WHEN kind = 'b' THEN x ELSE 1 END)",
    "sum(x) FILTER (WHERE kind = 'a'), sum(x) FILTER (WHERE kind = 'b' OR kind = 'a')",
)
KEYS = ("", "note", "size", "level")


def _sql(branches: str, key: str, table: str) -> str:
    return f"SELECT {key + ', ' if key else ''}{branches} FROM {table}{' GROUP BY ' + key if key else ''}"


def _shares(database: Database, sql: str, mechanism: str) -> list[int]:
    """How many statistics each share has."""
    [priced] = database.db.prepare(sql, epsilon=EPSILON, delta=1e-6, mechanism=mechanism).bill.releases
    return [len(share) for share, _ in priced.bounded.shares]


@pytest.mark.parametrize("branches", BRANCHES)
def test_it_equals_duckdb(branches: str) -> None:
    rng = random.Random(2)
    with opened(tame_world(rng, 6), make_policy(6, 6)) as database:
        for table, key, mechanism in (
            ("orders", "", "laplace"),
            ("visits", "size", "gaussian"),
            ("orders", "size", "gaussian"),
        ):
            sql = _sql(branches, key, table)
            assert max(_shares(database, sql, mechanism)) > 1, sql
            prepared = database.db.prepare(sql, epsilon=EPSILON, delta=1e-6, mechanism=mechanism)
            made = {row[:1] if key else (): row[bool(key) :] for row in answer(database, prepared)}
            for row in database.raw.execute(sql).fetchall():
                for mine, theirs in zip(made[row[:1] if key else ()], row[bool(key) :], strict=True):
                    assert theirs is None or float(mine) == pytest.approx(float(theirs), abs=1e-4), sql


@pytest.mark.parametrize("branches", OVERLAPPING)
def test_what_may_overlap_or_differs_has_shares_of_its_own(branches: str) -> None:
    with opened({}, make_policy()) as database:
        for table in ("orders", "visits"):
            assert set(_shares(database, _sql(branches, "", table), "gaussian")) == {1}


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_no_unit_moves_all_further_than_one(mechanism: str) -> None:
    rng, touched = random.Random(7), 0
    tables = wild_world(rng)
    with ExitStack() as stack:

        def enter(chosen: dict[str, list[Row]]) -> Database:
            return stack.enter_context(opened(chosen, make_policy()))

        whole, same = enter(tables), enter(reordered(tables, rng))
        fewer = [enter(without_unit(tables, unit, unit, rng)) for unit in (1, 2, 3, 4)]
        for branches in BRANCHES:
            for table in ("orders", "visits"):
                query = Query(_sql(branches, rng.choice(KEYS), table), 0, mechanism, 1.0)
                larger = traced(whole, query)
                for database in fewer:
                    made = compare(larger, traced(database, query))
                    assert made.violations == [], query.sql
                    touched += bool(made.touched)
                assert compare_equal(larger, traced(same, query)) == []
    assert touched > 40


def _at_the_bound(table: str = "orders", count: int = 24) -> list[str]:
    """A unit at its bound and over it, its rows in all branches."""
    rows: list[Row] = [{"id": 1, "x": 20.0, "kind": "abc"[i % 3], "size": "s", "n": 8} for i in range(count)]
    found: list[str] = []
    for branches in (
        "sum(x) FILTER (WHERE kind = 'a'), sum(x) FILTER (WHERE kind = 'b'), sum(x) FILTER (WHERE kind = 'c')",
        "count(*) FILTER (WHERE kind = 'a'), count(*) FILTER (WHERE kind = 'b')",
    ):
        for key in ("", "size"):
            query = Query(_sql(branches, key, table), 0, "laplace", 1.0)
            with opened({table: rows}, make_policy()) as one, opened({}, make_policy()) as two:
                made = compare(traced(one, query), traced(two, query))
                found += made.violations
                assert made.violations or max(made.ratios.values()) > 0.99
    return found


def test_branches_bounded_one_by_one_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _at_the_bound() == []
    original = bound._terms

    def alone(*args: Any) -> list[Term]:
        return [replace(t, argument=a, others=()) for t in original(*args) for a in (t.argument, *t.others)]

    monkeypatch.setattr(bound, "_terms", alone)
    assert any(" and " in violation for violation in _at_the_bound())


@pytest.mark.parametrize("beside", ["", ", count(*)"])
@pytest.mark.parametrize(("table", "count"), [("orders", 24), ("visits", 1)])
def test_an_inference_that_is_wrong_costs_no_privacy(
    monkeypatch: pytest.MonkeyPatch, table: str, count: int, beside: str
) -> None:
    """Where all branches are taken to be disjoint, the emitted SQL still keeps each unit to the joint claim."""
    monkeypatch.setattr(disjoint, "_never_both", lambda one, two: True)
    rows: list[Row] = [{"id": 1, "x": 20.0, "kind": "a", "n": 8} for _ in range(count)]
    sql = f"SELECT sum(x) FILTER (WHERE n > 1), sum(x) FILTER (WHERE n > 2), sum(x) FILTER (WHERE n > 3){beside} FROM {table}"
    with opened({table: rows}, make_policy()) as one, opened({}, make_policy()) as two:
        query = Query(sql, 0, "laplace", 1.0)
        assert max(_shares(one, sql, "laplace")) == 3
        assert compare(traced(one, query), traced(two, query)).violations == []


def test_branches_that_are_believed_to_be_disjoint_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disjoint, "_never_both", lambda one, two: True)
    original = disjoint.exclusive
    monkeypatch.setattr(disjoint, "exclusive", lambda branch, before: original(branch, ()))
    rows: list[Row] = [{"x": 20.0, "n": 8}]
    query = Query("SELECT sum(x) FILTER (WHERE n > 1), sum(x) FILTER (WHERE n > 2) FROM visits", 0, "laplace", 1.0)
    with opened({"visits": rows}, make_policy()) as one, opened({}, make_policy()) as two:
        assert compare(traced(one, query), traced(two, query)).violations


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_noise_is_that_of_one_sum(mechanism: str) -> None:
    with opened({}, make_policy()) as database:
        for branches in BRANCHES:
            assert price_violations(database, Query(_sql(branches, "size", "orders"), 1, mechanism, 1.0)) == []
        for table in ("orders", "visits"):
            one, many = (
                database.db.explain(_sql(asked, "", table), epsilon=1, mechanism=mechanism).releases[0].statistics
                for asked in ("sum(x)", BRANCHES[0])
            )
            assert [s.scale for s in many] == pytest.approx([one[0].scale] * 3, rel=1e-3)
