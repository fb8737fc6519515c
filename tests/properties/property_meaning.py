"""Whatever is computed from groups means what it means in SQL: at a huge price the answer is DuckDB's own.

    python tests/properties/property_meaning.py --queries 5000

Random outer SQL (joins, set operations, windows, LIMIT, aggregates of aggregates) over random grouped results, on data
in which many of the declared keys have no rows.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import duckdb

import dpsql
from dpsql.errors import UnsupportedQuery

EPSILON = 1e8
COLUMNS: dict[str, Any] = {
    "product": {"values": list("abcdefgh"), "nulls": False}, "region": {"values": ["n", "e", "s", "w"], "nulls": False},
    "day": {"min": "2024-01-01", "max": "2024-04-30", "nulls": False}, "amount": {"min": 0, "max": 50},
    "size": {"min": 0, "max": 9, "nulls": False}, "person": {},
}  # fmt: skip
POLICY: dict[str, Any] = {
    "dataset": "d", "search": False, "budget": {"epsilon": 1e12, "delta": 1e-3}, "limits": {"epsilon": 1e11},
    "tables": {
        "sales": {"unit": "person", "max_rows_per_unit": 30, "columns": COLUMNS},
        "visits": {"unit": "person", "max_rows_per_unit": 30, "columns": COLUMNS},
        "products": {"public": True},
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class World:
    """A connection to random data, and DuckDB's own."""

    db: dpsql.Connection
    raw: duckdb.DuckDBPyConnection


@contextmanager
def world_of(rng: random.Random) -> Iterator[World]:
    """Two tables with rows in few of the groups that are possible."""
    with duckdb.connect() as raw:
        for table in ("sales", "visits"):
            raw.execute(f"CREATE TABLE {table} (person INT, product TEXT, region TEXT, day DATE, amount INT, size INT)")
            products, regions = rng.sample("abcdefgh", rng.randint(2, 6)), rng.sample("nesw", rng.randint(1, 3))
            rows: list[str] = []
            for _ in range(rng.choice((30, 80, 150))):
                product, region = rng.choice(products), rng.choice(regions)
                amount = rng.randint(0, 50)
                day = f"2024-{rng.choice((1, 1, 2, 4)):02}-{rng.randint(1, 28):02}"
                shown = "NULL" if amount is None else amount
                rows.append(f"({rng.randint(1, 40)}, '{product}', '{region}', '{day}', {shown}, {rng.randint(0, 9)})")
            raw.execute(f"INSERT INTO {table} VALUES {', '.join(rows)}")
        raw.execute("CREATE TABLE products AS SELECT p AS product, k AS kind FROM (VALUES ('a', 'x'), ('b', 'x'), "
                    "('c', 'y'), ('d', 'y'), ('e', 'y'), ('f', 'z'), ('g', 'z'), ('h', 'q')) v(p, k)")  # fmt: skip
        with dpsql.connect(raw, policy=POLICY, ledger=":memory:") as db:
            yield World(db, raw)


