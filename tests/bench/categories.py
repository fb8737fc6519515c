"""Five statistics by 1,000 categories, at unit level, without a tuned cap: `python tests/bench/categories.py [--runs 3]`.

A million rows of 50,000 units, ε = 1, δ = 1e-8; mean relative error over the categories, where a category that is not
shown is off by 100%, beside the best clip in hindsight at the same price. Three policies: nothing declared but the unit;
bounds and categories declared, with the default caps; and with the cap that suits the sum (10 rows of each unit).

Then COUNT(DISTINCT product) by twelve months, of 5,000 units, ε = 0.5: by the default caps, by a limit that is searched
for, and by the best limit in hindsight at the whole price. It depends on how many units have a product in common.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import duckdb
import numpy as np
import pandas as pd
from hindsight import Ratio, Spread, Total
from made_up_world import Question
from measure import progress
from numpy.typing import NDArray
from useful import Asked, ask, hindsight_errors, truth_of
from workload import orders, policy

from dpsql.mechanisms.zcdp_conversion import rho_for

EPSILON, DELTA = 1.0, 1e-8
MOMENTS = {"s": "sum(amount)", "q": "sum(amount * amount)", "n": "count(amount)"}
KINDS: dict[str, tuple[dict[str, str], Total | Ratio | Spread]] = {
    "sum(amount)": ({"s": "sum(amount)"}, Total("s")),
    "count(*)": ({"n": "count(*)"}, Total("n")),
    "count(DISTINCT customer_id)": ({"n": "count(DISTINCT customer_id)"}, Total("n")),
    "avg(amount)": (MOMENTS, Ratio("s", "n")),
    "stddev(amount)": (MOMENTS, Spread("s", "q", "n")),
}


def questions() -> list[Question]:
    """One for each statistic."""
    return [
        Question(
            name,
            f"SELECT category, {name} AS v FROM orders GROUP BY category ORDER BY category",
            "orders",
            "customer_id",
            ("category",),
            statistics,
            {"v": output},
        )
        for name, (statistics, output) in KINDS.items()
    ]


def policies() -> dict[str, dict[str, Any]]:
    """From nothing declared to a good cap."""
    tuned = policy("customer_id")
    table = tuned["tables"]["orders"]
    default = {key: value for key, value in table.items() if key != "max_rows_per_unit"}
    bare = {"unit": "customer_id", "columns": {"customer_id": {}, "amount": {}, "category": {}}}
    named = {"columns": table["columns"] | {"customer_id": {}}}
    return {
        "only the unit": tuned | {"tables": {"orders": bare}},
        "default caps": tuned | {"tables": {"orders": default | named}},
        "10 rows a unit": tuned | {"tables": {"orders": table | named}},
    }


SHOPPERS, MONTHS, LISTED = 5_000, 12, 200
ROWS: dict[str, Callable[[np.random.Generator], NDArray[np.int64]]] = {
    "geometric, 8": lambda rng: rng.geometric(1 / 8, SHOPPERS),
    "Pareto 2.5, 10": lambda rng: np.minimum(1 + rng.pareto(2.5, SHOPPERS) * 13, 2_000).astype(np.int64),
}
PRODUCTS: dict[str, Callable[[np.random.Generator, int], NDArray[np.int64]]] = {
    "one of each": lambda _, size: np.arange(size),
    "of 20,000": lambda rng, size: rng.integers(0, 20_000, size),
    "Zipf 1.3": lambda rng, size: np.minimum(rng.zipf(1.3, size), 10**6),
    "of 200": lambda rng, size: rng.integers(0, LISTED, size),
    "of 200, listed": lambda rng, size: rng.integers(0, LISTED, size),
    "Zipf 1.3 of 200, listed": lambda rng, size: rng.zipf(1.3, size) % LISTED,
}


def different_values(runs: int) -> None:
    """Print the second table."""
    print(f"\nmean relative error, ε = 0.5, δ = {DELTA:g}, runs {runs}, and how many of the 95% bars hold the truth")
    print(f"{'count(DISTINCT product) by month':50}{'default caps':>20}{'searched':>20}{'in hindsight':>14}")
    question = Question(
        "months",
        "SELECT month, count(DISTINCT product) AS v FROM orders GROUP BY month",
        "orders",
        "customer",
        ("month",),
        {},
        {"v": Total("v")},
    )
    columns = {"customer": {}, "month": {"min": 1, "max": MONTHS}}
    declared = {"dataset": "months", "budget": {"epsilon": 100, "delta": 1e-6}}
    for rows, products in product(ROWS, PRODUCTS):
        connection = _shop(rows, products)
        listed = {"product": {"values": list(range(LISTED))} if "listed" in products else {}}
        table = {"tables": {"orders": {"unit": "customer", "columns": columns | listed}}}
        truth = truth_of(connection, question)
        cells = []
        for search in (False, True):
            asked = [
                ask(connection, {**declared, **table, "search": search}, question, 0.5, DELTA) for _ in range(runs)
            ]
            bars = [(each.cells[cell].bar or (1, 0), value) for each in asked for cell, value in truth.items()]
            held = np.mean([low <= value <= high for (low, high), value in bars])
            cells.append(f"{np.mean([mean_error(each, truth) for each in asked]):.1%} ({held:.0%})")
        best = _best_values(connection, float(rho_for(Fraction(1, 2), Fraction(DELTA))))
        print(f"{f'rows {rows}; products {products}':50}{cells[0]:>20}{cells[1]:>20}{best:>14.1%}", flush=True)


def _shop(rows: str, products: str) -> duckdb.DuckDBPyConnection:
    rng = np.random.default_rng(5)
    customer = np.repeat(np.arange(SHOPPERS), ROWS[rows](rng))
    month, bought = rng.integers(1, MONTHS + 1, len(customer)), PRODUCTS[products](rng, len(customer))
    frame = pd.DataFrame({"customer": customer, "month": month, "product": bought})  # noqa: F841
    connection = duckdb.connect()
    connection.execute("CREATE TABLE orders AS SELECT * FROM frame")
    return connection


def _best_values(connection: duckdb.DuckDBPyConnection, rho: float) -> float:
    """The mean relative error of the best norm C: what is left out, and the mean size of the noise."""
    connection.execute(
        "CREATE TEMP TABLE least AS SELECT month, product, min(square) AS square FROM (SELECT *, sum(2 * i - 1) OVER "
        "(PARTITION BY customer ORDER BY h ROWS UNBOUNDED PRECEDING) AS square FROM (SELECT *, row_number() OVER "
        "(PARTITION BY customer, month ORDER BY h) AS i FROM (SELECT DISTINCT customer, month, product, "
        "hash(customer, month, product) AS h FROM orders))) GROUP BY month, product"
    )
    errors = []
    for octave in range(0, 20):
        kept = "SELECT month, count(*), count(*) FILTER (square <= ?) FROM least GROUP BY month"
        found = np.array(connection.execute(kept, [2**octave]).fetchall(), dtype=float)
        noise = np.sqrt(2**octave / (2 * rho))
        drawn = np.random.default_rng(0).standard_normal((200, len(found))) * noise
        errors.append(float(np.mean(np.abs(found[:, 2] + drawn - found[:, 1]) / found[:, 1])))
    return min(errors)


def mean_error(asked: Asked, truth: dict[Any, float]) -> float:
    """The mean relative error over the truth's cells."""
    parts = [abs(asked.cells[c].value - v) / abs(v) if c in asked.cells else 1.0 for c, v in truth.items()]
    return float(np.mean(np.nan_to_num(parts, nan=1.0)))


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description="Five statistics by 1,000 categories.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=1, help="how often each question is asked")
    parser.add_argument("--epsilon", type=float, default=EPSILON)
    arguments = parser.parse_args()
    progress(f"categories: making {arguments.rows:,} rows")
    connection = orders(arguments.rows, spoiled=False)
    declared = policies()
    print(f"mean relative error, ε = {arguments.epsilon:g}, δ = {DELTA:g}, runs {arguments.runs}")
    print(f"{'by 1,000 categories':30}" + "".join(f"{name:>18}" for name in declared) + f"{'in hindsight':>18}")
    refusals = []
    for question in questions():
        cells, said = _line(connection, question, declared, arguments)
        print(f"{question.name:30}" + "".join(f"{cell:>18}" for cell in cells), flush=True)
        refusals += said
    print("\n".join(refusals))
    different_values(max(3, arguments.runs))


def _line(
    connection: duckdb.DuckDBPyConnection, question: Question, declared: dict[str, Any], arguments: argparse.Namespace
) -> tuple[list[str], list[str]]:
    """The errors of one statistic, the best clip's last, and what was refused."""
    truth = truth_of(connection, question)
    cells, refusals = [], []
    for name, chosen in declared.items():
        answers = [
            ask(connection, {**chosen, "search": True}, question, arguments.epsilon, DELTA)
            for _ in range(arguments.runs)
        ]
        refused = next((each.refusal for each in answers if each.refusal), "")
        cells.append("refused" if refused else f"{np.mean([mean_error(each, truth) for each in answers]):.1%}")
        refusals += [f"{question.name}, {name}: {refused}"] if refused else []
    rho = float(rho_for(Fraction(arguments.epsilon), Fraction(DELTA)))
    draws = hindsight_errors(connection, question, truth, rho)
    return [*cells, f"{np.mean(list(draws.values())):.1%}"], refusals


if __name__ == "__main__":
    main()
