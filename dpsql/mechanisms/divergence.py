"""Laws of outputs, and how far apart two of them are: the hockey-stick divergence, by which a claim can be checked.

**Theorem.** For laws P, Q let δ(ε) = sup over events A of P(A) − e^ε·Q(A). A mechanism is (ε, δ)-DP if and only if
δ(ε) ≤ δ for the laws of its output on any two neighbours, in both orders. The supremum is reached at the event
{y : P(y) > e^ε·Q(y)}, so on a countable set of outputs δ(ε) = Σ max(0, P(y) − e^ε·Q(y)).
**Proof.** The first is the definition. Any A gains by dropping the outputs at which P(y) − e^ε·Q(y) is negative, and
by adding those at which it is positive.
**Requires** laws on the same countable set. What is cut off of their tails is added to δ.
**Checked by** `tests/unit/mechanisms/test_divergence.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from dpsql.errors import ProgrammingError
from dpsql.mechanisms.discrete_noise import Noise, smallest
from dpsql.mechanisms.exact_numbers import Number, exact

_ROUNDING = 2.0**-40
"""The relative error of a mass, with room to spare."""
_TOTAL = 2.0**-30
"""How far probabilities may be from one in all; what is no law would pass every check."""
_FAR = 2**80


@dataclass(frozen=True, slots=True)
class Divergence:
    """A divergence up to an error: the true one is no further than `error` from `value`."""

    value: float
    error: float

    @property
    def low(self) -> float:
        """A lower bound on the true divergence."""
        return max(0.0, self.value - self.error)

    @property
    def high(self) -> float:
        """An upper bound on the true divergence."""
        return self.value + self.error


@dataclass(frozen=True, slots=True)
class FiniteLaw:
    """The probabilities of finitely many outputs; `missing` bounds that of all other outputs together."""

    masses: Mapping[Hashable, float]
    missing: float = 0.0

    def __post_init__(self) -> None:
        total = math.fsum(self.masses.values())
        if not (1 - self.missing - _TOTAL <= total <= 1 + _TOTAL) or min(self.masses.values()) < -_TOTAL:
            raise ProgrammingError(f"these are not probabilities: they add up to {total!r}")

    def after(self, function: Callable[[Hashable], Hashable]) -> FiniteLaw:
        """The law of a function of the output: post-processing, under which no divergence grows."""
        masses: dict[Hashable, float] = {}
        for output, mass in self.masses.items():
            masses[function(output)] = masses.get(function(output), 0.0) + mass
        return FiniteLaw(masses, self.missing)

    def beside(self, other: FiniteLaw) -> FiniteLaw:
        """The law of two independent outputs."""
        pairs = product(self.masses.items(), other.masses.items())
        return FiniteLaw({(a, b): p * q for (a, p), (b, q) in pairs}, self.missing + other.missing)


@dataclass(frozen=True, slots=True)
class ShiftedLaw:
    """Noise around a whole number of steps, and how long a step is."""

    noise: Noise
    centre: int
    step: Fraction = Fraction(1)


Law = FiniteLaw | ShiftedLaw


def hockey_stick(one: Law, two: Law, epsilon: Number) -> Divergence:
    """The supremum of P(A) − e^ε·Q(A), where P is the law `one` and Q is `two`, with an error bound."""
    rate = exact(epsilon, "epsilon")
    if not 0 <= rate <= 500:
        raise ProgrammingError(f"epsilon lies between 0 and 500 here, not at {float(rate):g}")
    if isinstance(one, FiniteLaw) and isinstance(two, FiniteLaw):
        return _finite(one, two, math.exp(rate))
    if isinstance(one, ShiftedLaw) and isinstance(two, ShiftedLaw) and (one.noise, one.step) == (two.noise, two.step):
        return _shifted(one.noise, abs(one.centre - two.centre), rate)
    raise ProgrammingError("these are laws of two mechanisms", hint="compare what one mechanism does on two inputs")


def delta_between(one: Law, two: Law, epsilon: Number) -> Divergence:
    """The larger of the two divergences: the δ that a mechanism needs at this ε for this pair of inputs."""
    return max(hockey_stick(one, two, epsilon), hockey_stick(two, one, epsilon), key=lambda found: found.value)


def epsilon_between(one: Law, two: Law, delta: Number) -> float:
    """About the least ε at which this pair of inputs needs no more than this δ; infinite if 500 is not enough."""
    target, low, high = float(exact(delta, "delta")), 0.0, 500.0
    if delta_between(one, two, high).low > target:
        return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_between(one, two, middle).low <= target else (middle, high)
    return high


def _finite(one: FiniteLaw, two: FiniteLaw, factor: float) -> Divergence:
    """A sum; masses that are missing on either side can move it by no more than themselves.

    Rounding moves a term p − e^ε·q by its part of p + e^ε·q; where e^ε·q is above 2p the term is nothing all the same.
    """
    pairs = [(mass, factor * two.masses.get(output, 0.0)) for output, mass in one.masses.items()]
    rounding = _ROUNDING * math.fsum(abs(p) + min(abs(q), 2 * abs(p)) for p, q in pairs)
    return Divergence(math.fsum(max(0.0, p - q) for p, q in pairs), one.missing + factor * two.missing + rounding)


def _shifted(noise: Noise, distance: int, rate: Number) -> Divergence:
    """S(t − d) − e^ε·S(t) at the first t where the loss reaches ε, S(t) = P[Z ≥ t].

    The laws are log-concave, so the loss grows with the output and the best event is a half-line.
    """
    if distance == 0 or noise.loss(_FAR, distance) < rate:
        return Divergence(0.0, 0.0)
    first = smallest(lambda t: noise.loss(t, distance) >= rate)
    here, there = noise.survival(first - distance), math.exp(rate) * noise.survival(first)
    return Divergence(max(0.0, here - there), _ROUNDING * (here + there))
