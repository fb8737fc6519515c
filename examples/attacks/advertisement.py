"""Search advertisement: is somePerson older than 49? One targeted count tells.

    python examples/attacks/advertisement.py

The advertiser books an advertisement for people over 49 who searched for a phrase that only one other person uses,
and opens an account of age 50 and one of age 49 that use it, too, to see that the advertisement works. The report
says how many people were reached: one is the attacker's own account, two means yes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from common import BOUND, NAIVE, OURS, behind, by_town, heading, most, plot, show

EPSILON, YOUNGEST, OLDEST = 1.0, 18, 81
OWN = (49, 50)
"""The ages of the attacker's own accounts."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Whether the target is over 49 in each town, and the report of the campaign there, naive and by dpsql."""

    older: np.ndarray
    naive: np.ndarray
    ours: np.ndarray

    def right(self) -> tuple[float, float]:
        """How often "more than my own account" is the truth."""
        naive, ours = (float(np.mean((reports > 1.5) == self.older)) for reports in (self.naive, self.ours))
        return naive, ours


def attack(towns: int = 2_000) -> Figures:
    """Run the campaign in each town."""
    rng = np.random.default_rng(7)
    older = np.arange(towns) % 2 == 1
    ages = np.where(older, rng.integers(50, OLDEST + 1, towns), rng.integers(YOUNGEST, 50, towns))
    everyone = np.concatenate([ages, *(np.full(towns, own) for own in OWN)])
    people = pd.DataFrame({"town": np.tile(np.arange(towns), 3), "age": everyone})
    reached = people[people["age"] > 49].groupby("town").size().to_numpy()
    with behind(people, {"age": {"min": YOUNGEST, "max": OLDEST}}, EPSILON) as db:
        ours = by_town(db, "count(*)", EPSILON, "age > 49")
    return Figures(older, reached, ours)


def draw(figures: Figures, axes: Any) -> None:
    """The reports where the target is over 49, and where not."""
    bins = np.arange(-6.5, 10)
    for panel, (title, reports, colour) in zip(
        axes, (("naive", figures.naive, NAIVE), ("dpsql, ε = 1", figures.ours, OURS)), strict=True
    ):
        panel.hist(reports[~figures.older], bins, color=BOUND, alpha=0.6, label="49 or younger")
        panel.hist(reports[figures.older], bins, color=colour, alpha=0.6, label="over 49")
        panel.set(title=f"Reports of the campaign: {title}", xlabel="people reached", ylabel="towns")
        panel.legend()


def main() -> None:
    """Attack, print, draw."""
    figures = attack()
    heading("Search advertisement: is somePerson older than 49?")
    examples = [(int(figures.naive[t]), int(figures.ours[t])) for t in (0, 1)]
    show("reached in a town where they are 49 or younger", *examples[0])
    show("reached in a town where they are over 49", *examples[1])
    show(
        f"right, over {len(figures.older):,} towns (at most {most(EPSILON):.1%})",
        *(f"{r:.1%}" for r in figures.right()),
    )
    plot("advertisement", lambda axes: draw(figures, axes), panels=2)


if __name__ == "__main__":
    main()
