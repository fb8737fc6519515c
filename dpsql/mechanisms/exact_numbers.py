"""How a number of the budget is read, and which way it is rounded: costs up, caps down."""

from __future__ import annotations

import math
import sys
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from numbers import Integral

from dpsql.errors import ProgrammingError

Number = int | float | Decimal | Fraction

UNIT = Fraction(1, 10**40)
"""The unit in which ε, δ and ρ are added up: a power of ten, so ten queries at 0.1 are exactly one at 1."""

LARGEST = 10**12
"""Beyond this an ε or ρ is a mistake, not a budget."""


def exact(value: Number, name: str = "a cost") -> Fraction:
    """The number that was written: the float 0.1 is read as 1/10, as its author meant it.

    Whoever derives a noise scale and a charge from one ε must read it here both times, so that the two agree.
    """
    if isinstance(value, Integral) and not isinstance(value, bool):
        return Fraction(int(value))
    if isinstance(value, Fraction):
        return value
    if isinstance(value, float | Decimal) and math.isfinite(value):
        return Fraction(float.__repr__(value) if isinstance(value, float) else value)
    raise ProgrammingError(f"{name} must be a finite number, not {value!r}")


def positive(value: Number, name: str = "a cost") -> Fraction:
    """`exact`, refusing all that is no price: NaN, infinite, negative, zero, subnormal and absurd numbers."""
    number = exact(value, name)
    if not sys.float_info.min <= number <= LARGEST:
        raise ProgrammingError(f"{name} must be a positive number that is neither tiny nor huge, not {value!r}")
    return number


def probability(value: Number, name: str = "delta") -> Fraction:
    """`positive`, and below one."""
    number = positive(value, name)
    if number >= 1:
        raise ProgrammingError(f"{name} must be below 1, not {value!r}")
    return number


def units_up(value: Fraction) -> int:
    """The least number of UNITs that is not below the value."""
    return math.ceil(value / UNIT)


def units_down(value: Fraction) -> int:
    """The greatest number of UNITs that is not above the value."""
    return math.floor(value / UNIT)


def float_up(value: Fraction) -> float:
    """The least float that, read by `exact`, is not below the value."""
    nearest = float(value)
    return nearest if exact(nearest) >= value else math.nextafter(nearest, math.inf)


def float_down(value: Fraction) -> float:
    """The greatest float that, read by `exact`, is not above the value."""
    nearest = float(value)
    return nearest if exact(nearest) <= value else math.nextafter(nearest, -math.inf)


def digits_down(value: float, digits: int = 4) -> float:
    """What is shown of a number that may be asked for: the digits, rounded down."""
    return _rounded(value, digits, ROUND_FLOOR)


def digits_up(value: float, digits: int = 4) -> float:
    """What is shown of a number that was spent: the digits, rounded up."""
    return _rounded(value, digits, ROUND_CEILING)


def _rounded(value: float, digits: int, way: str) -> float:
    """A float stands for the shortest decimal that is read as it, so 0.1 is rounded as a tenth."""
    return float(Context(prec=digits, rounding=way).create_decimal(repr(value)))
