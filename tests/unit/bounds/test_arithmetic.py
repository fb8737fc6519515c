"""Arithmetic over every small interval: each value that DuckDB computes lies in the bounds, and they reach no further."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from decimal import Decimal

import duckdb
import pytest
from small_worlds import FAR, Axis, World, axis, has_nan, hull, inside, some

from dpsql.bounds import infer
from dpsql.bounds.arithmetic import RULES
from dpsql.bounds.domain import Domain, Number, RowDomains, finite, interval
from dpsql.expressions.expression import Call, Column
from dpsql.expressions.types import BIGINT, DOUBLE

ENDS: list[tuple[int | None, int | None]] = [
    (None, None), (None, 0), (-1, None), (0, None), (2, None), (-3, -1), (-2, 1), (0, 0), (0, 2), (1, 3), (-1, -1),
]  # fmt: skip
HALVES = range(-3, 4)


def _halved(kind: type[float] | type[Decimal]) -> list[tuple[Number | None, Number | None]]:
    return [(None if a is None else kind(a) / 2, None if b is None else kind(b) / 2) for a, b in ENDS]


WHOLE = axis("BIGINT", [-FAR, *range(-3, 4), FAR], ENDS)
EXACT = axis("DECIMAL(9,1)", [-FAR, *(Decimal(v) / 2 for v in HALVES), FAR], _halved(Decimal))
REAL = axis("DOUBLE", [-math.inf, *(v / 2 for v in HALVES), math.inf], _halved(float))
PAIRS = ["ij", "mx", "xy"]
FINE = sorted({sign * v for sign in (-1, 1) for v in (0, 4, 5, 6, 14, 15, 45, 50, 55, 65, 95)})  # fmt: skip


def _fine(stored: str, points: list[Number]) -> Axis:
    """Each of the points alone, and each two neighbours."""
    return axis(stored, points, [*((p, p) for p in points), *itertools.pairwise(points)])


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = World(
        i=WHOLE, j=WHOLE, m=EXACT, n=EXACT, x=REAL, y=REAL,
        w=_fine("BIGINT", list(FINE)), d=_fine("DECIMAL(9,2)", [Decimal(v).scaleb(-2) for v in FINE]),
        f=_fine("DOUBLE", [v / 100 for v in FINE]),
        q=axis("DOUBLE", [math.nan, -1.0, 0.0, 2.0], [(-1.0, 0.0), (-1.0, 2.0), (0.0, 2.0), (2.0, 2.0)], nan=True),
    )  # fmt: skip
    yield made
    made.database.close()


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("form", ["{} + {}", "{} - {}", "{} * {}"])
def test_sums_and_products_end_where_their_values_do(world: World, form: str, pair: str) -> None:
    """A NaN is foreseen where infinities of both signs meet, or one meets zero; a sum tells no signs of them apart."""
    for known, made, values in world.answers(form.format(*pair)):
        assert all(inside(v, made) for v in values), known
        assert (made.lower, made.upper) == hull(values), known
        assert made.nullable is False
        halfway = any((d.lower is None) != (d.upper is None) for d in known.columns.values())
        assert made.nan == has_nan(values) or (made.nan and halfway and "*" not in form), known


ONE = ["-{}", "abs({})", "sign({})", "{} * {}", "floor({})", "ceil({})", "trunc({})", "even({})", "round({})",
       "round({}, 1)", "round({}, -1)", "round_even({}, 0)", "round_even({}, 1)", "round_even({}, -1)", "trunc({}, 1)",
       "trunc({}, -1)", "round({}, 2)", "CAST({} AS DOUBLE)"]  # fmt: skip


@pytest.mark.parametrize("column", "imxwdfq")
@pytest.mark.parametrize("form", ONE)
def test_functions_of_one_number_end_where_their_values_do(world: World, form: str, column: str) -> None:
    for known, made, values in world.answers(form.replace("{}", column)):
        assert all(inside(v, made) for v in values), known
        assert (made.lower, made.upper) == hull(values), known
        assert (made.nullable, made.nan) == (False, has_nan(values)), known


@pytest.mark.parametrize("pair", PAIRS)
def test_a_quotient_ends_where_its_values_do_unless_the_divisor_can_be_zero(world: World, pair: str) -> None:
    for known, made, values in world.answers("{} / {}".format(*pair)):
        assert all(inside(v, made) for v in values), known
        by_zero = inside(0, known.columns[pair[1]])
        assert (made.lower, made.upper) == ((None, None) if by_zero else _near(values)), known
        assert (made.nullable, made.nan) == (False, has_nan(values)), known


def _near(values: list[object]) -> tuple[object, ...]:
    """The ends of quotients, where what is far may stand for an infinity below the line."""
    return tuple(None if end is None else pytest.approx(end, rel=1e-15, abs=5 / FAR) for end in hull(values))


@pytest.mark.parametrize("pair", PAIRS)
def test_a_whole_quotient_goes_towards_zero_and_is_null_where_the_divisor_is_zero(world: World, pair: str) -> None:
    for known, made, values in world.answers("{} // {}".format(*pair)):
        assert all(inside(v, made) for v in values), known
        by_zero = inside(0, known.columns[pair[1]])
        assert made.nullable == by_zero, known
        if some(values) and (pair == "ij" or not by_zero):
            assert (made.lower, made.upper) == _near(values), known
        if not some(values):
            assert (made.lower, made.upper) == ((0, 0) if pair == "ij" else (None, None)), "of nothing but NULL"
        if pair == "ij" or not by_zero:
            assert made.nan == has_nan(values), known


@pytest.mark.parametrize("pair", PAIRS)
def test_a_remainder_has_the_sign_of_the_dividend_and_is_smaller_than_both(world: World, pair: str) -> None:
    """Its bounds are those for all dividends from zero on; of whole numbers it is smaller than the divisor by one."""
    for known, made, values in world.answers("{} % {}".format(*pair)):
        assert all(inside(v, made) for v in values), known
        dividend, divisor = (known.columns[name] for name in pair)
        sizes = [math.inf if end is None else abs(end) for end in (divisor.lower, divisor.upper)]
        size = max(max(sizes) - (1 if pair == "ij" else 0), 0)
        low, high = dividend.lower, dividend.upper
        least = -size if low is None else max(-size, min(low, 0))
        most = size if high is None else min(size, max(high, 0))
        assert made.lower == (None if math.isinf(least) else least), known
        assert made.upper == (None if math.isinf(most) else most), known
        assert made.nullable == (None in values), known
        assert made.nan == has_nan(values), known


@pytest.mark.parametrize("exponent", ["0", "1", "2", "3", "4", "0.5", "1.5", "-1", "-2", "-3", "-0.5"])
def test_a_power_has_bounds_where_it_is_defined(world: World, exponent: str) -> None:
    """Not of a negative base but for whole exponents, nor of zero (or what has no lower end) for negative ones, nor
    where the power of a base that may be negative is infinite.
    """
    at = float(exponent)
    for known, made, values in world.answers(f"power(x, {exponent})"):
        assert all(inside(v, made) for v in values), known
        base = known.columns["x"]
        negative = base.lower is None or base.lower < 0
        unknown = (
            (negative and not at.is_integer())
            or (at < 0 and (inside(0, base) or base.lower is None))
            or (negative and math.inf in values)
        )
        assert (made.nan, made.nullable) == (unknown, False), known
        if unknown:
            assert (made.lower, made.upper) == (None, None), known
        elif at:
            low, high = hull(values)
            assert made.lower == (None if low is None else pytest.approx(low, rel=3e-12, abs=0)), known
            assert made.upper == (None if high is None else pytest.approx(high, rel=3e-12, abs=0)), known
        else:
            assert (made.lower, made.upper) == (0.0 if negative and inside(0, base) else 1.0, 1.0), known


def test_a_power_whose_exponent_is_no_constant_is_unknown(world: World) -> None:
    for known, made, values in world.answers("power(i, j)"):
        fixed = known.columns["j"].lower == known.columns["j"].upper is not None
        assert all(inside(v, made) for v in values), known
        assert made.nan or fixed, known
        assert made.nullable is False


def _of(op: str, *domains: Domain) -> Domain:
    args = tuple(Column(DOUBLE, name=f"a{i}") for i in range(len(domains)))
    return RULES[op](Call(DOUBLE, op=op, args=args), domains)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_power_is_widened_by_the_last_digits_of_the_library(side: float) -> None:
    made = _of("power", interval(3.0, 5.0), interval(side / 3, side / 3))
    low, high = sorted((3.0 ** (side / 3), 5.0 ** (side / 3)))
    assert made.lower == low - low * 1e-12 and made.upper == high + high * 1e-12


@pytest.mark.parametrize("op", ["add", "mul"])
def test_a_result_beyond_the_floats_has_no_end(op: str) -> None:
    large = interval(1.0, 1.7e308)
    made = _of(op, large, interval(2.0, 1.7e308))
    assert (made.lower, made.upper, made.nan) == (3.0 if op == "add" else 2.0, None, op == "add")


@pytest.mark.parametrize(("end", "rounded"), [(1e300, 1e300), (-1e300, -1e300), (1.7e308, 1.7e308)])
@pytest.mark.parametrize("op", ["round", "trunc_to", "round_even"])
def test_a_float_too_large_to_be_scaled_is_its_own_rounding(op: str, end: float, rounded: float) -> None:
    call = Call(DOUBLE, op=op, args=(Column(DOUBLE, name="x"),), option=20)
    made = RULES[op](call, (interval(end, end, nullable=False),))
    assert made.lower == made.upper == rounded


def test_whole_numbers_in_bounds_are_listed_for_one_operand_only(world: World) -> None:
    few = interval(1, 3, nullable=False)
    assert infer(world.expression("i * 2"), RowDomains({"i": few})).values == (2, 4, 6)
    assert infer(world.expression("i * j"), RowDomains({"i": few, "j": few})).values is None
    listed = RowDomains({"i": finite((1, 3), BIGINT, nullable=False), "j": finite((2, 5), BIGINT, nullable=False)})
    assert infer(world.expression("i * j"), listed).values == (2, 5, 6, 15)
    assert infer(world.expression("i * j"), listed.with_column("j", few)).values is None


@pytest.mark.parametrize("far", [1e150, 1e200, 1e308])
@pytest.mark.parametrize(("low", "high"), [(-1, 1), (-1, 0), (-1, -0.5), (0, 1), (0.5, 1)])
@pytest.mark.parametrize("exponent", [-3, -2, -1, 1, 2, 3])
def test_a_power_beyond_the_floats_has_no_bound_on_its_own_side(
    far: float, low: float, high: float, exponent: int
) -> None:
    """Held against what DuckDB computes, also near zero: what overflows is above all bounds, or below them."""
    for scale in (far, 1 / far):
        made = _of("power", interval(low * scale, high * scale), interval(float(exponent), float(exponent)))
        bases = [each * scale for each in (low, high, (low + high) / 2) if each or exponent > 0]
        for [value] in duckdb.sql(f"SELECT power(x::DOUBLE, {exponent}) FROM unnest({bases}) AS t(x)").fetchall():
            assert inside(value, made)
