"""Linkage: a list of voters names the patients of an anonymous table.

    python examples/attacks/linkage.py

Without names, most patients are still alone with their zip code, age and sex: the voter list has these, and a name.
A k-anonymous table makes them coarse until each combination has at least k people; but where all k share a
condition, it is known of each of them (homogeneity). dpsql never releases rows. Counts by the same coarse groups
are noise at the price that the steward allows, while the number of patients with each condition stays useful.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from common import NAIVE, OURS, heading, plot, show

import dpsql

K, EPSILON = 4, 0.2
CONDITIONS = ("cancer", "heart", "infection", "none")


@dataclass(frozen=True, slots=True)
class Figures:
    """Shares of the patients; claims are what the attacker takes as proved."""

    named: float
    claimed: tuple[float, float]
    claims_right: tuple[float, float]
    counts: pd.DataFrame
    refusal: str


def patients(people: int) -> pd.DataFrame:
    """Made-up patients, whose condition goes with the place and the age."""
    rng = np.random.default_rng(8)
    zips, age = rng.integers(0, 100, people), rng.integers(20, 80, people)
    habit = (zips // 10 * 7 + age // 10 * 3) % 4
    condition = np.where(rng.random(people) < 0.85, habit, rng.integers(0, 4, people))
    return pd.DataFrame(
        {"zip": zips, "age": age, "sex": rng.integers(0, 2, people), "condition": np.array(CONDITIONS)[condition]}
    )


def voters(table: pd.DataFrame) -> pd.DataFrame:
    """The public list: a name, and the three columns that both tables have."""
    return table[["zip", "age", "sex"]].assign(name=[f"voter {i}" for i in range(len(table))])


def k_anonymous(table: pd.DataFrame) -> pd.DataFrame:
    """Two digits of the zip code become one, ages become decades; groups of fewer than K people are left out."""
    coarse = table.assign(zip=table["zip"] // 10, age=table["age"] // 10 * 10)
    return coarse[coarse.groupby(["zip", "age", "sex"])["condition"].transform("size") >= K]


def only_condition(counts: pd.DataFrame) -> pd.Series:
    """The attacker's claim for each group: the condition, where just one has a count of a half or more."""
    seen = counts >= 0.5
    return seen.idxmax(axis=1)[seen.sum(axis=1) == 1]


def attack(people: int = 600) -> Figures:
    """Link the voters with the released tables, and claim what seems proved."""
    table = patients(people)
    listed = voters(table)
    alone = listed.groupby(["zip", "age", "sex"])["name"].transform("size") == 1
    released = k_anonymous(table).groupby(["zip", "age", "sex", "condition"]).size().unstack(fill_value=0)
    counts, totals, refusal = private_counts(table)
    naive, ours = (claims(table, only_condition(seen)) for seen in (released, counts))
    return Figures(float(alone.mean()), (naive[0], ours[0]), (naive[1], ours[1]), totals, refusal)


def claims(table: pd.DataFrame, known: pd.Series) -> tuple[float, float]:
    """The share of patients about whom a condition is claimed, and of right ones among the claims."""
    groups = pd.MultiIndex.from_arrays([table["zip"] // 10, table["age"] // 10 * 10, table["sex"]])
    claimed = known.reindex(groups).to_numpy()
    made = pd.notna(claimed)
    return float(made.mean()), float(np.mean(claimed[made] == table["condition"].to_numpy()[made]))


def private_counts(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """The same groups by dpsql, the counts by condition with their truth and error bars, and what it says to rows."""
    coarse = table.assign(zip=table["zip"] // 10, age=table["age"] // 10 * 10)
    columns = {name: {"values": sorted(coarse[name].unique().tolist()), "nulls": False} for name in coarse}
    columns["condition"] = {"values": list(CONDITIONS), "nulls": False}
    tables = {"patients": {"unit": "row", "columns": columns}}
    policy = {"dataset": "patients", "budget": {"epsilon": 2 * EPSILON}, "tables": tables}
    with dpsql.connect({"patients": coarse}, policy=policy, ledger=":memory:", analyst="eve") as db:
        sql = "SELECT zip, age, sex, condition, count(*) AS n FROM patients GROUP BY zip, age, sex, condition"
        groups = db.query(sql, epsilon=EPSILON).df().set_index(["zip", "age", "sex", "condition"])["n"].unstack()
        answer = db.query("SELECT condition, count(*) AS n FROM patients GROUP BY condition", epsilon=EPSILON)
        try:
            refusal = str(db.query("SELECT zip, age, sex, condition FROM patients"))
        except dpsql.Error as error:
            refusal = str(error).splitlines()[0]
    bars = (
        answer.df()
        .set_index("condition")
        .join(answer.intervals(0.95)[["n_low", "n_high"]].set_index(answer.df()["condition"]))
    )
    return groups, bars.assign(truth=table["condition"].value_counts()), refusal


def draw(figures: Figures, axes: Any) -> None:
    """What is claimed, and how much of that is right; and what an honest analyst gets."""
    at = np.arange(3)
    naive = (figures.named, figures.claimed[0], figures.claims_right[0])
    axes[0].bar(at - 0.2, naive, 0.4, color=NAIVE, label="rows released")
    axes[0].bar(at + 0.2, (0, figures.claimed[1], figures.claims_right[1]), 0.4, color=OURS, label="dpsql, ε = 0.2")
    axes[0].set_xticks(
        at, ["named\n(no names released)", f"condition claimed\n({K}-anonymous)", "right among\nthe claims"]
    )
    axes[0].set(title="The attacker, with a list of voters", ylim=(0, 1.05), ylabel="share")
    axes[0].legend()
    counts = figures.counts
    axes[1].bar(counts.index, counts["truth"], color="#cccccc", label="truth")
    errors = np.abs(counts[["n_low", "n_high"]].to_numpy().T - counts["n"].to_numpy())
    axes[1].errorbar(counts.index, counts["n"], errors, fmt="o", color=OURS, capsize=5, label="dpsql, 95%")
    axes[1].set(title="The honest analyst: patients by condition", ylabel="patients")
    axes[1].legend()


def main() -> None:
    """Attack, print, draw."""
    figures = attack()
    heading("Linkage with a list of voters")
    show("patients named in a table without names", f"{figures.named:.1%}", "no rows")
    show(f"patients whose condition is claimed ({K}-anonymous)", *(f"{share:.1%}" for share in figures.claimed))
    show("right among the claims", *(f"{share:.1%}" for share in figures.claims_right))
    print(f"  rows: {figures.refusal}")
    print(figures.counts.to_string())
    plot("linkage", lambda axes: draw(figures, axes), panels=2)


if __name__ == "__main__":
    main()
