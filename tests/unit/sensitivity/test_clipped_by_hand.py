"""What is checked of a release: each unit whose weight is below one, and each value outside its declared bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hand_made_catalog import catalog_of

from dpsql.bounds.domain import Domain, finite, interval
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.types import BIGINT, BOOLEAN, DOUBLE, TEXT, integer
from dpsql.expressions.typing import call, literal
from dpsql.plan.nodes.relation import UNIT, Aggregate, Field, Item, Relation, Scan
from dpsql.plan.nodes.unary import UnitGroup
from dpsql.plan.plan import Release
from dpsql.sensitivity.bound import bound
from dpsql.sensitivity.clip_checks import ClipCheck, checks_of

DECLARED = ("declared for t",)
FIELDS = (
    Field("u", BIGINT, Domain(), attribute=True, owner=UNIT),
    Field("n", BIGINT, interval(-1000, 10, origin=DECLARED)),
    Field("x", DOUBLE, interval(0.0, 1.0, origin=DECLARED)),
    Field("typed", BIGINT, interval(0, 100)),
    Field("k", TEXT, finite(("a", "b"), TEXT, nullable=False)),
    Field("c", BOOLEAN, finite((True, False), BOOLEAN, nullable=False)),
)
TABLE = Scan(FIELDS, False, 5, False, table="t", unit="u", unit_type=BIGINT)


def column(name: str) -> Column:
    return Column(TABLE.field(name).type, name=name)


def asked(function: str, name: str | None = None, *, distinct: bool = False) -> Aggregate:
    return Aggregate(function, None if name is None else column(name), distinct)


def checks(
    source: Scan, keys: str, *aggregates: Aggregate, groups: int = 3, mechanism: str = "laplace"
) -> list[ClipCheck]:
    items = tuple(Item(f"_k{i}", column(name)) for i, name in enumerate(keys.split()))
    made = bound(Release("r", "t", source, items, aggregates, groups), mechanism, catalog_of(source))
    return list(checks_of([made], mechanism))


def flag(check: ClipCheck) -> Expression:
    """What is averaged: the flag, under a cast to zero or one."""
    [aggregate] = check.bounded.release.aggregates
    assert aggregate.function == "avg" and aggregate.argument is not None
    assert aggregate.argument.type == integer(0, 1)
    [inside] = aggregate.argument.args  # type: ignore[attr-defined]
    assert isinstance(inside, Expression) and inside.type == BOOLEAN
    return inside


def more(total: str, cap: int, source: Relation) -> Expression:
    return call("gt", BOOLEAN, Column(source.field(total).type, name=total), literal(cap))


COUNT, SUM, UNITS = asked("count"), asked("sum", "n"), asked("count", "u", distinct=True)
ROWS = "of the units in t were down-weighted to 5 rows"


@pytest.mark.parametrize(
    ("keys", "aggregates", "total"),
    [
        ("k", (COUNT,), Aggregate("count", None)),
        ("", (COUNT, asked("sum", "typed")), Aggregate("count", None)),
        ("k", (asked("count", "n"),), Aggregate("count", column("n"))),
    ],
)
def test_a_unit_with_more_rows_than_count_is_weighed_down(
    keys: str, aggregates: tuple[Aggregate, ...], total: Aggregate
) -> None:
    [check] = checks(TABLE, keys, *aggregates)
    source = check.bounded.release.source
    assert isinstance(source, UnitGroup) and source.source == TABLE
    assert source.aggregates == (("_t0", total),) and source.keys == ()
    assert flag(check) == more("_t0", 5, source)
    assert (check.what, check.effect) == (ROWS, "so counts and sums are biased towards zero")
    assert check.bounded.rule == "single_row" and check.bounded.release.name == "r_check0"
    assert check.bounded.release.keys == () and check.bounded.keys == ()


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_share_of_flags_moves_by_one_unit(mechanism: str) -> None:
    [check] = checks(TABLE, "k", COUNT, mechanism=mechanism)
    assert {s.claim.l1 for s in check.bounded.statistics} == {1}
    [argument] = check.bounded.arguments
    assert (argument.lower, argument.upper, argument.grid) == (0, 1, 1)
    assert argument.domain.nullable and not argument.domain.nan
    assert len(check.bounded.shares) == (1 if mechanism == "laplace" else 2)


@pytest.mark.parametrize(("keys", "whole"), [("", True), ("k", False)])
def test_a_units_sum_is_compared_with_its_cap_by_its_size(keys: str, whole: bool) -> None:
    """In one group the sum itself is bounded; in several the sum of the sizes."""
    units, values = checks(TABLE, keys, asked("sum", "x"))
    source = units.bounded.release.source
    assert isinstance(source, UnitGroup)
    real = column("x")
    [(name, total)] = source.aggregates
    assert total == Aggregate("sum", real if whole else call("abs", DOUBLE, real))
    made = flag(units)
    assert made.op == "gt" and made.args[0] == call("abs", DOUBLE, Column(source.field(name).type, name=name))  # type: ignore[attr-defined]
    assert 5.0 < made.args[1].value < 5.0 + 1e-5 and made.args[1].value == 5.0 * (1 + 1e-6)  # type: ignore[attr-defined]
    assert units.what == ROWS
    assert values.bounded.release.source == TABLE and values.bounded.release.name == "r_check1"


def test_a_sum_of_whole_numbers_is_read_as_a_double() -> None:
    units, _ = checks(TABLE, "", SUM)
    source = units.bounded.release.source
    assert isinstance(source, UnitGroup)
    assert source.aggregates == (("_t0", Aggregate("sum", call("cast", DOUBLE, column("n")))),)
    assert flag(units).args[1].value == 5000.0 * (1 + 1e-6)  # type: ignore[attr-defined]


def test_each_of_several_totals_may_weigh_a_unit_down() -> None:
    units, *_ = checks(TABLE, "k", SUM, asked("count", "x"))
    made = flag(units)
    assert made.op == "or" and [part.op for part in made.args] == ["gt", "gt"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("key", "groups", "most"), [("k", 1, "1 group"), ("n", 2, "2 groups"), ("n", 3, "3 groups")])
def test_groups_are_counted_over_the_pairs_of_unit_and_key(key: str, groups: int, most: str) -> None:
    pairs, rows = checks(TABLE, key, UNITS, COUNT, groups=groups)
    source = pairs.bounded.release.source
    assert isinstance(source, UnitGroup) and isinstance(source.source, UnitGroup)
    assert [item.expression for item in source.source.keys] == [column(key)] and source.source.source == TABLE
    assert flag(pairs) == more("_t0", groups, source)
    assert pairs.what == f"of the units in t were down-weighted to {most}"
    assert rows.what == ROWS


@pytest.mark.parametrize("groups", [2, 3])
def test_nobody_is_in_more_groups_than_there_are(groups: int) -> None:
    assert [check.what for check in checks(TABLE, "k", UNITS, COUNT, groups=groups)] == [ROWS]


def test_one_row_is_one_row() -> None:
    [check] = checks(replace(TABLE, rows_per_unit=1), "k", COUNT)
    assert check.what == "of the units in t were down-weighted to 1 row"


def test_a_part_and_its_rest_are_counted_together() -> None:
    for function, inside in (("sum", column("n")), ("count", column("n"))):
        part = call("case", BIGINT, column("c"), inside, literal(None))
        units, *_ = checks(TABLE, "k", Aggregate(function, part), Aggregate(function, inside))
        source = units.bounded.release.source
        assert isinstance(source, UnitGroup)
        [(_, total)] = source.aggregates
        rest = call("case", BIGINT, column("c"), literal(None), inside)
        both = call("coalesce", BIGINT, part, rest)
        real = call("abs", DOUBLE, call("cast", DOUBLE, both))
        assert total == Aggregate(function, real if function == "sum" else both)


@pytest.mark.parametrize(
    ("aggregate", "low", "high", "shown"),
    [(SUM, -1000.0, 10.0, "[-1000, 10]"), (asked("avg", "x"), 0.0, 1.0, "[0, 1]")],
)
def test_a_value_outside_its_declared_bounds_is_clamped(
    aggregate: Aggregate, low: float, high: float, shown: str
) -> None:
    *_, check = checks(TABLE, "k", aggregate)
    name = str(aggregate.argument)
    real = column(name) if name == "x" else call("cast", DOUBLE, column(name))
    outside = call("or", BOOLEAN, call("lt", BOOLEAN, real, literal(low)), call("gt", BOOLEAN, real, literal(high)))
    assert flag(check) == outside
    assert check.what == f"of the values of {name} were clamped to {shown}"
    assert check.effect == "so sums and averages are biased"
    assert check.bounded.release.source == TABLE and check.bounded.rule == "one_group"


def test_what_is_only_counted_or_bounded_by_its_type_is_not_clamped() -> None:
    assert [c.what for c in checks(TABLE, "k", asked("sum", "typed"))] == [ROWS]
    assert [c.what for c in checks(TABLE, "k", asked("count", "n"))] == [ROWS]
    single = replace(TABLE, single=True, rows_per_unit=1)
    assert checks(single, "k", COUNT) == [] and len(checks(single, "k", SUM)) == 1


def test_checks_of_several_releases_are_numbered_in_each() -> None:
    made = bound(Release("r", "t", TABLE, (), (SUM,), 3), "laplace", catalog_of(TABLE))
    other = bound(Release("s", "t", TABLE, (), (COUNT,), 3), "laplace", catalog_of(TABLE))
    names = [c.bounded.release.name for c in checks_of([made, other], "laplace")]
    assert names == ["r_check0", "r_check1", "s_check0"]
