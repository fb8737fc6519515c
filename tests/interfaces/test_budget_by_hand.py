"""A fresh reader adds up a budget of ten queries by hand, from nothing but what was printed."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

import dpsql
from dpsql.interfaces.cli.main import app

POLICY = """
dataset: shop
budget: {epsilon: 8, delta: 1e-6, analysts: {ana: {epsilon: 5}}}
tables: {t: {unit: u, columns: {x: {min: 0, max: 100}, k: {}, s: {values: [a, b]}}}}
"""
ASKED = (
    ("SELECT count(*) AS n FROM t", ["--price", "2%"]),
    ("SELECT s, avg(x) AS m FROM t GROUP BY s", []),
    ("SELECT k, count(*) AS n FROM t GROUP BY k", ["--price", "3.3%"]),
    ("SELECT median(x) AS m FROM t", ["--price", "1.5%"]),
    ("SELECT count(*) AS n FROM t", ["--price", "2%"]),
    ("SELECT sum(x) AS total FROM t WHERE s = 'a'", ["--epsilon", "0.3"]),
    ("SELECT s, sum(x) AS total, count(*) AS n FROM t GROUP BY s", ["--price", "0.25%"]),
    ("SELECT count(*) AS n FROM t WHERE x > 50", ["--mechanism", "laplace", "--price", "4%"]),
    ("SELECT s, max(x) AS m FROM t GROUP BY s", ["--price", "0.333%"]),
    ("SELECT count(DISTINCT k) AS n FROM t", ["--within", "400", "--price", "5%"]),
)
ROUNDING = Decimal("0.005")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    with duckdb.connect(str(folder / "t.duckdb")) as own:
        own.execute(
            "CREATE TABLE t AS SELECT range AS u, (range % 100)::DOUBLE AS x, 'k' || range % 3 AS k,"
            " ['a', 'b'][range % 2 + 1] AS s FROM range(3000)"
        )
    (folder / "policy.yaml").write_text(POLICY)
    return folder / "t.duckdb"


def run(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200", "TERM": "dumb"})
    assert done.exit_code == 0, done.output
    return done.stdout


def percents(text: str) -> list[Decimal]:
    return [Decimal(each) for each in re.findall(r"([0-9.]+)%", text)]


def account(shown: str, name: str) -> tuple[Decimal, Decimal]:
    """What is spent and left, from the line of an account."""
    [line] = [line for line in shown.splitlines() if line.strip().startswith(name)]
    *_, spent, left = percents(line)
    return spent, left


def test_costs_add_up_to_what_is_spent_and_with_what_is_left_to_the_whole(shop: Path) -> None:
    costs = []
    for sql, options in ASKED:
        shown = run("query", shop, sql, "--analyst", "ana", *options)
        [line] = [line for line in shown.splitlines() if line.startswith("cost: ")]
        cost, *left = percents(line) if "free" not in line else [Decimal(0), *percents(line)]
        costs.append(cost)
        spent, rest = account(run("budget", shop, "--analyst", "ana"), "analyst ana")
        assert left == [rest]
        assert spent + rest == 100
        assert abs(sum(costs) - spent) <= ROUNDING * len(costs) + ROUNDING
    assert costs[0] == 2 and costs[4] == 0

    mine = run("ledger", "log", shop.parent / "shop.ledger", "--analyst", "ana")
    logged = [percents(line)[0] for line in mine.splitlines() if " charge " in line]
    assert len(logged) >= len(ASKED) - 1
    assert abs(sum(logged) - spent) <= ROUNDING * len(logged) + ROUNDING

    everyone, rest = account(run("budget", shop), "dataset (everyone)")
    whole = run("ledger", "log", shop.parent / "shop.ledger")
    logged = [percents(line)[0] for line in whole.splitlines() if " charge " in line]
    assert everyone + rest == 100
    assert abs(sum(logged) - everyone) <= ROUNDING * len(logged) + ROUNDING
    assert everyone < spent


def test_the_price_shown_by_explain_is_the_price(shop: Path) -> None:
    sql = "SELECT count(*) AS n FROM t WHERE x < 10"
    told = percents(run("explain", shop, sql, "--analyst", "ana", "--price", "2%"))[0]
    assert percents(run("query", shop, sql, "--analyst", "ana", "--price", "2%"))[-2] == told


@pytest.mark.parametrize("delta", ["0", "1e-6"])
@pytest.mark.parametrize("keys", [False, True])
def test_what_a_budget_offers_is_answered(shop: Path, delta: str, keys: bool, tmp_path: Path) -> None:
    if keys and delta == "0":
        pytest.skip("private keys need a delta")
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.replace("1e-6", delta))
    by = "GROUP BY k" if keys else "GROUP BY s"
    with dpsql.connect(shop, policy=policy, analyst="ana") as db:
        db.query("SELECT s, avg(x) AS m FROM t GROUP BY s", epsilon=1)
        db.query("SELECT sum(x) AS m FROM t", epsilon=0.59)
        if delta != "0":
            db.query("SELECT k, sum(x) AS m FROM t GROUP BY k", price="1%", delta=3e-7)
        [offer] = re.findall(
            r"may cost up to ([0-9.]+%)(?:, with private group keys up to ([0-9.]+%))?", str(db.budget())
        )
        price = offer[1] if keys and offer[1] else offer[0]
        answer = db.query(f"SELECT {by[-1]}, count(*) AS n, sum(x) AS y FROM t {by}", price=price)
        assert answer.cost.share == pytest.approx(float(Decimal(price.rstrip("%"))) / 100, rel=0.1)


def test_epsilon_and_delta_and_rho_are_shown_on_request(shop: Path) -> None:
    assert "ρ = " not in run("query", shop, ASKED[0][0], "--analyst", "ana", "--price", "1%")
    assert "ρ = " in run("query", shop, "SELECT min(x) AS m FROM t", "--analyst", "ana", "--price", "1%", "--details")
    assert "ρ" not in run("budget", shop, "--analyst", "ana")
    assert "ρ" in run("budget", shop, "--analyst", "ana", "--details")
    assert "ρ = " in run("ledger", "log", shop.parent / "shop.ledger", "--details")
    told = json.loads(run("budget", shop, "--analyst", "ana", "--format", "json"))
    assert 0 < told["analyst"]["share"] < told["largest_price"] < 1
