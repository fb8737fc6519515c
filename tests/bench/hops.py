"""Through how many files, and how many classes of its own, a query runs: a mirror for those who change the flow.

    python tests/bench/hops.py

A profiler notes each function of dpsql that is entered, and the class of each value of dpsql that is made on the way
(the classes whose `__init__` or `__new__` runs, or that a function returns). What is imported, or computed once for a
session, is done before: each query is asked once in another form.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pandas as pd

import dpsql

ROOT = str(Path(dpsql.__file__).parent) + "/"
POLICY = {
    "dataset": "shop",
    "budget": {"epsilon": 1000, "delta": 1e-6},
    "tables": {
        "orders": {
            "unit": "customer",
            "max_rows_per_unit": 20,
            "columns": {"amount": {"min": 0, "max": 500}, "region": {"values": ["north", "south"]}},
        }
    },
}
FIRST = "SELECT region, sum(amount) AS total FROM orders GROUP BY region ORDER BY total"
QUERY = "SELECT region, avg(amount) AS mean FROM orders GROUP BY region ORDER BY mean"
OTHER = "SELECT region, avg(amount) AS mean FROM orders WHERE amount > 10 GROUP BY region ORDER BY mean"


class Hops:
    """The files entered and the classes of values made, while it is switched on."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.types: set[str] = set()

    def __call__(self, frame: FrameType, event: str, value: Any) -> None:
        """As `sys.setprofile` wants it."""
        file = frame.f_code.co_filename
        if not file.startswith(ROOT):
            return
        if event == "call":
            self.files.add(file.removeprefix(ROOT))
        elif event == "return" and type(value).__module__.startswith("dpsql."):
            self.types.add(type(value).__qualname__)

    def during(self, act: Callable[[], object]) -> Hops:
        """Itself, after the act, in all threads that start meanwhile."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            act()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
        return self


def shop() -> dpsql.Connection:
    """A table with a few hundred orders."""
    rows = pd.DataFrame({"customer": [i % 97 for i in range(400)], "amount": [float(i % 300) for i in range(400)],
                         "region": ["north", "south"] * 200})  # fmt: skip
    return dpsql.connect({"orders": rows}, policy=POLICY, ledger=":memory:")


def of_query() -> Hops:
    """One GROUP BY query, from its text to its rows."""
    with shop() as db:
        db.query(FIRST, epsilon=1.0)
        return Hops().during(lambda: db.query(QUERY, epsilon=1.0).fetchall())


def of_explain() -> Hops:
    """The same as `explain`, as text."""
    with shop() as db:
        str(db.explain(FIRST))
        return Hops().during(lambda: str(db.explain(QUERY)))


def main() -> None:
    """Print the figures, and with `--list` the names."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--list", action="store_true")
    wanted = options.parse_args()
    for name, hops in (("one GROUP BY query", of_query()), ("one explain", of_explain())):
        print(f"{name}: {len(hops.files)} files, {len(hops.types)} classes of dpsql")
        if wanted.list:
            print(*sorted(hops.files), *sorted(hops.types), sep="\n")


if __name__ == "__main__":
    main()
