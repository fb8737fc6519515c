"""How small δ must be: the mechanism that publishes each person with probability δ is (0, δ)-DP.

**Theorem.** Name-and-shame (for each of n people: publish the record with probability δ, else nothing) is (0, δ)-DP,
and publishes somebody with probability 1 − (1−δ)^n ≈ n·δ. So a δ that is not far below 1/n promises next to nothing.
**Proof.** If only the record i differs, the two runs are the same unless i is published: P[Z ∈ E] ≤ P[Z' ∈ E] + δ.
The people are independent.
**Requires** independent draws for each person; neighbours with the same number of people, of whom one is another.
**Checked by** `tests/unit/mechanisms/test_laws.py`, by the divergence of its law.

>>> round(somebody_is_shamed(1_000_000, 1e-6), 3), round(somebody_is_shamed(1_000_000, default_delta(1_000_000)), 3)
(0.632, 0.222)
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from dpsql.errors import ProgrammingError
from dpsql.mechanisms.divergence import FiniteLaw
from dpsql.mechanisms.exact_numbers import Number, probability
from dpsql.mechanisms.sampler import LIMIT, bernoulli


def somebody_is_shamed(n: int, delta: Number) -> float:
    """1 − (1−δ)^n: how likely a (0, δ)-DP mechanism can be to publish somebody's record as it is."""
    return -math.expm1(_people(n) * math.log1p(-float(probability(delta))))


def default_delta(n: int, power: float = 1.1) -> float:
    """n^(−power): the usual choice for n people, a δ with n·δ = n^(1−power). Take a larger power for less risk."""
    if not 1 < power < math.inf:
        raise ProgrammingError(f"n·delta must shrink as n grows: a power above 1, not {power!r}")
    return float(_people(n) ** -power)


def delta_for_risk(n: int, risk: Number) -> float:
    """The largest δ with which nobody of n people is published but with this probability: the inverse."""
    chance = float(probability(risk, "risk"))
    return -math.expm1(math.log1p(-chance) / _people(n))


@dataclass(frozen=True, slots=True)
class NameAndShame:
    """The counter-example itself; never for real data."""

    delta: Number

    def release(self, records: Sequence[Any]) -> list[Any]:
        """Each record, or None."""
        chance = probability(self.delta).limit_denominator(LIMIT)
        published = bernoulli(chance.numerator, chance.denominator, len(records))
        return [record if shown else None for record, shown in zip(records, published.tolist(), strict=True)]

    def law(self, records: Sequence[Any]) -> FiniteLaw:
        """The probability of each output, for a handful of people."""
        chance = float(probability(self.delta))
        masses: dict[Hashable, float] = {}
        for shown in product((False, True), repeat=len(records)):
            output = tuple(record if each else None for record, each in zip(records, shown, strict=True))
            masses[output] = math.prod(chance if each else 1 - chance for each in shown)
        return FiniteLaw(masses)


def _people(n: int) -> int:
    if isinstance(n, bool) or not isinstance(n, int) or n < 2:
        raise ProgrammingError(f"n is a number of people, at least 2, not {n!r}")
    return n
