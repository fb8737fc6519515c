"""The argument of an aggregate as integers: its bounds and the data grid on which each row is counted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, isfinite

from dpsql.bounds.domain import Domain
from dpsql.errors import InternalError
from dpsql.expressions.expression import Expression
from dpsql.expressions.types import Kind

Usual = tuple[float, float]
ROW_BITS = 30
"""Values with a binary point keep this many bits: they fit 32-bit integers, and a weighted one 64 bits."""


@dataclass(frozen=True, slots=True)
class Argument:
    """What each row adds: an integer in [lower, upper] in steps of `grid`, or nothing for NULL and NaN.

    `expression` None stands for the row itself (COUNT(*)), which adds exactly one. `usual` is around where most values
    lie, and how far around, in steps, where a search has found that.
    """

    expression: Expression | None
    domain: Domain
    lower: int
    upper: int
    grid: Fraction
    usual: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        """**Theorem.** No total overflows: α·Σ + β·n stays below 2¹²⁷ for up to 2⁴⁴ rows.

        **Proof.** A row adds at most 2⁵⁰ to Σ and β is at most 2⁵¹; a weight adds 30 bits: 2·2⁵⁰·2³⁰·2⁴⁴ + 2⁵¹·2³⁰·2⁴⁴
        is below 2¹²⁷.
        **Requires** |α| ≤ 2 and |β| ≤ 2⁵¹ (`dpsql.sensitivity.statistics`), a clamp in every row
        (`dpsql.engines.sql.clamp`), and weights of at most 2**WEIGHT_BITS.
        **Checked by** `tests/privacy/test_found_by_review.py`, with the widest bounds that are taken.
        """
        if self.magnitude > 2**50 or self.lower > self.upper:
            raise InternalError("plan invariant broken: an argument that does not fit its grid")

    @property
    def magnitude(self) -> int:
        """The most that one row can add, either way."""
        return max(-self.lower, self.upper)

    @property
    def width(self) -> int:
        """The length of the interval."""
        return self.upper - self.lower

    @property
    def declared(self) -> bool:
        """Do the bounds come from the policy or a search, so that a value may lie outside?"""
        return any(origin.startswith(("declared for", "found for")) for origin in self.domain.origin)

    @property
    def twice_centre(self) -> int:
        """Twice the value around which a sum is centred: a usual value, or the middle of the interval."""
        return self.lower + self.upper if self.usual is None else 2 * self.usual[0]

    @property
    def flag(self) -> bool:
        """Is it 0 or 1?"""
        return (self.lower, self.upper) == (0, 1) and self.grid == 1

    @property
    def spread(self) -> int:
        """How far from the centre a usual value is."""
        return max(1, self.width // 2 if self.usual is None else self.usual[1])

    @property
    def typical(self) -> int:
        """How large a usual value is."""
        return max(1, self.magnitude if self.usual is None else abs(self.usual[0]) + self.usual[1] // 2)

    @property
    def middle(self) -> float:
        """The centre, in the argument's own unit."""
        return float(self.twice_centre * self.grid / 2)


def counted(expression: Expression | None, domain: Domain) -> Argument:
    """An argument that is only counted."""
    return Argument(expression, domain, 1, 1, Fraction(1))


def summed(expression: Expression, domain: Domain, usual: Usual | None = None) -> Argument:
    """An argument that is added up; its domain is bounded. `usual` is around where its values lie, and how far around,
    which is of use only where the bounds tell less. Where a condition leaves only values beyond it, the nearest of
    them is taken to be usual.

    Integers and decimals are exact; everything else is rounded to the power-of-two grid on which the larger bound
    has ROW_BITS bits. The row is clamped first, so a wrong bound costs accuracy, never privacy. Bounds between which
    the type has no value leave the one above them, to which every row is clamped.

    **Theorem (data grid).** What a row adds is a whole number of grid steps in [lower, upper], by that row alone; sums
    of them are the same in any order, on any number of threads, and on every engine.
    **Proof.** The grid follows from type and bounds. A whole number or decimal is a whole number of steps of 1 or
    10^−scale. Otherwise the grid is a power of two: x/grid is exact, and rounding is monotone and gives k for k steps,
    so that what lies between the ends, `lower` and `upper` steps, stays between them. Whole numbers below 2⁵⁰ add up
    exactly (`Argument`).
    **Requires** the clamp to these very ends in each row, NULL and NaN settled before (`dpsql.engines.sql.clamp`).
    **Checked by** `tests/unit/sensitivity/test_argument.py`, `tests/unit/engines/test_duckdb_clamp.py`,
    `tests/audit/test_floating.py`, and the planted bug "whole numbers of 60 bits are added up as they
    are".
    """
    made = _on_grid(expression, domain)
    if usual is None or not all(map(isfinite, usual)):
        return made
    found, spread = (round(Fraction(each) / made.grid) for each in usual)
    centre = min(max(found, made.lower), made.upper)
    spread = max(spread, abs(centre - found))
    if 2 * spread >= made.width:
        return made
    return replace(made, usual=(centre, max(1, spread)))


def _on_grid(expression: Expression, domain: Domain) -> Argument:
    assert domain.lower is not None and domain.upper is not None
    low, high = Fraction(domain.lower), Fraction(domain.upper)
    largest = max(-low, high)
    if expression.type.kind is Kind.INTEGER and largest < 2**50:
        return Argument(expression, domain, ceil(low), max(ceil(low), floor(high)), Fraction(1))
    scale = 10**expression.type.scale
    if expression.type.kind is Kind.DECIMAL and largest * scale < 2**50:
        first = ceil(low * scale)
        return Argument(expression, domain, first, max(first, floor(high * scale)), Fraction(1, scale))
    grid = _power_of_two(largest)
    return Argument(expression, domain, round(low / grid), round(high / grid), grid)


def _power_of_two(largest: Fraction) -> Fraction:
    """The grid on which `largest` has at most ROW_BITS bits."""
    if largest == 0:
        return Fraction(1)
    bits = largest.numerator.bit_length() - largest.denominator.bit_length() + 1
    exponent = max(-900, bits - ROW_BITS)
    return Fraction(2) ** exponent
