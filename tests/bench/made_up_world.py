"""What a made-up world of `useful.py` is: tables, what a person fills into the drafted policy, and questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
import pandas as pd
from hindsight import Output
from numpy.typing import NDArray

SHAPES = ("constant", "geometric", "lognormal", "pareto", "bimodal", "zipf")
"""Of the number of rows per unit."""
Columns = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Question:
    """Plain SQL, and the same once more for the hindsight: rows, whose they are, keys and what each unit adds.

    Without `outputs` there is no clip in hindsight (a median chooses a value): `chosen` names its columns.
    """

    name: str
    sql: str
    source: str = ""
    unit: str = ""
    keys: tuple[str, ...] = ()
    statistics: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, Output] = field(default_factory=dict)
    chosen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class World:
    """Tables (with their own CREATE TABLE where the database has constraints), and what is asked about them.

    `filled`: what a person writes into the draft, table by table, from what is known about the subject: round and
    generous bounds, and the short lists of codes. No cap on rows or groups. `left_out`: the tables that the draft
    leaves to the person, as they are declared.
    """

    name: str
    tables: Mapping[str, pd.DataFrame]
    filled: Mapping[str, Columns]
    questions: tuple[Question, ...]
    schemas: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def database(self) -> duckdb.DuckDBPyConnection:
        """The tables in memory."""
        connection = duckdb.connect(":memory:")
        for name, frame in self.tables.items():
            connection.register("_made", frame)
            connection.execute(self.schemas.get(name, f"CREATE TABLE {name} AS FROM _made LIMIT 0"))
            connection.execute(f"INSERT INTO {name} BY NAME FROM _made")
            connection.unregister("_made")
        return connection


def rows_per_unit(random: np.random.Generator, shape: str, units: int, mean: float) -> NDArray[np.int64]:
    """How many rows each unit has; `bimodal`: 3% have 25 times as many as the others, `zipf`: up to 1,000 times."""
    match shape:
        case "constant":
            drawn = np.full(units, mean)
        case "geometric":
            drawn = random.geometric(1 / mean, units).astype(np.float64)
        case "lognormal":
            drawn = random.lognormal(np.log(mean) - 0.5, 1.0, units)
        case "pareto":
            drawn = pareto(random, units, 3.0, mean * 2 / 3)
        case "bimodal":
            drawn = np.where(random.random(units) < 0.03, 25 * mean, random.geometric(1 / mean, units))
        case "zipf":
            drawn = np.minimum(random.zipf(1.7, units), 1_000) * mean / 5
        case _:
            raise ValueError(f"there is no shape {shape}")
    number: NDArray[np.int64] = np.maximum(1, np.rint(drawn)).astype(np.int64)
    return number


def zipf(random: np.random.Generator, values: list[str], size: int, power: float = 1.0) -> NDArray[np.object_]:
    """Values of which the first are common and the last are rare."""
    weights = np.arange(1, len(values) + 1, dtype=np.float64) ** -power
    return random.choice(np.array(values, dtype=object), size, p=weights / weights.sum())


def pareto(random: np.random.Generator, size: int, shape: float, least: float) -> NDArray[np.float64]:
    """P(X > x) = (least / x)^shape."""
    drawn: NDArray[np.float64] = least * (1 + random.pareto(shape, size))
    return drawn


def some_missing(random: np.random.Generator, values: Any, share: float) -> pd.Series[Any]:
    """The values, a share of them NULL."""
    series = pd.Series(values)
    return series.mask(random.random(len(series)) < share)


def days(random: np.random.Generator, first: str, number: int, size: int) -> pd.Series[Any]:
    """Days from the first on, fewer at the beginning, and fewer on every sixth and seventh day."""
    weights = np.linspace(0.7, 1.3, number) * np.where(np.arange(number) % 7 >= 5, 0.6, 1.0)
    return pd.Series(pd.Timestamp(first) + pd.to_timedelta(random.choice(number, size, p=weights / weights.sum()), "D"))
