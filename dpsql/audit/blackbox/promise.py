"""What a query was charged, as a limit on how much likelier any event may be on a neighbour.

**Theorem.** Let a query be δ-approximate ρ-zCDP, or (ε, δ)-DP, and let E be any event of what the analyst sees. With p
and q its probabilities on two neighbours, p ≤ `most(q)`.
**Proof.** "E happened" is post-processing, so the two laws of that one bit obey the same promise. (ε, δ): p ≤ e^ε·q +
δ, and for the complement 1 − q ≤ e^ε·(1 − p) + δ. ρ-zCDP: the Rényi divergence of order α of the bits, either way
round, is at most αρ; the largest p inside all of these for some orders α is no less than the p that obeys all orders.
δ-approximate: up to mass δ on either side, P = (1−δ)P' + δ…, where P', Q' obey it: p ≤ δ + (1−δ)p' and q' ≤ q/(1−δ),
and the largest p' grows with q'.
**Requires** that the charge is the whole price of what the analyst sees: the charges of one run are added up, and
nothing else was asked of that account.
**Checked by** `tests/audit/test_blackbox.py`: the limits of Gaussian and Laplace laws lie inside, those of half the
noise do not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.zcdp_conversion import epsilon_for

if TYPE_CHECKING:
    from dpsql.budget import Cost
    from dpsql.query_draft import PreparedQuery

Floats = NDArray[np.float64]
ORDERS = np.array([1.25, 1.6, 2.0, 3.0, 5.0, 9.0, 17.0, 33.0])
_STEPS = 32
_LEAST = 1e-300


@dataclass(frozen=True, slots=True)
class Limit:
    """A promise in one currency: (value, slack)-DP for "epsilon", slack-approximate value-zCDP for "rho".

    `conversion` is the δ at which the query's ρ stands for its ε.
    """

    kind: Literal["epsilon", "rho"]
    value: float
    slack: float
    conversion: float = 0.0

    def at(self, value: float) -> Limit:
        """The same promise with another value."""
        return replace(self, value=value)

    def most(self, q: Floats) -> Floats:
        """The largest probability on one side of an event that has probability q on the other."""
        if self.kind == "epsilon":
            grown = np.exp(self.value) * q + self.slack
            most = np.minimum(np.minimum(grown, 1 - np.exp(-self.value) * (1 - q - self.slack)), 1.0)
            return np.asarray(most, np.float64)
        inner = np.minimum(q / (1 - self.slack), 1.0)
        return np.minimum(self.slack + (1 - self.slack) * _largest(inner, self.value), 1.0)

    def epsilon(self) -> float:
        """The ε that the value amounts to, where there is a conversion."""
        if self.kind == "epsilon" or self.conversion == 0:
            return self.value
        return epsilon_for(self.value, self.conversion)


def promised(prepared: PreparedQuery, cost: Cost) -> tuple[Limit, ...]:
    """All that was promised for what a query was charged: ρ with the δ of its thresholds, and its (ε, δ)."""
    slack = float(sum(priced.tail for priced in prepared.bill.releases))
    gaussian = prepared.bill.mechanism == "gaussian"
    pure = Limit("epsilon", cost.epsilon, cost.delta)
    return Limit("rho", cost.rho, slack, cost.delta - slack if gaussian else 0.0), pure


def _largest(q: Floats, rho: float) -> Floats:
    """The largest p whose divergences from q, and of q from it, stay within the orders' limits; by bisection."""
    low, high = q.copy(), np.ones_like(q)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        fits = _within(middle, q, rho)
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return high


def _within(p: Floats, q: Floats, rho: float) -> NDArray[np.bool_]:
    """Are the Rényi divergences of two bits, either way round, at most α·ρ? Of order 1, Kullback and Leibler's."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        hit = np.log(np.maximum(p, _LEAST)) - np.log(np.maximum(q, _LEAST))
        miss = np.log(np.maximum(1 - p, _LEAST)) - np.log(np.maximum(1 - q, _LEAST))
        fits = (p * hit + (1 - p) * miss <= rho) & (-q * hit - (1 - q) * miss <= rho)
        more = ORDERS[:, None] - 1
        limits = np.exp(more * (more + 1) * rho)
        forth = p * np.exp(more * hit) + (1 - p) * np.exp(more * miss)
        back = q * np.exp(-more * hit) + (1 - q) * np.exp(-more * miss)
        return np.asarray(fits & ~(forth > limits).any(axis=0) & ~(back > limits).any(axis=0))
