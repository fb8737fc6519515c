"""What each rule claims for each statistic: in the argument's own unit, and no larger than what a unit can do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from hand_made_catalog import catalog_of

import dpsql
from dpsql.bounds.domain import interval
from dpsql.expressions.expression import Column
from dpsql.expressions.types import BIGINT
from dpsql.plan.nodes.relation import Aggregate, Copy, Scan
from dpsql.sensitivity.bound import Bounded, bound
from dpsql.sensitivity.choice_layout import histogram
from dpsql.sensitivity.statistics import lay_out
from dpsql.sensitivity.unit_weight import WEIGHT_BITS

TABLES: dict[str, Any] = {
    "t": {"unit": "u", "max_rows_per_unit": 5, "max_groups_per_unit": 3,
          "columns": {"n": {"min": -1000, "max": 10}, "k": {"values": ["a", "b"], "nulls": False}, "free": {},
                      "above": {"min": 0, "max": 10}, "below": {"min": -10, "max": 0}, "around": {"min": -10, "max": 10}}},
    "v": {"unit": "row", "columns": {"n": {"min": -1000, "max": 10}, "k": {"values": ["a", "b"], "nulls": False}, "free": {}}},
    "many": {"unit": "u", "max_rows_per_unit": 2**31 - 1, "columns": {"n": {"min": 0, "max": 2**50 - 1}, "k": {"values": ["a"]}}},
}  # fmt: skip
POLICY = {"dataset": "d", "search": False, "budget": {"epsilon": 100, "delta": 1e-6}, "tables": TABLES}


@pytest.fixture(scope="module")
def db() -> Iterator[dpsql.Connection]:
    frame = pd.DataFrame({"u": [1], "n": [1], "k": ["a"], "free": ["x"]})
    frame = frame.assign(above=1, below=-1, around=0)
    with dpsql.connect({"t": frame, "v": frame, "many": frame}, policy=POLICY, ledger=":memory:") as connection:
        yield connection


def bounded(db: dpsql.Connection, sql: str, mechanism: str = "laplace") -> Bounded:
    return db.prepare(sql, epsilon=1.0, delta=1e-7, mechanism=mechanism).bill.releases[0].bounded


def claims(made: Bounded) -> list[tuple[object, ...]]:
    """Of each statistic l0, linf, l1 and l2, in the argument's own unit."""
    return [
        (s.claim.l0, *(float(norm * s.grid) for norm in (s.claim.linf, s.claim.l1, s.claim.l2)))
        for s in made.statistics
    ]


@pytest.mark.parametrize(
    ("sql", "rule", "expected"),
    [
        ("SELECT count(*) FROM v", "row", [(1, 1, 1, 1)]),
        ("SELECT sum(n) FROM v", "row", [(1, 1000, 1000, 1000)]),
        ("SELECT k, count(*) FROM v GROUP BY k", "row", [(1, 1, 1, 1)]),
        ("SELECT count(*) FROM t", "one_group", [(1, 5, 5, 5)]),
        ("SELECT sum(n) FROM t", "one_group", [(1, 5000, 5000, 5000)]),
        ("SELECT u % 7, count(*) FROM t GROUP BY 1", "one_group", [(1, 5, 5, 5)]),
        ("SELECT k, count(*) FROM t GROUP BY k", "clip", [(None, 5, 5, 5)]),
        ("SELECT k, sum(n) FROM t GROUP BY k", "clip", [(None, 5000, 5000, 5000)]),
        ("SELECT avg(n) FROM t", "one_group", [(1, 5050, 5050, 5050)] * 2),
        ("SELECT count(DISTINCT u) FROM t", "one_group", [(1, 1, 1, 1)]),
        ("SELECT k, count(DISTINCT u) FROM t GROUP BY k", "clip", [(None, 1, 2, pytest.approx(2**0.5))]),
        ("SELECT free, count(DISTINCT u) FROM t GROUP BY free", "clip", [(None, 1, 3, pytest.approx(3**0.5))]),
        ("SELECT around, count(DISTINCT u) FROM t GROUP BY 1", "clip", [(None, 1, 3, pytest.approx(3**0.5))]),
        ("SELECT count(DISTINCT n) FROM t", "one_group", [(1, 5, 5, 5)]),
        ("SELECT count(DISTINCT k) FROM t", "one_group", [(1, 2, 2, 2)]),
        ("SELECT k, count(DISTINCT n) FROM t GROUP BY k", "clip", [(None, 5, 5, 5)]),
        ("SELECT k, count(DISTINCT k) FROM t GROUP BY k", "clip", [(None, 4, 4, 4)]),
        ("SELECT u % 7, count(DISTINCT k) FROM t GROUP BY 1", "one_group", [(1, 2, 2, 2)]),
        ("SELECT u % 7, free, count(DISTINCT k) FROM t GROUP BY 1, 2", "clip", [(None, 5, 5, 5)]),
        ("SELECT free, count(DISTINCT k) FROM t GROUP BY free", "clip", [(None, 5, 5, 5)]),
        ("SELECT free, count(DISTINCT k) FROM v GROUP BY free", "row", [(1, 1, 1, 1)]),
        ("SELECT free, count(*) FROM t GROUP BY free", "clip", [(None, 5, 5, 5)]),
    ],
)
def test_the_claim_of_a_rule(db: dpsql.Connection, sql: str, rule: str, expected: list[tuple[object, ...]]) -> None:
    made = bounded(db, sql)
    assert (made.rule, claims(made)) == (rule, expected)


