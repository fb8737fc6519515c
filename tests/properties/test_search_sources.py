"""The search for norms reads the very rows of its release: whatever is joined, filtered or put together below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pytest
from unlocked import integers

import dpsql
from dpsql.engines.sql import emit
from dpsql.engines.sql.dialect import Site
from dpsql.options import QueryOptions
from dpsql.plan.canonical import split, without
from dpsql.sensitivity.bound import Bounded
from dpsql.sensitivity.clip import BUCKETS

POLICY: dict[str, Any] = {
    "dataset": "sources",
    "budget": {"epsilon": 1000, "delta": 1e-6},
    "tables": {
        "t": {"unit": "id", "columns": {"k": {"values": ["a", "b"]}, "x": {}, "flag": {}, "code": {}}},
        "p": {"unit": "pid", "columns": {"sex": {"values": ["m", "f"]}, "age": {}}},
        "s": {"public": True},
    },
}
K, SEX = ("CASE WHEN {0} IN ({1}) THEN {0} END AS k".format(*of) for of in (("k", "'a', 'b'"), ("sex", "'m', 'f'")))
SOURCES = (
    (f"{K}, count(*)", "t", "id"),
    (f"{K}, count(*)", "t WHERE x > 10 AND flag", "id"),
    (f"{K}, count(*) FILTER (WHERE flag)", "t", "id"),
    (f"{K}, count(x)", "t WHERE id IN (SELECT pid FROM p WHERE age > 30)", "id"),
    (f"{K}, count(*)", "(SELECT * FROM t UNION ALL SELECT * FROM t WHERE flag)", "id"),
    (f"{SEX}, count(*)", "t JOIN p ON t.id = p.pid", "id"),
    (f"{SEX}, count(x)", "p LEFT JOIN t ON t.id = p.pid", "pid"),
    ("region AS k, count(*)", "t JOIN s USING (code)", "id"),
    ("code AS k, count(*)", "t WHERE NOT flag", "id"),
    ("1 AS k, count(*)", "t", "id"),
)


@pytest.fixture(scope="module")
def raw() -> Iterator[duckdb.DuckDBPyConnection]:
    rng = np.random.default_rng(3)
    units = np.repeat(np.arange(40), rng.integers(1, 30, 40))
    count = len(units)
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE t(id VARCHAR, k VARCHAR, x DOUBLE, flag BOOLEAN, code INTEGER);"
            "CREATE TABLE p(pid VARCHAR, sex VARCHAR, age INTEGER); CREATE TABLE s(code INTEGER, region VARCHAR);"
            "INSERT INTO s SELECT i, 'r' || i % 3 FROM range(8) AS r(i)"
        )
        columns = [rng.choice(["a", "b", "zz"], count), rng.normal(12, 9, count), rng.random(count) < 0.5]
        shown = zip(units, *columns, rng.integers(0, 10, count), strict=True)
        rows = [
            (None if u == 7 else str(u), None if k == "zz" else str(k), None if x > 25 else float(x), bool(f), int(c))
            for u, k, x, f, c in shown
        ]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
        people = [(str(u), str(rng.choice(["m", "f", "d"])), int(rng.integers(9, 90))) for u in [*range(45), 3, 3]]
        connection.executemany("INSERT INTO p VALUES (?, ?, ?)", people)
        yield connection


def counted(raw: duckdb.DuckDBPyConnection, listed: str, source: str, mechanism: str) -> dict[int, int]:
    """The units in each bucket, as the engine counts them."""
    sql = f"SELECT {listed} FROM {source}".replace(K, "k").replace(SEX, "sex").replace("1 AS k, ", "")
    sql += "" if listed.startswith("1") else " GROUP BY 1"
    with dpsql.connect(raw, policy=POLICY, ledger=":memory:", steward=True) as db:
        draft, _ = db.conductor.draft(db._question(sql, None, QueryOptions(epsilon=9, delta=1e-7, mechanism=mechanism)))
        [search] = draft.unsearched
        unshifted = replace(search, noised=tuple(replace(each, shift=0) for each in search.noised))
        assert search.bounded.searched is not None
        [scale] = [each for each in search.bounded.searched.clipped[0].vector.scales if each is not None]
        counts = integers(db.engine, unshifted, b"salt").values[0].tolist()
    one = search.bounded.statistics[0].part.row
    return {bucket - 2 * scale: n // one for bucket, n in enumerate(counts) if n}


def expected(raw: duckdb.DuckDBPyConnection, listed: str, source: str, unit: str, mechanism: str) -> dict[int, int]:
    """The same by plain SQL: half octaves of the norm of each unit's counts."""
    cells = f"SELECT {unit} AS u, {listed} AS n FROM {source} GROUP BY ALL"
    power = "sum(n * n)" if mechanism == "gaussian" else "sum(n) * sum(n)"
    found = raw.execute(f"SELECT {power} FROM ({cells}) WHERE u IS NOT NULL GROUP BY u").fetchall()
    return Counter(next(h for h in range(BUCKETS) if power <= 2**h) for (power,) in found if power)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize(("listed", "source", "unit"), SOURCES)
def test_the_search_counts_the_units_of_the_releases_own_rows(
    raw: duckdb.DuckDBPyConnection, listed: str, source: str, unit: str, mechanism: str
) -> None:
    assert counted(raw, listed, source, mechanism) == expected(raw, listed, source, unit, mechanism)


def test_a_search_on_another_source_is_noticed(raw: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    original = emit._norms

    def norms(searched: Bounded, site: Site) -> str:
        release = searched.release
        source = without(release.source, split(release.source)[1])
        return original(replace(searched, release=replace(release, source=source)), site)

    monkeypatch.setattr(emit, "_norms", norms)
    listed, source, unit = SOURCES[1]
    assert counted(raw, listed, source, "gaussian") != expected(raw, listed, source, unit, "gaussian")
