"""Averaging: ask the same count again and again, and take the mean.

    python examples/attacks/averaging.py

Independent noise averages out: after k answers it is √k times smaller. dpsql gives the first answer again, free,
however often it is asked. Where a steward turns replay off, each answer is charged, and the budget ends the attack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from common import BOUND, NAIVE, OURS, behind, by_town, heading, plot, show

import dpsql

EPSILON, BUDGET, SMOKERS = 0.1, 1.0, 40
QUESTION = {"smoker": {"min": 0, "max": 1}}


@dataclass(frozen=True, slots=True)
class Figures:
    """The attacker's error after each answer (a row for each answer, a column for each town), and what was charged."""

    naive: np.ndarray
    replayed: np.ndarray
    charged: float
    fresh: np.ndarray
    refused: str

    def exact(self, errors: np.ndarray) -> float:
        """In how many towns the mean of all answers, rounded, is the true count."""
        return float(np.mean(np.abs(errors[-1]) < 0.5))


def means(answers: np.ndarray) -> np.ndarray:
    """The error of the mean of the first k answers, for each k."""
    return np.cumsum(answers, axis=0) / np.arange(1, len(answers) + 1)[:, None] - SMOKERS


def attack(towns: int = 200, repeats: int = 10_000, asked: int = 200) -> Figures:
    """Average `repeats` naive answers, `asked` answers of dpsql, and with replay off as many as the budget allows."""
    people = pd.DataFrame({"town": np.repeat(np.arange(towns), SMOKERS), "smoker": 1})
    rng = np.random.default_rng(1)
    naive = means(SMOKERS + rng.laplace(0, 1 / EPSILON, (repeats, towns)))
    with behind(people, QUESTION, BUDGET) as db:
        same = np.array([by_town(db, "count(*)", EPSILON, "smoker = 1") for _ in range(asked)])
        charged = db.budget().dataset.spent.epsilon
    fresh, refused = until_refused(people)
    return Figures(naive, means(same), float(charged), means(fresh), refused)


def until_refused(people: pd.DataFrame) -> tuple[np.ndarray, str]:
    """With replay off: all answers until the budget is spent, and the first line of the refusal."""
    answers = []
    with behind(people, QUESTION, BUDGET, replay=False) as db:
        while True:
            try:
                answers.append(by_town(db, "count(*)", EPSILON, "smoker = 1"))
            except dpsql.BudgetExceeded as refusal:
                return np.array(answers), str(refusal).splitlines()[0]


def draw(figures: Figures, axes: Any) -> None:
    """Mean error against the number of answers."""
    lines = (("naive", figures.naive, NAIVE, "-"), ("dpsql", figures.replayed, OURS, "-"))
    for label, errors, colour, style in (*lines, ("dpsql, replay off", figures.fresh, OURS, "--")):
        axes.loglog(np.arange(1, len(errors) + 1), np.mean(np.abs(errors), axis=1), style, color=colour, label=label)
    axes.plot(len(figures.fresh), np.mean(np.abs(figures.fresh[-1])), "x", color=OURS, markersize=9, mew=2)
    axes.axhline(0.5, color=BOUND, linestyle=":", label="exact when rounded")
    axes.set(xlabel="answers averaged", ylabel="mean error of the count", title="Averaging a repeated count, ε = 0.1")
    axes.legend()


def main() -> None:
    """Attack, print, draw."""
    figures = attack()
    heading("Averaging a repeated count, ε = 0.1 for each answer")
    show("mean error after one answer", *(f"{np.mean(np.abs(e[0])):.1f}" for e in (figures.naive, figures.replayed)))
    show("answers averaged", len(figures.naive), len(figures.replayed))
    show("mean error then", *(f"{np.mean(np.abs(e[-1])):.2f}" for e in (figures.naive, figures.replayed)))
    show(
        "towns whose count the attacker knows", *(f"{figures.exact(e):.1%}" for e in (figures.naive, figures.replayed))
    )
    show("charged", "nothing", f"ε = {figures.charged:g}")
    show("replay off: answers until the budget ends", "", len(figures.fresh))
    show("replay off: mean error then", "", f"{np.mean(np.abs(figures.fresh[-1])):.2f}")
    show("replay off: towns whose count the attacker knows", "", f"{figures.exact(figures.fresh):.1%}")
    print(f"  the next one: {figures.refused}")
    plot("averaging", lambda axes: draw(figures, axes))


if __name__ == "__main__":
    main()
