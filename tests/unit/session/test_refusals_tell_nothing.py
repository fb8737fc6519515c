"""A budget refusal is the same whether or not another analyst made the release, and it charges nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.budget import open_ledger

COLUMNS = {"x": {"min": 0, "max": 10}, "k": {"values": ["a", "b"]}}
COUNT = "SELECT k, count(*) AS n FROM t GROUP BY k"
SUM = "SELECT k, sum(x) AS s FROM t GROUP BY k"
BOTH = f"{COUNT} UNION ALL {SUM}"
OTHER = "SELECT count(*) FROM t WHERE x > 5"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute("CREATE TABLE t AS SELECT range AS u, 5.0::DOUBLE AS x, 'a' AS k FROM range(3000)")
    return path


def connect(database: Path, ledger: str, analyst: str, **more: Any) -> dpsql.Connection:
    policy = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 10, "delta": 1e-6, "analysts": {"ana": {"epsilon": 9}, "bob": {"epsilon": 1}}},
        "limits": {"epsilon": 8, "delta": 1e-7},
        "defaults": {"epsilon": 0.5, "delta": 1e-8},
        "tables": {"t": {"unit": "u", "max_rows_per_unit": 2, "columns": COLUMNS}},
        **more,
    }
    return dpsql.connect(database, policy=policy, ledger=database.parent / f"{ledger}.ledger", analyst=analyst)


def refusal(db: dpsql.Connection, sql: str, **price: Any) -> tuple[str, str | None]:
    with pytest.raises(dpsql.BudgetExceeded) as caught:
        db.query(sql, **price)
    return caught.value.message, caught.value.hint


LAPLACE = {"epsilon": 3, "mechanism": "laplace"}
WORLDS = [
    (COUNT, COUNT, {"epsilon": 3}),
    (COUNT, BOTH, {"epsilon": 1.5}),
    (COUNT, BOTH, LAPLACE),
    (BOTH, COUNT, LAPLACE),
    (BOTH, BOTH, {"epsilon": 1.5}),
]


@pytest.mark.parametrize(("asked", "released", "price"), WORLDS)
def test_a_refusal_is_the_same_whatever_another_released(
    database: Path, asked: str, released: str, price: dict[str, Any]
) -> None:
    """In one world ana asked for the same thing, in the other for something else at the same price."""
    said = []
    for ledger, sql in (("one", released), ("two", OTHER)):
        with connect(database, ledger, "ana") as db:
            db.query(sql, **price)
        with connect(database, ledger, "bob") as db:
            before = db.budget().analyst
            said.append((refusal(db, asked, **price), str(db.explain(asked, **price))))
            assert db.budget().analyst == before
    (one, plan), (two, other) = said
    assert plan == other
    figures = [text.partition("; left for everyone")[0] for text, _ in (one, two)]
    assert figures[0] == figures[1] and f"costs {plan.split()[1]}" in figures[0]
    assert one[1] == two[1]


def test_a_refused_query_does_not_count_the_part_that_another_released(database: Path) -> None:
    price = {"epsilon": 1.2, "mechanism": "laplace"}
    with connect(database, "one", "ana") as db:
        db.query(COUNT, epsilon=0.6, mechanism="laplace")
    with connect(database, "one", "bob") as db, open_ledger(database.parent / "one.ledger", "d") as ledger:
        entries = len(ledger.rows())
        refusal(db, BOTH, **price)
        refusal(db, BOTH, **price)
        assert [row[1] for row in ledger.rows()[entries:]].count("replay") == 0
        assert ledger.spent("bob") == ledger.spent("nobody")


def test_a_query_that_is_answered_counts_charge_and_replays_in_one_entry(database: Path) -> None:
    with connect(database, "one", "ana") as db:
        db.query(COUNT, epsilon=0.4, mechanism="laplace")
    with connect(database, "one", "bob") as db:
        result = db.query(BOTH, epsilon=0.8, mechanism="laplace")
        assert result.cost.epsilon == pytest.approx(0.4) and any("your own cap" in note for note in result.notes)
        with open_ledger(database.parent / "one.ledger", "d") as ledger:
            unit = 10**40
            assert (ledger.spent("bob").epsilon or 0) / unit == pytest.approx(0.8)
            assert (ledger.spent(None).epsilon or 0) / unit == pytest.approx(0.8)
            assert [line.kind for line in ledger.log()][-2:] == ["charge", "release"]
        assert db.query(BOTH, epsilon=0.8, mechanism="laplace").replayed


def test_anothers_search_changes_no_refusal(database: Path) -> None:
    tables = {"t": {"unit": "u", "max_rows_per_unit": "auto", "columns": COLUMNS}}
    said = []
    for ledger, sql in (("one", COUNT), ("two", None)):
        if sql is not None:
            with connect(database, ledger, "ana", tables=tables) as db:
                db.query(sql)
        with connect(database, ledger, "bob", tables=tables) as db:
            text, hint = refusal(db, SUM, epsilon=3)
            said.append((text.partition("; left for everyone")[0], hint))
            with open_ledger(database.parent / f"{ledger}.ledger", "d") as opened:
                assert opened.spent("bob") == opened.spent("nobody")
    assert said[0] == said[1]
