"""Five statistics by 1,000 categories, at unit level, without a tuned cap: `python tests/bench/categories.py [--runs 3]`.

A million rows of 50,000 units, ε = 1, δ = 1e-8; mean relative error over the categories, where a category that is not
shown is off by 100%, beside the best clip in hindsight at the same price. Three policies: nothing declared but the unit;
bounds and categories declared, with the default caps; and with the cap that suits the sum (10 rows of each unit).
"""

from __future__ import annotations

import argparse
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
from hindsight import Ratio, Spread, Total
from made_up_world import Question
from measure import progress
from useful import Asked, ask, hindsight_errors, truth_of
from workload import orders, policy

from dpsql.mechanisms.convert import rho_for

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
