"""One query 10,000 times, each time spelt in another way: `python tests/bench/replay.py [times]`.

It prints how often the dataset's spent budget moved, and how many replays a second that was, on this machine.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

import duckdb

import dpsql

POLICY = {
    "dataset": "shop",
    "budget": {"epsilon": 10, "delta": 1e-6},
    "defaults": {"epsilon": 0.5, "delta": 1e-8},
    "tables": {
        "orders": {
            "unit": "customer_id",
            "max_rows_per_unit": 20,
            "columns": {
                "amount": {"min": 0, "max": 500, "nulls": False},
                "qty": {"min": 1, "max": 12},
                "status": {"values": ["paid", "open", "lost"]},
            },
        }
    },
}
TRUISMS = ["1=1", "TRUE", "2 > 1", "'x' = 'x'", "NOT FALSE"]


def conditions(draw: random.Random) -> str:
    """`amount > 20 AND qty IN (1, 2, 3) AND (qty < 3 OR status = 'paid')`, in some spelling."""
    listed = [1, 2, 3, *draw.choices([1, 2, 3], k=draw.randrange(3))]
    draw.shuffle(listed)
    either = [
        "qty < 3" if draw.random() < 0.5 else "3 > qty",
        draw.choice(["status = 'paid'", "'paid' = status", "status IN ('paid')"]),
    ]
    draw.shuffle(either)
    parts = [
        draw.choice(["amount > 20", "20 < amount", "NOT amount <= 20", "NOT (20 >= amount)"]),
        f"qty IN ({', '.join(map(str, listed))})",
        f"({' OR '.join(either)})",
        *draw.choices(TRUISMS, k=draw.randrange(3)),
    ]
    draw.shuffle(parts)
    return f" {draw.choice(['AND', 'and'])} ".join(parts)


def variant(draw: random.Random) -> str:
    """The query in some spelling: its text, its aliases, its subqueries, what stands above it, or a part of it."""
    space, name = draw.choice([" ", "  ", "\n", "\t", " /* c */ "]), draw.choice("abcdef")
    source = draw.choice(["orders", f"orders AS {name}", f"(SELECT * FROM orders) {name}",
                          f"(SELECT amount, status, qty, customer_id FROM orders WHERE {conditions(draw)}) {name}"])  # fmt: skip
    columns = draw.sample(["count(*) AS n", "sum(amount) AS s", "avg(amount) AS m"], k=draw.randint(1, 3))
    outer = draw.choice(
        ["", " ORDER BY 1", " ORDER BY 2 DESC LIMIT 2", " HAVING count(*) > 0", " HAVING sum(amount) > 0"]
    )
    group = draw.choice([" AND status = 'paid'", " AND status IN ('open', 'paid')", "", "", ""])
    text = f"SELECT status, {', '.join(columns)} FROM {source} WHERE {conditions(draw)}{group} GROUP BY status{outer}"
    return text.replace(" FROM ", f"{space}FROM{space}") + draw.choice(["", " -- again", ";"])


def main() -> None:
    """Ask, and tell."""
    times, draw = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "shop.duckdb"
        with duckdb.connect(str(database)) as made:
            made.execute(
                "CREATE TABLE orders AS SELECT i % 5000 AS customer_id, (i % 499)::DOUBLE AS amount,"
                " (1 + i % 12)::INTEGER AS qty, ['paid', 'open', 'lost'][1 + i % 3] AS status FROM range(100000) r(i)"
            )
        with dpsql.connect(database, policy=POLICY, ledger=Path(folder) / "shop.ledger", analyst="ana") as db:
            first = (
                "SELECT status, count(*), sum(amount), avg(amount) FROM orders WHERE "
                + conditions(draw)
                + " GROUP BY status"
            )
            db.query(first)
            spent, moved, texts = db.budget().dataset.spent, 1, {first}
            began, worked = time.perf_counter(), time.process_time()
            for _ in range(times - 1):
                text = variant(draw)
                texts.add(text)
                if not db.query(text).replayed:
                    print(f"not replayed: {text}")
                if db.budget().dataset.spent != spent:
                    spent, moved = db.budget().dataset.spent, moved + 1
            taken = time.perf_counter() - began
            print(
                f"{times:,} queries in {len(texts):,} spellings; the dataset's spent budget moved {moved} time(s): {spent}"
            )
            each = (time.process_time() - worked) / (times - 1) * 1e3
            print(f"{(times - 1) / taken:.0f} replays a second; {each:.1f} ms of CPU time each")


if __name__ == "__main__":
    main()