@pytest.mark.parametrize(
    ("declared", "counted"),
    [
        ({}, 21),
        ({"max_rows_per_unit": 5}, 5),
        ({"max_rows_per_unit": 400}, 21),
        ({"max_groups_per_unit": 4}, 4),
        ({"max_rows_per_unit": 5, "max_groups_per_unit": 7}, 7),
        ({"max_groups_per_unit": 40}, 21),
    ],
)
def test_only_a_declared_cap_limits_the_public_groups_in_which_a_unit_is_counted(
    declared: dict[str, int], counted: int
) -> None:
    columns = {"k": {"values": list(range(20))}}
    policy = POLICY | {"tables": {"t": {"unit": "u", **declared, "columns": columns}}}
    frame = pd.DataFrame({"u": [1], "k": [1]})
    with dpsql.connect({"t": frame}, policy=policy, ledger=":memory:") as connection:
        made = bounded(connection, "SELECT k, count(DISTINCT u), count(*) FROM t GROUP BY k", "gaussian")
        assert claims(made)[0] == (None, 1, counted, pytest.approx(counted**0.5))
        assert made.weight is not None and made.weight.terms[0].cap == counted


def test_the_halves_of_an_average_share_one_claim(db: dpsql.Connection) -> None:
    made = bounded(db, "SELECT avg(n) FROM t")
    [(share, joint)] = made.shares
    assert share == (0, 1) and joint.l1 == made.statistics[0].claim.l1 and joint.reach == 2
    assert [s for s, _ in bounded(db, "SELECT avg(n) FROM t", "gaussian").shares] == [(0,), (1,)]


@pytest.mark.parametrize(
    ("sql", "reach", "groups"),
    [
        ("SELECT k, count(*) FROM t GROUP BY k", 2, None),
        ("SELECT u % 7, count(*) FROM t GROUP BY 1", 1, None),
        ("SELECT free, count(*) FROM t GROUP BY free", 2**20, 3),
        ("SELECT free, count(*) FROM v GROUP BY free", 1, 1),
        ("SELECT u // 7, count(*) FROM t GROUP BY 1", 1, 1),
        ("SELECT u // 7, free, count(*) FROM t GROUP BY 1, 2", 2**20, 3),
    ],
)
def test_how_many_coordinates_a_unit_can_touch(db: dpsql.Connection, sql: str, reach: int, groups: int | None) -> None:
    made = bounded(db, sql)
    assert made.statistics[0].claim.reach == reach
    assert (None if made.selection is None else made.selection.groups) == groups


def test_what_cannot_be_counted_exactly_is_refused(db: dpsql.Connection) -> None:
    with pytest.raises(dpsql.PolicyError, match="max_rows_per_unit"):
        bounded(db, "SELECT k, sum(n) FROM many GROUP BY k")
    assert bounded(db, "SELECT k, count(*) FROM many GROUP BY k").rule == "clip"


@pytest.mark.parametrize(
    ("sql", "terms"),
    [
        ("SELECT k, count(*), sum(n) FROM t GROUP BY k", [("rows", 5)]),
        ("SELECT k, sum(n) FROM t GROUP BY k", [("sum", 5000)]),
        ("SELECT k, count(n) FROM t GROUP BY k", [("count", 5)]),
        ("SELECT k, count(DISTINCT u), count(*) FROM t GROUP BY k", [("groups", 2), ("rows", 5)]),
        ("SELECT k, avg(n) FROM t GROUP BY k", [("count", 5)]),
        ("SELECT k, avg(above) FROM t GROUP BY k", [("count", 5)]),
        ("SELECT k, avg(below) FROM t GROUP BY k", [("count", 5)]),
        ("SELECT k, sum(around), count(around) FROM t GROUP BY k", [("count", 5)]),
        ("SELECT k, sum(above), sum(below) FROM t GROUP BY k", [("sum", 50), ("sum", 50)]),
        ("SELECT k, avg(above), sum(n) FROM t GROUP BY k", [("count", 5), ("sum", 5000)]),
    ],
)
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_what_a_units_weight_keeps_below_its_cap(
    db: dpsql.Connection, sql: str, terms: list[tuple[str, int]], mechanism: str
) -> None:
    """Rows whose value is zero add nothing to a sum, but to what is left of the upper bound."""
    weight = bounded(db, sql, mechanism).weight
    assert weight is not None and [(term.kind, term.cap) for term in weight.terms] == terms


