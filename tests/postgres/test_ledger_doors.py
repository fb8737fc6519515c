"""A shared ledger through every door: sessions, frames, the policy and the command line; its password through none."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pandas as pd
import pytest
from postgres_server import PASSWORD, ROLE, Server, fresh_ledger
from typer.testing import CliRunner

import dpsql
from dpsql.budget import open_ledger, pure_charge
from dpsql.errors import BudgetExceeded, InterfaceError, LedgerError, PolicyError
from dpsql.interfaces.cli.demo import make_shop
from dpsql.interfaces.cli.main import app

POLICY = {
    "dataset": "shop",
    "search": False,
    "budget": {"epsilon": 1, "delta": 0, "analysts": {"ana": {}, "bob": {}}},
    "limits": {"epsilon": 1, "delta": 0},
    "defaults": {"epsilon": 0.5, "delta": 0},
    "tables": {"visits": {"unit": "row", "columns": {"minutes": {"min": 0, "max": 60}}}},
}
VISITS = pd.DataFrame({"minutes": range(100)})


@pytest.fixture
def url(postgres: Server) -> str:
    return fresh_ledger(postgres)


def run(*words: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "300"})
    assert done.exit_code == code, done.output
    assert PASSWORD not in done.output and "geheim" not in done.output
    return done.output


def test_two_sessions_share_caps_and_answers(url: str) -> None:
    with (
        dpsql.connect({"visits": VISITS}, policy=POLICY, ledger=url, analyst="ana") as ana,
        dpsql.connect({"visits": VISITS}, policy=POLICY, ledger=url, analyst="bob") as bob,
    ):
        ana.query("SELECT count(*) FROM visits")
        bob.query("SELECT sum(minutes) FROM visits")
        with pytest.raises(BudgetExceeded, match="left for everyone on 'shop': nothing"):
            ana.query("SELECT count(*) FROM visits WHERE minutes < 7")
        assert ana.budget().dataset.remaining.epsilon == 0 == bob.budget().dataset.remaining.epsilon
        assert ana.query("SELECT count(*) FROM visits").replayed


def test_an_answer_is_replayed_in_another_session(url: str, tmp_path: Path) -> None:
    make_shop(tmp_path)
    place = {"policy": tmp_path / "policy.yaml", "ledger": url, "analyst": "ana"}
    with dpsql.connect(tmp_path / "shop.duckdb", **place) as one:
        first = one.query("SELECT count(*) FROM orders")
    with dpsql.connect(tmp_path / "shop.duckdb", **place) as two:
        again = two.query("SELECT count(*) FROM orders")
    assert again.replayed and again.fetchall() == first.fetchall()


def test_the_policy_names_the_ledger_without_its_password(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = urlsplit(url)
    plain = f"postgresql://{ROLE}@127.0.0.1:{parts.port}/postgres"
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with dpsql.connect({"visits": VISITS}, policy={**POLICY, "ledger": plain}, analyst="ana") as ana:
        ana.query("SELECT count(*) FROM visits")
        assert ana.ledger.place == plain
    with pytest.raises(PolicyError, match="holds a password") as refusal:
        dpsql.connect({"visits": VISITS}, policy={**POLICY, "ledger": url}, analyst="ana")
    assert "geheim" not in f"{refusal.value!r} {refusal.value}"
    make_shop(tmp_path)
    policy = tmp_path / "policy.yaml"
    policy.write_text(policy.read_text() + f"\nledger: {plain}\n")
    assert "recorded" in run("ledger", "raise-cap", policy, "--by", "ste")
    run("query", tmp_path / "shop.duckdb", "SELECT count(*) FROM orders", "--analyst", "ana")
    assert not (tmp_path / "shop.ledger").exists()
    assert f"ledger: {plain}" in run("check", tmp_path / "shop.duckdb")


def test_a_frame_keeps_its_account_there(postgres: Server, url: str) -> None:
    frame = dpsql.protect(VISITS, unit="row", epsilon=1, bounds={"minutes": (0, 60)}, name="shop", ledger=url)
    frame["minutes"].sum(epsilon=0.5)
    with open_ledger(url, "shop") as ledger:
        assert 0 < (ledger.spent(None).epsilon or 0) <= (pure_charge(0.5).epsilon or 0)
    with pytest.raises(InterfaceError, match=r"whose account at postgresql://dpsql_server@127"):
        dpsql.protect(VISITS.copy(), unit="row", epsilon=1, bounds={"minutes": (0, 60)}, ledger=url)
    frame._view.protection._ledger.close()


def test_every_command_of_the_steward(postgres: Server, url: str, tmp_path: Path) -> None:
    make_shop(tmp_path)
    shop, copy = tmp_path / "shop.duckdb", tmp_path / "copy"
    run("query", shop, "SELECT count(*) FROM orders", "--ledger", url, "--analyst", "ana")
    assert "spent" in run("budget", shop, "--ledger", url)
    assert "postgresql://dpsql_server@127.0.0.1" in run("ledger", "verify", url)
    assert "SELECT count(*)" in run("ledger", "log", url)
    assert "SELECT count(*)" in run("ledger", "export", url)
    run("ledger", "backup", url, copy)
    run("data", "bump", url, "2026-11", "--by", "ste")
    run("ledger", "accept-clock", url, "--by", "ste")
    assert "closed to this role" in run("ledger", "restore", url, "--from", copy, "--by", "ste", code=1)
    assert "the ledger that was there before" in run("ledger", "restore", postgres.url(), "--from", copy, "--by", "ste")
    assert "is no file" in run("ledger", "migrate", url, "--by", "ste", code=1)
    assert "already has an account of 'shop'" in run("ledger", "create", postgres.url(), "--dataset", "shop", code=1)
    assert "created for the dataset 'bank'" in run("ledger", "create", postgres.url(), "--dataset", "bank")
    assert "2 accounts" in run("ledger", "verify", url, code=1)
    run("ledger", "verify", f"{url}?dataset=shop")
    assert "created for the dataset" in run("ledger", "create", tmp_path / "new.ledger", "--dataset", "shop")


def test_a_lost_server_is_a_clear_error_and_the_next_query_works(postgres: Server, url: str) -> None:
    with dpsql.connect({"visits": VISITS}, policy=POLICY, ledger=url, analyst="ana") as ana:
        postgres.kill()
        try:
            with pytest.raises(LedgerError, match="cannot be read or written"):
                ana.query("SELECT count(*) FROM visits", epsilon=0.1)
        finally:
            postgres.start()
        ana.query("SELECT count(*) FROM visits", epsilon=0.1)
