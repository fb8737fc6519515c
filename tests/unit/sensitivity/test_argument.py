"""What one row can add: whole steps between bounds, on a grid that the type and the bounds alone decide."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from dpsql.bounds.domain import interval
from dpsql.errors import InternalError
from dpsql.expressions.expression import Column
from dpsql.expressions.types import DOUBLE, from_engine
from dpsql.sensitivity.argument import ROW_BITS, Argument, counted, summed
from dpsql.sensitivity.unit_weight import WEIGHT_BITS


def _column(type_: str) -> Column:
    found = from_engine(type_)
    assert found is not None
    return Column(found, name="x")


@pytest.mark.parametrize(
    ("type_", "low", "high", "expected"),
    [
        ("INTEGER", -1000, 10, (-1000, 10, 1)),
        ("INTEGER", 3, 7, (3, 7, 1)),
        ("INTEGER", 3.2, 7.9, (4, 7, 1)),
        ("INTEGER", 3.2, 3.9, (4, 4, 1)),
        ("BIGINT", -(2**50) + 1, 5, (-(2**50) + 1, 5, 1)),
        ("DECIMAL(9,2)", Decimal("-1.50"), Decimal("99.99"), (-150, 9999, Fraction(1, 100))),
        ("DECIMAL(18,2)", 0, Decimal(2**50 - 1) / 100, (0, 2**50 - 1, Fraction(1, 100))),
        ("DECIMAL(9,2)", 0.001, 0.009, (1, 1, Fraction(1, 100))),
        ("DECIMAL(9,2)", -1.509, 7.999, (-150, 799, Fraction(1, 100))),
        ("INTEGER", -9, -2, (-9, -2, 1)),
        ("DECIMAL(9,2)", -9, -2, (-900, -200, Fraction(1, 100))),
        ("DOUBLE", -8.0, -2.0, (-(2**29), -(2**27), Fraction(1, 2**26))),
    ],
)
def test_whole_numbers_and_decimals_are_exact(type_: str, low: object, high: object, expected: tuple) -> None:
    made = summed(_column(type_), interval(low, high))  # type: ignore[arg-type]
    assert (made.lower, made.upper, made.grid) == expected


@pytest.mark.parametrize("type_", ["BIGINT", "DECIMAL(18,2)", "DECIMAL(18,15)"])
@pytest.mark.parametrize("negative", [False, True])
def test_exact_numbers_that_are_too_wide_lie_on_a_grid_whichever_bound_is_wide(type_: str, negative: bool) -> None:
    column = _column(type_)
    wide = Decimal(column.type.upper) / 10**column.type.scale
    made = summed(column, interval(-wide, 1) if negative else interval(-1, wide))
    assert made.magnitude <= 2**ROW_BITS and made.grid > Fraction(1, 10**column.type.scale)


@pytest.mark.parametrize(("low", "high"), [(0.0, 500.0), (-3.0, 100.0), (-1e9, 1.0), (-1e-7, 1e-7), (0.0, 1e300)])
def test_doubles_lie_on_a_power_of_two_on_which_the_larger_bound_has_so_many_bits(low: float, high: float) -> None:
    made = summed(Column(DOUBLE, name="x"), interval(low, high))
    largest = max(abs(low), abs(high))
    assert made.grid.numerator == 1 or made.grid.denominator == 1
    assert (made.grid.numerator * made.grid.denominator).bit_count() == 1
    assert (made.lower, made.upper) == (round(Fraction(low) / made.grid), round(Fraction(high) / made.grid))
    assert 2 ** (ROW_BITS - 2) <= Fraction(largest) / made.grid <= 2**ROW_BITS
    assert made.magnitude == max(abs(made.lower), abs(made.upper))


@pytest.mark.parametrize(("bounds", "most", "width"), [((-1000, 10), 1000, 1010), ((-5, -2), 5, 3), ((2, 9), 9, 7)])
def test_a_row_adds_as_much_as_the_bound_that_is_further_from_zero(
    bounds: tuple[int, int], most: int, width: int
) -> None:
    made = summed(_column("INTEGER"), interval(*bounds))
    assert (made.magnitude, made.width) == (most, width)


@pytest.mark.parametrize(("lower", "upper"), [(0, 2**50 + 1), (-(2**50) - 1, 0), (1, 0)])
def test_what_does_not_fit_its_grid_cannot_be_made(lower: int, upper: int) -> None:
    with pytest.raises(InternalError):
        Argument(None, interval(0, 1), lower, upper, Fraction(1))
    assert Argument(None, interval(0, 1), -(2**50), 2**50, Fraction(1)).magnitude == 2**50


def test_a_weighted_total_of_the_most_rows_that_there_can_be_fits() -> None:
    """The arithmetic of the theorem in `Argument`: a sum and a count, weighed, over 2**44 rows."""
    assert (2 * 2**50 + 2**51) * 2**WEIGHT_BITS * 2**44 < 2**127


@pytest.mark.parametrize("type_", ["DOUBLE", "INTEGER", "DECIMAL(9,2)"])
def test_a_column_that_may_only_be_zero_adds_nothing(type_: str) -> None:
    made = summed(_column(type_), interval(0, 0))
    assert (made.lower, made.upper, made.magnitude) == (0, 0, 0)
    assert made.grid == (Fraction(1, 100) if type_.startswith("DECIMAL") else 1)


@pytest.mark.parametrize(
    ("largest", "exponent"),
    [(1.0, -29), (1.5, -29), (0.75, -30), (2.0, -28), (500.0, -21), (2.0**29, 0), (2.0**30, 1), (2.0**100, 71),
     (2.0**-869, -898), (2.0**-870, -899), (2.0**-871, -900), (2.0**-872, -900), (2.0**-1000, -900)],
)  # fmt: skip
def test_the_grid_of_doubles_leaves_thirty_bits_and_is_never_finer_than_floats_bear(
    largest: float, exponent: int
) -> None:
    for bounds in ((0.0, largest), (-largest, 0.0), (-largest, largest / 2)):
        assert summed(Column(DOUBLE, name="x"), interval(*bounds)).grid == Fraction(2) ** exponent


@pytest.mark.parametrize(("bound", "exact"), [(2**50 - 1, True), (2**50, False), (2**50 + 1, False)])
@pytest.mark.parametrize("negative", [False, True])
def test_whole_numbers_and_cents_are_exact_below_fifty_bits(bound: int, exact: bool, negative: bool) -> None:
    ends = (-bound, 3) if negative else (-3, bound)
    assert summed(_column("BIGINT"), interval(*ends)).grid == (1 if exact else 2**21)
    cents = interval(*(Decimal(end) / 100 for end in ends))
    grid = summed(_column("DECIMAL(18,2)"), cents).grid
    assert grid == Fraction(1, 100) if exact else grid > 1000


def test_a_count_adds_one_for_each_row_whatever_its_value() -> None:
    made = counted(_column("INTEGER"), interval(-7, 9))
    assert (made.lower, made.upper, made.grid, made.magnitude, made.width) == (1, 1, 1, 1, 0)


@pytest.mark.parametrize(
    ("origin", "declared"),
    [
        ((), False),
        (("type integer",), False),
        (("declared for t.x",), True),
        (("found for t.x",), True),
        (("type integer", "declared for t.x"), True),
        (("not declared for t.x",), False),
    ],
)
def test_a_value_may_lie_outside_bounds_that_somebody_declared_or_found(
    origin: tuple[str, ...], declared: bool
) -> None:
    assert summed(_column("INTEGER"), interval(0, 9, origin=origin)).declared == declared


@pytest.mark.parametrize(
    ("type_", "low", "high", "middle"),
    [("INTEGER", -1000, 10, -495.0), ("INTEGER", 3, 4, 3.5), ("DECIMAL(9,2)", 1, 2, 1.5), ("DOUBLE", 0.5, 2.0, 1.25)],
)
def test_the_middle_is_in_the_unit_of_the_argument(type_: str, low: float, high: float, middle: float) -> None:
    assert summed(_column(type_), interval(low, high)).middle == middle


def test_values_beyond_what_is_usual_have_the_nearest_bound_as_their_usual_value() -> None:
    """A condition x > 1000 over values of about 50: those that are left are about 1000, and not spread over all."""
    made = summed(_column("INTEGER"), interval(1_000, 10**9), usual=(50.0, 20.0))
    assert made.usual == (1_000, 950)
    assert summed(_column("INTEGER"), interval(0, 60), usual=(50.0, 40.0)).usual is None


def test_a_usual_value_is_half_the_width_from_the_middle_unless_more_is_known() -> None:
    made = summed(_column("INTEGER"), interval(-10, 90))
    assert (made.spread, made.typical, made.middle) == (50, 90, 40.0)
    known = summed(_column("INTEGER"), interval(-10, 90), usual=(-7.0, 4.0))
    assert (known.usual, known.spread, known.typical, known.middle) == ((-7, 4), 4, 9, -7.0)


def test_an_argument_that_is_always_zero_has_a_spread_and_a_typical_value_of_one_step() -> None:
    made = summed(_column("INTEGER"), interval(0, 0))
    assert (made.spread, made.typical) == (1, 1)
