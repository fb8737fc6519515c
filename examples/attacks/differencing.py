"""Differencing: the count of all minus the count of all but one.

    python examples/attacks/differencing.py

The naive system answers exactly and refuses counts over fewer than ten people. Both counts are over many people,
and their difference is one person's secret. With dpsql each count has its own noise, and both together cost ε: the
attacker tells smokers from others no more often than e^ε/(1+e^ε), however the question is put.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from common import BOUND, NAIVE, OURS, behind, by_town, heading, most, plot, show

PEOPLE, FEWEST, TARGET = 30, 10, 7


@dataclass(frozen=True, slots=True)
class Figures:
    """How often the attacker is right about the one person: naive, and with dpsql at each total ε."""

    towns: int
    naive: float
    ours: dict[float, float]


def secrets(towns: int) -> pd.DataFrame:
    """Towns of people; in every other town the target smokes."""
    rng = np.random.default_rng(2)
    smoker = rng.integers(0, 2, (towns, PEOPLE))
    smoker[:, TARGET] = np.arange(towns) % 2
    town, person = np.divmod(np.arange(towns * PEOPLE), PEOPLE)
    return pd.DataFrame({"town": town, "person": person, "smoker": smoker.ravel()})


def naive_count(people: pd.DataFrame, town: int, without: int | None = None) -> int:
    """An exact count, refused for small sets of people."""
    asked = people[(people["town"] == town) & (people["person"] != (-1 if without is None else without))]
    if len(asked) < FEWEST:
        raise PermissionError("fewer than ten people")
    return int(asked["smoker"].sum())


def attack(towns: int = 2_000, epsilons: tuple[float, ...] = (0.1, 0.5, 1, 2, 4, 8)) -> Figures:
    """Guess the target's secret in each town from the two counts."""
    people = secrets(towns)
    truth = np.arange(towns) % 2 == 1
    some = range(min(towns, 200))
    differences = np.array([naive_count(people, t) - naive_count(people, t, without=TARGET) for t in some])
    ours = {epsilon: float(np.mean(private_guess(people, epsilon) == truth)) for epsilon in epsilons}
    return Figures(towns, float(np.mean((differences == 1) == truth[: len(some)])), ours)


def private_guess(people: pd.DataFrame, epsilon: float) -> np.ndarray:
    """The same two counts from dpsql, each for half the price."""
    columns = {"person": {"min": 0, "max": PEOPLE}, "smoker": {"min": 0, "max": 1}}
    with behind(people, columns, epsilon) as db:
        everyone = by_town(db, "count(*)", epsilon / 2, "smoker = 1")
        others = by_town(db, "count(*)", epsilon / 2, f"smoker = 1 AND person <> {TARGET}")
    return everyone - others > 0.5


def draw(figures: Figures, axes: Any) -> None:
    """Right guesses against ε."""
    grid = np.linspace(0, max(figures.ours), 200)
    axes.plot(grid, [most(e) for e in grid], color=BOUND, linestyle=":", label="most that ε allows: $e^ε/(1+e^ε)$")
    axes.axhline(figures.naive, color=NAIVE, label="naive, counts of ten or more")
    axes.plot(list(figures.ours), list(figures.ours.values()), "o-", color=OURS, label="dpsql")
    axes.set(xlabel="ε of both counts together", ylabel="right about the one person", ylim=(0.45, 1.03))
    axes.set_title("Differencing: all minus all but one")
    axes.legend(loc="lower right")


def main() -> None:
    """Attack, print, draw."""
    figures = attack()
    heading(f"Differencing: right about one person in {figures.towns:,} towns (a coin: 50%)")
    for epsilon, right in figures.ours.items():
        show(f"ε = {epsilon:g} (at most {most(epsilon):.1%})", f"{figures.naive:.1%}", f"{right:.1%}")
    plot("differencing", lambda axes: draw(figures, axes))


if __name__ == "__main__":
    main()
