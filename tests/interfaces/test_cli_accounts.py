"""Purposes, windows and columns as typed; prices that are none."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner, Result

from dpsql.interfaces.cli.main import app

POLICY = """
dataset: shop
search: false
budget:
  epsilon: 3
  delta: 1e-6
  analysts:
    ana: {{epsilon: 1{every}, tables: {{visits: [minutes]}}, purposes: {{report: {{epsilon: 0.5}}, research: {{}}}}}}
    bob: {{epsilon: 1}}
tables: {{visits: {{unit: guest, columns: {{minutes: {{min: 0, max: 60}}, cause: {{}}}}}}}}
"""
COUNT = "SELECT count(*) FROM visits"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute("CREATE TABLE visits AS SELECT range AS guest, 5 AS minutes, 'flu' AS cause FROM range(100)")
    (tmp_path / "policy.yaml").write_text(POLICY.format(every=""), encoding="utf-8")
    return path


def run(*words: object, code: int = 0) -> str:
    done: Result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    assert done.exit_code == code, done.output
    return done.output


def test_a_purpose_is_named_on_the_command_line(shop: Path) -> None:
    assert "name one of: report, research" in run("query", shop, COUNT, "--analyst", "ana", code=1)
    run("query", shop, COUNT, "--analyst", "ana", "--purpose", "report", "--epsilon", 0.3)
    shown = run("budget", shop, "--analyst", "ana", "--purpose", "report")
    for part in ("dataset (everyone)", "analyst ana", "ana for report", "ε = 0.5, δ = 1e-06", "buys about"):
        assert part in shown
    told = json.loads(run("budget", shop, "--analyst", "ana", "--purpose", "report", "--format", "json"))
    assert told["purpose"]["name"] == "report"
    assert told["purpose"]["spent"]["epsilon"] == pytest.approx(0.3, rel=1e-3)
    assert told["buys"]["times"] >= 1
    assert "ana for report" in run("ledger", "log", shop.parent / "shop.ledger")


def test_a_window_is_put_in_force_by_the_steward_and_named_as_weaker(shop: Path) -> None:
    run("query", shop, COUNT, "--analyst", "ana", "--purpose", "report", "--epsilon", 0.3)
    policy = shop.parent / "policy.yaml"
    policy.write_text(POLICY.format(every=", every: month"), encoding="utf-8")
    mine = ("budget", shop, "--analyst", "ana", "--purpose", "report")
    assert "refreshes on" not in run(*mine)
    raised = run("ledger", "raise-cap", policy, "--by", "ste")
    assert "ana: ε = 1, δ = 1e-06, afresh every month: recorded" in raised
    assert "ana for report: ε = 0.5, δ = 1e-06, afresh every month: recorded" in raised
    assert "only the dataset's cap bounds it" in run(*mine)
    assert "resets every month" in run("check", shop)
    assert "every month; by ste" in run("ledger", "log", shop.parent / "shop.ledger")


def test_hidden_columns_are_hidden_on_the_command_line(shop: Path) -> None:
    who = ("--analyst", "ana", "--purpose", "research")
    for command in ("query", "explain"):
        told = run(command, shop, "SELECT count(cause) FROM visits", *who, code=1)
        assert "there is no column cause" in told and "guest" not in told
    assert "guest" not in run("explain", shop, COUNT, *who) + run("explain", shop, COUNT, *who, "--sql")


@pytest.mark.parametrize("price", ["nan", "inf", "-inf", "0", "-1", "5e-324", "1e-310", "1e400", "1e-300"])
def test_what_is_no_price_is_refused(shop: Path, price: str) -> None:
    for words in (("--epsilon", price), ("--epsilon", price, "--mechanism", "laplace")):
        assert "epsilon" in run("query", shop, COUNT, "--analyst", "bob", *words, code=1)
    if price not in ("0", "1e-300"):
        assert "delta" in run("query", shop, COUNT, "--analyst", "bob", "--delta", price, code=1)
    told = json.loads(run("budget", shop, "--analyst", "bob", "--format", "json"))
    assert told["dataset"]["spent"]["rho"] == 0
