"""The demo, as a newcomer sees it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpsql.interfaces.cli.demo import CUSTOMERS, ORDERS, QUESTIONS, make_shop
from dpsql.interfaces.cli.main import app


def _months(shown: str) -> list[tuple[float, float, float]]:
    """The ends of each error bar of question 5, and the truth."""
    found = re.findall(r"^ 2024-\d\d-01 +([\d.]+) (?:± ([\d.]+)|\(([\d.]+) to ([\d.]+)\)) +([\d.]+)", shown, re.M)
    return [
        (float(low or 0) or float(value) - float(half), float(high or 0) or float(value) + float(half), float(true))
        for value, half, low, high, true in found
    ]


@pytest.fixture(scope="module")
def shown() -> str:
    """What it prints at 80 columns."""
    done = CliRunner().invoke(app, ["demo"], env={"COLUMNS": "80", "TERM": "dumb"})
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_process_of_its_own_leaves_nothing_behind(tmp_path: Path) -> None:
    """Its noise is the operating system's own, so only what does not depend on it is looked at."""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-m", "dpsql", "demo"]
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, check=False, capture_output=True, text=True, timeout=600
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert all(question.title in done.stdout for question in QUESTIONS)
    assert list(tmp_path.iterdir()) == [], "the temporary folder stays behind"


def test_five_questions_with_error_bars_cost_and_what_is_left(shown: str) -> None:
    assert len(QUESTIONS) == 5
    parts = re.split(r"^\d\. ", shown, flags=re.M)[1:]
    assert len(parts) == 5
    for part, question in zip(parts, QUESTIONS, strict=True):
        assert part.startswith(question.title)
        assert re.search(r"\d ± \d", part)
        assert re.search(r"cost: [345]\.\d\d% of your budget   left: \d\d\.\d\d%", part)


def test_what_is_left_shrinks_and_the_repetition_is_free(shown: str) -> None:
    left = [float(each) for each in re.findall(r"left: (\d\d\.\d\d)%", shown)]
    assert left[:5] == sorted(left[:5], reverse=True)
    assert len(set(left[:5])) == 5, "counts alone are clipped otherwise than beside sums, so question 4 is a new one"
    assert left[5] == left[4]
    assert "cost: free (released before, and replayed)" in shown


def test_the_refusal_has_caret_and_hint(shown: str) -> None:
    refusal = shown.partition("Refused")[2]
    line, carets = re.findall(r"^(line 1: .*)\n( *\^+)$", refusal, re.M)[0]
    assert line[carets.index("^") : len(carets)] == "customer_id, tip FROM orders"
    assert "\nhint: " in refusal


def test_nothing_is_wider_than_the_terminal(shown: str) -> None:
    assert max(map(len, shown.splitlines())) <= 80


def test_the_truth_is_marked_as_the_demos_own(shown: str) -> None:
    assert "only a demo can show it" in " ".join(shown.split())


def test_error_bars_hold_the_truth_mostly(shown: str) -> None:
    """Question 5 has twelve averages; each error bar misses once in twenty, so six misses are out of the question."""
    rows = _months(shown)
    assert len(rows) == 12
    assert sum(not low <= true <= high for low, high, true in rows) < 6


def test_a_kept_shop_can_be_asked_and_its_noise_is_fresh(shown: str, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    done = CliRunner().invoke(app, ["demo", "--keep", str(folder)], env={"COLUMNS": "100", "TERM": "dumb"})
    assert done.exit_code == 0, done.output
    *lines, last = done.stdout.splitlines()
    assert 80 < max(map(len, lines)) <= 100
    assert last == f"Go on:  dpsql shell {folder / 'shop.duckdb'} --analyst ana"
    assert _months(done.stdout) != _months(shown)
    assert sorted(each.name for each in folder.iterdir()) == [
        "policy.yaml",
        "shop.duckdb",
        "shop.ledger",
        "shop.ledger.head",
    ]
    assert (folder / "shop.ledger").stat().st_mode & 0o777 == 0o600
    asked = ["query", str(folder / "shop.duckdb"), "SELECT count(*) AS n FROM customers", "--analyst", "ana"]
    assert CliRunner().invoke(app, asked).exit_code == 0
    again = CliRunner().invoke(app, ["demo", "--keep", str(folder)])
    assert again.exit_code == 1 and "does not exist yet" in again.stderr


def test_the_shop_is_as_large_as_it_says_and_obeys_its_policy(tmp_path: Path) -> None:
    import duckdb

    shop = make_shop(tmp_path)
    with duckdb.connect(str(shop.database), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM customers").fetchone() == (CUSTOMERS,)
        assert connection.execute("SELECT count(*) FROM orders").fetchone() == (ORDERS,)
        most = connection.execute(
            "SELECT max(n) FROM (SELECT count(*) AS n FROM orders GROUP BY customer_id)"
        ).fetchone()
        assert most is not None and most[0] <= 16
    assert CliRunner().invoke(app, ["check", str(shop.database)]).exit_code == 0
