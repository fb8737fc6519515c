"""The steward's commands, as typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dpsql.budget import Caps, Cost, Request, open_ledger, pure_charge
from dpsql.interfaces.cli.main import app

POLICY = """
dataset: shop
search: false
budget: {{epsilon: {cap}, delta: 0, analysts: {{ana: {{epsilon: 1}}}}}}
limits: {{epsilon: 1, delta: 0}}
defaults: {{epsilon: 0.1, delta: 0}}
tables: {{visits: {{unit: row, columns: {{duration: {{min: 0, max: 3600}}}}}}}}
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "shop.ledger"
    with open_ledger(path, "shop") as opened:
        charge, cost = pure_charge(0.1), Cost(0.1, 0.0, 0.0)
        entry = opened.reserve(
            Request("ana", charge, cost, Caps(2, 0), None, "SELECT count(*)\nFROM visits", (b"f",))
        ).entry
        opened.store(entry, b"f", b"noisy")
    return path


def run(*words: object, code: int = 0) -> str:
    done: Result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    assert done.exit_code == code, done.output
    return done.output


def test_verify_and_log_tell_who_asked_what(ledger: Path) -> None:
    assert "whole. Dataset 'shop', 4 entries, 1 charge, 1 release" in run("ledger", "verify", ledger)
    shown = run("ledger", "log", ledger)
    assert "ana" in shown
    assert "SELECT count(*)" in shown
    assert "%" in shown and "ε = 0.1" in run("ledger", "log", ledger, "--details")
    assert "charge" not in run("ledger", "log", ledger, "--last", 1)


def test_an_export_is_json_without_salt_or_release(ledger: Path, tmp_path: Path) -> None:
    text = run("ledger", "export", ledger)
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["kind"] for line in lines] == ["account", "caps", "charge", "release"]
    with open_ledger(ledger, "shop") as opened:
        assert opened.salt().hex() not in text
    assert b"noisy".hex() not in text
    assert "noisy" not in text
    run("ledger", "export", ledger, "--to", tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_text() == text
    run("ledger", "export", ledger, "--to", tmp_path / "out.jsonl", code=1)


def test_backup_and_restore(ledger: Path, tmp_path: Path) -> None:
    run("ledger", "backup", ledger, tmp_path / "copy")
    ledger.unlink()
    assert "is refused" in run("ledger", "verify", ledger, code=1)
    assert "records the steward's name" in run("ledger", "restore", ledger, "--from", tmp_path / "copy", code=1)
    assert "restored, 5 entries" in run("ledger", "restore", ledger, "--from", tmp_path / "copy", "--by", "ste")
    run("ledger", "verify", ledger)
    assert "has this version" in run("ledger", "migrate", ledger, "--by", "ste")


def test_caps_rise_by_command(ledger: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.format(cap=7))
    assert "dataset: ε = 7, δ = 0: recorded" in run("ledger", "raise-cap", policy, "--by", "ste")
    assert "dataset: ε = 7, δ = 0: in force already" in run("ledger", "raise-cap", policy, "--by", "ste")
    assert "by ste" in run("ledger", "log", ledger)


def test_the_other_acts(ledger: Path) -> None:
    run("ledger", "accept-clock", ledger, "--by", "ste")
    run("data", "bump", ledger, "2026-11", "--by", "ste")
    with open_ledger(ledger, "shop") as opened:
        assert opened.label() == "2026-11"


def test_a_missing_file_is_never_made(tmp_path: Path) -> None:
    for command in ("verify", "log", "export"):
        assert "no ledger" in run("ledger", command, tmp_path / "none", code=1)
    assert list(tmp_path.iterdir()) == []


def test_a_loss_is_stated_as_a_share_of_the_budget(ledger: Path, tmp_path: Path) -> None:
    run("ledger", "backup", ledger, tmp_path / "copy")
    ledger.unlink()
    ledger.with_name(ledger.name + ".head").unlink()
    restoring = ("ledger", "restore", ledger, "--from", tmp_path / "copy", "--by", "ste")
    assert "--lost 20%" in run(*restoring, code=1)
    assert "must be a share" in run(*restoring, "--lost", "20", code=1)
    assert "restored" in run(*restoring, "--lost", "20%")
    assert "ste stated that 20% of the budget" in " ".join(run("ledger", "export", ledger).split())
