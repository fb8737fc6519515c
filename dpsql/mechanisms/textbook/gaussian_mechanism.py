"""The Gaussian mechanism: a number, or a vector, with Gaussian noise for its L2 sensitivity Δ.

**Theorem (analytic; Balle and Wang 2018).** Noise N(0, σ²) on each coordinate is (ε, δ)-DP if and only if
δ ≥ δ(σ) = Φ(Δ/2σ − εσ/Δ) − e^ε·Φ(−Δ/2σ − εσ/Δ), for every ε ≥ 0.
**Proof.** The noise looks the same from every direction, so two centres at distance Δ may lie on one axis. There the
loss at y is (Δ² − 2yΔ)/(2σ²) up to sign, normal, and the best event is the half-line where it exceeds ε: its two
probabilities are these two terms. δ(σ) grows with Δ, so the largest distance decides.
**Theorem (classical).** For ε ≤ 1, σ = Δ√(2 ln(1/δ))/ε is enough if δ ≤ e^(−ε/4), and σ = Δ√(2 ln(1.25/δ))/ε for
every δ.
**Proof.** Let c = εσ/Δ. Then δ(σ) ≤ Φ(ε/2c − c), and with y = c − ε/2c ≥ 0 this is at most ½·e^(−y²/2) ≤
½·e^(ε/2)·e^(−c²/2) ≤ 0.83·e^(−c²/2), which is 0.83·δ for the first form and less for the second. y ≥ 0 means c² ≥
ε/2: δ ≤ e^(−ε/4) in the first form, δ ≤ 1.25·e^(−ε/4) in the second; beyond, c² ≥ 2 ln 1.25 still gives y ≥ −0.09 and
δ(σ) < 0.54. The condition on δ is needed: at ε = 1 and δ = 0.99 the first form has σ = 0.14 and needs δ = 0.999.
**Theorem (the noise that is drawn).** It is the discrete Gaussian of the same σ on the grid, and meets the same (ε, δ).
**Proof.** In one coordinate its own divergence is computed, with its rounding, and σ is the least at which that is at
most δ: the law is log-concave, so the best event is a half-line {y ≥ t}, and P[Z + d ≥ t] − e^ε·P[Z ≥ t] grows with
d. In k coordinates: a continuous draw that is rounded to the grid has the continuous guarantee (post-processing).
With σ in steps, the mass of the discrete law at z is at most e^(1/8σ²) times that of the rounded one, and at least
e^(−z²/8σ⁴) times it, because their ratio is the mean of exp(−(2zu+u²)/2σ²) over |u| ≤ ½ but for a factor 1 +
2e^(−2π²σ²); |z| ≤ 12σ but for less than 10^−31. So passing to the discrete law and back costs k/8σ² + 18k/σ² in ε (or
about as much in δ), less than 2·10^−11·k on the fine grid; σ is chosen so that what is left is enough.
**Requires** a Δ in L2 that the caller states, a draw that is exactly discrete Gaussian (`dpsql.mechanisms.gaussian`),
and values floored to the grid (`additive.py`).
**Checked by** `tests/unit/mechanisms/test_textbook.py` and `test_additive.py`: the divergence meets δ, 0.9 of the
analytic σ does not, and a product of two discrete laws is added up point by point.

>>> round(Gaussian(sensitivity=1, epsilon=1, delta=1e-6).sigma, 4)
4.2247
>>> round(Gaussian(sensitivity=1, epsilon=1, delta=1e-6, form="classical").sigma, 4)
5.2988
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import ClassVar, Literal

from dpsql.errors import ProgrammingError
from dpsql.mechanisms.discrete_noise import MAX_DENOMINATOR, smallest
from dpsql.mechanisms.divergence import ShiftedLaw, hockey_stick
from dpsql.mechanisms.exact_numbers import Number, exact, probability
from dpsql.mechanisms.gaussian import LIMIT, DiscreteGaussian
from dpsql.mechanisms.textbook.additive import Additive, coordinates, fine_grid, least_positive, stored

Form = Literal["analytic", "classical", "lecture"]
"""The least σ; Δ√(2 ln(1.25/δ))/ε; Δ√(2 ln(1/δ))/ε."""

_RELATIVE = 1e-12
_FAR_TAIL = 1e-31
_COARSE = 2**12
"""With fewer steps the bound for several coordinates says little."""


@dataclass(frozen=True, slots=True)
class Gaussian(Additive):
    """Gaussian noise for a value of which one unit changes at most `sensitivity` in L2; ε may be 0.

    `grid` and `touched` are as for `Laplace`; a vector of which one unit changes several coordinates needs a fine grid.
    So every vector needs `touched`, also one of whole numbers: a unit that moves nine counts by 1 each is found out a
    little more often than one that moves one count by 3, since the nine make a finer loss.
    """

    one_is_worst: ClassVar[bool] = False

    sensitivity: Number
    epsilon: Number
    delta: Number
    form: Form = "analytic"
    grid: Number | None = None
    touched: int | None = None
    step: Fraction = field(init=False, repr=False)
    noise: DiscreteGaussian = field(init=False, repr=False)

    def __post_init__(self) -> None:
        size, touched = stored(self.sensitivity, "sensitivity"), coordinates(self.touched)
        epsilon, delta = _epsilon(self.epsilon), probability(self.delta)
        sigma = textbook_sigma(self.form, size, epsilon, delta)
        step = fine_grid(size, sigma, LIMIT // 4) if self.grid is None else stored(self.grid, "grid")
        steps = Fraction(math.ceil(size / step)) if touched == 1 else size / step + _root_up(touched)
        wanted = sigma * float(steps / size)
        enough = partial(_suffices, steps=steps, touched=touched, epsilon=epsilon, delta=float(delta))
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "noise", _noise(wanted, enough, exactly=self.form != "analytic"))

    def at(self, epsilon: Number) -> Gaussian:
        """The same mechanism at another ε."""
        return replace(self, epsilon=epsilon)

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise."""
        return float(self.noise.scale * self.step)


