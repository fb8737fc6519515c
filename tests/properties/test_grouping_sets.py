"""ROLLUP, CUBE and GROUPING SETS: DuckDB's own rows without noise, each set bounded and charged, totals that agree."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import ExitStack
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from property_world import SALT, Database, Row, make_policy, opened, tame_world, traced, wild_world, without_unit
from test_equals_duckdb import EPSILON, answer
from unlocked import run

import dpsql
from dpsql import accounts
from dpsql.answers.consistent_totals import fit_draws, fit_tables
from dpsql.answers.noise_stage import add_noise
from dpsql.audit import trace
from dpsql.audit.comparison import compare
from dpsql.audit.grammar.query_writer import Query
from dpsql.errors import Error
from dpsql.mechanisms.exact_numbers import UNIT

CLAUSES = (
    "ROLLUP (kind, flag)", "CUBE (size, flag)", "GROUPING SETS ((kind, size), (kind), ())", "flag, ROLLUP (size, level)",
    "GROUPING SETS ((size), (flag))", "ROLLUP ((size, flag), level)", "GROUPING SETS ((flag), (flag), ())", "ROLLUP (1)",
    "GROUPING SETS (CUBE (flag, size), (level))", "ROLLUP (note)", "CUBE (note, size)", "kind, GROUPING SETS ((), (size))",
    "GROUPING SETS ((size, flag))", "GROUPING SETS (())",
)  # fmt: skip
KEYS = ("kind", "size", "flag", "level", "note")


def _sql(clause: str, aggregates: str, table: str) -> str:
    used = [key for key in KEYS if key in clause] or (["kind"] if "1" in clause else [])
    masks = [f"grouping({key}) AS g{i}" for i, key in enumerate(used)] + [
        f"grouping_id({', '.join(used)}) AS g"
    ] * bool(used)
    return f"SELECT {', '.join([*used, *masks, aggregates])} FROM {table} GROUP BY {clause}"


def _rows(rows: list[tuple[Any, ...]], numbers: int) -> Counter[tuple[Any, ...]]:
    """Rows with something in them; DuckDB shows no empty groups, but always the grand total."""
    shown = [row for row in rows if row[-numbers]]
    return Counter(tuple(float(v) if isinstance(v, int | float) and i >= len(row) - numbers else v
                         for i, v in enumerate(row)) for row in shown)  # fmt: skip


@pytest.mark.parametrize("clause", CLAUSES)
def test_it_equals_duckdb(clause: str) -> None:
    rng = random.Random(len(clause))
    with opened(tame_world(rng, 5), make_policy(5, 5)) as database:
        for table in ("orders", "visits"):
            sql = _sql(clause, "count(*), sum(n), count(DISTINCT note)", table)
            wanted = [tuple(0 if v is None and i == len(row) - 2 else v for i, v in enumerate(row))
                      for row in database.raw.execute(sql).fetchall()]  # fmt: skip
            prepared = database.db.prepare(sql, epsilon=EPSILON, delta=1e-6, mechanism="laplace")
            assert _rows(answer(database, prepared), 3) == _rows(wanted, 3), sql


def test_expressions_of_keys_are_null_where_the_key_is_rolled_up() -> None:
    sql = (
        "SELECT upper(kind) AS k, coalesce(upper(kind), 'all') AS c, count(*) AS n, grouping(k) = 1 AS total FROM visits "
        "GROUP BY ROLLUP (k) HAVING count(*) > 0 ORDER BY total, n DESC, k LIMIT 4"
    )
    with opened(tame_world(random.Random(1), 5), make_policy()) as database:
        found = answer(database, database.db.prepare(sql, epsilon=EPSILON, delta=1e-6, mechanism="laplace"))
        assert found == database.raw.execute(sql).fetchall()


# neighbours and prices --------------------------------------------------------------------------------------------------


def test_no_unit_moves_a_set_further_than_claimed() -> None:
    rng, touched = random.Random(5), 0
    tables = wild_world(rng)
    with ExitStack() as stack:

        def enter(chosen: dict[str, list[Row]]) -> Database:
            return stack.enter_context(opened(chosen, make_policy()))

        whole, fewer = enter(tables), [enter(without_unit(tables, unit, unit, rng)) for unit in (1, 2, 3)]
        for clause in CLAUSES:
            table = rng.choice(("orders", "orders", "members", "visits"))
            query = Query(_sql(clause, "count(*), avg(x), count(DISTINCT note)", table), 0, "gaussian", 1.0)
            larger = traced(whole, query)
            for database in fewer:
                made = compare(larger, traced(database, query))
                assert made.violations == [], query.sql
                touched += bool(made.touched)
    assert touched > 20


def _uncharged(mechanism: str) -> list[str]:
    """What the sets spend, by their own scales and claims, and what the ledger was charged."""
    sql = "SELECT kind, flag, count(*), avg(x) FROM orders GROUP BY ROLLUP (kind, flag)"
    with opened(tame_world(random.Random(0), 3), make_policy()) as database:
        db = database.db
        shares = []
        for release in trace(db, sql, salt=SALT, epsilon=1, mechanism=mechanism):
            named = {s.name: s for s in release.statistics}
            joined = {name for names, _, _ in release.joint for name in names}
            shares += [(l1, l2, named[names[0]].scale) for names, l1, l2 in release.joint]
            shares += [(s.l1 or 0, s.l2 or 0, s.scale) for s in release.statistics if s.name not in joined]
        db.query(sql, epsilon=1, mechanism=mechanism)
        [spent] = [Fraction(s.spent.rho) * UNIT for s in db.accounts.standings()[:1] if s is not None]
    wanted = sum((Fraction(l2) ** 2 / (2 * scale**2) for _, l2, scale in shares), Fraction(0))
    return [] if spent >= wanted else [f"rho {float(wanted)} is spent, {float(spent)} is charged"]


def test_a_coarser_set_without_its_charge_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _uncharged("gaussian") == []
    original = accounts.charge_of
    monkeypatch.setattr(accounts, "charge_of", lambda priced: original(list(priced)[:1]))
    assert "is charged" in _uncharged("gaussian")[0]


def test_a_set_that_is_written_twice_is_released_once() -> None:
    with opened({}, make_policy()) as database:
        explained = database.db.explain("SELECT flag, count(*) FROM visits GROUP BY GROUPING SETS ((flag), (flag))")
        assert len(explained.releases) == 1
        assert len(database.db.query("SELECT flag, count(*) FROM visits GROUP BY GROUPING SETS ((flag), (flag))")) == 4


# totals that agree ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop() -> Any:
    """No key is NULL: the groups that are shown are all parts of their totals."""
    rows: list[Row] = [{"id": i % 40, "kind": "abcdef"[i % 6], "flag": i % 4 == 0, "x": float(i % 20), "size": "sml"[i % 3],
                        "note": "n"} for i in range(400)]  # fmt: skip
    policy = make_policy(10, 10)
    for key in ("kind", "size"):
        for table in ("orders", "visits"):
            columns = policy["tables"][table]["columns"]
            policy["tables"][table]["columns"] = {**columns, key: {**columns[key], "nulls": False}}
    with opened({"orders": rows, "visits": rows}, policy) as database:
        yield database


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("table", ["orders", "visits"])
def test_totals_are_the_sums_of_their_parts(shop: Database, mechanism: str, table: str) -> None:
    sql = f"SELECT kind, size, grouping_id(kind, size) AS g, sum(x) AS s, count(*) AS n FROM {table} GROUP BY CUBE (kind, size)"
    frame = shop.db.query(sql, epsilon=1, mechanism=mechanism).df()
    scale = frame.s.abs().max()
    total = frame[frame.g == 3].s.item()
    for mask in (0, 1, 2):
        assert abs(frame[frame.g == mask].s.sum() - total) < 1e-6 * scale
    for size, part in frame[frame.g == 2].set_index("size", drop=False).s.items():
        same = frame[(frame.g == 0) & (frame["size"] == size)]
        assert abs(same.s.sum() - part) < 1e-6 * scale
    assert abs(frame[frame.g == 1].n.sum() - frame[frame.g == 3].n.item()) <= 4


def test_private_sets_and_counts_of_different_things_are_left_as_they_are(shop: Database) -> None:
    for sql in ("SELECT note, count(*) FROM orders GROUP BY ROLLUP (note)",
                "SELECT kind, count(DISTINCT id), count(DISTINCT note) FROM orders GROUP BY ROLLUP (kind)"):  # fmt: skip
        prepared = shop.db.prepare(sql, epsilon=1, delta=1e-6, mechanism="gaussian")
        released = {p.bounded.release.name: add_noise(p, run(shop.db.engine, p, SALT)) for p in prepared.bill.releases}
        assert all(not table.spread for table in fit_tables(prepared.plan, released).values())


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_error_bars_are_those_of_the_fitted_values(shop: Database, mechanism: str) -> None:
    """The spread of each set against impulses sent through the fit: the fit is linear, so this is exact."""
    sql = "SELECT kind, size, sum(x) AS s FROM orders GROUP BY ROLLUP (kind, size)"
    prepared = shop.db.prepare(sql, epsilon=2, delta=1e-6, mechanism=mechanism)
    released = {p.bounded.release.name: add_noise(p, run(shop.db.engine, p, SALT)) for p in prepared.bill.releases}
    fitted = fit_tables(prepared.plan, released)
    squares = {name: np.zeros(len(table.keys)) for name, table in released.items()}
    for source, table in released.items():
        noise = table.priced.noised[0].noise
        draws = {n: (np.zeros((len(table.keys), len(t.keys))),) for n, t in released.items()}
        draws[source] = (np.eye(len(table.keys)),)
        for name, (moved,) in fit_draws(prepared.plan, released, draws).items():
            grid = table.priced.noised[0].shift - released[name].priced.noised[0].shift
            assert grid == 0
            squares[name] += noise.variance() * (moved**2).sum(axis=0)
    for name, table in fitted.items():
        own = table.priced.noised[0].noise.variance()
        assert np.allclose(squares[name], table.spread[0] ** 2 * own, rtol=1e-6)
        assert table.spread[0] < 1
    result = shop.db.query(sql, epsilon=2, mechanism=mechanism)
    bars = result.intervals()
    widths = (bars.s_high - bars.s_low).to_numpy() / 2
    plain = shop.db.explain(sql, epsilon=2, mechanism=mechanism).releases[0].statistics[0].expected_error()
    assert (widths < plain).all() and (widths > plain / 3).all()
    together = result.intervals(simultaneous=True)
    assert (together.s_high - together.s_low > bars.s_high - bars.s_low).all()


def test_a_laplace_bar_of_fitted_values_holds_at_every_confidence(shop: Database) -> None:
    """Draws with a fixed seed: sums of Laplace noises are neither Laplace nor Gaussian, and the bar covers both."""
    sql = "SELECT size, count(*) AS n FROM visits GROUP BY ROLLUP (size)"
    prepared = shop.db.prepare(sql, epsilon=0.01, delta=1e-6, mechanism="laplace")
    released = {p.bounded.release.name: add_noise(p, run(shop.db.engine, p, SALT)) for p in prepared.bill.releases}
    fitted, rng = fit_tables(prepared.plan, released), np.random.default_rng(0)
    scale = float(prepared.bill.releases[0].noised[0].noise.scale)
    draws = {n: (rng.laplace(0, scale, (40_000, len(t.keys))),) for n, t in released.items()}
    for name, (moved,) in fit_draws(prepared.plan, released, draws).items():
        for confidence in (0.3, 0.5, 0.8, 0.9, 0.95, 0.99):
            table = fitted[name]
            width = table.priced.noised[0].noise.half_width(confidence) * table.stretch(confidence)[0]
            assert (np.abs(moved) <= width).mean() > confidence - 0.005


def test_mixed_rows_have_intervals_too(shop: Database) -> None:
    sql = (
        "SELECT kind, grouping(kind) AS g, count(*) AS n, 1.0 * count(*) / max(count(*)) OVER () AS part FROM visits "
        "GROUP BY ROLLUP (kind) ORDER BY g"
    )
    answer = shop.db.query(sql, epsilon=5)
    bars = answer.intervals()[(answer.df().g == 0).to_numpy()]
    assert bars.notna().all().all() and (bars.part_low <= bars.part_high).all()


def test_bars_and_accuracy_work_over_sets(shop: Database) -> None:
    sql = "SELECT kind, count(*) AS n, DP_LOW(count(*)) AS low FROM visits GROUP BY ROLLUP (kind)"
    frame = shop.db.query(sql, epsilon=2).df()
    assert (frame.low <= frame.n).all()
    exact = shop.db.query("SELECT flag, count(*) AS n FROM visits GROUP BY ROLLUP (flag)", accuracy=dpsql.Within(60))
    assert len(exact) == 3 and exact.cost.epsilon > 0


@pytest.mark.parametrize(("sql", "says"), [
    ("SELECT id, kind, count(*) FROM orders GROUP BY ROLLUP (id, kind)", "each id"),
    ("SELECT kind, count(*) FROM orders GROUP BY kind WITH ROLLUP", "ROLLUP (a, b)"),
    ("SELECT grouping(flag), count(*) FROM orders GROUP BY ROLLUP (kind)", "takes group keys"),
    ("SELECT count(*) FROM orders GROUP BY CUBE (kind, size), CUBE (flag, level), CUBE (day, mood, n)", "grouping sets"),
])  # fmt: skip
def test_what_is_refused(shop: Database, sql: str, says: str) -> None:
    with pytest.raises(Error) as refusal:
        shop.db.explain(sql)
    assert says in str(refusal.value)
