"""Admission: two filters side by side for each account."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dpsql.budget.convert import epsilon_for, rho_for
from dpsql.budget.event import FREE, Charge, Cost
from dpsql.budget.exact import UNIT, Number, exact, float_down, float_up, positive, probability, units_down


@dataclass(frozen=True, slots=True)
class Caps:
    """The promise of one account: everything it ever releases is (ε*, δ*)-DP."""

    epsilon: Number
    delta: Number = 0

    def __post_init__(self) -> None:
        positive(self.epsilon, "the cap on epsilon")
        if exact(self.delta, "the cap on delta") != 0:
            probability(self.delta, "the cap on delta")


@dataclass(frozen=True, slots=True)
class Spent:
    """The running sums of an account, in UNITs; `epsilon` is None once an event was not pure."""

    rho: int = 0
    delta: int = 0
    epsilon: int | None = 0

    def after(self, charge: Charge) -> Spent:
        """The sums with one more event."""
        pure = None if self.epsilon is None or charge.epsilon is None else self.epsilon + charge.epsilon
        return Spent(self.rho + charge.rho, self.delta + charge.delta, pure)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the sums of an account may reach, in UNITs; `rho` is None where δ* = 0 allows pure events only."""

    epsilon: int
    rho: int | None
    delta: int

    def pure_holds(self, spent: Spent) -> bool:
        """Whether all events were pure and their ε add up to at most ε*."""
        return spent.epsilon is not None and spent.epsilon <= self.epsilon

    def zcdp_holds(self, spent: Spent) -> bool:
        """Whether Σρ ≤ ρ* and Σδ ≤ δ*/2."""
        return self.rho is not None and spent.rho <= self.rho and spent.delta <= self.delta


@lru_cache(maxsize=1024)
def limits(caps: Caps) -> Limits:
    """The caps in the filters' terms, rounded down: half of δ* is for the conversion, half for thresholds."""
    epsilon, half = units_down(exact(caps.epsilon)), exact(caps.delta) / 2
    if half == 0:
        return Limits(epsilon, None, 0)
    return Limits(epsilon, units_down(rho_for(caps.epsilon, half)), units_down(half))


def admits(caps: Caps, spent: Spent, charge: Charge) -> bool:
    """Whether the account may spend this much more: one of its two filters must still hold afterwards.

    **Theorem.** If each event is admitted by this rule before it runs, all events together are (ε*, δ*)-DP,
    also when each event and its cost are chosen after seeing all earlier answers.

    **Proof.** Write P, P' for the law of the whole transcript on neighbouring databases. A cost is a function
    of the transcript so far. All sums only grow and purity is only lost, so a filter that fails once fails
    for ever. Let A be the transcripts at whose end the pure filter holds, B the others; on B the last
    admitted event was admitted by the zCDP filter, which therefore held after every event.
    On A, every event was εᵢ-DP given the past and Σεᵢ ≤ ε*, so the densities satisfy p ≤ exp(ε*)·p'.
    On B, compare with the interaction that stops before the first event that would break the zCDP filter.
    That is fully adaptive composition under a filter Σρ ≤ ρ*, Σδ ≤ δ*/2, hence δ*/2-approximate ρ*-zCDP
    (Whitehouse, Ramdas, Rogers and Wu 2023), hence (ε*, δ*)-DP, as ρ* = ρ(ε*, δ*/2). It never stops early on
    B, so it gives every E ∩ B the same probabilities as P and P' do.
    Together P(E) = P(E∩A) + P(E∩B) ≤ exp(ε*)·P'(E∩A) + exp(ε*)·P'(E∩B) + δ*. ∎

    **Requires** costs that are rounded up and do not depend on the data; one serial order of admissions (the
    ledger's part).
    **Checked by** tests/unit/budget/test_accountant.py.

    Caps nest: an analyst's account admits as well as the dataset's. Only the dataset's promise survives
    analysts who pool their answers.
    """
    after, limit = spent.after(charge), limits(caps)
    return limit.pure_holds(after) or limit.zcdp_holds(after)


def remaining(caps: Caps, spent: Spent, delta: Number | None = None) -> Cost:
    """What a single further query could spend, by the better of the two filters, rounded down.

    ε is for a query whose ρ is converted at `delta` (by default δ*/2, in which terms an untouched account has
    exactly its caps left).
    """
    limit, half = limits(caps), exact(caps.delta) / 2
    pure = Cost(_pure_left(limit, spent), 0.0, 0.0)
    if limit.rho is None or not limit.zcdp_holds(spent):
        return pure
    rho = (limit.rho - spent.rho) * UNIT
    slack = half + (limit.delta - spent.delta) * UNIT if delta is None else exact(delta, "delta")
    epsilon = _affordable(rho, half if delta is None else probability(delta), float_down(exact(caps.epsilon)))
    return max(Cost(epsilon, float_down(slack), float_down(rho)), pure, key=lambda cost: cost.epsilon)


def spent_as(caps: Caps, spent: Spent) -> Cost:
    """What the account has spent: the (ε, δ) that it amounts to by the better of the two filters, rounded up.

    ε is infinite where neither applies: an impure event, and caps that were since lowered to δ* = 0.
    """
    if spent == Spent():
        return FREE
    limit, half, rho = limits(caps), exact(caps.delta) / 2, spent.rho * UNIT
    costs = [Cost(float("inf"), 1.0, float_up(rho))]
    if half:
        epsilon = epsilon_for(rho, half)
        if limit.zcdp_holds(spent):
            epsilon = min(epsilon, float_up(exact(caps.epsilon)))
        costs.append(Cost(epsilon, float_up(half + spent.delta * UNIT), float_up(rho)))
    if spent.epsilon is not None:
        costs.append(Cost(float_up(spent.epsilon * UNIT), 0.0, float_up(rho)))
    return min(costs, key=lambda cost: cost.epsilon)


def _pure_left(limit: Limits, spent: Spent) -> float:
    if spent.epsilon is None:
        return 0.0
    return float_down(max(0, limit.epsilon - spent.epsilon) * UNIT)


def _affordable(rho: Fraction, delta: Fraction, most: float) -> float:
    """About the largest ε whose ρ at this δ fits, not above the cap; below 1e-9 it is nothing."""
    epsilon = min(epsilon_for(rho, delta), most)
    for shaved in (epsilon, epsilon * (1 - 1e-12), epsilon * (1 - 1e-6)):
        if shaved > 1e-9 and rho_for(shaved, delta) <= rho:
            return shaved
    return 0.0