def gaussian_delta(sensitivity: float, sigma: float, epsilon: float) -> float:
    """The δ of continuous Gaussian noise, exactly (Balle and Wang), rounded up."""
    half, far = sensitivity / sigma / 2, epsilon * sigma / sensitivity
    here, there = _normal(half - far), math.exp(epsilon) * _normal(-half - far)
    return min(1.0, max(0.0, here - there) + _RELATIVE * (here + there))


def textbook_sigma(form: Form, sensitivity: Number, epsilon: Number, delta: Number) -> float:
    """The σ of the continuous law."""
    size, rate, chance = float(exact(sensitivity)), float(exact(epsilon)), float(exact(delta))
    if form == "analytic":
        enough = partial(_meets, rate=rate, chance=chance)
        return size * least_positive(enough, "sigma that can be drawn", "ask for a larger epsilon or delta")
    if form not in ("classical", "lecture"):
        raise ProgrammingError(f"there is no form {form!r}", hint="analytic, classical or lecture")
    if not 0 < rate <= 1:
        raise ProgrammingError(
            f"the {form} form is proved for 0 < epsilon ≤ 1 only, not for {rate:g}", hint='use form="analytic"'
        )
    if form == "lecture" and chance > math.exp(-rate / 4):
        raise ProgrammingError(f"the lecture form fails for a delta as large as {chance:g}", hint='use form="analytic"')
    return size * math.sqrt(2 * math.log((1.25 if form == "classical" else 1) / chance)) / rate


def _meets(sigma: float, *, rate: float, chance: float) -> bool:
    return gaussian_delta(1.0, sigma, rate) <= chance


def _suffices(scale: Fraction, *, steps: Fraction, touched: int, epsilon: Fraction, delta: float) -> bool:
    """Does the discrete law of this scale meet (ε, δ) for an L2 distance of so many steps?"""
    if touched == 1:
        noise = DiscreteGaussian(scale)
        return hockey_stick(ShiftedLaw(noise, int(steps)), ShiftedLaw(noise, 0), epsilon).high <= delta
    if scale < _COARSE:
        raise ProgrammingError(
            f"a sigma of {float(scale):.3g} steps is too coarse for a unit that changes {touched} coordinates",
            hint="leave out grid",
        )
    far = touched * math.exp(epsilon) * _FAR_TAIL
    if far >= delta:
        raise ProgrammingError(
            f"an epsilon of {float(epsilon):g} is too large for a unit that changes {touched} coordinates",
            hint="ask for a smaller epsilon, or for a larger delta",
        )
    there, back = touched / float(8 * scale**2), 18 * touched / float(scale**2)
    left, mu = float(epsilon) - there - back, float(steps)
    added = gaussian_delta(mu, float(scale), float(epsilon)) + math.expm1(there) + math.exp(epsilon) * math.expm1(back)
    moved = math.exp(there) * gaussian_delta(mu, float(scale), left) if left >= 0 else 1.0
    return min(added, moved) + far <= delta


def _noise(wanted: float, enough: partial[bool], *, exactly: bool) -> DiscreteGaussian:
    """The least representable scale that is enough; of a classical form its own scale, if that is.

    On a coarse grid that may be a good deal less than the continuous law needs.
    """
    if not wanted < LIMIT / 2:
        raise ProgrammingError(
            f"noise with a sigma of {wanted:g} steps of its grid is more than can be drawn",
            hint="declare a coarser grid, or ask for a larger epsilon or delta",
        )
    s = MAX_DENOMINATOR
    while wanted * 1.25 * s + 1 >= LIMIT:
        s //= 2
    start = math.ceil(wanted * s)
    if exactly or not enough(Fraction(start, s)):
        return DiscreteGaussian(Fraction(smallest(lambda a: enough(Fraction(a, s)), start), s))
    too_much = smallest(lambda less: less >= start or not enough(Fraction(start - less, s)))
    return DiscreteGaussian(Fraction(start - too_much + 1, s))


def _epsilon(value: Number) -> Fraction:
    number = exact(value, "epsilon")
    if not 0 <= number <= 500:
        raise ProgrammingError(f"epsilon lies between 0 and 500, not at {value!r}")
    return number


def _normal(x: float) -> float:
    """Φ(x)."""
    return math.erfc(-x / math.sqrt(2)) / 2


def _root_up(value: int) -> Fraction:
    return Fraction(math.isqrt(value * 2**40) + 1, 2**20)
