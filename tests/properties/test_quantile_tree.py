"""Many quantiles of one argument: neighbours of the tree of counts, DuckDB's own answers, a planted bug, replay."""

from __future__ import annotations

import math
import random
from datetime import date

import pytest
from property_world import Row, make_policy, opened, tame_world, traced, wild_world, without_unit

from dpsql.audit.comparison import compare
from dpsql.audit.grammar.query_writer import Query
from dpsql.sensitivity.claim import Claim
from dpsql.sensitivity.quantile_tree import Tree

Patch = pytest.MonkeyPatch
PLACES = [f"0.{i}" for i in range(1, 10)]
DECILES = ", ".join(f"quantile_disc(n, {at}) AS q{i}" for i, at in enumerate(PLACES))
DAYS = ", ".join(f"quantile_disc(day, {i / 50}) AS d{i}" for i in range(1, 50))
MINE: list[Row] = [{"id": 1, "n": 8, "level": 4, "kind": k, "day": date(2024, 2, 3)} for k in "aaabbbccc"]
OTHERS: list[Row] = [
    {"id": 2 + i, "n": i % 5, "level": 1, "kind": "abc"[i % 3], "day": date(2024, 1, 1 + i)} for i in range(12)
]
QUERIES = (
    f"SELECT {DECILES} FROM orders",
    f"SELECT kind, {DECILES}, count(*) FROM orders GROUP BY kind",
    f"SELECT {DECILES}, min(n), mode(n) FROM people",
    f"SELECT flag, {DECILES}, {DAYS} FROM visits GROUP BY flag",
    "SELECT quantile_cont(level + n, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]), sum(n) FROM orders",
)


def _query(sql: str, mechanism: str) -> Query:
    return Query(sql, 0, mechanism, 3.0)


def _trees(sql: str, mechanism: str = "laplace", policy: dict[str, object] | None = None) -> list[str]:
    with opened(tame_world(random.Random(1), 4), policy or make_policy()) as database:
        [release] = traced(database, _query(sql, mechanism)) or []
        return [s.name for s in release.statistics if s.name.startswith("tree")]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("seed", range(2))
def test_no_unit_moves_the_nodes_further_than_claimed(seed: int, mechanism: str) -> None:
    rng = random.Random(seed)
    tables = wild_world(rng)
    with opened(tables, make_policy()) as one:
        whole = {sql: traced(one, _query(sql, mechanism)) for sql in QUERIES}
        for unit in rng.sample(range(1, 8), 2):
            less = without_unit(tables, unit, rng.randrange(len(tables["visits"])), rng)
            with opened(less, make_policy()) as two:
                for sql, larger in whole.items():
                    assert any(s.name.startswith("tree") for release in larger or () for s in release.statistics)
                    assert _moved(larger, traced(two, _query(sql, mechanism))) == []


def _moved(larger: object, smaller: object) -> list[str]:
    """The violations, of the trees alone: `compare` does not know the scores of choices."""
    found = []
    for one, two in zip(larger, smaller, strict=True):  # type: ignore[call-overload]
        assert (one.keys, one.joint) == (two.keys, two.joint)
        for a, b in zip(one.statistics, two.statistics, strict=True):
            if not a.name.startswith("tree"):
                continue
            assert (a.name, a.l1, a.l2, a.linf, a.grid, a.scale) == (b.name, b.l1, b.l2, b.linf, b.grid, b.scale)
            moved = [x - y for x, y in zip(a.values, b.values, strict=True)]
            norms = {
                "l1": sum(map(abs, moved)),
                "l2": math.sqrt(sum(m * m for m in moved)),
                "linf": max(map(abs, moved)),
            }
            found += [
                f"{a.name}: {k} moved by {v}, claimed {getattr(a, k)}" for k, v in norms.items() if v > getattr(a, k)
            ]
    return found


def _neighbours(sql: str, mechanism: str) -> tuple[list[str], float]:
    """The violations when unit 1 goes, and the part of the claim in its own norm that was used."""
    table = sql.split("FROM ")[1].split(" ", maxsplit=1)[0]
    mine = MINE if table == "orders" else MINE[:1]
    with opened({table: [*mine, *OTHERS]}, make_policy()) as a, opened({table: OTHERS}, make_policy()) as b:
        one, two = traced(a, _query(sql, mechanism)), traced(b, _query(sql, mechanism))
        made = compare(one, two)
        norm = "l1" if mechanism == "laplace" else "l2"
        return made.violations, max(used for (_, n), used in made.ratios.items() if n == norm)