@dataclass(slots=True)
class Meanings:
    """Writes queries whose answer depends on which groups exist, and on what is NULL."""

    rng: random.Random
    made: Counter[str] = field(default_factory=Counter)

    def query(self) -> str:
        """A random query."""
        kinds = [
            self.counted, self.combined, self.looked_up, self.missing, self.joined, self.over_groups, self.regrouped,
            self.ranked, self.cut, self.top_joined_back, self.scalar, self.sets, self.several,
        ]  # fmt: skip
        chosen = self.rng.choice(kinds)
        self.made[chosen.__name__] += 1
        return chosen()

    # grouped results ----------------------------------------------------------------------------------------------

    def condition(self) -> str:
        return self.rng.choice([
            "", "", "", " WHERE amount > 30", " WHERE day < DATE '2024-02-10'", " WHERE product IN ('a', 'c', 'g')",
            " WHERE region <> 'n'", " WHERE size > 8", " WHERE product = 'h'", " WHERE amount IS NULL",
            " WHERE product > 'c' AND size < 4",
        ])  # fmt: skip

    def key(self) -> str:
        return self.rng.choice(["product", "product", "product", "region", "date_trunc('month', day)", "size",
                                "CASE WHEN product < 'd' THEN 'low' ELSE 'high' END"])  # fmt: skip

    def table(self) -> str:
        return self.rng.choice(["sales", "visits"])

    def grouped(self, key: str, *, numbers: bool = True) -> str:
        """Groups by one key `k`, with some numbers: n, s and m."""
        rng, having = self.rng, ""
        if rng.random() < 0.25:
            having = rng.choice([" HAVING count(*) < 15", " HAVING count(*) > 8", " HAVING sum(amount) > 40"])
        listed = f"{key} AS k" + (", count(*) AS n, sum(amount) AS s, avg(amount) AS m" if numbers else "")
        if key == "product" and rng.random() < 0.15:
            source = f"{self.table()} JOIN products USING (product)"
            kind = rng.choice([" WHERE kind = 'x'", " WHERE kind <> 'y'", ""])
            return f"SELECT {listed} FROM {source}{kind} GROUP BY 1{having}"
        return f"SELECT {listed} FROM {self.table()}{self.condition()} GROUP BY 1{having}"

    def distinct(self, key: str) -> str:
        """Groups without numbers."""
        if self.rng.random() < 0.5:
            return f"SELECT DISTINCT {key} AS k FROM {self.table()}{self.condition()}"
        return self.grouped(key, numbers=False)

    def wide(self) -> str:
        """Groups by two keys."""
        one, two = self.rng.sample(["product", "region", "date_trunc('month', day)"], 2)
        return (
            f"SELECT {one} AS k, {two} AS l, count(*) AS n, sum(amount) AS s, avg(amount) AS m "
            f"FROM {self.table()}{self.condition()} GROUP BY 1, 2"
        )

    # what is computed from them -----------------------------------------------------------------------------------

    def aggregate(self) -> str:
        return self.rng.choice([
            "count(*)", "avg(n)", "min(n)", "max(n)", "count(s)", "median(n)", "min(s)", "sum(n)", "max(m)",
            "count(*) FILTER (WHERE n < 5)", "count(DISTINCT k)", "min(k)", "max(k)", "stddev_pop(n)", "count(m)",
        ])  # fmt: skip

    def counted(self) -> str:
        return f"SELECT count(*) FROM ({self.distinct(self.key())}) AS g"

    def combined(self) -> str:
        key = self.key()
        word = self.rng.choice(["UNION", "EXCEPT", "INTERSECT", "UNION ALL"])
        both = f"({self.distinct(key)}) {word} ({self.distinct(key)})"
        return both if word != "UNION ALL" else f"SELECT k, count(*) FROM ({both}) AS u GROUP BY k"

    def looked_up(self) -> str:
        key = self.key()
        word = self.rng.choice(["IN", "NOT IN"])
        return f"SELECT k FROM ({self.distinct(key)}) AS g WHERE k {word} ({self.distinct(key)})"

    def missing(self) -> str:
        key = self.key()
        return (
            f"SELECT a.k, a.n FROM ({self.grouped(key)}) AS a LEFT JOIN ({self.grouped(key)}) AS b ON a.k = b.k "
            f"WHERE b.k IS {self.rng.choice(['', 'NOT '])}NULL"
        )

    def joined(self) -> str:
        key, kind = self.key(), self.rng.choice(["JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN"])
        shown = self.rng.choice(["coalesce(a.k, b.k), a.n, b.n", "coalesce(a.k, b.k), a.n - coalesce(b.n, 0)",
                                 "count(*), count(a.n), count(b.n)", "coalesce(a.k, b.k), a.s, b.m"])  # fmt: skip
        return f"SELECT {shown} FROM ({self.grouped(key)}) AS a {kind} ({self.grouped(key)}) AS b ON a.k = b.k"

    def over_groups(self) -> str:
        listed = ", ".join(self.aggregate() for _ in range(self.rng.randint(1, 3)))
        return f"SELECT {listed} FROM ({self.rng.choice([self.wide(), self.grouped(self.key())])}) AS g"

    def regrouped(self) -> str:
        having = self.rng.choice(["", " HAVING count(*) > 1", " HAVING avg(n) > 3"])
        return f"SELECT k, {self.aggregate()}, {self.aggregate()} FROM ({self.wide()}) AS g GROUP BY k{having}"

    def ranked(self) -> str:
        over = self.rng.choice(["ORDER BY n, k", "ORDER BY n DESC, k", "ORDER BY k"])
        call = self.rng.choice(["rank()", "row_number()", "lag(n)", "count(*)", "avg(n)", "lead(k)", "min(n)"])
        where = self.rng.choice(["", " QUALIFY row_number() OVER (ORDER BY k) <= 2"])
        if self.rng.random() < 0.3:
            key = self.key()
            return f"SELECT {key} AS k, rank() OVER (ORDER BY count(*), {key}) AS r FROM {self.table()} GROUP BY 1"
        return f"SELECT k, {call} OVER ({over}) AS w FROM ({self.grouped(self.key())}) AS g{where}"

    def cut(self) -> str:
        order = self.rng.choice(["k", "k DESC", "n, k", "n DESC, k"])
        inner = f"SELECT k, n FROM ({self.grouped(self.key())}) AS g ORDER BY {order} LIMIT {self.rng.randint(1, 3)}"
        offset = self.rng.choice(["", " OFFSET 1"])
        whole = f"SELECT count(*), min(n), max(k) FROM ({inner}{offset}) AS t"
        return whole if not offset else self.rng.choice([inner + offset, whole])

    def top_joined_back(self) -> str:
        order = self.rng.choice(["count(*) DESC", "count(*)", "product"])
        top = f"SELECT product FROM sales{self.condition()} GROUP BY 1 ORDER BY {order}, product LIMIT 3"
        joined = self.rng.choice([
            f"SELECT product, count(*) AS n FROM visits WHERE product IN ({top}) GROUP BY 1",
            f"SELECT v.product, count(*) AS n FROM visits v JOIN ({top}) AS t ON v.product = t.product GROUP BY 1",
            f"SELECT product, count(*) AS n FROM visits WHERE product NOT IN ({top}) GROUP BY 1",
        ])  # fmt: skip
        return f"SELECT count(*), sum(n), min(n) FROM ({joined}) AS g"

    def scalar(self) -> str:
        key = self.key()
        value = self.rng.choice(["count(*)", "avg(n)", "min(n)", "max(k)"])
        one = f"(SELECT {value} FROM ({self.grouped(key)}) AS i)"
        if value == "max(k)":
            return f"SELECT {one} AS v"
        return f"SELECT k FROM ({self.grouped(key)}) AS g WHERE n >= {one}"

    def sets(self) -> str:
        group = self.rng.choice(
            ["ROLLUP (product, region)", "CUBE (product, region)", "GROUPING SETS ((product), (region))"]
        )
        where = self.rng.choice(["", " WHERE size < 8"])
        return (
            f"SELECT {self.aggregate()}, {self.aggregate()} FROM (SELECT product AS k, region AS l, count(*) AS n, "
            f"sum(amount) AS s, avg(amount) AS m FROM {self.table()}{where} GROUP BY {group}) AS g"
        )

    def several(self) -> str:
        one, two = self.rng.choice([("product", "region"), ("region", "size"), ("product", "size")])
        where = self.condition()
        listed = f"SELECT DISTINCT {one}, {two} FROM {self.table()}{where}"
        return self.rng.choice([
            f"SELECT count(*) FROM ({listed}) AS d",
            f"SELECT {one}, count(*) FROM ({listed}) AS d GROUP BY 1",
            f"SELECT count(DISTINCT ({one}, {two})) FROM {self.table()}{where}",
        ])  # fmt: skip


