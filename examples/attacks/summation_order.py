"""Summation order: one person moves a floating-point sum by more than the noise is calibrated to.

    python examples/attacks/summation_order.py

Values lie in [−1, 1], so the claimed sensitivity is 1. The naive system adds them in single precision, row by row.
The rows that the attacker knows are pairs that round to nothing while the running sum is below a power of two, and
upwards above it. One person with the value 1 lifts the sum over that edge, and all pairs after it add to the
difference. The same rows in another order give another sum, too. dpsql sums integers on a grid: order does not
matter, and one person moves the sum by 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from common import BOUND, NAIVE, OURS, behind, by_town, heading, most, plot, show

EDGE, PAIRS, EPSILON = 2**14, 5_000, 0.5
STEP = 2.0**-10
"""The distance of single-precision numbers just below the edge; above it the distance is twice that."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What one person changes, how far the order moves the sum, and how often the attacker is right."""

    moved: tuple[float, float]
    spread: tuple[float, float]
    naive: np.ndarray
    """Noisy sums, less the sum without the person."""
    ours: np.ndarray

    def right(self) -> tuple[float, float]:
        """Right guesses: who knows all other rows knows both sums, and takes the nearer one."""
        pairs = zip((self.naive, self.ours), self.moved, strict=True)
        return tuple(float(np.mean((answers > moved / 2) == present(len(answers)))) for answers, moved in pairs)


def present(towns: int) -> np.ndarray:
    """The person lives in every other town."""
    return np.arange(towns) % 2 == 1


def rows(with_person: bool) -> np.ndarray:
    """One person's value (or nobody), then enough ones to come near the edge, then the pairs."""
    target = [1.0] if with_person else []
    pairs = np.tile([1.25 * STEP, -0.75 * STEP], PAIRS)
    return np.concatenate([target, np.ones(EDGE - 1), pairs])


def naive_sum(values: np.ndarray) -> float:
    """A loop that adds in single precision."""
    return float(np.cumsum(values.astype(np.float32), dtype=np.float32)[-1])


def attack(towns: int = 10, rounds: int = 10) -> Figures:
    """Sum with and without the person, in several orders; then guess from noisy sums whether the person is there."""
    rng = np.random.default_rng(6)
    absent, there = rows(False), rows(True)
    orders = [naive_sum(rng.permutation(there)) for _ in range(10)] + [naive_sum(there)]
    by_person = naive_sum(there) - naive_sum(absent)
    noisy = by_person * present(towns * rounds) + rng.laplace(0, 1 / EPSILON, towns * rounds)
    ours, moved, spread = private(towns, rounds, rng)
    return Figures((by_person, moved), (max(orders) - min(orders), spread), noisy, ours)


def private(towns: int, rounds: int, rng: np.random.Generator) -> tuple[np.ndarray, float, float]:
    """The same by dpsql: noisy sums of `rounds` accounts; and its sums almost without noise, also in another order."""
    parts = [rows(t % 2 == 1) for t in range(towns)]
    people = pd.DataFrame({"town": np.repeat(np.arange(towns), [len(p) for p in parts]), "x": np.concatenate(parts)})
    columns = {"x": {"min": -1.0, "max": 1.0}}
    with behind(people, columns, EPSILON * rounds, replay=False) as db:
        noisy = np.concatenate([by_town(db, "sum(x)", EPSILON) for _ in range(rounds)])
    sure = 1e6
    with behind(people, columns, sure) as db:
        exact = by_town(db, "sum(x)", sure)
    with behind(people.sample(frac=1, random_state=rng), columns, sure) as db:
        again = by_town(db, "sum(x)", sure)
    without = np.median(exact[::2])
    return noisy - without, float(np.median(exact[1::2]) - without), float(np.max(np.abs(again - exact)))


def draw(figures: Figures, axes: Any) -> None:
    """Noisy sums with and without the person."""
    for panel, (title, answers, colour) in zip(
        axes, (("naive, single precision", figures.naive, NAIVE), ("dpsql", figures.ours, OURS)), strict=True
    ):
        bins = np.linspace(-8, 22, 46)
        panel.hist(answers[::2], bins, color=BOUND, alpha=0.6, label="person absent")
        panel.hist(answers[1::2], bins, color=colour, alpha=0.6, label="person present")
        panel.set(title=f"Noisy sums, ε = {EPSILON:g}: {title}", xlabel="sum, less the exact sum without the person")
        panel.legend()


def main() -> None:
    """Attack, print, draw."""
    figures = attack(towns=20, rounds=20)
    heading(f"Summation order: a sum of {len(rows(True)):,} values in [−1, 1], ε = {EPSILON:g}")
    show("one person moves the sum by (claimed: 1)", *(f"{moved:.4f}" for moved in figures.moved))
    show("the order of the same rows moves it by up to", *(f"{spread:.4f}" for spread in figures.spread))
    show(f"right whether the person is there (at most {most(EPSILON):.1%})", *(f"{r:.1%}" for r in figures.right()))
    plot("summation_order", lambda axes: draw(figures, axes), panels=2)


if __name__ == "__main__":
    main()
