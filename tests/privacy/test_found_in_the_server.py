"""Each break that a review of the server and of what sessions keep found, as a test of the behaviour that closes it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from unlocked import sealed

import dpsql
from dpsql.answers.noise_stage import add_noise, drawn_ahead
from dpsql.interfaces.server.query_runner import SessionPool
from dpsql.interfaces.server.scram import Verifier
from dpsql.interfaces.server.users import User

POLICY: dict[str, Any] = {
    "dataset": "shop",
    "search": False,
    "budget": {"epsilon": 1000, "delta": 1e-6, "analysts": {"ana": {}, "bob": {}}},
    "limits": {"epsilon": 50},
    "tables": {
        "people": {"unit": "id", "unique": True, "columns": {"age": {"min": 0, "max": 100, "nulls": False}}},
    },
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as data:
        data.execute("CREATE TABLE people AS SELECT i AS id, i % 100 AS age FROM range(1000) t(i)")
    return tmp_path / "shop.duckdb"


def connect(file: Path, analyst: str) -> dpsql.Connection:
    return dpsql.connect(file, policy=POLICY, ledger=file.with_suffix(".ledger"), analyst=analyst)


def test_a_value_that_is_not_used_does_not_make_two_questions_one(file: Path) -> None:
    """A value without a literal made all parameters look alike, so that the second question got the first's answer."""
    sql = "SELECT count(*) AS n FROM people WHERE age >= :age"
    with connect(file, "ana") as db:
        for age, expected in ((10, 900), (80, 200)):
            answer = db.query(sql, {"age": age, "unused": object()}, epsilon=20)
            assert not answer.replayed and abs(answer.fetchall()[0][0] - expected) < 50
        assert db.query(sql, {"age": 80, "unused": object()}, epsilon=20).replayed


def test_an_answer_is_kept_for_one_dialect(file: Path) -> None:
    """Plans were told apart by the dialect of the session, answers were not: 7 / 2 is 3 in one, and 3.5 in another."""
    sql = "SELECT count(*) * 0 + 7 / 2 AS n FROM people"
    with connect(file, "ana") as db:
        seen = []
        for dialect in ("duckdb", "postgres"):
            db.dialect = dialect
            seen.append((db.describe(sql), db.query(sql).fetchall(), db.describe(sql)))
    assert [answer for _, answer, _ in seen] == [[(3.5,)], [(3,)]]
    assert all(before == after for before, _, after in seen)


def test_noise_drawn_ahead_is_not_spread_over_more_keys_than_it_was_drawn_for(file: Path) -> None:
    """One sample would be added to every cell, and differences between cells would be exact."""
    with connect(file, "ana") as db:
        priced = db.prepare("SELECT count(*) FROM people", epsilon=1.0).bill.releases[0]
    ahead = drawn_ahead(priced)
    assert ahead is not None and len(ahead.statistics[0]) == 1
    with pytest.raises(dpsql.InternalError):
        add_noise(priced, sealed(((1,), (2,)), (np.array([5, 9]),), None), ahead)


def test_accounts_do_not_wait_for_equal_questions_of_each_other(file: Path) -> None:
    """Whoever asked first kept the question to themselves for as long as they liked, and the wait told of it."""
    ana, bob = (User(name, Verifier.of("a password"), name) for name in ("ana", "bob"))
    desk, begun, leave = (
        SessionPool(lambda analyst, _: connect(file, analyst)),
        threading.Semaphore(0),
        threading.Event(),
    )

    def slow(db: dpsql.Connection) -> None:
        begun.release()
        assert leave.wait(60)

    async def ask() -> None:
        first = [asyncio.create_task(desk.work(ana, slow, "the same")) for _ in range(2)]
        try:
            assert await asyncio.to_thread(begun.acquire, timeout=30)
            assert await asyncio.wait_for(desk.work(bob, lambda db: db.analyst, "the same"), 30) == "bob"
            assert not begun.acquire(blocking=False)
        finally:
            leave.set()
            await asyncio.gather(*first)

    asyncio.run(ask())
    desk.close()


def test_error_bars_of_an_answer_whose_connection_is_gone_say_so(file: Path) -> None:
    """A reload closes connections; the refusal was about the query's expression, which is right."""
    with connect(file, "ana") as db:
        answer = db.query("SELECT avg(age) / (1 + sum(age)) AS n FROM people", epsilon=20)
    with pytest.raises(dpsql.InterfaceError, match="closed") as refused:
        answer.intervals()
    assert refused.value.hint == "ask the query again: it is replayed"