def difference(world: World, sql: str, mechanism: str) -> str | None:
    """How the private answer differs from DuckDB's; None if it does not. Refused queries raise."""
    made = world.db.query(sql, epsilon=EPSILON, mechanism=mechanism).fetchall()
    expected = world.raw.execute(sql).fetchall()
    if len(made) == len(expected) and all(map(_same, sorted(made, key=_order), sorted(expected, key=_order))):
        return None
    return f"{sql}\n  {mechanism}: {sorted(made, key=_order)[:9]}\n  DuckDB: {sorted(expected, key=_order)[:9]}"


def _order(row: tuple[Any, ...]) -> tuple[str, ...]:
    """Rows are told by their keys and counts: sums and averages keep their noise even at this price."""
    return tuple("" if isinstance(v, float) else "NULL" if v is None else f"{v!s:>20}" for v in row)


def _same(one: tuple[Any, ...], two: tuple[Any, ...]) -> bool:
    return all(
        math.isclose(a, b, rel_tol=0.03 if isinstance(a, float) else 0.01, abs_tol=0.01)
        if isinstance(a, int | float) and isinstance(b, int | float)
        else a == b
        for a, b in zip(one, two, strict=True)
    )


@dataclass(slots=True)
class Outcome:
    """What was found: queries by kind, refusals, differences."""

    asked: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, str]] = field(default_factory=list)


def compare(seed: int, queries: int, per_world: int = 50) -> Outcome:
    """Ask so many random queries."""
    found = Outcome()
    while (done := found.asked.total()) < queries:
        rng = random.Random(f"{seed} {done}")
        with world_of(rng) as world:
            for _ in range(min(per_world, queries - done)):
                meanings = Meanings(rng)
                sql = meanings.query()
                [kind] = meanings.made
                found.asked[kind] += 1
                try:
                    text = difference(world, sql, rng.choice(["gaussian", "laplace"]))
                except UnsupportedQuery as problem:
                    found.refused[str(problem).split("\n")[0]] += 1
                    continue
                if text is not None:
                    found.wrong.append((kind, text))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=10)
    options = parser.parse_args()
    found = compare(options.seed, options.queries)
    print(f"{found.asked.total()} queries, {found.refused.total()} refused, {len(found.wrong)} with another meaning")
    print("by kind:", dict(found.asked))
    print("wrong by kind:", dict(Counter(kind for kind, _ in found.wrong)))
    for reason, count in found.refused.most_common():
        print(f"  refused {count}: {reason}")
    for _, text in found.wrong[: options.show]:
        print(text)
    raise SystemExit(bool(found.wrong))


if __name__ == "__main__":
    main()
