"""What a private search found: the outermost buckets in which more units were counted than noise alone would show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from math import copysign, sqrt

from dpsql.answers.noise_stage import Released
from dpsql.expressions.types import Type
from dpsql.plan.search import HIGH, LOW, largest_of, least_of, middle_of
from dpsql.policy import Bound
from dpsql.policy.searched_subjects import FoundBounds, Subject

COARSE = 0.2
"""A bucket of half an octave tells where a value lies to about so much of it."""
NEXT_TO_NOTHING = 1e-3
"""A mean that is smaller beside another counts as that much of it."""
DOUBT = 0.01
"""The chance that the noise of an empty bucket widens the bounds."""


def found_in(subject: Subject, type_: Type, released: Mapping[str, Released]) -> FoundBounds | None:
    """The bounds, or the rows of a unit, that all but a few units keep to; None if no bucket stands out."""
    high = _outermost(released[HIGH], 1)
    if high is None:
        return None
    if subject.column is None:
        upper = largest_of(high, type_)
        return FoundBounds(None, max(1, int(upper)))  # type: ignore[arg-type]
    low = _outermost(released[LOW], -1)
    if low is None or low > high:
        return None
    found = _rounded(least_of(low, type_), largest_of(high, type_))
    return replace(found, usual=_usual(released, low, high, type_))


def _usual(released: Mapping[str, Released], low: int, high: int, type_: Type) -> tuple[float, float] | None:
    """A value between the means of the units' least and largest values, and the lesser of their distances from it.

    Of numbers with one sign it is the geometric mean of the two: the usual value of a unit with many rows lies between
    its extremes, however large its largest one is. Only buckets between the bounds count: noise in one far out would
    decide the rest.
    """
    if type_.temporal:
        return None
    sides = [_inside(released[side], low, high) for side in (LOW, HIGH)]
    sizes = [sum(each.values()) for each in sides]
    if min(sizes) <= 0:
        return None
    means = [sum(middle_of(b) * n for b, n in each.items()) / size for each, size in zip(sides, sizes, strict=True)]
    centre = _between(*means)
    distances = [
        sum(n * abs(middle_of(bucket) - centre) for bucket, n in each.items()) / size
        for each, size in zip(sides, sizes, strict=True)
    ]
    return centre, max(min(distances), COARSE * abs(centre))


def _between(least: float, largest: float) -> float:
    if least < 0 < largest:
        return (least + largest) / 2
    near, far = sorted((abs(least), abs(largest)))
    return copysign(sqrt(max(near, far * NEXT_TO_NOTHING) * far), least + largest)


def _inside(table: Released, low: int, high: int) -> dict[int, float]:
    """The counts of the buckets between two, noise below zero left out."""
    counted = zip(table.keys, table.noisy[0].tolist(), strict=True)
    return {b: max(0.0, n) for (b,), n in counted if isinstance(b, int) and low <= b <= high}


def _rounded(lower: Bound, upper: Bound) -> FoundBounds:
    """Zero in place of an end that is small beside the other: it costs next to nothing and cuts nothing off there."""
    if isinstance(lower, int | Decimal) and isinstance(upper, int | Decimal):
        lower = 0 if 0 < 10 * lower < upper else lower
        upper = 0 if lower < 10 * upper < 0 else upper
    return FoundBounds(lower, upper)


def _outermost(released: Released, outwards: int) -> int | None:
    """The last bucket that stands out, and from there on those in a row that seem to have somebody.

    A bucket stands out where its noisy count is above what the noise of all empty ones together reaches with chance
    `DOUBT`: an empty one far away would make the bounds useless. Next to one that does, a wrong guess costs a bucket.
    """
    [noised], [noisy] = released.priced.noised, released.noisy
    counts = {bucket: n for (bucket,), n in zip(released.keys, noisy.tolist(), strict=True) if isinstance(bucket, int)}
    sure = noised.noise.half_width((1 - DOUBT) ** (1 / max(1, len(counts))))
    likely = noised.noise.half_width(0.9)
    standing = [bucket for bucket, count in counts.items() if count > sure]
    if not standing:
        return None
    end = max(standing, key=lambda bucket: bucket * outwards)
    while counts.get(end + outwards, 0) > likely:
        end += outwards
    return end
