"""Least significant bits: what the last digits of a floating-point answer tell, however much noise it has.

    python examples/attacks/least_significant_bits.py

One person's value is 0 or 1, and the answer is that plus Laplace noise. Two ways to read it off the bits:
- *Support* (Mironov): a sampler that takes the logarithm of a 53-bit uniform reaches few of the floating-point
  numbers. The attacker inverts it: if the answer less 0 is no possible noise, the value was 1.
- *Precision*: even with a perfect sampler, adding 1 rounds the noise to multiples of 2⁻⁵³. An answer with finer
  bits proves 0.
dpsql adds an integer to an integer and converts once: both values give answers on the same grid, and no bit depends
on either.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from common import BOUND, NAIVE, OURS, behind, by_town, heading, most, plot, show

Possible = Callable[[float, int, float], bool]
"""Whether an answer is possible, given the person's value and the scale of the noise."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Over all towns: the share of answers that only one value can give, and of right guesses."""

    proved: float
    right: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Outcomes of both attacks, by ε."""

    support: dict[float, tuple[Outcome, Outcome]]
    precision: dict[float, tuple[Outcome, Outcome]]


def numpy_laplace(values: np.ndarray, scale: float) -> np.ndarray:
    """The naive mechanism of the notes."""
    return np.random.default_rng(4).laplace(values, scale)


def perfect_laplace(values: np.ndarray, scale: float) -> np.ndarray:
    """Noise that fills all bits of a float, added in floating point."""
    rng = np.random.default_rng(5)
    noise = np.where(rng.integers(0, 2, len(values)) == 1, 1.0, -1.0) * rng.standard_exponential(len(values)) * scale
    return values + noise * (1 + rng.uniform(-(2**-30), 2**-30, len(values)))


def private_sum(values: np.ndarray, scale: float) -> tuple[np.ndarray, Fraction]:
    """The sum by town, where the one person of each town has the value, by dpsql; and the grid that `explain` tells."""
    people = pd.DataFrame({"town": np.arange(len(values)), "x": values.astype(float)})
    with behind(people, {"x": {"min": 0.0, "max": 1.0}}, 1 / scale) as db:
        answers = by_town(db, "sum(x)", 1 / scale)
        plan = db.explain("SELECT town, sum(x) FROM people GROUP BY town", epsilon=1 / scale)
        return answers, Fraction(plan.releases[0].statistics[0].grid)


def in_support(answer: float, value: int, scale: float) -> bool:
    """Whether numpy's sampler can give this answer: invert it, and try the uniforms around."""
    near = round(math.exp(-abs(answer - value) / scale) * 2**53)
    logs = (scale * math.log(k * 2.0**-53) for k in range(max(1, near - 4), min(2**53, near + 4) + 1))
    return any(answer in (value + noise, value - noise) for noise in logs)


def coarse(answer: float, value: int, scale: float) -> bool:
    """Whether the answer has no finer bits than 1 + noise can have; with 0 everything is possible."""
    return value == 0 or abs(answer) >= 0.5 or Fraction(answer).denominator <= 2**53


def on_grid(grid: Fraction) -> Possible:
    """The same question about dpsql: whether answer − value is a multiple of its grid."""
    return lambda answer, value, scale: ((Fraction(answer) - value) / grid).denominator == 1


def outcome(answers: np.ndarray, values: np.ndarray, possible: Possible, scale: float) -> Outcome:
    """Guess the only possible value; where both or neither are, the nearer one."""
    zero, one = (np.array([possible(float(a), v, scale) for a in answers]) for v in (0, 1))
    guess = np.where(zero ^ one, one, answers > 0.5)
    return Outcome(float(np.mean(zero ^ one)), float(np.mean(guess == values)))


def attack(towns: int = 1_000, epsilons: tuple[float, ...] = (0.1, 0.5, 1.0)) -> Figures:
    """Read the person's value off the bits, by both ways, from naive answers and from dpsql's."""
    values = np.arange(towns) % 2
    support, precision = {}, {}
    for epsilon in epsilons:
        scale = 1 / epsilon
        answers, grid = private_sum(values, scale)
        naive = outcome(numpy_laplace(values, scale), values, in_support, scale)
        support[epsilon] = (naive, best(answers, values, scale, (on_grid(grid), in_support)))
        naive = outcome(perfect_laplace(values, scale), values, coarse, scale)
        precision[epsilon] = (naive, best(answers, values, scale, (on_grid(grid), coarse)))
    return Figures(support, precision)


def best(answers: np.ndarray, values: np.ndarray, scale: float, tests: tuple[Possible, ...]) -> Outcome:
    """The most right guesses by any test; only the first knows how dpsql answers, and can prove anything."""
    found = [outcome(answers, values, test, scale) for test in tests]
    return Outcome(found[0].proved, max(one.right for one in found))


def draw(figures: Figures, axes: Any) -> None:
    """Right guesses by the support, and answers whose precision proves the value, by ε."""
    bars(axes[0], {e: (naive.right, ours.right) for e, (naive, ours) in figures.support.items()})
    bars(axes[1], {e: (naive.proved, ours.proved) for e, (naive, ours) in figures.precision.items()})
    at = np.arange(len(figures.support))
    allowed = [most(epsilon) for epsilon in figures.support]
    axes[0].hlines(allowed, at - 0.4, at + 0.4, color=BOUND, linestyle="--", label="most that ε allows")
    axes[0].set(title="Support of the sampler", ylim=(0.4, 1.0), ylabel="right about the person")
    axes[1].set(title="Precision of the sum (ε allows 0)", ylim=(0, 0.2), ylabel="answers that prove the value")
    axes[0].legend(fontsize=8)


def bars(panel: Any, shares: dict[float, tuple[float, float]]) -> None:
    """Naive beside dpsql, for each ε."""
    at = np.arange(len(shares))
    panel.bar(at - 0.2, [naive for naive, _ in shares.values()], 0.4, color=NAIVE, label="naive")
    panel.bar(at + 0.2, [ours for _, ours in shares.values()], 0.4, color=OURS, label="dpsql")
    panel.set_xticks(at, [f"ε = {epsilon:g}" for epsilon in shares])


def main() -> None:
    """Attack, print, draw."""
    figures = attack()
    for title, found in (("support of the sampler", figures.support), ("precision of the sum", figures.precision)):
        heading(f"Least significant bits: {title}")
        for epsilon, (naive, ours) in found.items():
            show(f"ε = {epsilon:g}: answers that prove the value", f"{naive.proved:.1%}", f"{ours.proved:.1%}")
            show(f"ε = {epsilon:g}: right (at most {most(epsilon):.1%})", f"{naive.right:.1%}", f"{ours.right:.1%}")
    plot("least_significant_bits", lambda axes: draw(figures, axes), panels=2)


if __name__ == "__main__":
    main()
