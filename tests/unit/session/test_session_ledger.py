"""How a connection meets its ledger: versions of the data, caps in force, a ledger that is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.errors import BudgetExceeded, LedgerError
from dpsql.interfaces.steward_tasks import check
from dpsql.policy import check_facts

SQL = "SELECT count(*) FROM visits"


def policy(cap: float) -> dict[str, Any]:
    return {
        "dataset": "shop",
        "search": False,
        "budget": {"epsilon": cap, "delta": 0},
        "limits": {"epsilon": 1, "delta": 0},
        "defaults": {"epsilon": 0.5, "delta": 0},
        "tables": {"visits": {"unit": "row", "columns": {"duration": {"min": 0, "max": 3600}}}},
    }


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute("CREATE TABLE visits AS SELECT range AS duration FROM range(100)")
    return path


def connect(database: Path, cap: float = 1) -> dpsql.Connection:
    return dpsql.connect(database, policy=policy(cap), ledger=database.parent / "shop.ledger", analyst="ana")


def test_a_bump_ends_replay_and_continues_the_account(database: Path) -> None:
    with connect(database) as db:
        db.query(SQL)
        assert db.query(SQL).replayed
        db.ledger.bump("2026-11", "ste")
        assert not db.query(SQL).replayed
        assert db.budget().dataset.spent.epsilon == pytest.approx(1)
        with pytest.raises(BudgetExceeded):
            db.query(SQL, epsilon=0.75)
        assert db.query(SQL).replayed


def test_a_bump_during_a_check_names_data_that_nobody_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, told = tmp_path / "p.duckdb", policy(5)
    with duckdb.connect(str(path)) as data:
        data.execute("CREATE TABLE people AS SELECT range AS id FROM range(100)")
    told["tables"] = {"people": {"unit": "id", "unique": True, "max_rows_per_unit": 3}}
    with dpsql.connect(path, policy=told, ledger=tmp_path / "l.ledger", steward=True) as db:
        before = db.data_version()

        def bumped(*args: Any) -> Any:
            db.ledger.bump("next", "ste")
            return check_facts(*args)

        monkeypatch.setattr("dpsql.interfaces.steward_tasks.check_facts", bumped)
        assert check(db).recorded == 1
        assert db.ledger.facts(before) and not db.ledger.facts(db.data_version())
        assert db.explain("SELECT count(*) FROM people").releases[0].rule != "single_row"


def test_a_fact_that_was_verified_of_one_version_is_not_believed_of_the_next(tmp_path: Path) -> None:
    path, told = tmp_path / "p.duckdb", policy(5)
    with duckdb.connect(str(path)) as data:
        data.execute("CREATE TABLE people AS SELECT range AS id FROM range(100)")
    told["tables"] = {"people": {"unit": "id", "unique": True, "max_rows_per_unit": 3}}

    def rule() -> str:
        with dpsql.connect(path, policy=told, ledger=tmp_path / "l.ledger", steward=True) as db:
            return db.explain("SELECT count(*) FROM people").releases[0].rule

    assert rule() == "one_group"
    with dpsql.connect(path, policy=told, ledger=tmp_path / "l.ledger", steward=True) as db:
        check(db)
    assert rule() == "single_row"
    with dpsql.connect(path, policy=told, ledger=tmp_path / "l.ledger", steward=True) as db:
        db.ledger.bump("next", "ste")
    assert rule() == "one_group"


def test_what_was_verified_of_one_unit_is_not_believed_of_another(tmp_path: Path) -> None:
    """Each customer has one invoice, found through an order; the same was never said of households."""
    path, told = tmp_path / "o.duckdb", policy(5)
    with duckdb.connect(str(path)) as data:
        data.execute("CREATE TABLE orders AS SELECT range AS oid, range AS customer, range % 2 AS home FROM range(100)")
        data.execute("CREATE TABLE invoices AS SELECT range AS oid FROM range(100)")

    def rule(unit: str, *, checked: bool = False) -> str:
        invoices = {"unit": {"oid": "orders.oid"}, "unique": True}
        told["tables"] = {"orders": {"unit": unit, "columns": {"oid": {}}}, "invoices": invoices}
        with dpsql.connect(path, policy=told, ledger=tmp_path / "l.ledger", steward=True) as db:
            if checked:
                check(db)
        with dpsql.connect(path, policy=told, ledger=tmp_path / "l.ledger", steward=True) as db:
            return db.explain("SELECT count(*) FROM invoices").releases[0].rule

    assert rule("customer", checked=True) == "single_row"
    assert rule("home") == "one_group"
    assert rule("home", checked=True) == "one_group"
    assert rule("customer") == "single_row"


def test_the_budget_shows_the_caps_in_force(database: Path) -> None:
    with connect(database) as db:
        db.query(SQL)
    with connect(database, cap=9) as db:
        assert db.budget().dataset.caps.epsilon == 1
        with pytest.raises(BudgetExceeded, match="raise-cap"):
            db.query(SQL, epsilon=1)


def test_a_rolled_back_ledger_answers_nothing(database: Path) -> None:
    ledger = database.parent / "shop.ledger"
    with connect(database) as db:
        db.query(SQL)
    old = ledger.read_bytes()
    with connect(database) as db:
        db.query(f"{SQL} WHERE duration > 1", epsilon=0.25)
    ledger.write_bytes(old)
    with pytest.raises(LedgerError, match="older copy"):
        connect(database)
