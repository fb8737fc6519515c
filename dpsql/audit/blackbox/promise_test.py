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

Clopper and Pearson's exact test for two binomials: how well counts on two neighbours agree with a promise.

**Theorem.** Let an event have been fixed before, and be seen k times in n runs on one neighbour and l times in m runs
on the other, all independent. If the promise holds, P[p-value ≤ x] ≤ x for every x; so the largest value that is
refuted at level x is, with confidence 1 − x, a lower bound on what the query really costs.
**Proof.** Order the outcomes by T = k − λ·l, λ ≥ 0 the slope of the limit at a q that was fixed before. Let C be
Clopper and Pearson's interval for q by l, which misses q with a chance of at most β. The p-value is β and the largest
P[T ≥ t] over all (p, q) that the promise allows with q in C: it is at most x only if q lies outside C, or P[T ≥ t] at
the true p and q is at most x − β, so with a chance of at most β + (x − β) (Berger and Boos). Without C, a q far from
what was seen, where T varies most, would decide. T's tail grows with p and falls with q, so over a cell q in [a, b] of
the boundary it is at most that at (most(b), a); cells are halved until the bound is within a fiftieth of a value that
is attained. No normal approximation is used. With one sample (q known) this is Clopper and
Pearson's bound; two of their intervals side by side would be valid as well, but need √2 times the distance.
**Requires** an event and a level that were fixed without these runs, and runs that share no noise and no replayed
release (`dpsql.audit.blackbox.rounds`); a limit `most` that grows with q (`dpsql.audit.blackbox.promise_test`).
**Checked by** `tests/audit/test_blackbox.py` (coverage on the boundary of a promise, and power).
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
    """The promises that follow from the charge of a query: ρ with the δ of its thresholds, and (ε, δ)."""
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


# the test of counts ---------------------------------------------------------------------------------------------------


CELLS = 64
BETA = 1e-6
"""The chance, at most, that the interval for q misses it."""
_FINEST = 2**-14
_TIGHT = 1.02
_BISECTIONS = 14
_TOP = {"epsilon": 12.0, "rho": 12.0}


@dataclass(frozen=True, slots=True)
class Counts:
    """How often an event was seen: `hits` of `runs` where it should be likelier, `misses` of `others` elsewhere."""

    hits: int
    runs: int
    misses: int
    others: int


def p_value(counts: Counts, limit: Limit, q: float) -> float:
    """The largest probability, under the promise, of counts that speak against it at least as much as these."""
    slope = slope_of(limit, q)
    t = counts.hits - slope * counts.misses
    low_q, high_q = interval(counts.misses, counts.others, BETA)
    angles = np.linspace(np.arcsin(low_q**0.5), np.arcsin(high_q**0.5), CELLS + 1)
    cells = np.stack([angles[:-1], angles[1:]])
    attained = 0.0
    while cells.size:
        low, high = np.sin(cells[0]) ** 2, np.sin(cells[1]) ** 2
        tops = limit.most(np.minimum(high, 1.0))
        bounds = _tail(counts, tops, low, t, slope)
        attained = max(attained, float(_tail(counts, tops, high, t, slope).max()))
        fine = cells[1] - cells[0] <= _FINEST * (angles[-1] - angles[0])
        if fine.any():
            attained = max(attained, float(bounds[fine].max()))
        open_ = (bounds > _TIGHT * attained) & ~fine
        if not open_.any():
            break
        middle = cells[:, open_].mean(axis=0)
        cells = np.concatenate([np.stack([cells[0, open_], middle]), np.stack([middle, cells[1, open_]])], axis=1)
    return min(1.0, _TIGHT * attained + BETA)


def interval(hits: int, runs: int, level: float) -> tuple[float, float]:
    """Clopper and Pearson's interval for a chance; it misses it with a chance of at most the level."""
    return _end(hits, runs, level / 2, lower=True), _end(hits, runs, level / 2, lower=False)


def _end(hits: int, runs: int, level: float, *, lower: bool) -> float:
    """The chance beyond which so many hits or more (or less) are rarer than the level; rounded outwards."""
    if hits == (0 if lower else runs):
        return 0.0 if lower else 1.0
    inside, outside = hits / runs, 0.0 if lower else 1.0
    for _ in range(50):
        middle = (inside + outside) / 2
        masses = _masses(runs, np.array([middle]))[0]
        rare = (masses[hits:] if lower else masses[: hits + 1]).sum() <= level
        inside, outside = (inside, middle) if rare else (middle, outside)
    return outside


def lower_bound(counts: Counts, limit: Limit, q: float, level: float) -> float:
    """The largest value of the promise that the counts refute at this level; zero if they refute none."""
    low, high = 0.0, _TOP[limit.kind]
    for _ in range(_BISECTIONS):
        middle = (low * high) ** 0.5 if low > 0 else high / 8
        refuted = p_value(counts, limit.at(middle), q) <= level
        low, high = (middle, high) if refuted else (low, middle)
    return low


def slope_of(limit: Limit, q: float) -> float:
    """How fast the limit grows at q."""
    step = 1e-4
    near = np.clip(np.array([q - step, q + step]), 0.0, 1.0)
    low, high = limit.most(near)
    return float((high - low) / max(near[1] - near[0], step / 2))


def _tail(counts: Counts, p: Floats, q: Floats, t: float, slope: float) -> Floats:
    """P[k − slope·l ≥ t] for k of `runs` with chance p and l of `others` with chance q, for each pair."""
    fewest = np.ceil(t + slope * np.arange(counts.others + 1) - 1e-9)
    needed = np.clip(fewest, 0, counts.runs + 1).astype(np.int64)
    reached = np.cumsum(_masses(counts.runs, p)[:, ::-1], axis=1)[:, ::-1]
    padded = np.concatenate([reached, np.zeros((len(p), 1))], axis=1)
    return np.asarray((_masses(counts.others, q) * padded[:, needed]).sum(axis=1))


def _masses(n: int, p: Floats) -> NDArray[np.float64]:
    """The binomial law of n and each p, one row each."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    k = np.arange(n + 1)
    ways = logs[n] - logs - logs[::-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        hit = np.where(k == 0, 0.0, k * np.log(p)[:, None])
        miss = np.where(k == n, 0.0, (n - k) * np.log1p(-p)[:, None])
    return np.asarray(np.exp(ways + hit + miss), np.float64)
