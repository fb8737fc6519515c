"""The same release with fewer of its conditions: what a search found of its norms serves the release, too.

A unit adds no more than before to a count, or to a sum of values with one sign, if a condition drops some of its rows,
so a clip that suits the wider release is never too small. It may be too large, so it is taken only where a search of
its own would cost more than it buys: where no smaller clip is possible, or where the search would find too little.

**Theorem.** A clip that was found for another release is as private as any. **Proof.** It follows from a released
histogram that was counted for this analyst, from the SQL and the policy; every public clip is enforced by the emitted
SQL (`dpsql.sensitivity.clip`).
**Requires** a search that was counted (`dpsql.search.searcher`). **Checked by**
`tests/unit/session/test_fewer_conditions.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations

from dpsql.errors import Error
from dpsql.plan.canonical import split, without
from dpsql.plan.catalog import Catalog
from dpsql.sensitivity.bound import Bounded, bound, unit_of_norms
from dpsql.sensitivity.clip import Vector

FEW = 3
"""With more conditions than these, each is left out alone, and all of them together."""


@dataclass(frozen=True, slots=True)
class FewerConditions:
    """A vector of a release with fewer conditions; its units of norms are `octaves` times as large."""

    bounded: Bounded
    vector: Vector
    octaves: int


def with_fewer_conditions(
    bounded: Bounded, vector: Vector, mechanism: str, catalog: Catalog
) -> Iterator[FewerConditions]:
    """The same vector of the release without some of its conditions; those nearest to it come first."""
    release = bounded.release
    conditions = split(release.source)[1]
    sizes = range(1, len(conditions) + 1) if len(conditions) <= FEW else (1, len(conditions))
    for size in sizes:
        for dropped in combinations(conditions, size):
            with suppress(Error):
                wider = bound(replace(release, source=without(release.source, dropped)), mechanism, catalog)
                yield from _same(bounded, vector, wider)


def _same(bounded: Bounded, vector: Vector, wider: Bounded) -> Iterator[FewerConditions]:
    """The vector of the same statistics, if one factor turns all units of one into those of the other."""
    for each in (clipped.vector for clipped in wider.clipped):
        kind = each.norm, each.members, each.ranked, each.distinct, each.one_group
        if kind != (vector.norm, vector.members, vector.ranked, vector.distinct, vector.one_group):
            continue
        pairs = [(unit_of_norms(wider, each, p), unit_of_norms(bounded, vector, p)) for p in vector.members]
        factors = {theirs / ours for theirs, ours in pairs} or {Fraction(1)}
        octaves = {_power_of_two(factor) for factor in factors}
        if len(octaves) == 1 and None not in octaves:
            yield FewerConditions(wider, each, octaves.pop() or 0)


def _power_of_two(factor: Fraction) -> int | None:
    """Its exponent, if it is one."""
    exponent = factor.numerator.bit_length() - factor.denominator.bit_length()
    return exponent if factor == Fraction(2) ** exponent else None