@pytest.mark.parametrize(
    ("sql", "copy", "rule"),
    [
        ("SELECT k, count(*), avg(n) FROM t GROUP BY k", Copy(5, over=False), "at_rest"),
        ("SELECT k, count(*) FROM t GROUP BY k", Copy(4, over=False), "at_rest"),
        ("SELECT k, count(*) FROM t GROUP BY k", Copy(6, over=False), "clip"),
        ("SELECT k, count(*) FROM t GROUP BY k", Copy(5, over=True), "clip"),
        ("SELECT k, count(*) FROM t GROUP BY k", None, "clip"),
        ("SELECT count(*) FROM t", Copy(5, over=False), "at_rest"),
        ("SELECT count(*), median(n) FROM t", Copy(5, over=False), "at_rest"),
        ("SELECT count(*), max(n) FROM t", Copy(5, over=False), "one_group"),
        ("SELECT count(*), min(n) FROM t", Copy(5, over=False), "one_group"),
        ("SELECT count(*), count(DISTINCT n) FROM t", Copy(5, over=False), "one_group"),
        ("SELECT k, count(*), count(DISTINCT u) FROM t GROUP BY k", Copy(5, over=False), "clip"),
        ("SELECT free, count(*) FROM t GROUP BY free", Copy(5, over=False), "clip"),
        ("SELECT count(*) FROM v", Copy(5, over=False), "row"),
    ],
)
def test_a_copy_bounds_what_is_added_up_over_rows_if_it_keeps_no_more_than_may_count(
    db: dpsql.Connection, sql: str, copy: Copy | None, rule: str
) -> None:
    release = bounded(db, sql).release
    assert isinstance(release.source, Scan)
    source = replace(release.source, copy=copy)
    made = bound(replace(release, source=source), "laplace", catalog_of(source))
    assert made.rule == rule
    assert made.weight is None or rule in ("clip", "one_group")
    if rule == "at_rest":
        assert made.statistics[0].claim.l1 * made.statistics[0].grid == 5


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("width", [0, 1, 2, 1000])
def test_an_average_takes_the_pair_under_laplace_noise_as_soon_as_there_are_two_values(
    mechanism: str, width: int
) -> None:
    asked, domain = Aggregate("avg", Column(BIGINT, name="n")), interval(3, 3 + width, nullable=False)
    made = lay_out([asked], [domain], mechanism, [])
    [source] = made.sources
    assert source.form == ("pair" if mechanism == "laplace" and width else "centred")
    if source.form == "pair":
        assert [(p.alpha, p.beta, p.row) for p in made.parts] == [(1, -3, width), (-1, 3 + width, width)]
    else:
        assert [(p.alpha, p.beta, p.row) for p in made.parts] == [(0, 1, 1), (2, -6 - width, width)]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_every_statistic_is_that_of_some_aggregate(db: dpsql.Connection, mechanism: str) -> None:
    sql = "SELECT count(*), sum(n), avg(n), stddev(n), count(n), count(DISTINCT n), count(DISTINCT u) FROM t"
    made = bounded(db, sql, mechanism)
    assert {place for source in made.sources for place in source.statistics} == set(range(len(made.statistics)))
    assert any(len(source.statistics) == 2 for source in made.sources)


@pytest.mark.parametrize(
    ("aggregate", "kept", "cap"),
    [("median(n)", "rows", 5), ("mode(n)", "rows", 5), ("max(n)", "greatest", 3), ("min(n)", "least", 3)],
)
def test_a_unit_adds_to_a_histogram_its_rows_or_one_extreme_of_each_of_its_groups(
    db: dpsql.Connection, aggregate: str, kept: str, cap: int
) -> None:
    made = bounded(db, f"SELECT k, {aggregate} FROM t GROUP BY k")
    [found] = made.histograms
    assert (found.kept, found.one, found.most) == (kept, 1 << WEIGHT_BITS, cap << WEIGHT_BITS)
    stored = histogram(made.release, found.grid, found.kept, "at_rest")
    assert (stored.term, stored.one, stored.most) == (None, 1, cap)
    single = histogram(made.release, found.grid, found.kept, "single_row")
    assert (single.term, single.one, single.most) == (None, 1, 1)
