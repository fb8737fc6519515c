"""Reconstruction: too many counts that are too exact give the whole table away.

    python examples/attacks/reconstruction.py          (needs scipy)

Exponential adversary: ask for the count of every subset of n people, and rule out each of the 2^n tables that
disagrees with an answer by more than the noise E. Every table that is left differs from the truth in at most 4E
people. Linear programming does the same for more people with 4n random subsets: it works while the noise is well
below √n. dpsql answers all subsets in one query. One person stands in half of them, so the noise that hides a
person is far above √n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from common import BOUND, NAIVE, OURS, heading, plot, show
from scipy.optimize import linprog

import dpsql

NOISES = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Standard deviations of the naive noise, in units of √n."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Shares of the people whose secret is recovered."""

    exhaustive: dict[int, float]
    """Naive, by the largest error E of an answer."""
    exhaustive_ours: float
    linear: dict[int, dict[float, float]]
    """Naive, by n and by noise in units of √n."""
    linear_ours: dict[int, tuple[float, float]]
    """With dpsql, by n: its noise in units of √n, and the share."""


def every_subset(n: int) -> np.ndarray:
    """All 2^n subsets of n people, one in a row."""
    return (np.arange(2**n)[:, None] >> np.arange(n)) & 1


def survivor(answers: np.ndarray, n: int) -> np.ndarray:
    """The table whose worst disagreement with the answers is least: not ruled out if any table is left."""
    tables = every_subset(n)
    worst = np.abs(tables @ every_subset(n).T - answers).max(axis=1)
    best: np.ndarray = tables[np.argmin(worst)]
    return best


def nearest(subsets: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """The table, rounded, whose counts are nearest to the answers in total error: a linear program."""
    m, n = subsets.shape
    slack = np.eye(m)
    disagree = np.block([[subsets, -slack], [-subsets, -slack]])
    costs, limits = np.r_[np.zeros(n), np.ones(m)], [(0, 1)] * n + [(0, None)] * m
    found = linprog(costs, A_ub=disagree, b_ub=np.r_[answers, -answers], bounds=limits, method="highs")
    rounded: np.ndarray = (found.x[:n] > 0.5).astype(int)
    return rounded


def private_answers(secret: np.ndarray, subsets: np.ndarray, epsilon: float) -> np.ndarray:
    """The counts of all subsets by dpsql: the subsets are a public table, and joined."""
    subset, person = np.nonzero(subsets)
    tables = {
        "people": pd.DataFrame({"id": np.arange(len(secret)), "secret": secret}),
        "subsets": pd.DataFrame({"subset": subset, "id": person}),
    }
    often = int(subsets.sum(axis=0).max())
    private = {"unit": "id", "max_rows_per_unit": often, "columns": {"id": {"min": 0}, "secret": {"min": 0, "max": 1}}}
    policy = {
        "dataset": "people",
        "budget": {"epsilon": epsilon},
        "search": False,  # a found clip would cut the counts instead of hiding them in noise
        "tables": {"people": private, "subsets": {"public": True}},
    }
    sql = """SELECT s.subset, count(*) AS answer FROM people AS p JOIN subsets AS s ON p.id = s.id
             WHERE p.secret = 1 GROUP BY s.subset ORDER BY s.subset"""
    with dpsql.connect(tables, policy=policy, ledger=":memory:", analyst="eve") as db:
        found = db.query(sql, epsilon=epsilon).df()
    return found.set_index("subset")["answer"].reindex(range(len(subsets)), fill_value=0).to_numpy(dtype=float)


def attack(small: int = 10, large: tuple[int, ...] = (64, 128), runs: int = 5, epsilon: float = 1.0) -> Figures:
    """Reconstruct small tables by exhaustion and larger ones by linear programming, naive and with dpsql."""
    rng = np.random.default_rng(3)
    secrets = rng.integers(0, 2, (runs, small))
    exhaustive = {e: np.mean([ruled_out(secret, e, rng) for secret in secrets]) for e in range(4)}
    ours = [survivor(private_answers(s, every_subset(small), epsilon), small) == s for s in secrets]
    linear = {n: {noise: solved(n, noise, runs, rng) for noise in NOISES} for n in large}
    linear_ours = {n: solved_private(n, epsilon, runs, rng) for n in large}
    return Figures({e: float(v) for e, v in exhaustive.items()}, float(np.mean(ours)), linear, linear_ours)


def ruled_out(secret: np.ndarray, error: int, rng: np.random.Generator) -> float:
    """The share recovered by exhaustion from counts that are off by at most `error`."""
    n = len(secret)
    answers = every_subset(n) @ secret + rng.integers(-error, error + 1, 2**n)
    return float(np.mean(survivor(answers, n) == secret))


def solved(n: int, noise: float, runs: int, rng: np.random.Generator) -> float:
    """The share recovered by linear programming from counts with normal noise."""
    right = []
    for _ in range(runs):
        secret, subsets = rng.integers(0, 2, n), rng.integers(0, 2, (4 * n, n))
        answers = subsets @ secret + rng.normal(0, noise * math.sqrt(n), 4 * n)
        right.append(np.mean(nearest(subsets, answers) == secret))
    return float(np.mean(right))


def solved_private(n: int, epsilon: float, runs: int, rng: np.random.Generator) -> tuple[float, float]:
    """The same from dpsql's counts: the noise, as it was seen, and the share."""
    right, errors = [], []
    for _ in range(runs):
        secret, subsets = rng.integers(0, 2, n), rng.integers(0, 2, (4 * n, n))
        answers = private_answers(secret, subsets, epsilon)
        right.append(np.mean(nearest(subsets, answers) == secret))
        errors.append(np.std(answers - subsets @ secret))
    return float(np.mean(errors)) / math.sqrt(n), float(np.mean(right))


def draw(figures: Figures, axes: Any) -> None:
    """The share recovered against the noise: it falls around √n."""
    for (n, shares), style in zip(figures.linear.items(), ("o-", "s--"), strict=False):
        axes.plot(list(shares), list(shares.values()), style, color=NAIVE, label=f"naive, n = {n}")
        axes.plot(*figures.linear_ours[n], style[0], color=OURS, markersize=8, label=f"dpsql, n = {n}, ε = 1")
    axes.axvline(1, color=BOUND, linestyle=":", label="noise = √n")
    axes.axhline(0.5, color=BOUND, linewidth=0.7)
    axes.set_xscale("symlog", linthresh=0.125)
    axes.set_xlim(-0.02, 60)
    axes.set(xlabel="noise of each count (standard deviation / √n)", ylabel="secrets recovered", ylim=(0.4, 1.03))
    axes.set_title("Reconstruction by linear programming from 4n subset counts", fontsize=11)
    axes.legend(fontsize=8)


def main() -> None:
    """Attack, print, draw."""
    figures = attack()
    heading("Reconstruction: secrets recovered (a coin: 50%), dpsql at ε = 1 for all counts together")
    for error, share in figures.exhaustive.items():
        show(
            f"all 1,024 subsets of 10 people, answers within ± {error}",
            f"{share:.0%}",
            "" if error else f"{figures.exhaustive_ours:.0%}",
        )
    for n, shares in figures.linear.items():
        for noise, share in shares.items():
            show(f"{4 * n} subsets of {n} people, noise {noise:g} √n", f"{share:.0%}", "")
        noise, share = figures.linear_ours[n]
        show(f"… dpsql, whose noise is {noise:.0f} √n", "", f"{share:.0%}")
    plot("reconstruction", lambda axes: draw(figures, axes))


if __name__ == "__main__":
    main()
