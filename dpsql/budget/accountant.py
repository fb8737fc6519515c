"""Admission: two filters side by side for each account."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dpsql.budget.event import FREE, Charge, Cost
from dpsql.budget.window import known_window
from dpsql.mechanisms.convert import epsilon_for, rho_for
from dpsql.mechanisms.exact import UNIT, Number, exact, float_down, float_up, positive, probability, units_down
from dpsql.mechanisms.price import pure_rho


@dataclass(frozen=True, slots=True)
class Caps:
    """The promise of one account: everything it ever releases is (ε*, δ*)-DP.

    With `every`, a calendar window, that is promised of each window by itself: weaker, as windows add up.
    """

    epsilon: Number
    delta: Number = 0
    every: str | None = None

    def __post_init__(self) -> None:
        known_window(self.every)
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


def remaining(caps: Caps, spent: Spent, delta: Number) -> Cost:
    """The most that a single further query could ask for, rounded down.

    ε is that of Gaussian noise whose ρ is converted at `delta`, or with delta = 0 that of Laplace noise. ρ and δ (for
    private keys) are what is left of the two sums.
    """
    limit = limits(caps)
    if limit.rho is None or not limit.zcdp_holds(spent):
        rho, slack = Fraction(0), Fraction(0)
    else:
        rho, slack = (limit.rho - spent.rho) * UNIT, (limit.delta - spent.delta) * UNIT
    if exact(delta, "delta"):
        epsilon = _affordable(rho, probability(delta))
    else:
        epsilon = max(_pure_left(limit, spent), _laplace_affordable(rho))
    return Cost(epsilon, float_down(slack), float_down(rho))


def more_like(caps: Caps, spent: Spent, charge: Charge) -> int:
    """How many more events of this cost would be admitted, one after the other."""
    limit, pure, zcdp = limits(caps), 0, 0
    if spent.epsilon is not None and charge.epsilon is not None:
        pure = (limit.epsilon - spent.epsilon) // charge.epsilon
    if limit.rho is not None:
        zcdp = (limit.rho - spent.rho) // charge.rho
        zcdp = min(zcdp, (limit.delta - spent.delta) // charge.delta) if charge.delta else zcdp
        zcdp = zcdp if spent.delta <= limit.delta else 0
    return max(pure, zcdp, 0)


def spent_as(caps: Caps, spent: Spent, delta: Number) -> Cost:
    """What the account has spent: the (ε, δ) that it amounts to by the better of the two filters, rounded up.

    ρ is converted at `delta`, the same as in `remaining`, as far as the cap on δ allows (0: at half of that cap). The
    smaller that is against the cap on δ, the larger ε: a spent account has more than its cap on ε, at less than its
    cap on δ. ε is infinite where neither filter applies: an impure event, and caps since lowered to δ* = 0.
    """
    if spent == Spent():
        return FREE
    half, rho = exact(caps.delta) / 2, spent.rho * UNIT
    costs = [Cost(float("inf"), 1.0, float_up(rho))]
    if half:
        slack = min(exact(delta, "delta") or half, half)
        costs.append(Cost(epsilon_for(rho, slack), float_up(slack + spent.delta * UNIT), float_up(rho)))
    if spent.epsilon is not None:
        costs.append(Cost(float_up(spent.epsilon * UNIT), 0.0, float_up(rho)))
    return min(costs, key=lambda cost: cost.epsilon)


def _pure_left(limit: Limits, spent: Spent) -> float:
    if spent.epsilon is None:
        return 0.0
    return float_down(max(0, limit.epsilon - spent.epsilon) * UNIT)


def _affordable(rho: Fraction, delta: Fraction) -> float:
    """About the largest ε whose ρ at this δ fits."""
    return _shaved(epsilon_for(rho, delta), lambda epsilon: rho_for(epsilon, delta) <= rho)


def _laplace_affordable(rho: Fraction) -> float:
    """About the largest ε whose price as any ε-DP event fits."""
    low, high = 0.0, float(rho) + 2
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if middle * math.tanh(middle / 2) <= rho else (low, middle)
    return _shaved(low, lambda epsilon: pure_rho(epsilon) <= rho)


def _shaved(epsilon: float, fits: Callable[[float], bool]) -> float:
    """An ε that may be a little too large, made smaller until it fits; below 1e-9 it is nothing."""
    smaller = (epsilon * part for part in (1.0, 0.999999999999, 0.999999))
    return next((each for each in smaller if each > 1e-9 and fits(each)), 0.0)
