"""Single totals of TPC-H with nothing declared but the unit: `python tests/bench/tpch_totals.py --runs 20`.

These are the queries of the R2T paper (SIGMOD 2022) that have one protected table: counts and sums over joins, without
GROUP BY and without conditions, at epsilon = 0.8 and delta = 0, beside the errors that R2T reports for them at scale 1.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from measure import progress

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "tpch"))

from tpch_data import make_database, open_plain

import dpsql
from dpsql.interfaces.steward_tasks import check

EPSILON = 0.8
BUDGET = {"epsilon": 1, "delta": 0}


@dataclass(frozen=True, slots=True)
class Total:
    """A query, whose it protects, and the relative error that R2T has."""

    name: str
    protects: str
    sql: str
    r2t: float


CUSTOMERS: dict[str, Any] = {
    "customer": {"unit": "c_custkey", "columns": {"c_custkey": {}}},
    "orders": {"unit": {"o_custkey": "customer.c_custkey"}, "columns": {"o_orderkey": {}}},
    "lineitem": {"unit": {"l_orderkey": "orders.o_orderkey"}, "columns": {"l_quantity": {}}},
}
SUPPLIERS: dict[str, Any] = {
    "supplier": {"unit": "s_suppkey", "columns": {"s_suppkey": {}}},
    "partsupp": {
        "unit": {"ps_suppkey": "supplier.s_suppkey"},
        "unique": ["ps_partkey", "ps_suppkey"],
        "columns": {"ps_partkey": {}, "ps_supplycost": {}, "ps_availqty": {}},
    },
    "lineitem": {"unit": {"l_suppkey": "supplier.s_suppkey"}, "columns": {"l_partkey": {}}},
}
OWNED = {"customers": CUSTOMERS, "suppliers": SUPPLIERS}
ORDERED = "customer JOIN orders ON o_custkey = c_custkey JOIN lineitem ON l_orderkey = o_orderkey"
SHIPPED = "partsupp JOIN lineitem ON l_suppkey = ps_suppkey AND l_partkey = ps_partkey"
TOTALS = (
    Total("Q3", "customers", f"SELECT count(*) FROM {ORDERED}", 0.0025),
    Total("Q10", "customers", f"SELECT count(*) FROM {ORDERED}", 0.0017),
    Total("Q11", "suppliers", "SELECT sum(ps_supplycost * ps_availqty) FROM partsupp", 0.018),
    Total("Q12", "customers", "SELECT count(*) FROM orders JOIN lineitem ON l_orderkey = o_orderkey", 0.00023),
    Total("Q18", "customers", f"SELECT sum(l_quantity) FROM {ORDERED}", 0.0013),
    Total("Q20", "suppliers", f"SELECT count(*) FROM {SHIPPED}", 0.0058),
)


def errors(database: Path, total: Total, runs: int, *, mechanism: str) -> list[float]:
    """The relative error of each run, each with an account of its own, what it searched for first included."""
    with open_plain(database) as plain:
        truth = float(plain.sql(total.sql).fetchall()[0][0])
    budget = BUDGET if mechanism == "laplace" else {"epsilon": 1, "delta": 1e-6}
    policy = {"dataset": "tpch", "search": True, "budget": budget, "tables": OWNED[total.protects]}
    made = []
    for _ in range(runs):
        with TemporaryDirectory() as scratch:
            ledger = Path(scratch) / "tpch.ledger"
            with dpsql.connect(database, policy=policy, ledger=ledger, steward=True) as steward:
                check(steward)
            with dpsql.connect(database, policy=policy, ledger=ledger, analyst="ana") as db:
                answer = db.query(total.sql, epsilon=EPSILON, mechanism=mechanism)
                made.append(abs(float(answer.fetchall()[0][0]) - truth) / truth)
    return made


def main() -> int:
    """Print a line for each; 1 if one is above what R2T has."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--data", type=Path, default=Path(".tpch"))
    parser.add_argument("--mechanism", choices=("laplace", "gaussian"), default="laplace")
    asked = parser.parse_args()
    database, worse = make_database(asked.data, asked.scale), 0
    print(f"{'':5}{'protects':12}{'median':>9}{'worst':>9}{'R2T':>9}")
    for total in TOTALS:
        progress(f"totals: {total.name}")
        made = errors(database, total, asked.runs, mechanism=asked.mechanism)
        worse += median(made) > total.r2t
        shown = "".join(f"{each:>9.3%}" for each in (median(made), max(made), total.r2t))
        print(f"{total.name:5}{total.protects:12}{shown}", flush=True)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
