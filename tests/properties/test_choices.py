"""MEDIAN, quantiles, MIN, MAX and MODE: neighbours, DuckDB's own answers, and planted bugs."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from property_choices import best_values, compare_choices, search, within
from property_world import Database, Row, make_policy, opened, tame_world, traced

from dpsql.audit.grammar.query_writer import Query
from dpsql.engines.sql import histogram
from dpsql.sensitivity.choice import Choice

SURE = 1e5
"""An epsilon at which a cell with a higher score is chosen less than once in e**1000 times."""
Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("seed", range(6))
def test_no_unit_moves_a_score_further_than_claimed(seed: int) -> None:
    found, used = search(seed, 14)
    assert found == []
    assert used > 0.3


# every claim is reached -------------------------------------------------------------------------------------------------

MINE: list[Row] = [{"id": 1, "n": 8, "level": 4, "kind": "a", "note": "a", "size": "s"} for _ in range(9)]
OTHERS: list[Row] = [
    {"id": 2 + i, "n": i % 5, "level": 1 + i % 3, "kind": "a", "note": "a", "size": "s"} for i in range(12)
]
TIGHT = (
    "SELECT median(n) FROM orders",
    "SELECT quantile_disc(n, 0.9) FROM orders",
    "SELECT size, median(n) FROM orders GROUP BY size",
    "SELECT note, median(n) FROM orders GROUP BY note",
    "SELECT mode(n) FROM orders",
    "SELECT kind, mode(level) FROM orders GROUP BY kind",
    "SELECT max(n) FROM orders",
    "SELECT min(n) FROM orders",
    "SELECT median(n), max(n), mode(n) FROM people",
    "SELECT median(n), max(n), mode(n) FROM visits",
)


def _neighbours(sql: str, mine: list[Row], mechanism: str = "laplace") -> tuple[list[str], float]:
    """The unit 1 among others, and without it; where a unit is a row, it has one."""
    query, table = Query(sql, 0, mechanism, 10.0), sql.split("FROM ")[1].split(" ", maxsplit=1)[0]
    mine = mine if table == "orders" else mine[:1]
    others = [{**row, "kind": kind} for row in OTHERS for kind in sorted({str(row["kind"]) for row in mine})]
    with opened({table: [*mine, *others]}, make_policy()) as one, opened({table: others}, make_policy()) as two:
        return compare_choices(traced(one, query), traced(two, query), query)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("sql", TIGHT)
def test_each_claim_is_reached(sql: str, mechanism: str) -> None:
    """The scores move by all that was claimed (rounding of weights apart): the law is no flatter than it must be."""
    found, used = _neighbours(sql, [{**row, "n": -3} for row in MINE] if "min" in sql else MINE, mechanism)
    assert found == []
    assert used > 0.99


def test_a_unit_in_many_groups_is_weighed_down_over_all_of_them() -> None:
    spread = [{**row, "kind": kind, "note": kind} for row in MINE for kind in "abcdef"]
    for sql in ("SELECT kind, median(n), min(n), mode(n) FROM orders GROUP BY kind",
                "SELECT note, median(n), max(n), mode(n) FROM orders GROUP BY note"):  # fmt: skip
        found, used = _neighbours(sql, spread)
        assert found == []
        assert used > 0.9


# DuckDB's own answers ---------------------------------------------------------------------------------------------------

SAME = (
    "median(n)", "quantile_disc(n, 0.9)", "quantile_cont(n, 0.25)", "median(amount)", "quantile_disc(day, 0.5)",
    "median(day)", "min(n)", "max(n)", "min(day)", "max(day)", "min(kind)", "max(size)", "max(amount)", "min(amount)",
    "median(n) FILTER (WHERE flag)", "percentile_cont(0.75) WITHIN GROUP (ORDER BY n)", "min(flag)", "max(level)",
    "percentile_disc(0.2) WITHIN GROUP (ORDER BY n DESC)", "quantile_cont(n, 0)", "quantile_disc(n, 1)", "max(DISTINCT n)",
    "median(least(n, 3))", "max(mood)",
)  # fmt: skip


@pytest.mark.parametrize("table", ["visits", "orders", "people"])
@pytest.mark.parametrize("key", ["", "size", "note"])
def test_the_best_cell_is_the_answer_of_duckdb(table: str, key: str) -> None:
    """On data that obeys the policy; and with so large an epsilon that is what a query answers.

    (Not so for MIN and MAX: whatever epsilon is, a value beyond the data is chosen with a small probability.)
    Continuous quantiles other than the median interpolate between two ranks, of which the best cell holds one.
    """
    policy = make_policy(12, 12) | {"budget": {"epsilon": 10**12, "delta": "1e-3"}}
    with opened(tame_world(random.Random(3), 6), policy) as database:
        for aggregate in SAME:
            sql = f"SELECT {key}{', ' if key else ''}{aggregate} AS a FROM {table}{f' GROUP BY {key}' if key else ''}"
            _compare(database, Query(sql, len(key) > 0, "laplace", SURE))


def _compare(database: Database, query: Query) -> None:
    plain = {row[: query.keys]: row[-1] for row in database.raw.execute(query.sql).fetchall()}
    best = {key: columns[0] for key, columns in best_values(database, query)}
    near = {key: columns[0] for key, columns in best_values(database, query, rows=int("_cont(" in query.sql))}
    for key, value in plain.items():
        if value is not None and key in best:
            half = 0.5 if "day" in query.sql and "median" in query.sql else 0
            assert within(value, near[key], half), f"{query}: {key} has {value}, best {near[key]}"
    if re.search("min|max|, [01][)]", query.sql) is None:
        answered = database.db.query(query.sql, epsilon=SURE, delta=1e-6, mechanism="laplace").fetchall()
        for row in answered:
            key, value = row[: query.keys], row[-1]
            if value is None:
                assert plain[key] is None, f"{query}: {key} was answered by NULL, and is {plain[key]}"
            else:
                assert within(value, best[key]), f"{query}: {key} was answered by {value}, best {best[key]}"


def test_a_mode_is_one_of_the_most_frequent_values() -> None:
    with opened(tame_world(random.Random(5), 6), make_policy(12, 12)) as database:
        for table in ("visits", "orders", "people"):
            for column in ("kind", "n", "flag", "day", "level"):
                query = Query(f"SELECT mode({column}) FROM {table}", 0, "laplace", SURE)
                [(_, [best])] = best_values(database, query)
                counted = database.raw.execute(
                    f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL GROUP BY 1 "
                    "QUALIFY count(*) = max(count(*)) OVER ()"
                ).fetchall()
                assert sorted(best) == sorted(row[0] for row in counted)


def test_null_nan_and_values_outside_are_settled_before_they_are_ranked() -> None:
    """NULL and NaN are no values; infinities and what is out of bounds count at the nearer end."""
    nan, inf = float("nan"), float("inf")
    rows: list[Row] = [{"x": x, "n": n, "day": day, "amount": amount, "kind": kind} for x, n, day, amount, kind in (
        (None, None, None, None, None), (nan, -9, date(1, 1, 1), Decimal("-5"), "zz"), (nan, 99, date(9999, 12, 31), Decimal("1000"), "zz"),
        (inf, 2**31 - 1, date(9999, 12, 31), Decimal("60"), "b"), (-inf, 3, date(2024, 2, 1), Decimal("3"), "zz"), (5.0, None, None, None, None),
    )]  # fmt: skip
    wanted: dict[str, Any] = {
        "median(x)": 5.0, "min(n)": -3, "max(n)": 8, "max(day)": date(2024, 3, 31), "min(day)": date(2024, 1, 1),
        "max(amount)": Decimal("50"), "min(amount)": Decimal("0"), "mode(kind)": "b", "max(kind)": "b", "min(kind)": "b",
    }  # fmt: skip
    with opened({"visits": rows}, make_policy()) as database:
        for aggregate, value in wanted.items():
            [(_, [best])] = best_values(database, Query(f"SELECT {aggregate} FROM visits", 0, "laplace", SURE))
            assert within(value, best, 0.001), (aggregate, best)
            assert len(best) == 1 or aggregate == "median(x)"


# planted bugs -----------------------------------------------------------------------------------------------------------


def _small(patch: Patch) -> None:
    original = Choice.sensitivity
    patch.setattr(Choice, "sensitivity", lambda self, most: max(1, original(self, most) // 2))


def _one_sided(patch: Patch) -> None:
    patch.setattr(Choice, "spread", Choice.sensitivity)


def _unweighed(patch: Patch) -> None:
    patch.setattr(histogram, "_weight", lambda dialect, term: str(histogram.ONE))


def _every_value(patch: Patch) -> None:
    """Each row of a unit is taken for its extreme."""
    patch.setattr(histogram, "_by_units", histogram._by_rows)


def _per_group(patch: Patch) -> None:
    """A weight for each group of a unit, in place of one for all of them."""
    original = histogram._by_rows

    def grouped(dialect: Any, made: Any, rows: str, names: Any) -> str:
        text = original(dialect, made, rows, names)
        return text.replace("w AS (SELECT u,", "w AS (SELECT u, k0,").replace("FROM c GROUP BY u)", "FROM c GROUP BY u, k0)").replace("USING (u)", "USING (u, k0)")  # fmt: skip

    patch.setattr(histogram, "_by_rows", grouped)


SPREAD: list[Row] = [{**row, "kind": kind, "note": kind} for row in MINE for kind in "abcdef"]
LOW: list[Row] = [{**row, "n": -3} for row in SPREAD]
BUGS = (
    ("sensitivity halved", _small, "SELECT median(n) FROM orders", MINE, "moved by"),
    ("the factor two forgotten", _one_sided, "SELECT median(n) FROM visits", LOW, "costs"),
    ("weight ignored", _unweighed, "SELECT median(n) FROM orders", MINE, "moved by"),
    ("groups not weighed", _unweighed, "SELECT kind, min(n) FROM orders GROUP BY kind", LOW, "moved by"),
    ("two values per unit", _every_value, "SELECT max(n) FROM orders", MINE, "moved by"),
    ("weight per group", _per_group, "SELECT kind, median(n) FROM orders GROUP BY kind", SPREAD, "moved by"),
)


@pytest.mark.parametrize(("name", "plant", "sql", "mine", "says"), BUGS, ids=[bug[0] for bug in BUGS])
def test_a_planted_bug_is_reported(
    name: str, plant: Callable[[Patch], None], sql: str, mine: list[Row], says: str, monkeypatch: Patch
) -> None:
    assert _neighbours(sql, mine)[0] == []
    plant(monkeypatch)
    assert any(says in violation for violation in _neighbours(sql, mine)[0])


def test_null_taken_for_the_lower_end_is_reported(monkeypatch: Patch) -> None:
    original = histogram._cell
    monkeypatch.setattr(
        histogram, "_cell", lambda dialect, grid, value: f"coalesce({original(dialect, grid, value)}, 0)"
    )
    with pytest.raises(AssertionError):
        test_null_nan_and_values_outside_are_settled_before_they_are_ranked()
