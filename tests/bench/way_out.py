"""Answers that are mostly noise, up to forty of them: the advice given, followed, and the error then.

`python tests/bench/way_out.py` asks questions of a made-up clinic (5,000 patients, 20,000 visits; ε = 8, δ = 1e-6) at
small prices. `before` and `after` are the median errors of the numbers against the exact answer, in percent of it.
Fewer groups are made by merging neighbouring values of the key.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np
import pandas as pd

import dpsql
from dpsql.answers.result import Result
from dpsql.answers.way_out import WayOut

PATIENTS, VISITS = 5_000, 20_000
KEYS = {"day": 365, "ward": 40, "age": 100, "doctor": 200}
MEASURES = {
    "count(*)": "",
    "sum(cost)": "",
    "count(DISTINCT patient)": "",
    "avg(cost)": "",
    "count(*) FILTER (WHERE urgent)": "",
}
PRICES = ("0.02%", "0.2%")


@dataclass(frozen=True, slots=True)
class Line:
    """One answer: what was asked, what was advised, and the errors before and after."""

    asked: str
    price: str
    way: WayOut
    before: float
    after: float | None


def clinic() -> duckdb.DuckDBPyConnection:
    """The data: some patients come often, some wards are large."""
    rng = np.random.default_rng(7)
    heavy = rng.geometric(0.25, PATIENTS)
    patient = np.repeat(np.arange(PATIENTS), heavy)[:VISITS]
    n = len(patient)
    visits = pd.DataFrame(
        {
            "patient": patient,
            "day": rng.integers(0, KEYS["day"], n),
            "ward": (KEYS["ward"] * rng.random(n) ** 1.5).astype(int),
            "age": np.clip(rng.normal(50, 20, PATIENTS), 0, 99).astype(int)[patient],
            "doctor": rng.integers(0, KEYS["doctor"], n),
            "cost": np.round(np.clip(rng.lognormal(4, 0.7, n), 0, 1_000), 2),
            "urgent": rng.random(n) < 0.1,
        }
    )
    database = duckdb.connect()
    database.register("frame", visits)
    database.execute("CREATE TABLE visits AS SELECT * FROM frame")
    return database


def policy() -> dict[str, object]:
    """What the steward declares."""
    columns = {key: {"min": 0, "max": size - 1, "nulls": False} for key, size in KEYS.items()}
    columns |= {"cost": {"min": 0, "max": 1_000, "nulls": False}, "urgent": {"nulls": False}}  # type: ignore[dict-item]
    return {
        "dataset": "clinic", "budget": {"epsilon": 8, "delta": 1e-6}, "defaults": {"delta": 1e-7},
        "tables": {"visits": {"unit": "patient", "columns": columns}},
    }  # fmt: skip


def question(measure: str, key: str, width: int = 1) -> str:
    """A measure by a key, of which so many neighbouring values are one group."""
    grouped = key if width == 1 else f"{key} // {width}"
    return f"SELECT {grouped} AS k, {measure} AS v FROM visits GROUP BY {grouped}"


def lines(most: int) -> Iterator[Line]:
    """Answers that are mostly noise, each over a ledger of its own."""
    found = 0
    for price in PRICES:
        for key in KEYS:
            for measure in MEASURES:
                if found < most and (line := followed(measure, key, price)) is not None:
                    found += 1
                    yield line


def followed(measure: str, key: str, price: str) -> Line | None:
    """Ask, take the advice, and compare; None if the answer is not mostly noise."""
    with dpsql.connect(data := clinic(), policy=policy(), ledger=":memory:", analyst=None, steward=True) as db:
        first = db.query(question(measure, key), price=price)
        way = first.way_out
        if way is None:
            return None
        before, after = error(first, data, question(measure, key)), None
        if way.groups is not None:
            sql = question(measure, key, -(-KEYS[key] // way.groups))
            after = error(db.query(sql, price=price), data, sql)
        elif way.price is not None:
            after = error(db.query(question(measure, key), price=way.price), data, question(measure, key))
        return Line(f"{measure} by {key}", price, way, before, after)


def error(answer: Result, data: duckdb.DuckDBPyConnection, sql: str) -> float:
    """The median error of the numbers of an answer, as a part of the exact ones."""
    exact = dict(data.execute(sql).fetchall())
    errors = [abs((v or 0) - exact[k]) / abs(exact[k]) for k, v in answer.fetchall() if exact.get(k)]
    return float(np.median(errors))


def main() -> int:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--answers", type=int, default=40)
    print(f"{'asked':<42}{'price':>7}{'before':>9}  {'advice':<22}{'after':>8}")
    for each in lines(options.parse_args().answers):
        way = each.way
        advice = f"{way.groups} groups" if way.groups else f"price {way.price}" if way.price else "more people"
        after = "" if each.after is None else f"{each.after:.1%}"
        also = f" or {way.price}" if way.groups and way.price else ""
        print(f"{each.asked:<42}{each.price:>7}{each.before:>9.0%}  {advice + also:<22}{after:>8}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
