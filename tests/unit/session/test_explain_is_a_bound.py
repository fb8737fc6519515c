"""No query costs more than `explain` said before it, whatever was released earlier: random queries and ledgers.

    python tests/unit/session/test_explain_is_a_bound.py 400

runs more of them.
"""

from __future__ import annotations

import random
import sys
from fractions import Fraction
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.mechanisms.exact_numbers import UNIT, exact

COLUMNS = {"x": {"min": 0, "max": 10}, "y": {"min": -5, "max": 7}, "k": {"values": ["a", "b"]}, "w": {}}
KEYS = ["", "k", "w"]
PARTS = ["count(*)", "sum(x)", "avg(y)", "count(DISTINCT u)", "avg(x)", "sum(y)"]


def connect(delta: float, rows: object) -> dpsql.Connection:
    own = duckdb.connect()
    own.execute(
        "CREATE TABLE t AS SELECT range // 2 AS u, (range % 11)::DOUBLE AS x, (range % 7)::DOUBLE AS y,"
        " ['a', 'b'][1 + range % 2] AS k, 'w' || (range % 3) AS w FROM range(4000)"
    )
    policy = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 50, "delta": delta, "analysts": {"ana": {"epsilon": 40}}},
        "limits": {"epsilon": 8, "delta": delta / 10},
        "defaults": {"epsilon": 0.5, "delta": delta / 100},
        "tables": {"t": {"unit": "u", "max_rows_per_unit": rows, "columns": COLUMNS}},
    }
    return dpsql.connect(own, policy=policy, ledger=":memory:", analyst="ana")


def question(chance: random.Random, delta: float) -> tuple[str, dict[str, Any]]:
    key = chance.choice(KEYS if delta else KEYS[:2])
    parts = ", ".join(chance.sample(PARTS, chance.randint(1, 3)))
    where = chance.choice(["", " WHERE x > 2", " WHERE y < 3"])
    sql = f"SELECT {f'{key}, ' if key else ''}{parts} FROM t{where}{f' GROUP BY {key}' if key else ''}"
    price: dict[str, Any] = {"epsilon": round(chance.uniform(0.05, 1.5), 4)}
    if chance.random() < 0.3:
        price["mechanism"] = "laplace"
    if chance.random() < 0.25 and not key:
        price["accuracy"] = chance.choice(["5%", "20%"])
    return sql, price


def sums(db: dpsql.Connection) -> tuple[int, int, int | None]:
    spent = db.ledger.spent("ana")
    return spent.rho, spent.delta, spent.epsilon


def run(seed: int, queries: int) -> int:
    """How many queries were answered; each charged at most what was explained."""
    chance, answered = random.Random(seed), 0
    delta = chance.choice([0.0, 1e-4, 1e-4])
    with connect(delta, chance.choice([2, 2, "auto"])) as db:
        for _ in range(queries):
            sql, price = question(chance, delta)
            try:
                most, before = db.explain(sql, **price).cost, sums(db)
                cost = db.query(sql, **price).cost
            except dpsql.Error:
                continue
            after = sums(db)
            charged = Fraction(after[0] - before[0]) * UNIT
            assert charged <= exact(most.rho), (sql, price, float(charged), most)
            assert charged <= exact(cost.rho) <= exact(most.rho), (sql, price, cost, most)
            assert cost.epsilon <= most.epsilon * (1 + 1e-12), (sql, price, cost, most)
            answered += 1
    return answered


@pytest.mark.parametrize("seed", range(6))
def test_a_query_never_costs_more_than_explain_said(seed: int) -> None:
    assert run(seed, 8) >= 3


if __name__ == "__main__":
    wanted, done, at = int(sys.argv[1]), 0, 1000
    while done < wanted:
        done, at = done + run(at, 10), at + 1
    print(f"{done} queries, none above what was explained")
