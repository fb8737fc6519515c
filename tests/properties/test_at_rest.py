"""Copies that are bounded at rest: neighbours are prepared and compared, and each way to break it is seen."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import pytest
from attack.worlds import Row, joins, joins_of, joins_policy
from property_prepared import prepared

from dpsql.audit.comparison import compare, compare_equal, prepare, rules_of, vectors
from dpsql.audit.grammar.query_writer import Query
from dpsql.audit.neighbour_search import examine
from dpsql.audit.traces import ReleaseTrace
from dpsql.audit.world import World
from dpsql.engines.duckdb.prepare import _Writer
from dpsql.engines.sql.clamp import STEPS
from dpsql.session import Connection

bound: Any = import_module("dpsql.sensitivity.bound")
Patch = pytest.MonkeyPatch
READ = (
    "SELECT kind, sum(x) FROM orders GROUP BY kind",
    "SELECT kind, count(*), sum(n), avg(x) FROM orders GROUP BY kind",
    "SELECT count(*), sum(x) FROM orders WHERE n > 2",
    "SELECT count(n) FILTER (WHERE kind = 'a'), sum(n) FROM (SELECT kind, n + 1 AS n FROM orders WHERE x < 8)",
    "SELECT s.region, sum(o.x) FROM orders o JOIN stores s USING (store) GROUP BY s.region",
    "SELECT s.region, count(*) FROM orders o LEFT JOIN stores s ON o.store = s.store GROUP BY s.region",
    "SELECT count(*) FROM orders o WHERE EXISTS (SELECT 1 FROM people p WHERE p.id = o.id AND p.n > 1)",
    "SELECT count(*) FROM orders o WHERE o.store IN (SELECT store FROM stores WHERE size > 1)",
    "SELECT kind, sum(n) FROM items GROUP BY kind",
    "SELECT id % 3 AS k, sum(x) FROM orders GROUP BY k",
)
"""These can be read from a copy."""
CHOSEN = ("SELECT median(x) FROM orders", "SELECT kind, quantile_cont(n, 0.9) FROM orders GROUP BY kind")
"""These too, where a copy has all rows that count."""
AGAIN = (
    "SELECT kind, count(DISTINCT id) FROM orders GROUP BY kind",
    "SELECT note, count(*) FROM orders GROUP BY note",
    "SELECT max(x) FROM orders",
    "SELECT count(DISTINCT n) FROM orders",
    "SELECT sum(p.price) FROM orders o JOIN prices p USING (kind)",
    "SELECT sum(i.x) FROM orders o JOIN items i USING (oid)",
    "SELECT sum(t) FROM (SELECT id, kind, sum(x) AS t FROM orders GROUP BY id, kind)",
    "SELECT sum(r) FROM (SELECT row_number() OVER (PARTITION BY id ORDER BY n, x) AS r FROM orders)",
    "SELECT count(*) FROM (SELECT x FROM orders UNION ALL SELECT x FROM items)",
)
"""In these the unit is bounded again, from the table itself."""
BESIDE = (
    "SELECT kind, sum(x), count(DISTINCT x) FROM orders GROUP BY kind",
    "SELECT kind, count(*), avg(x), count(DISTINCT x), count(DISTINCT n) FROM orders GROUP BY kind",
)
"""In these something is added up beside something that is counted by unit."""


def _world() -> World:
    """Units with far too many rows, alike and not, beside units within their bound."""
    base = joins(random.Random(7))
    rows = {name: list(base.tables[name].rows) for name in ("people", "orders", "items", "visits")}
    full: Row = (10.0, 6, "a", "n", "s1")
    rows["orders"] += [(50, 500 + i, *full) for i in range(30)]
    rows["orders"] += [
        (51, 600 + i, float(i % 9), i % 7, "abc"[i % 3], f"n{i % 4}", f"s{1 + i % 4}") for i in range(30)
    ]
    rows["items"] += [(500, *full) for _ in range(20)]
    return joins_of(rows, joins_policy())


@cache
def _open(mode: str | None, kind: str = "whole") -> Connection:
    world = prepared(_world(), mode, "orders", "items")
    if kind != "whole":
        world = world.reordered(random.Random(3)) if kind == "reordered" else world.without(kind)
    return world.open(steward=True)


def _traced(db: Connection, sql: str, mechanism: str = "laplace") -> list[ReleaseTrace]:
    query = Query(sql, 0, mechanism, 1.0)
    found, _ = vectors(db, prepare(db, query))
    assert found is not None
    return found


@pytest.mark.parametrize("sql", [*READ, *CHOSEN, *AGAIN, *BESIDE])
def test_a_copy_that_weighs_gives_the_integers_of_the_table(sql: str) -> None:
    one, two = _traced(_open("weigh"), sql), _traced(_open(None), sql)
    assert compare_equal(one, two) == []
    assert [r.rule for r in one] == [r.rule for r in two]
    assert [[(s.l0, s.linf, s.l1, s.l2) for s in r.statistics] for r in one] == [
        [(s.l0, s.linf, s.l1, s.l2) for s in r.statistics] for r in two
    ]


def test_the_units_of_groups_that_have_to_exist_are_not_counted_in_a_copy_of_rows() -> None:
    sql = "SELECT max(s) FROM (SELECT kind, sum(x) AS s FROM orders GROUP BY kind)"
    (priced,) = _open("keep").prepare(sql, epsilon=1).bill.releases
    assert priced.selection is not None and priced.bounded.rule != "at_rest"


@pytest.mark.parametrize("sql", READ)
def test_what_can_be_read_from_a_copy_is(sql: str) -> None:
    apart, kept = (_open(mode).explain(sql, epsilon=1) for mode in ("weigh", "keep"))
    assert "dpsql_prepared.within" in apart.sql and "dpsql_prepared.over" in apart.sql
    assert "only units with more than 4 rows need this, which a prepared copy keeps apart" in str(apart)
    assert "dpsql_prepared.within" in kept.sql and "_unit" not in kept.sql
    assert {release.rule for release in kept.releases} == {"at_rest"}
    assert "the prepared copy has 4 rows, at random" in str(kept)


def test_steps_are_read_where_the_bounds_are_those_of_the_copy() -> None:
    for mode in ("weigh", "keep"):
        db = _open(mode)
        assert STEPS in db.explain("SELECT kind, sum(x) FROM orders WHERE n > 2 GROUP BY kind", epsilon=1).sql
        for sql in (
            "SELECT sum(x) FROM orders WHERE x < 5",
            "SELECT sum(x + 1) FROM orders",
            "SELECT count(x) FROM orders",
        ):
            plan = db.explain(sql, epsilon=1)
            assert STEPS not in plan.sql and "dpsql_prepared" in plan.sql


@pytest.mark.parametrize("sql", AGAIN)
def test_whatever_else_is_asked_is_bounded_again(sql: str) -> None:
    for mode in ("weigh", "keep"):
        plan = _open(mode).explain(sql, epsilon=1)
        assert "dpsql_prepared" not in plan.sql
        assert "at_rest" not in {release.rule for release in plan.releases}


@pytest.mark.parametrize("sql", BESIDE)
def test_what_is_counted_by_unit_keeps_all_that_is_asked_beside_it_from_a_copy_that_lacks_rows(sql: str) -> None:
    plan = _open("keep").explain(sql, epsilon=1)
    assert "dpsql_prepared" not in plan.sql and {release.rule for release in plan.releases} == {"clip"}
    assert STEPS in _open("weigh").explain(sql, epsilon=1).sql, "a copy that has all rows is read"


@pytest.mark.parametrize("mode", ["weigh", "keep"])
@pytest.mark.parametrize("unit", ["50", "51", "2"])
def test_copies_of_neighbours_move_no_further_than_claimed(mode: str, unit: str) -> None:
    used = 0.0
    for mechanism in ("laplace", "gaussian"):
        for sql in (*READ, *CHOSEN, *AGAIN, *BESIDE):
            one, two = _traced(_open(mode), sql, mechanism), _traced(_open(mode, unit), sql, mechanism)
            made = compare(one, two)
            assert made.violations == [], sql
            used = max(used, made.ratios.get(("at_rest", "l1"), 0.0))
    if (mode, unit) == ("keep", "50"):
        assert used > 0.99, "no unit used up the claim"


@pytest.mark.parametrize("sql", [*READ, *CHOSEN])
def test_which_rows_a_copy_keeps_does_not_hang_on_their_order(sql: str) -> None:
    one, two = _traced(_open("keep"), sql), _traced(_open("keep", "reordered"), sql)
    assert compare_equal(one, two) == []
    assert "at_rest" in rules_of(one)


@pytest.mark.parametrize("mode", ["weigh", "keep"])
def test_random_queries_over_prepared_neighbours(mode: str) -> None:
    rng = random.Random(f"prepared {mode}")
    tally = examine(prepared(joins(rng), mode, "orders", "items"), rng, queries=12, neighbours=2)
    assert tally.findings == []
    assert tally.counted["queries"] == 12


# planted ----------------------------------------------------------------------------------------------------------------


def _by_place(patch: Patch) -> None:
    """A unit keeps its first rows as they are stored."""
    original = _Writer.chosen_rows
    patch.setattr(
        _Writer,
        "chosen_rows",
        lambda self, chosen: (
            original(self, chosen).split(" QUALIFY ")[0].replace("h <= reach", "true")
            + f" QUALIFY row_number() OVER (PARTITION BY u) <= {self.order.copy.rows}"
        ),
    )


def _too_many(patch: Patch) -> None:
    """A unit keeps one row more than it may."""
    original = _Writer.chosen_rows
    patch.setattr(_Writer, "chosen_rows", lambda self, chosen: original(self, chosen).replace("<= 4", "<= 5"))


def _in_both(patch: Patch) -> None:
    """The units that are weighed stand among the others too."""
    original = _Writer.portion

    def both(self: _Writer, chosen: str) -> None:
        original(self, chosen)
        if self.order.copy.over:
            self.data.execute(f"INSERT INTO {self.place('within')} FROM {self.place('over')}")

    patch.setattr(_Writer, "portion", both)


def _fan_out(patch: Patch) -> None:
    """Rows that a join multiplies are taken for one each."""
    original = bound.bounded_at_rest

    def careless(relation: Any) -> Any:
        parts = getattr(relation, "parts", ())
        return original(next((p.relation for p in parts if p.private), relation))

    patch.setattr(bound, "bounded_at_rest", careless)


def _pair(mode: str, kind: str) -> tuple[Connection, Connection]:
    world = prepared(_world(), mode, "orders", "items")
    other = world.reordered(random.Random(3)) if kind == "reordered" else world.without(kind)
    return world.open(steward=True), other.open(steward=True)


def _order_matters() -> list[str]:
    one, two = _pair("keep", "reordered")
    return [violation for sql in READ for violation in compare_equal(_traced(one, sql), _traced(two, sql))]


def _moves(sql: str) -> list[str]:
    one, two = _pair("keep", "50")
    return compare(_traced(one, sql), _traced(two, sql)).violations


def _differs() -> list[str]:
    one, two = prepared(_world(), "weigh", "orders").open(steward=True), _open(None)
    return [violation for sql in READ for violation in compare_equal(_traced(one, sql), _traced(two, sql))]


@pytest.mark.parametrize(
    ("plant", "check"),
    [
        (_by_place, _order_matters),
        (_too_many, lambda: _moves(READ[0])),
        (_in_both, _differs),
        (_fan_out, lambda: _moves("SELECT kind, count(*) FROM orders o JOIN prices p USING (kind) GROUP BY kind")),
    ],
    ids=["chosen by place", "one row too many", "a unit in both parts", "fan-out"],
)
def test_a_planted_bug_is_found(plant: Callable[[Patch], None], check: Callable[[], list[str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        assert check() != []