@pytest.mark.parametrize(
    ("table", "mechanism"),
    [("orders", "laplace"), ("orders", "gaussian"), ("visits", "laplace"), ("people", "laplace")],
)
def test_each_claim_is_reached(table: str, mechanism: str) -> None:
    """Under Gaussian noise a unit of one row claims the root of the height, rounded up to whole rows: more than it uses."""
    for asked in (DECILES, DAYS):
        found, used = _neighbours(f"SELECT {asked} FROM {table}", mechanism)
        assert found == []
        assert used > 0.99


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_level_that_is_not_charged_is_reported(mechanism: str, monkeypatch: Patch) -> None:
    sql = f"SELECT {DAYS} FROM visits"
    assert _neighbours(sql, mechanism)[0] == []

    def one_level_less(tree: Tree) -> Claim:
        levels = tree.height - 1
        return Claim(None, tree.most, levels * tree.most, math.isqrt(levels * tree.most**2 - 1) + 1, levels)

    monkeypatch.setattr(Tree, "claim", property(one_level_less))
    assert any("claim" in violation for violation in _neighbours(sql, mechanism)[0])


def test_with_hardly_any_noise_the_answer_is_that_of_duckdb() -> None:
    """No quantile is nearer than 1/20 of a row to the next rank, and noise of 1/2000 is exceeded 100-fold by no chance."""
    policy = make_policy(12, 12) | {"budget": {"epsilon": 10**12, "delta": "1e-3"}}
    places = [round(i / 20 + 0.0137, 4) for i in range(20)]
    with opened(tame_world(random.Random(3), 6), policy) as database:
        for table in ("visits", "orders", "people"):
            for column in ("n", "day"):
                [(rows,)] = database.raw.execute(f"SELECT count({column}) FROM {table}").fetchall()
                asked = [at for at in places if 0.05 < at * rows % 1 < 0.95]
                assert len(asked) > 4
                listed = ", ".join(f"quantile_disc({column}, {at}) AS q{i}" for i, at in enumerate(asked))
                [plain] = database.raw.execute(f"SELECT {listed} FROM {table}").fetchall()
                query = Query(f"SELECT {listed} FROM {table}", 0, "laplace", 1e5)
                assert any(s.name.startswith("tree") for r in traced(database, query) or () for s in r.statistics)
                result = database.db.query(query.sql, epsilon=1e5, delta=1e-6, mechanism="laplace")
                assert result.fetchall() == [plain], query.sql
                if column == "n":
                    ends = result.intervals().iloc[0]
                    assert all(ends[f"q{i}_low"] <= plain[i] <= ends[f"q{i}_high"] for i in range(len(asked)))


def test_trees_take_the_place_of_many_quantiles_only_over_public_keys() -> None:
    assert _trees(f"SELECT {DECILES} FROM visits") == ["tree of n"]
    assert _trees("SELECT quantile_disc(n, 0.1), quantile_disc(n, 0.2), median(n), min(n), max(n) FROM visits") == []
    assert _trees(f"SELECT note, {DECILES} FROM visits GROUP BY note") == []
    assert _trees(f"SELECT {DAYS.replace('day', 'x')} FROM visits", "gaussian") == []


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_tree_is_replayed_also_for_other_quantiles_and_costs_once(mechanism: str) -> None:
    policy = make_policy() | {"budget": {"epsilon": 10, "delta": "1e-3"}}
    other = ", ".join(f"quantile_disc(n, 0.{i}5) AS q{i}" for i in range(9))
    with opened(tame_world(random.Random(2), 6), policy) as database:
        ask = {"epsilon": 1.0, "delta": 1e-6, "mechanism": mechanism}
        first = database.db.query(f"SELECT {DECILES} FROM visits", **ask)
        again = database.db.query(f"SELECT {DECILES} FROM visits", **ask)
        assert not first.replayed and again.replayed and again.fetchall() == first.fetchall()
        assert again.intervals().equals(first.intervals())
        assert database.db.query(f"SELECT {other} FROM visits", **ask).replayed
        part = database.db.query("SELECT quantile_disc(n, 0.9) FROM visits", **ask)
        assert part.replayed and part.fetchall()[0][0] == first.fetchall()[0][8]
