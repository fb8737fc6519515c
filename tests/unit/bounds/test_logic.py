"""Comparisons, three-valued logic and choices over every small domain: just the answers that DuckDB gives."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from small_worlds import FAR, Axis, World, has_nan, hull, inside, some

from dpsql.bounds import infer
from dpsql.bounds.domain import Domain, RowDomains, finite, interval
from dpsql.bounds.logic import RULES
from dpsql.expressions.expression import Call
from dpsql.expressions.types import BIGINT, BOOLEAN, TEXT

ENDS: list[tuple[int | None, int | None]] = [
    (None, None), (None, 1), (2, None), (1, 1), (1, 2), (2, 2), (0, 3),
]  # fmt: skip


def _subsets(values: tuple[object, ...]) -> list[tuple[object, ...]]:
    return [tuple(v for v in values if chosen >> values.index(v) & 1) for chosen in range(1, 2 ** len(values))]


def _listed(stored: str, values: tuple[object, ...], type_: object, more: tuple[Domain, ...] = ()) -> Axis:
    """Each choice of the values, with NULL and without; and NULL alone."""
    lists = [finite(chosen, type_, nullable=null) for chosen in _subsets(values) for null in (False, True)]  # type: ignore[arg-type]
    return Axis(stored, (*values, None), (*lists, Domain(values=()), *more))


TRUTH = _listed("BOOLEAN", (False, True), BOOLEAN)
WORD = _listed("VARCHAR", ("a", "b", "c"), TEXT)
LIST = _listed("BIGINT", (1, 2, 3), BIGINT)
WHOLE = Axis(
    "BIGINT",
    (None, -FAR, 0, 1, 2, 3, FAR),
    (*tuple(interval(low, high, nullable=null) for low, high in ENDS for null in (False, True)), Domain(values=())),
)
MIXED = Axis(
    "DOUBLE", (1.0, 2.0, math.nan), (Domain(1.0, 1.0, (1.0,), False, True), Domain(1.0, 2.0, (1.0, 2.0), False, True))
)
REAL = Axis(
    "DOUBLE",
    (None, -math.inf, 1.0, 1.5, 2.0, math.inf, math.nan),
    tuple(
        interval(low, high, nullable=null, nan=nan)
        for low, high in ((None, None), (None, 1.5), (1.5, None), (1.0, 1.0), (1.0, 2.0), (2.0, 2.0))
        for null, nan in ((False, False), (False, True), (True, True))
    ),
)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = World(p=TRUTH, q=TRUTH, s=WORD, t=WORD, k=LIST, l=LIST, z=MIXED, i=WHOLE, j=WHOLE, x=REAL, y=REAL)
    yield made
    made.database.close()


SIGNS = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
SURE = [
    *(f"p {sign} q" for sign in ("AND", "OR", "=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")),
    "NOT p", "p IS NULL", "p IS NOT NULL", "p IS TRUE", "p IS NOT TRUE", "p IS FALSE",
    *(f"{pair[0]} {sign} {pair[1]}" for pair in ("st", "ij") for sign in SIGNS), *(f"k {sign} l" for sign in SIGNS[:6]),
    "i IS NULL", "s IS NULL", "x IS NULL", "isnan(x)", "isnan(i)",
    "z IN (1e0)", "z IN (1e0, 2e0)", "z = 1e0", "isnan(z)", "z IS NULL",
    *(f"k IN {listed}" for listed in ("(1)", "(1, 2)", "(1, 2, 3)", "(4)", "(NULL, 1)", "(1, NULL)", "(4, NULL)")),
    *(f"s IN {listed}" for listed in ("('a')", "('a', 'b')", "('a', 'b', 'c')", "('d')", "(NULL, 'a')", "('d', NULL)")),
]  # fmt: skip


@pytest.mark.parametrize("text", SURE)
def test_a_condition_has_just_the_truth_values_that_can_occur(world: World, text: str) -> None:
    for known, made, values in world.answers(text):
        assert made.values is not None
        assert {*made.values, *([None] if made.nullable else [])} == set(values), known
        assert list(made.values) == sorted(made.values) and made.nan is False


@pytest.mark.parametrize("text", [*(f"x {sign} y" for sign in SIGNS), *(f"i {sign} x" for sign in SIGNS[2:6])])
def test_nan_is_above_all_numbers_and_equal_to_itself(world: World, text: str) -> None:
    """Where neither side can be NaN, just what can occur; else at least that."""
    for known, made, values in world.answers(text):
        said = {*(made.values or ()), *([None] if made.nullable else [])}
        assert said >= set(values), known
        assert said == set(values) or any(d.nan for d in known.columns.values()), known


@pytest.mark.parametrize("text", ["i IN (1, 2)", "i IN (3)", "i IN (2, NULL)", "x IN (1.5, 1e0)"])
def test_a_number_in_bounds_can_be_in_a_list_where_the_two_meet(world: World, text: str) -> None:
    """And can always be none of it; a list with NULL never answers FALSE."""
    for known, made, values in world.answers(text):
        said = {*(made.values or ()), *([None] if made.nullable else [])}
        assert said >= set(values), known
        if "NULL" in text:
            assert False not in said
        elif not any(d.nan or d.empty for d in known.columns.values()):
            assert said == {*values, False}, known


def test_an_unknown_text_can_be_anything(world: World) -> None:
    unknown = RowDomains({"s": Domain(nullable=False), "t": finite(("a",), TEXT, nullable=False)})
    for text in ("s = t", "t = s", "s < t", "s IS DISTINCT FROM t", "t IS NOT DISTINCT FROM s", "s IN ('a', 'b')"):
        made = infer(world.expression(text), unknown)
        assert (made.values, made.nullable) == ((False, True), False), text


@pytest.mark.parametrize("domain", [*TRUTH.domains, Domain(nullable=False), Domain()])
def test_what_is_not_so_is_the_other_way_round(world: World, domain: Domain) -> None:
    """Also by the rule alone, which is asked where the values are not listed."""
    asked = world.expression("NOT p")
    assert isinstance(asked, Call)
    made = RULES["not"](asked, (domain,))
    assert set(made.values or ()) == {not v for v in ((False, True) if domain.values is None else domain.values)}
    assert (made.nullable, made.nan) == (domain.nullable, False)


@pytest.mark.parametrize("pair", ["ij", "kl", "xy"])
@pytest.mark.parametrize(
    "form", ["greatest({}, {})", "least({}, {})", "coalesce({}, {})", "least({}, {}, 2)", "greatest(1, {}, {})"]
)
def test_the_greatest_and_the_least_end_where_their_values_do(world: World, form: str, pair: str) -> None:
    """They pass over NULL; NaN is the greatest of all, and where it may be the only value there are no ends to tell."""
    for known, made, values in world.answers(form.format(*pair)):
        assert all(inside(v, made) for v in values), known
        assert made.nullable == (None in values), known
        assert made.nan == has_nan(values), known
        if some(values) and not has_nan(values):
            assert (made.lower, made.upper) == hull(values), known
        if pair == "kl":
            assert made.values is not None and set(made.values) == {v for v in values if v is not None}, known


@pytest.mark.parametrize(
    "text", ["nullif(k, l)", "nullif(s, t)", "nullif(k, 2)", "nullif(s, 'b')", "nullif(k, 5)", "nullif(k, NULL)"]
)
def test_nullif_leaves_out_a_single_value_that_the_other_must_have(world: World, text: str) -> None:
    for known, made, values in world.answers(text):
        assert all(inside(v, made) for v in values), known
        other = [d for name, d in known.columns.items() if name in "lt"]
        if all(d.values is not None and len(d.values) <= 1 for d in other):
            assert made.values is not None and set(made.values) == {v for v in values if v is not None}, known
            assert made.nullable == (None in values), known
        else:
            assert made.nullable and made.values == known.columns["k" if "k" in text else "s"].values


@pytest.mark.parametrize(
    "text", ["nullif(z, 1e0)", "nullif(z, 5e0)", "greatest(z, 1e0)", "least(z, 1e0)", "coalesce(z, 0e0)"]
)
def test_a_list_beside_which_nan_can_be_keeps_it(world: World, text: str) -> None:
    for known, made, values in world.answers(text):
        assert all(inside(v, made) for v in values), known
        assert made.values is not None and set(made.values) == {v for v in values if v is not None and v == v}, known
        assert made.nan or not has_nan(values)


@pytest.mark.parametrize("other", [Domain(1.0, 1.0, (1.0,), False, True), Domain(1.0, 1.0, (1.0,), True, False)])
def test_nullif_keeps_a_value_where_the_other_may_be_nan_or_null(world: World, other: Domain) -> None:
    asked = world.expression("nullif(x, y)")
    for one in (Domain(1.0, 2.0, (1.0, 2.0), False), Domain(2.0, 2.0, (2.0,), False)):
        made = infer(asked, RowDomains({"x": one, "y": other}))
        assert (made.values, made.nullable) == (one.values, other.nan or 1.0 in (one.values or ()))


def test_nullif_of_what_python_cannot_compare_can_be_null(world: World) -> None:
    asked = world.expression("nullif(k, y)")
    one, two = (Domain(None, None, values, False) for values in ((10**400,), (1.0,)))
    made = infer(asked, RowDomains({"k": one, "y": two}))
    assert (made.values, made.nullable) == ((10**400,), True)


CHOICES = [
    "CASE WHEN i < 2 THEN i ELSE 0 END", "CASE WHEN i < 2 THEN 0 ELSE i END", "CASE WHEN i >= 2 THEN 7 END",
    "CASE WHEN i < 1 THEN 1 WHEN i > 2 THEN 2 ELSE i END", "CASE WHEN p THEN 1 WHEN q THEN 2 ELSE 3 END",
    "CASE WHEN p THEN 1 WHEN NOT p THEN 2 WHEN q THEN 3 END", "CASE k WHEN 1 THEN 10 WHEN 2 THEN 20 ELSE k END",
    "CASE WHEN TRUE THEN i ELSE 9 END", "CASE WHEN NULL THEN 9 ELSE k END", "CASE WHEN p AND q THEN 1 ELSE 0 END",
    "CASE WHEN p OR q THEN 1 ELSE 0 END", "CASE WHEN p IS NULL THEN 5 ELSE 6 END",
    "CASE WHEN CASE WHEN p THEN TRUE ELSE FALSE END THEN 1 ELSE 2 END", "CASE WHEN k = 2 THEN 1.5 ELSE k END",
    "CASE WHEN s = 'a' THEN 'x' ELSE s END",
]  # fmt: skip


@pytest.mark.parametrize("text", CHOICES)
def test_a_case_has_just_the_branches_that_can_be_reached(world: World, text: str) -> None:
    """An interval that a condition leaves nothing of is kept as a point, so the ends are sure where it leaves some."""
    for known, made, values in world.answers(text):
        assert all(inside(v, made) for v in values), known
        assert made.nullable == (None in values), known
        if made.values is not None:
            assert set(made.values) == {v for v in values if v is not None}, known
        elif "i" not in known.columns or all(inside(v, known.columns["i"]) for v in (0, 3)):
            assert (made.lower, made.upper) == hull(values), known
