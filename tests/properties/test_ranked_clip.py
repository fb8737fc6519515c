"""Choices and trees whose units weigh less by a norm that a search finds: neighbours, searches, usefulness, planted bugs."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from property_choices import compare_choices, queries, worlds
from property_world import Database, Row, make_policy, opened, traced

import dpsql
from dpsql.audit.comparison import compare, paid, vectors
from dpsql.audit.grammar.query_writer import Query
from dpsql.budget.pricing import price_release
from dpsql.engines.sql import histogram
from dpsql.query_draft import PreparedQuery
from dpsql.sensitivity.bound import settle
from dpsql.sensitivity.clip import clip_at

Patch = pytest.MonkeyPatch
MECHANISMS = ("laplace", "gaussian")
SEARCHES = {"search": True}
SHARE: dict[str, Any] = {"epsilon": 1, "delta": 1e-7}
MINE: list[Row] = [{"id": 1, "n": 8, "level": 4, "kind": k, "note": k, "size": "s"} for k in "abcdef" for _ in range(3)]
OTHERS: list[Row] = [
    {"id": 2 + i, "n": i % 5, "level": 1 + i % 3, "kind": k, "note": k, "size": "s"}
    for i in range(12)
    for k in "abcdef"
]
TIGHT = (
    "SELECT median(n) FROM orders",
    "SELECT kind, median(n) FROM orders GROUP BY kind",
    "SELECT note, median(n) FROM orders GROUP BY note",
    "SELECT kind, mode(level) FROM orders GROUP BY kind",
    "SELECT kind, max(n) FROM orders GROUP BY kind",
    "SELECT id % 2, max(n), median(n) FROM orders GROUP BY 1",
    "SELECT kind, "
    + ", ".join(f"quantile_cont(n, {q})" for q in (0.1, 0.25, 0.5, 0.75, 0.9))
    + " FROM orders GROUP BY kind",
)


@pytest.mark.parametrize("seed", range(4))
def test_no_unit_moves_a_score_further_than_its_clip(seed: int) -> None:
    rng = random.Random(seed)
    tables, less, _ = worlds(rng, 2)
    policy = make_policy() | SEARCHES
    asked, used = list(queries(rng, 10)), 0.0
    with opened(tables, policy) as one:
        whole = [traced(one, query) for query in asked]
        for chosen in less:
            with opened(chosen, policy) as two:
                for query, larger in zip(asked, whole, strict=True):
                    violations, ratio = compare_choices(larger, traced(two, query), query)
                    assert violations == [], query
                    used = max(used, ratio)
    assert used > 0.3


def _at(database: Database, query: Query, norm: float) -> PreparedQuery:
    """The query with everything clipped at one norm."""
    prepared = database.db.prepare(query.sql, epsilon=query.epsilon, delta=query.delta, mechanism=query.mechanism)
    releases = []
    for priced in prepared.bill.releases:
        bounded = priced.bounded
        for each in bounded.clipped:
            bounded = settle(bounded, clip_at(each.vector, norm))
        releases.append(price_release(bounded, priced.portion))
    return replace(prepared, bill=replace(prepared.bill, releases=tuple(releases)))


def _neighbours(sql: str, mechanism: str, norm: float) -> tuple[list[str], float]:
    """The unit 1 among others, and without it."""
    query, policy = Query(sql, 0, mechanism, 3000.0 if "max" in sql else 10.0), make_policy(30, 30) | SEARCHES
    with opened({"orders": [*MINE, *OTHERS]}, policy) as one, opened({"orders": OTHERS}, policy) as two:
        made = [vectors(each.db, _at(each, query, norm))[0] for each in (one, two)]
    violations = compare(*made, paid(query))
    return violations.violations, max(
        violations.ratios.get(place, 0.0) for place in (("choice", "linf"), ("tree", "l2"), ("tree", "l1"))
    )


@pytest.mark.parametrize("norm", [1.0, 2.0**0.5, 2.0**1.5, 5.0])
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("sql", TIGHT)
def test_a_heavy_unit_moves_the_scores_by_the_clip(sql: str, mechanism: str, norm: float) -> None:
    """A unit with three rows in each of six groups: by at most the clip, and nearly that unless it is smaller."""
    found, used = _neighbours(sql, mechanism, norm)
    assert found == []
    reached = min(1.0, 6**0.5 / norm) if "max" in sql and mechanism == "gaussian" else 1.0
    assert used > (0.9 * reached if "quantile" not in sql else 0.3)


@pytest.mark.parametrize("aggregate", ["median(n)", "mode(n)", "max(n)", "quantile_cont(n, [0.1, 0.3, 0.5, 0.8, 0.9])"])
def test_values_that_are_not_listed_are_one_group_before_they_are_counted(aggregate: str) -> None:
    """Six unlisted kinds are all in the NULL group, where the unit adds what it has in all of them together."""
    mine = [{**row, "kind": f"unlisted {row['kind']}"} for row in MINE]
    query = Query(f"SELECT kind, {aggregate} FROM orders GROUP BY kind", 0, "gaussian", 10.0)
    policy = make_policy(30, 30) | SEARCHES
    with opened({"orders": [*mine, *OTHERS]}, policy) as one, opened({"orders": OTHERS}, policy) as two:
        for norm in (1.0, 2.0**1.5):
            made = [vectors(each.db, _at(each, query, norm))[0] for each in (one, two)]
            assert compare(*made, paid(query)).violations == []


# planted bugs -----------------------------------------------------------------------------------------------------------


def _half_the_root(patch: Patch) -> None:
    patch.setattr(histogram, "ROUNDED_UP", 0.5)


def _forgotten(patch: Patch) -> None:
    patch.setattr(histogram, "_weight", lambda dialect, made: str(histogram.ONE))
    patch.setattr(histogram, "_clipped", lambda dialect, made, power: str(histogram.ONE))


def _lengths_for_squares(patch: Patch) -> None:
    original = histogram._clipped
    patch.setattr(histogram, "_clipped", lambda dialect, made, power: original(dialect, made, "count(*)"))


BUGS = (
    ("ranks are clipped by the root of too little", _half_the_root, "gaussian", TIGHT[1]),
    ("the clip of ranks is forgotten", _forgotten, "gaussian", TIGHT[0]),
    ("the clip of ranks is forgotten", _forgotten, "laplace", TIGHT[1]),
    ("the clip of groups is forgotten", _forgotten, "gaussian", TIGHT[4]),
    ("groups are squared in place of rows", _lengths_for_squares, "gaussian", TIGHT[1]),
)


@pytest.mark.parametrize(("name", "plant", "mechanism", "sql"), BUGS)
def test_a_planted_bug_is_reported(
    name: str, plant: Callable[[Patch], None], mechanism: str, sql: str, monkeypatch: Patch
) -> None:
    assert _neighbours(sql, mechanism, 2.0)[0] == []
    plant(monkeypatch)
    assert _neighbours(sql, mechanism, 2.0)[0]


# what a person gets -----------------------------------------------------------------------------------------------------


def test_medians_need_no_declared_cap() -> None:
    """5,000 units with 1 to 40 rows each, nothing declared of them: by the default cap these medians were noise."""
    random_numbers = np.random.default_rng(5)
    rows = np.minimum(random_numbers.geometric(0.3, 5_000), 40)
    frame = pd.DataFrame({"customer": np.repeat(np.arange(5_000), rows)})
    frame["region"] = random_numbers.choice(list("abcde"), len(frame))
    frame["amount"] = random_numbers.lognormal(3, 1, len(frame))
    columns = {"region": {"values": list("abcde"), "nulls": False}, "amount": {"min": 0, "max": 2_000}}
    policy: dict[str, Any] = {
        "dataset": "medians",
        "budget": {"epsilon": 8, "delta": 1e-6},
        "tables": {"orders": {"unit": "customer", "columns": columns}},
    }
    sql = "SELECT region, median(amount) AS m FROM orders GROUP BY region"
    truth = dict(duckdb.sql(sql.replace("orders", "frame")).fetchall())
    with dpsql.connect({"orders": frame}, policy=policy, ledger=":memory:") as db:
        answer = db.query(sql, epsilon=0.5)
        assert answer.cost.epsilon <= 0.5
        assert all(abs(m / truth[region] - 1) < 0.2 for region, m in answer.fetchall())
        again = db.query(sql, epsilon=0.5)
        assert again.replayed and again.fetchall() == answer.fetchall()
        assert any("add more than the limit that was found" in note for note in answer.notes)


def test_a_search_of_ranks_serves_all_choices_of_a_release() -> None:
    """Also of other columns, since it counts rows, whatever they hold."""
    with opened({"orders": [*MINE, *OTHERS]}, make_policy(30, 30) | SEARCHES) as database:
        [first] = database.db.prepare("SELECT kind, median(n) FROM orders GROUP BY kind", **SHARE).bill.releases
        [both] = database.db.prepare(
            "SELECT kind, mode(level), median(n) FROM orders GROUP BY kind", **SHARE
        ).bill.releases
        assert [each.vector.ranked for each in both.bounded.clipped] == ["rows"]
        assert first.bounded.clipped[0].vector == both.bounded.clipped[0].vector
        [extremes] = database.db.prepare("SELECT kind, max(n), min(n) FROM orders GROUP BY kind", **SHARE).bill.releases
        assert [each.vector.ranked for each in extremes.bounded.clipped] == ["groups"]
