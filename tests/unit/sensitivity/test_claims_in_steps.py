"""Claims in the very integers that the noise is added to: their norms, how many coordinates they reach, and their grid."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import isqrt

import pytest
from hand_made_catalog import catalog_of

import dpsql
from dpsql.bounds.domain import Domain, finite, interval
from dpsql.expressions.expression import Column
from dpsql.expressions.types import BIGINT, BOOLEAN, DOUBLE, TEXT
from dpsql.expressions.typing import call, literal
from dpsql.plan.nodes.relation import UNIT, Aggregate, Copy, Field, Item, Scan
from dpsql.plan.plan import Release
from dpsql.sensitivity.at_rest_rule import parts_at_rest
from dpsql.sensitivity.bound import Bounded, Statistic, bound
from dpsql.sensitivity.claim import Claim
from dpsql.sensitivity.unit_weight import Term

ROWS, GROUPS, ONE = 5, 3, 2**30
MAX_RELEASED = 2**20
FIELDS = (
    Field("u", BIGINT, Domain(), attribute=True, owner=UNIT),
    Field("n", BIGINT, interval(-1000, 10)),
    Field("zero", BIGINT, interval(0, 0)),
    Field("wide", BIGINT, interval(0, 2**40)),
    Field("above", BIGINT, interval(0, 10)),
    Field("below", BIGINT, interval(-10, 0)),
    Field("around", BIGINT, interval(-10, 10)),
    Field("x", DOUBLE, interval(0.0, 1.0)),
    Field("k", TEXT, finite(("a", "b"), TEXT, nullable=False)),
    Field("few", BIGINT, interval(1, 7, nullable=False)),
    Field("of", TEXT, finite(("p", "q", "r"), TEXT, nullable=False), attribute=True),
    Field("free", TEXT, Domain()),
    Field("own", TEXT, Domain(), attribute=True),
    Field("c", BOOLEAN, finite((True, False), BOOLEAN, nullable=False)),
)
TABLE = Scan(FIELDS, False, ROWS, False, table="t", unit="u", unit_type=BIGINT)
BY_ROW = replace(TABLE, by_row=True, rows_per_unit=1, unit=None)
SINGLE = replace(TABLE, single=True, rows_per_unit=1)
BOUNDED = replace(TABLE, copy=Copy(ROWS, over=False))


def column(name: str) -> Column:
    return Column(TABLE.field(name).type, name=name)


def asked(function: str, name: str | None = None, **more: object) -> Aggregate:
    return Aggregate(function, None if name is None else column(name), **more)  # type: ignore[arg-type]


def release(source: Scan, keys: str, *aggregates: Aggregate, **more: object) -> Release:
    items = tuple(Item(f"_k{i}", column(name)) for i, name in enumerate(keys.split()))
    return Release("r", "t", source, items, aggregates, GROUPS, **more)  # type: ignore[arg-type]


def made(source: Scan, keys: str, *aggregates: Aggregate, mechanism: str = "laplace") -> Bounded:
    return bound(release(source, keys, *aggregates), mechanism, catalog_of(source))


COUNT, SUM, UNITS = asked("count"), asked("sum", "n"), asked("count", "u", distinct=True)
DIFFERENT = asked("count", "n", distinct=True)


def one(size: int) -> Claim:
    return Claim(1, size, size, size, 1)


def clip(size: int, reach: int) -> Claim:
    return Claim(None, size, size, size, reach)


@pytest.mark.parametrize(
    ("source", "keys", "aggregate", "rule", "claim", "grid"),
    [
        (BY_ROW, "", COUNT, "row", one(1), 1),
        (BY_ROW, "k", SUM, "row", one(1000), 1),
        (BY_ROW, "free", SUM, "row", one(1000), 1),
        (BY_ROW, "k", DIFFERENT, "row", one(1), 1),
        (SINGLE, "", COUNT, "single_row", one(1), 1),
        (SINGLE, "k few", SUM, "single_row", one(1000), 1),
        (SINGLE, "free", asked("sum", "zero"), "single_row", one(1), 1),
        (TABLE, "", COUNT, "one_group", one(ROWS * ONE), Fraction(1, ONE)),
        (TABLE, "of", SUM, "one_group", one(1000 * ROWS * ONE), Fraction(1, ONE)),
        (TABLE, "own", SUM, "one_group", one(1000 * ROWS * ONE), Fraction(1, ONE)),
        (TABLE, "", asked("sum", "x"), "one_group", one(2**29 * ROWS * ONE), Fraction(1, 2**29 * ONE)),
        (TABLE, "of", UNITS, "one_group", one(1), 1),
        (TABLE, "of", DIFFERENT, "one_group", one(ROWS), 1),
        (TABLE, "k", COUNT, "clip", clip(ROWS * ONE, 2), Fraction(1, ONE)),
        (TABLE, "k few", SUM, "clip", clip(1000 * ROWS * ONE, 14), Fraction(1, ONE)),
        (TABLE, "k of few", SUM, "clip", clip(1000 * ROWS * ONE, 42), Fraction(1, ONE)),
        (TABLE, "free", SUM, "clip", clip(1000 * ROWS * ONE, MAX_RELEASED), Fraction(1, ONE)),
        (TABLE, "k free", SUM, "clip", clip(1000 * ROWS * ONE, MAX_RELEASED), Fraction(1, ONE)),
        (TABLE, "k", asked("sum", "zero"), "clip", clip(ROWS * ONE, 2), Fraction(1, ONE)),
        (TABLE, "k", UNITS, "clip", Claim(None, ONE, 2 * ONE, isqrt(2 * ONE**2) + 1, 2), Fraction(1, ONE)),
        (TABLE, "k", DIFFERENT, "clip", clip(ROWS, 2), 1),
        (TABLE, "few", DIFFERENT, "clip", clip(ROWS, ROWS), 1),
        (TABLE, "free", DIFFERENT, "clip", clip(ROWS, ROWS), 1),
        (TABLE, "k", asked("count", "k", distinct=True), "clip", clip(4, 2), 1),
        (TABLE, "free", asked("count", "own", distinct=True), "clip", clip(ROWS, ROWS), 1),
        (TABLE, "k", asked("count", "own", distinct=True), "clip", clip(2, 2), 1),
        (TABLE, "of", asked("count", "own", distinct=True), "one_group", one(1), 1),
        (TABLE, "of k", asked("count", "own", distinct=True), "clip", clip(ROWS, ROWS), 1),
        (BOUNDED, "", COUNT, "at_rest", one(ROWS), 1),
        (BOUNDED, "of", SUM, "at_rest", one(1000 * ROWS), 1),
        (BOUNDED, "k", SUM, "at_rest", Claim(2, *[1000 * ROWS] * 3, 2), 1),
        (BOUNDED, "few", SUM, "at_rest", Claim(ROWS, *[1000 * ROWS] * 3, ROWS), 1),
        (BOUNDED, "free", COUNT, "clip", clip(ROWS * ONE, MAX_RELEASED), Fraction(1, ONE)),
    ],
)  # fmt: skip
def test_the_claim_of_one_statistic(
    source: Scan, keys: str, aggregate: Aggregate, rule: str, claim: Claim, grid: Fraction
) -> None:
    found = made(source, keys, aggregate)
    [statistic] = found.statistics
    assert (found.rule, statistic.claim, statistic.grid) == (rule, claim, grid)
    assert found.shares == (((0,), claim),)
    assert found.public == (not {"free", "own"} & set(keys.split())) == (found.selection is None)
    assert (found.histograms, found.choices, found.trees) == ((), (), ())


@pytest.mark.parametrize(
    ("source", "keys", "groups"),
    [(BY_ROW, "free", 1), (SINGLE, "free", 1), (TABLE, "own", 1), (TABLE, "k free", GROUPS)],
)
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_private_keys_are_chosen_by_units_that_vote_in_as_many_groups_as_they_may_have(
    source: Scan, keys: str, groups: int, mechanism: str
) -> None:
    selection = made(source, keys, COUNT, mechanism=mechanism).selection
    assert selection is not None and selection.groups == groups
    total = sum(w * w for w in [selection.weights[-1]] * groups) ** 0.5
    assert (total > 0.9 * selection.one) == (mechanism == "gaussian" or groups == 1)


@pytest.mark.parametrize(
    ("mechanism", "grids", "sizes", "shares"),
    [("laplace", (1, 1), (1010, 1010), [(0, 1)]), ("gaussian", (1, Fraction(1, 2)), (1, 1010), [(0,), (1,)])],
)
@pytest.mark.parametrize(
    ("source", "rows", "bits"), [(TABLE, ROWS, 30), (BOUNDED, ROWS, 0), (BY_ROW, 1, 0), (SINGLE, 1, 0)]
)
def test_the_halves_of_an_average_are_one_share_where_a_row_adds_to_both_what_it_adds_to_one(
    mechanism: str, grids: tuple, sizes: tuple, shares: list, source: Scan, rows: int, bits: int
) -> None:
    found = made(source, "k", asked("avg", "n"), mechanism=mechanism)
    assert [s.grid for s in found.statistics] == [Fraction(grid) / 2**bits for grid in grids]
    assert [s.claim.l1 for s in found.statistics] == [size * rows << bits for size in sizes]
    assert [share for share, _ in found.shares] == shares
    for share, claim in found.shares:
        first: Statistic = found.statistics[share[0]]
        if len(share) == 1:
            assert claim == first.claim
        else:
            assert claim == Claim(None, *[first.claim.l1] * 3, 2 * first.claim.reach)


PART = call("case", BIGINT, column("c"), column("n"), literal(None))
COUNTED = call("case", BIGINT, column("c"), literal(1), literal(None))


@pytest.mark.parametrize(
    ("keys", "aggregates", "terms"),
    [
        ("k", (COUNT, SUM), [Term("rows", None, ROWS)]),
        ("k", (SUM,), [Term("sum", 0, 1000 * ROWS)]),
        ("k", (asked("count", "n"),), [Term("count", 0, ROWS)]),
        ("k", (UNITS,), [Term("groups", None, 2)]),
        ("of", (UNITS,), []),
        ("k", (UNITS, COUNT), [Term("groups", None, 2), Term("rows", None, ROWS)]),
        ("k", (DIFFERENT,), []),
        ("k", (SUM, DIFFERENT), [Term("sum", 0, 1000 * ROWS)]),
        ("k", (SUM, asked("sum", "wide")), [Term("sum", 0, 1000 * ROWS), Term("sum", 1, 2**40 * ROWS)]),
        ("k", (Aggregate("sum", PART), SUM), [Term("sum", 0, 1000 * ROWS, (1,))]),
        ("k", (Aggregate("count", COUNTED), COUNT), [Term("count", 0, ROWS, (1,))]),
        ("k", (asked("avg", "n"), asked("sum", "wide")), [Term("count", 0, ROWS), Term("sum", 1, 2**40 * ROWS)]),
    ],
)  # fmt: skip
def test_a_units_weight_has_one_term_for_whatever_it_bounds(
    keys: str, aggregates: tuple[Aggregate, ...], terms: list[Term]
) -> None:
    weight = made(TABLE, keys, *aggregates).weight
    assert weight is not None and list(weight.terms) == terms
    for source in (BY_ROW, SINGLE):
        assert made(source, keys, *aggregates).weight is None
    assert made(TABLE, keys).weight is None


@pytest.mark.parametrize("name", ["above", "below", "around"])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_rows_are_counted_for_an_average_wherever_zero_lies(name: str, mechanism: str) -> None:
    weight = made(TABLE, "k", asked("avg", name), mechanism=mechanism).weight
    assert weight is not None and weight.terms == (Term("count", 0, ROWS),)


def test_each_count_of_different_values_has_its_own_cap() -> None:
    of_k = asked("count", "k", distinct=True)
    found = made(TABLE, "k", SUM, of_k, asked("count", "n"), UNITS, DIFFERENT)
    rows = {s.part.name: s.part.row for s in found.statistics if s.part.distinct}
    assert list(rows.values()) == [4, ROWS]


@pytest.mark.parametrize("more", [UNITS, DIFFERENT, asked("max", "n"), asked("min", "n")])
def test_what_is_asked_by_unit_beside_rows_does_not_read_the_copy(more: Aggregate) -> None:
    assert made(BOUNDED, "", COUNT, more).rule == made(BOUNDED, "", more, COUNT).rule == "one_group"
    assert made(BOUNDED, "k", COUNT, more).rule == "clip"


@pytest.mark.parametrize(("rows", "refused"), [(2**40 - 1, False), (2**40, True), (2**40 + 1, True)])
def test_a_total_of_eighty_bits_is_not_counted(rows: int, refused: bool) -> None:
    source = replace(TABLE, rows_per_unit=rows)
    if refused:
        with pytest.raises(dpsql.PolicyError, match="beyond what can be counted exactly"):
            made(source, "k", SUM, asked("sum", "wide"))
    else:
        assert made(source, "k", SUM, asked("sum", "wide")).rule == "clip"


@pytest.mark.parametrize("function", ["sum", "avg"])
def test_what_is_added_up_needs_bounds_and_what_is_counted_does_not(function: str) -> None:
    with pytest.raises(dpsql.UnboundedColumn):
        made(TABLE, "k", asked(function, "u"))
    with pytest.raises(dpsql.UnboundedColumn):
        made(TABLE, "k", COUNT, asked(function, "u"))
    assert made(TABLE, "k", asked("count", "u")).rule == "clip"


def test_a_key_has_the_values_that_public_tables_list_and_no_others() -> None:
    for values, reach in ((("b",), 1), (("a", "b"), 2), (("b", "z"), 1), ((), 1)):
        listed = (("_k0", finite(values, TEXT, nullable=False)),)
        found = bound(release(TABLE, "k", COUNT, listed=listed), "laplace", catalog_of(TABLE))
        assert found.keys[0].values == tuple(v for v in values if v != "z")
        assert found.statistics[0].claim.reach == reach
    other = bound(
        release(TABLE, "k", COUNT, listed=(("_k1", finite(("a",), TEXT, nullable=False)),)),
        "laplace",
        catalog_of(TABLE),
    )
    assert other.keys[0].values == ("a", "b")


def test_more_keys_than_may_be_public_are_private() -> None:
    for limit, public in ((14, True), (13, False)):
        found = bound(release(TABLE, "k few", COUNT), "laplace", catalog_of(TABLE, limit))
        assert found.public == public
        assert found.statistics[0].claim.reach == (14 if public else MAX_RELEASED)


# choices ----------------------------------------------------------------------------------------------------------------

TENTHS = [asked("quantile_disc", "few", at=Fraction(i, 10)) for i in range(1, 10)]


def test_what_is_chosen_stands_beside_what_is_added_up_each_in_its_place() -> None:
    aggregates = (COUNT, asked("max", "few"), SUM, asked("mode", "k"), DIFFERENT, asked("max", "few"))
    found = made(TABLE, "k", *aggregates)
    assert [(s.form, s.first) for s in found.sources] == [
        ("count", 0), ("choice", 0), ("sum", 1), ("choice", 1), ("distinct", 2), ("choice", 0),
    ]  # fmt: skip
    assert [c.kind for c in found.choices] == ["greatest", "mode"]
    assert [h.kept for h in found.histograms] == ["greatest", "rows"]
    assert [s.part.argument for s in found.statistics] == [0, 1, 2]


@pytest.mark.parametrize(("keys", "groups"), [("", 1), ("k", 2), ("k of", 6), ("free", None), ("k free", None)])
def test_a_tree_has_the_nodes_of_every_public_group(keys: str, groups: int | None) -> None:
    found = made(TABLE, keys, COUNT, *TENTHS)
    if groups is None:
        assert found.trees == () and len(found.choices) == 9
        assert [(s.form, s.first) for s in found.sources[1:]] == [("choice", i) for i in range(9)]
    else:
        [tree] = found.trees
        assert (tree.groups, tree.height, found.choices) == (groups, 1, ())
        assert [(s.form, s.first) for s in found.sources[1:]] == [("tree", 0)] * 9


# copies -----------------------------------------------------------------------------------------------------------------

OVER = Copy(ROWS, over=True)


@pytest.mark.parametrize(
    ("keys", "aggregates", "copy", "apart"),
    [
        ("k", (COUNT,), OVER, True),
        ("", (COUNT, SUM), OVER, True),
        ("k", (SUM, asked("sum", "wide")), Copy(ROWS - 1, over=True), True),
        ("k", (COUNT,), Copy(ROWS + 1, over=True), False),
        ("k", (COUNT,), Copy(ROWS, over=False), False),
        ("k", (COUNT,), None, False),
        ("k", (COUNT, UNITS), OVER, False),
        ("k", (UNITS,), OVER, False),
        ("of", (COUNT, UNITS), OVER, False),
        ("free", (COUNT,), OVER, False),
        ("own", (COUNT,), OVER, False),
        ("k", (DIFFERENT,), OVER, False),
        ("k", (asked("quantile_cont", "n", at=Fraction(1, 2)),), OVER, False),
    ],
)
def test_units_within_their_bound_are_read_apart_where_all_is_added_up_over_rows(
    keys: str, aggregates: tuple[Aggregate, ...], copy: Copy | None, apart: bool
) -> None:
    source = replace(TABLE, copy=copy)
    expected = (replace(source, part="within"), replace(source, part="over")) if apart else None
    assert parts_at_rest(made(source, keys, *aggregates)) == expected
