"""Values for a column, from its type and what the policy declares: inside the bounds, at them, and beyond."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction

from dpsql.audit.world import Cell
from dpsql.expressions.types import Kind, Type, from_engine
from dpsql.policy.model import DeclaredColumn

NAN, INF = float("nan"), float("inf")
WORDS = ("n1", "n2", "n3", "N3", "x")
"""Texts of a column for which nothing is declared."""
ODD_WORDS = ("", "a|b", "b|c", "é", "\x00", "n" * 60, "'; --", "nan", "1")
WIDE, SMALLER = 2**58, 2**9
"""Where whole numbers have wider bounds, those inside are smaller: some hundred of them add up within 62 bits."""
FIRST, LAST = date(2024, 1, 1), date(2024, 3, 31)


@dataclass(frozen=True, slots=True)
class Values:
    """What a column may hold. Those inside lie on a binary grid, so that sums of them are exact everywhere."""

    inside: Sequence[Cell]
    edges: Sequence[Cell]
    outside: Sequence[Cell]
    nullable: bool

    def tame(self, rng: random.Random) -> Cell:
        """A value that obeys the policy."""
        return rng.choice(self.inside)

    def wild(self, rng: random.Random) -> Cell:
        """Any value that the type can hold."""
        chance = rng.random()
        if chance < 0.10:
            return None
        if chance < 0.22 and self.outside:
            return rng.choice(self.outside)
        return rng.choice(self.edges if chance < 0.34 and self.edges else self.inside)

    def extreme(self, rng: random.Random) -> Cell:
        """A value at a bound or far beyond it, which moves a sum most."""
        return rng.choice([*self.edges, *self.outside] or list(self.inside))


def values_of(type_: str, spec: DeclaredColumn, seen: Sequence[Cell] = ()) -> Values:
    """The values of a column; `seen` are some that it holds already."""
    known = from_engine(type_)
    if spec.values is not None:
        return _listed(type_, spec, list(spec.values))
    if known is None:
        return Values(list(seen) or [None], [], [], nullable=True)
    found = _of_kind(known, type_.upper(), spec)
    return Values([*found.inside, *seen], found.edges, found.outside, spec.nulls)


def _listed(type_: str, spec: DeclaredColumn, values: list[Cell]) -> Values:
    """Declared values, and beside them others of the type."""
    known = from_engine(type_)
    if type_.upper().startswith("ENUM("):
        members = [part.strip().strip("'") for part in type_[5:-1].split(",")]
        return Values(values, values[:1], [m for m in members if m not in values], spec.nulls)
    if known is not None and known.kind is Kind.TEXT:
        return Values(values, values[:1], ["zz", str(values[0]).upper() + "!", "", f"{values[0]} ", "é"], spec.nulls)
    others = _of_kind(known, type_.upper(), DeclaredColumn()).inside if known is not None else []
    return Values(values, values[:1], [each for each in others if each not in values], spec.nulls)


def _of_kind(known: Type, name: str, spec: DeclaredColumn) -> Values:
    if known.kind is Kind.BOOLEAN:
        return Values([True, False], [True], [False], spec.nulls)
    if known.kind is Kind.TEXT:
        return Values(WORDS, WORDS[:1], [] if name == "UUID" else ODD_WORDS, spec.nulls)
    if known.temporal:
        return _temporal(known, spec)
    return _numeric(known, name, spec)


def _temporal(known: Type, spec: DeclaredColumn) -> Values:
    low, high = _day(spec.min, FIRST), _day(spec.max, LAST)
    span = max(0, (high - low).days)
    days = [low + timedelta(days=span * i // 40) for i in range(41)]
    far = [date(1, 1, 1), date(9999, 12, 31), *_beside(low, high)]
    if known.kind is Kind.DATE:
        return Values(days, [low, high], far, spec.nulls)
    ends = [datetime(d.year, d.month, d.day) for d in (low, high)]
    inside = [datetime(d.year, d.month, d.day) + timedelta(minutes=37 * i % 1440) for i, d in enumerate(days[:-1])]
    outside = [ends[0] - timedelta(seconds=1), ends[1] + timedelta(seconds=1), datetime(1700, 1, 1)]
    return Values([*inside, ends[1]], ends, outside, spec.nulls)


def _day(bound: object, otherwise: date) -> date:
    if isinstance(bound, datetime):
        return bound.date()
    return bound if isinstance(bound, date) else otherwise


def _beside(low: date, high: date) -> list[date]:
    return [d for d, step in ((low, -1), (high, 1)) if date.min < d < date.max for d in [d + timedelta(days=step)]]


def _numeric(known: Type, name: str, spec: DeclaredColumn) -> Values:
    low, high = _ends(spec)
    if known.kind is Kind.DOUBLE and not name.startswith("DECIMAL"):
        return _doubles(name, low, high, spec.nulls)
    least, most, scale = _digits(known, name)
    floor, ceiling = max(math.ceil(low * 10**scale), least), min(math.floor(high * 10**scale), most)
    step = 10**scale // 1024 or 1 if known.kind is Kind.DOUBLE else 1
    step *= 2 ** max(0, ((ceiling - floor) // step // 64).bit_length() - 1)
    few = SMALLER if ceiling - floor > WIDE else 1
    inside = [_point(step // few * n, scale) for n in range(-(-floor // step), ceiling // step + 1)]
    beyond = [_point(n, scale) for n in (floor - 1, ceiling + 1, least, most) if least <= n <= most]
    return Values(inside, [_point(floor, scale), _point(ceiling, scale)], beyond, spec.nulls)


def _digits(known: Type, name: str) -> tuple[int, int, int]:
    """The range of an exact type in units of its last place, and its places."""
    if not name.startswith("DECIMAL"):
        return known.lower, known.upper, 0
    width, scale = map(int, name[8:-1].split(","))
    return -(10**width) + 1, 10**width - 1, scale


def _point(number: int, scale: int) -> str:
    """A whole number of last places as it is written: no decimal context rounds it."""
    digits = str(abs(number)).rjust(scale + 1, "0")
    sign = "-" if number < 0 else ""
    return sign + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


def _ends(spec: DeclaredColumn) -> tuple[Fraction, Fraction]:
    """The declared bounds; where there are none, some small numbers."""
    low, high = (None if e is None else Fraction(str(e)) for e in (spec.min, spec.max))
    if low is None:
        low = Fraction(-9) if high is None else high - 18
    return low, low + 18 if high is None else high


def _doubles(name: str, low: Fraction, high: Fraction, nulls: bool) -> Values:
    """A grid of a power of two within the bounds, of about a hundred steps."""
    step = 2.0 ** math.floor(math.log2(max(float(high) - float(low), 2.0**-20) / 64))
    first, last = math.ceil(float(low) / step), math.floor(float(high) / step)
    inside = [step * i for i in range(first, last + 1)]
    far: list[Cell] = [NAN, INF, -INF, -0.0, *((3e38, -3e38) if name == "FLOAT" else (1e300, -1e300, 5e-324))]
    far += [float(low) - step / 1024, float(high) + step / 1024]
    return Values(inside, [float(low), float(high)], far, nulls)
