"""The textbook in numbers: each mechanism and law of the course notes, with the figure that the notes print.

    python examples/textbook.py

Noise is exact and drawn afresh, so the coverages differ a little from run to run; all else is the same each time.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpsql.mechanisms import (
    CoinResponse,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    Guarantee,
    Laplace,
    NameAndShame,
    NoisyMax,
    RandomizedResponse,
    ShiftedLaw,
    SmoothMedian,
    advanced,
    basic,
    curve_epsilon,
    default_delta,
    delta_between,
    epsilon_for,
    gaussian_delta,
    global_sensitivity,
    group,
    hockey_stick,
    local_sensitivity,
    parallel,
    pure_curve,
    pure_rho,
    repeated,
    rho_for,
    somebody_is_shamed,
    textbook_sigma,
)
from dpsql.mechanisms.textbook.gaussian_mechanism import Form

BETA, MILLION, RUNS = 0.05, 1_000_000, 10_000


def show(what: str, figure: object, remark: str = "") -> None:
    """One line of the table."""
    print(f"  {what:<58} {figure!s:>14}  {remark}".rstrip())


def covered(errors: np.ndarray, alpha: float) -> str:
    """How many of the runs stayed within α."""
    return f"{np.mean(np.abs(errors) <= alpha):.2%}"


def responses() -> None:
    """Randomized response: noise on the input."""
    print("Randomized response")
    coin, response = CoinResponse(), RandomizedResponse(epsilon=1)
    show("coin version: ε = ln 3", f"{coin.epsilon:.4f}", f"truth with {coin.truth}, lie with {coin.lie}")
    show("ε = 1: factor (1+e^ε)/(e^ε−1), offset 1/(1+e^ε)", f"{response.factor:.3f}, {response.lie:.3f}")
    remark = "2.164·√(ln 40/2n); one slide took log₁₀: 2.16·0.89/1000"
    show("share of a million people, β = 0.05: ±", f"{response.accuracy(BETA, MILLION):.5f}", remark)
    show("people needed for ± 0.01", response.people_for(0.01, BETA))
    three = RandomizedResponse(epsilon=1, values=("red", "green", "blue"))
    show("three values, ε = 1: truth with, factor", f"{three.truth:.3f}, {three.factor:.3f}")
    truths = np.tile(np.arange(200) % 4 == 0, RUNS).astype(np.int64)
    shares = np.mean(response.answers(truths).reshape(RUNS, 200), axis=1)
    off = (shares - response.lie) * response.factor - 0.25
    show("within its accuracy, n = 200, 10,000 runs", covered(off, response.accuracy(BETA, 200)), "at least 95%")


def laplaces() -> None:
    """Laplace: noise on the output."""
    print("Laplace")
    proportion = Laplace(sensitivity=1e-6, epsilon=1).accuracy(BETA)
    show(
        "proportion of a million patients, ε = 1: ±", f"{proportion:.3e}", "the slide prints 0.0000299, ten times that"
    )
    counts = Laplace(sensitivity=1, epsilon=1)
    for names in (1_000, 10_000):
        union, exactly = math.log(names / BETA), counts.accuracy(BETA, names)
        show(f"histogram of {names:,} names: all within", f"{union:.1f}", f"ln(k/β)/ε; exactly {exactly:.2f}")
    show("on the grid of whole counts: ±", Laplace(1, 1, grid=1).accuracy(BETA), "the exact quantile there")
    show("ε for ± 10 on a count", f"{counts.epsilon_for(10, BETA):.4f}", "ln(20)/10")
    errors = counts.release(np.zeros(RUNS, dtype=np.int64))
    show("within its accuracy, 10,000 runs", covered(errors, counts.accuracy(BETA)), "95%")


def gaussians() -> None:
    """Gaussian, by three formulas."""
    print("Gaussian, ε = 1, δ = 1e-6")
    _form("analytic", "Balle–Wang")
    _form("classical", "√(2 ln(1.25/δ))/ε")
    _form("lecture", "√(2 ln(1/δ))/ε")
    show("σ at ε = 0, δ = 0.01", f"{Gaussian(1, 0, 0.01).sigma:.3f}", "no classical form has one")
    wrong = gaussian_delta(1, math.sqrt(2 * math.log(1 / 0.99)), 1)
    show("the last form, claimed for δ = 0.99, needs δ =", f"{wrong:.4f}", "the notes state it for every δ")
    mechanism = Gaussian(1, 1, 1e-6, touched=1)
    errors = mechanism.release(np.zeros(RUNS, dtype=np.int64))
    show("within its accuracy, 10,000 runs", covered(errors, mechanism.accuracy(BETA)), "95%")
    print("Laplace against Gaussian: L2 error of a mean of k coordinates, n = 1000")
    for k in (1, 4, 16, 64, 256):
        laplace = math.sqrt(2 * k) * Laplace(k / 1000, 1, touched=k).scale
        gaussian = math.sqrt(k) * Gaussian(math.sqrt(k) / 1000, 1, 1e-6, touched=k).sigma
        show(f"k = {k}", f"{laplace:.4f}", f"{gaussian:.4f}   (grow as k^1.5 and as k)")


def _form(form: Form, formula: str) -> None:
    needed = gaussian_delta(1, textbook_sigma(form, 1, 1, 1e-6), 1)
    slack = "tight" if form == "analytic" else f"{1e-6 / needed:.0f} times less than asked for"
    show(f"σ, {formula}", f"{Gaussian(1, 1, 1e-6, form=form).sigma:.4f}", f"needs δ = {needed:.2e}: {slack}")


def choices() -> None:
    """Exponential mechanism, report noisy max, smooth sensitivity."""
    print("Choices among 100 candidates, Δ = 1, ε = 1, β = 0.05")
    mechanism = Exponential(1, 1)
    worst = mechanism.accuracy(BETA, 100)
    show("exponential mechanism: worse than the best by at most", f"{worst:.2f}", "(2Δ/ε)·ln(|X|/β)")
    show("report noisy max: at most", f"{NoisyMax(1, 1).accuracy(BETA, 100):.2f}")
    scores = [40 - 2 * i for i in range(20)]
    losses = np.array([40 - mechanism.release(scores, scores) for _ in range(1000)])
    show("exponential within its accuracy, 1,000 runs", covered(losses, mechanism.accuracy(BETA, 20)), "at least 95%")
    print("Local sensitivity made safe: the median of 1,001 numbers in [0, 1]")
    values = np.random.default_rng(1).normal(0.5, 0.1, 1001)
    released = SmoothMedian(0, 1, epsilon=1, delta=1e-6).release(values)
    show("released, and the truth", f"{released:.4f}", f"{np.median(values):.4f}; there is no public error bar")
    median = lambda rows: sorted(rows)[1]  # noqa: E731
    widest = global_sensitivity(median, (0, 5, 10), 3).value
    show("global sensitivity of a median of 3 in {0, 5, 10}", widest, "by search")
    show("local sensitivity at (5, 5, 5)", local_sensitivity(median, (5, 5, 5), (0, 5, 10)).value, "by search")


def laws() -> None:
    """Composition, groups, conversions, delta."""
    print("Laws")
    show("group of 3 at (0.5, 1e-6)", _pair(group(Guarantee(0.5, 1e-6), 3)), "(kε, k·e^((k−1)ε)·δ)")
    show("100 releases at ε = 0.1, basic", _pair(basic([Guarantee(0.1)] * 100)))
    show("… advanced, δ' = 1e-6", _pair(advanced(Guarantee(0.1), 100, 1e-6)))
    show("… Rényi", f"({curve_epsilon(repeated(pure_curve(0.1), 100), 1e-6):.3f}, 1e-06)")
    show("… zCDP", f"({epsilon_for(100 * pure_rho(0.1), 1e-6):.3f}, 1e-06)")
    months = [Guarantee(0.5)] * 12
    show("12 months in parallel, a unit in one of them", _pair(parallel(months)))
    show("… a unit in all of them", _pair(parallel(months, parts_per_unit=12)), "a partition of rows is none of units")
    show("ρ that is (1, 1e-6)", f"{float(rho_for(1, 1e-6)):.5f}", "tight zCDP conversion")
    shamed = somebody_is_shamed(MILLION, 1e-6)
    show("name and shame, n = 10⁶, δ = 10⁻⁶: somebody is shamed", f"{shamed:.3f}", "1 − (1−δ)^n")
    show("… δ = n^−1.1", f"{somebody_is_shamed(MILLION, default_delta(MILLION)):.3f}")
    show("… δ = 10⁻⁹", f"{somebody_is_shamed(MILLION, 1e-9):.5f}")


def checks() -> None:
    """Every claim against the divergence of the laws on neighbours, and with nine tenths of the noise."""
    print("Divergence on neighbours: δ needed at the claimed ε, and with 0.9 of the noise")
    for epsilon in (0.5, 1):
        pair = RandomizedResponse(epsilon), RandomizedResponse(epsilon / 0.9)
        needed, without = (delta_between(r.law(True), r.law(False), epsilon).value for r in pair)
        _claim(f"randomized response, ε = {epsilon}", needed, 0, without)
    laplace = Laplace(1, 1, grid=Fraction(1, 64))
    without = _shift(DiscreteLaplace(laplace.noise.scale * Fraction(57, 64)), 64, 1)
    _claim("Laplace, ε = 1", hockey_stick(laplace.law(0), laplace.law(1), 1).value, 0, without)
    for epsilon, delta in ((1, 1e-6), (0, 0.01), (5, 1e-6)):
        gaussian = Gaussian(1, epsilon, delta)
        without = _shift(
            DiscreteGaussian(Fraction(int(gaussian.noise.scale * 9 / 10))), int(1 / gaussian.step), epsilon
        )
        needed = hockey_stick(gaussian.law(0), gaussian.law(1), epsilon).high
        _claim(f"Gaussian, analytic, ({epsilon}, {delta:g})", needed, delta, without)
    shame = NameAndShame(0.1)
    show("name and shame, (0, 0.1), on 3 people", f"{delta_between(shame.law('abc'), shame.law('abx'), 0).value:.3g}")


def _claim(what: str, needed: float, claimed: float, less: float) -> None:
    verdict = "holds" if needed <= claimed + 1e-15 else "FAILS"
    then = "fails, as it must" if less > claimed + 1e-9 else "HOLDS"
    show(what, f"{needed:.3g}", f"{verdict}; with 0.9 of the noise {less:.3g}: {then}")


def _shift(noise: DiscreteLaplace | DiscreteGaussian, steps: int, epsilon: float) -> float:
    return hockey_stick(ShiftedLaw(noise, steps), ShiftedLaw(noise, 0), epsilon).low


def _pair(guarantee: Guarantee) -> str:
    return f"({guarantee.epsilon:.3f}, {guarantee.delta:.3g})"


if __name__ == "__main__":
    for part in (responses, laplaces, gaussians, choices, laws, checks):
        part()
