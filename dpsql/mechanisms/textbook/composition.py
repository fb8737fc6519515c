"""What follows from a guarantee without knowing the mechanism: groups, several releases, parts of the data.

**Theorem (post-processing).** If M is (ε, δ)-DP, so is f∘M for every f that does not look at the data again, random
or not.
**Proof.** For a set S let T be the outputs that f maps into S: P[f(M(D)) ∈ S] = P[M(D) ∈ T] ≤ e^ε·P[M(D') ∈ T] + δ. A
random f is a mixture of such. (`FiniteLaw.after` computes the law of f∘M; no divergence grows.) All laws here take
guarantees as they are claimed, in floats; the ledger's own sums are exact (`dpsql.budget`).
**Requires** that f has no other way to the data: not their order, their number, or the time that M took.
**Checked by** `tests/unit/mechanisms/test_laws.py`: against the divergence of products of randomized responses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from dpsql.errors import ProgrammingError
from dpsql.mechanisms.exact_numbers import Number, probability


@dataclass(frozen=True, slots=True)
class Guarantee:
    """(ε, δ)-differential privacy; δ = 0 is pure."""

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        if not (0 <= self.epsilon < math.inf and 0 <= self.delta <= 1):
            raise ProgrammingError(f"no guarantee: epsilon {self.epsilon!r}, delta {self.delta!r}")


def group(one: Guarantee, k: int) -> Guarantee:
    """What holds for k people at once: (kε, k·e^((k−1)ε)·δ).

    **Theorem.** It does, for every set of k units. **Proof.** Databases that differ in k units are joined by k steps,
    each between neighbours: P_0(A) ≤ e^ε·P_1(A) + δ ≤ … ≤ e^(kε)·P_k(A) + δ·(1 + e^ε + … + e^((k−1)ε)), and each of
    these k terms is at most e^((k−1)ε).
    **Requires** nothing else. **Checked by** `tests/unit/mechanisms/test_laws.py`.
    """
    times = _count(k)
    rate = (times - 1) * one.epsilon
    grown = times * (math.exp(rate) if rate < 700 else math.inf) * one.delta if one.delta else 0.0
    return Guarantee(times * one.epsilon, min(1.0, grown))


def basic(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Several releases about the same people, each chosen after seeing those before: ε and δ add up.

    **Theorem.** All of them together are (Σε_i, Σδ_i)-DP. **Proof** (for δ = 0). Given the first outputs the next is
    ε_i-DP, so the probabilities of a whole transcript differ by a factor of at most the product of the e^(ε_i). With δ:
    Dwork and Roth 2014, appendix B.
    **Requires** an ε_i and δ_i that are fixed in advance; those that are chosen on the way need a filter
    (`dpsql.budget.accountant`). **Checked by** `tests/unit/mechanisms/test_laws.py`.
    """
    listed = list(guarantees)
    return Guarantee(math.fsum(g.epsilon for g in listed), min(1.0, math.fsum(g.delta for g in listed)))


def advanced(one: Guarantee, k: int, slack: Number) -> Guarantee:
    """K releases of the same guarantee, for a further δ' = `slack`: √(2k·ln(1/δ'))·ε + k·ε·(e^ε−1), and kδ + δ'.

    **Theorem** (Dwork, Rothblum and Vadhan 2010). **Proof.** A loss that lies in [−ε, ε] has a mean of at most
    ε(e^ε−1), and the losses of k releases, less their means, are a martingale with steps of at most 2ε, the range: by
    Azuma and Hoeffding their sum exceeds √(2k·ln(1/δ'))·ε with probability at most δ'. With δ each release is, up to a
    mass of δ, one whose loss lies there, and the k masses add up. It is worth it only for many
    releases of small ε: the answer is never worse than `basic`.
    **Requires** an ε and δ that hold for each release whatever the earlier ones gave, fixed in advance, as k is.
    **Checked by** `tests/unit/mechanisms/test_laws.py`.
    """
    times, chance = _count(k), float(probability(slack, "slack"))
    drift = times * one.epsilon * math.expm1(min(700, one.epsilon))
    epsilon = math.sqrt(2 * times * math.log(1 / chance)) * one.epsilon + drift
    if epsilon >= times * one.epsilon:
        return basic([one] * times)
    return Guarantee(epsilon, min(1.0, times * one.delta + chance))


def parallel(guarantees: Iterable[Guarantee], parts_per_unit: int = 1) -> Guarantee:
    """Releases about different parts of the data: as much as the most expensive parts that one unit can be in.

    **Theorem.** If a unit has rows in at most m of the parts, all releases together have the ε and δ of the m largest.
    **Proof.** Releases about other parts have the same law on both neighbours; `basic` for the rest.
    **The caveat.** m = 1 needs a partition by something that is a function of the unit. Parts by *rows* (orders by
    month) are no such partition where the unit is the customer: a customer with orders in twelve months is in twelve
    parts. And where neighbours *replace* a unit, as for `SmoothMedian`, it may leave m parts and enter m others: say
    2m.
    **Requires** an m that is fixed before the data are read, and enforced: nothing here looks at rows.
    **Checked by** `tests/unit/mechanisms/test_laws.py`.
    """
    listed, most = list(guarantees), _count(parts_per_unit)
    return Guarantee(
        math.fsum(sorted((g.epsilon for g in listed), reverse=True)[:most]),
        min(1.0, math.fsum(sorted((g.delta for g in listed), reverse=True)[:most])),
    )


def _count(k: int) -> int:
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ProgrammingError(f"a number of people, releases or parts is at least 1, not {k!r}")
    return k
