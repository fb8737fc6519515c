"""What the attacks share: towns of made-up people behind dpsql, one line of print, and one way to save a plot.

Each town is an experiment of its own. A person is a row of one town, so that one query by town tries the attack in
all of them, each at the query's full price: an attacker who sees one town has the same answer as one who asks about
it alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd

import dpsql

mpl.use("Agg")
from matplotlib import pyplot as plt

HERE = Path(__file__).parent
NAIVE, OURS, BOUND = "#c0392b", "#1f5fa8", "#777777"
Columns = dict[str, dict[str, Any]]


def behind(people: pd.DataFrame, columns: Columns, epsilon: float, **policy: Any) -> dpsql.Connection:
    """The people behind dpsql, each row a privacy unit, with a budget of epsilon for everything that is ever asked."""
    towns = {"values": sorted(int(t) for t in set(people["town"])), "nulls": False}
    tables = {"people": {"unit": "row", "columns": {"town": towns, **columns}}}
    rules = {"dataset": "towns", "budget": {"epsilon": epsilon}, "tables": tables, **policy}
    return dpsql.connect({"people": people}, policy=rules, ledger=":memory:", analyst="eve")


def by_town(db: dpsql.Connection, what: str, epsilon: float, where: str = "TRUE") -> np.ndarray:
    """One aggregate for each town, in the order of towns."""
    sql = f"SELECT town, {what} AS answer FROM people WHERE {where} GROUP BY town ORDER BY town"
    return db.query(sql, epsilon=epsilon).df()["answer"].to_numpy()


def most(epsilon: float) -> float:
    """How often anyone can tell two equally likely neighbours apart, at best, if the guarantee holds: e^ε/(1+e^ε)."""
    return math.exp(epsilon) / (1 + math.exp(epsilon))


def show(what: str, naive: object, ours: object) -> None:
    """What the attacker learns without and with dpsql."""
    print(f"  {what:<58} {naive!s:>16} {ours!s:>16}")


def heading(title: str) -> None:
    """The head of such lines."""
    print(title)
    show("", "naive", "dpsql")


def plot(name: str, draw: Callable[[Any], None], panels: int = 1) -> None:
    """Save a plot beside the scripts."""
    figure, axes = plt.subplots(1, panels, figsize=(5.4 * panels if panels > 1 else 6.4, 3.8), layout="constrained")
    draw(axes)
    figure.savefig(HERE / f"{name}.png", dpi=90)
    plt.close(figure)
