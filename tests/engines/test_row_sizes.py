"""All texts that one row carries are bounded together: no person's long text makes a query fail."""

from __future__ import annotations

import re
from typing import Any

import engine_server
import psycopg
import pytest

import dpsql
from dpsql.audit.traces import trace

pytestmark = pytest.mark.skipif(engine_server.absent() is not None, reason=str(engine_server.absent()))
POLICY: dict[str, Any] = {
    "dataset": "notes",
    "search": False,
    "budget": {"epsilon": 100, "delta": "1e-3"},
    "tables": {"notes": {"unit": "person", "max_rows_per_unit": 2, "columns": {"note": {}}}},
}


@pytest.fixture(scope="module")
def address() -> str:
    with engine_server.server().connect() as admin:
        admin.execute("CREATE DATABASE row_sizes")
    with engine_server.server().connect("row_sizes") as raw:
        raw.execute("CREATE TABLE notes (person integer, note text); INSERT INTO notes VALUES (1, 'short'), (2, NULL)")
    return engine_server.server().address("row_sizes")


def parts(count: int) -> str:
    """So many different parts of one note, beside the person."""
    return ", ".join(f"substring(note, {i + 1}) AS s{i}" for i in range(count))


def test_a_row_of_many_long_texts_fails_no_query(address: str) -> None:
    sql = f"SELECT count(*) FROM (SELECT DISTINCT person, {parts(990)} FROM notes) AS t"
    with dpsql.connect(address, policy=POLICY, ledger=":memory:", steward=True) as db:
        [without] = trace(db, sql, salt=b"s", mechanism="laplace")
        with psycopg.connect(address, autocommit=True) as raw:
            raw.execute("INSERT INTO notes VALUES (3, repeat('x', 1200000))")
        [beside] = trace(db, sql, salt=b"s", mechanism="laplace")
        assert without.statistics[0].values[0] < beside.statistics[0].values[0]


def test_private_keys_are_short(address: str) -> None:
    """All of them are read before it is known which are released: 40 keys of 16 MB of one person took 1.4 GB."""
    with dpsql.connect(address, policy=POLICY, ledger=":memory:", steward=True) as db:
        with psycopg.connect(address, autocommit=True) as raw:
            raw.execute("INSERT INTO notes SELECT 4, repeat('x', 65535 + i) FROM generate_series(1, 2) AS g(i)")
        [release] = trace(db, "SELECT note, count(*) FROM notes GROUP BY note", salt=b"s", mechanism="laplace")
        assert max(len(note) for (note,) in release.keys if note is not None) == 65536


@pytest.mark.parametrize(("count", "limit"), [(3, "16777216"), (300, f"{2**28 // 602}")])
def test_few_texts_keep_their_limit_and_many_have_shares(address: str, count: int, limit: str) -> None:
    with dpsql.connect(address, policy=POLICY, ledger=":memory:") as db:
        written = db.explain(f"SELECT count(*) FROM (SELECT DISTINCT person, {parts(count)} FROM notes) AS t")
        assert re.search(rf",\s*{limit}\s*\)", str(written.releases[0].sql))
        told = [note for note in written.notes if f"takes those of more than {2**28 // 602:,} bytes as NULL" in note]
        assert len(told) == (count == 300)
