"""Two `dpsql serve` on one ledger in PostgreSQL: one budget, shared to the end, and one memory of answers."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from served import start, stop

if TYPE_CHECKING:
    from postgres_server import Server
    from served import Served

QUERIES = [f"SELECT count(*) FROM orders WHERE amount < {number}" for number in range(10, 17)]


def answer(served: Served, sql: str) -> tuple[object, ...] | None:
    """The row, or None if the budget does not pay for it."""
    with psycopg.connect(served.dsn()) as db:
        try:
            return db.execute(sql.encode()).fetchone()
        except psycopg.Error as error:
            assert "over the privacy budget" in str(error), error
            return None


def test_two_servers_share_one_budget_and_one_memory(
    shop: Path, postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from postgres_server import PASSWORD, ROLE, fresh_ledger

    fresh_ledger(postgres)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        shutil.copytree(shop, folder, ignore=shutil.ignore_patterns("*.ledger*", "*.log"))
        policy = folder / "policy.yaml"
        text = policy.read_text().replace("epsilon: 10000 ", "epsilon: 2 ").replace("delta: 1e-6", "delta: 0")
        policy.write_text(f"{text}\nledger: postgresql://{ROLE}@127.0.0.1:{postgres.port}/postgres\n")
    one, two = (start(folder) for folder in folders)
    try:
        with ThreadPoolExecutor(4) as crowd:
            asked = [(served, sql) for sql in QUERIES for served in (one, two)]
            got = list(crowd.map(lambda each: answer(*each), asked))
        first, second = got[::2], got[1::2]
        assert 0 < sum(each is not None for each in first) < len(QUERIES)
        again = [answer(two, sql) for sql in QUERIES]
        assert [each is None for each in again] == [a is None and b is None for a, b in zip(first, second, strict=True)]
    finally:
        stop(one)
        stop(two)
    (charges,) = postgres.run("SELECT count(*) FROM dpsql_ledger.entry WHERE kind = 'charge'")[0]
    assert 0 < int(str(charges)) <= len(QUERIES) * 2
