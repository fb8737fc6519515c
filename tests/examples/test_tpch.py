"""The TPC-H example at a small scale: what is answered, what is refused, and that public answers are DuckDB's own."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "tpch"
SCALE = 0.01
EXACT = {"Q2", "Q11", "Q16"}
LISTING = {"Q3", "Q10", "Q18"}
EVERYTHING = {f"Q{number}" for number in range(1, 23)}


@pytest.fixture(scope="module")
def example() -> Iterator[Any]:
    """The example's own modules, imported as its command does."""
    sys.path.insert(0, str(FOLDER))
    try:
        import run
        import tpch_data

        try:
            tpch_data.generator()
        except tpch_data.NoGenerator as problem:
            pytest.skip(str(problem))
        yield run
    finally:
        sys.path.remove(str(FOLDER))
        for name in ("run", "tpch_compare", "tpch_data"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def made(example: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    from rich.progress import Progress

    price = example.Price(epsilon=1.0)
    with Progress(disable=True) as progress:
        all_of_them = example.run(tmp_path_factory.mktemp("tpch"), SCALE, price, 1, list(range(1, 23)), progress)
    return {each.name: each for each in all_of_them}


def test_what_is_answered_and_what_is_refused(made: dict[str, Any]) -> None:
    outcomes = {name: each.outcome for name, each in made.items()}
    expected = dict.fromkeys(EVERYTHING - EXACT - LISTING, "private")
    expected |= dict.fromkeys(EXACT, "exact") | dict.fromkeys(LISTING, "refused")
    expected |= {f"{name} rewritten": "private" for name in LISTING}
    assert outcomes == expected


def test_what_lists_customers_or_orders_is_refused_for_that(made: dict[str, Any]) -> None:
    assert all("would show each" in made[name].reason for name in LISTING)


def test_without_noise_little_is_cut_off(made: dict[str, Any]) -> None:
    answered = [each for each in made.values() if each.outcome == "private" and each.cut is not None]
    assert len(answered) > 12
    assert {each.name: each.cut for each in answered if each.cut > 0.02} == {}


def test_every_row_of_the_exact_answer_is_found(made: dict[str, Any]) -> None:
    picked_by_noise = {"Q15", "Q20"}
    kept = [each for each in made.values() if each.outcome == "private" and each.name not in picked_by_noise]
    assert {each.name: (each.found, each.rows) for each in kept if each.found != each.rows} == {}


def test_an_exact_answer_that_differs_is_called_wrong(example: Any, made: dict[str, Any]) -> None:
    """The comparison itself can fail: a plain database with other rows."""
    import duckdb
    from tpch_compare import Question, compare

    import dpsql

    policy = {"dataset": "p", "search": False, "budget": {"epsilon": 1}, "tables": {"p": {"public": True}}}
    with duckdb.connect() as plain, duckdb.connect() as other:
        for value, connection in enumerate((plain, other)):
            connection.execute(f"CREATE TABLE p AS SELECT {value} AS x")
        with dpsql.connect(other, policy=policy, ledger=":memory:") as db:
            question = Question("P", "SELECT x FROM p")
            assert compare(db, plain, question, example.Price(1.0), 1).outcome == "wrong"
            assert compare(db, other, question, example.Price(1.0), 1).outcome == "exact"


def test_the_command_prints_a_table_or_json(
    example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["run.py", "--scale", str(SCALE), "--data", str(tmp_path), "--runs", "1", "--queries", "6", "11"]
    monkeypatch.setattr(sys, "argv", asked)
    assert example.main() == 0
    assert "Q11" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", [*asked, "--json"])
    assert example.main() == 0
    assert [each["outcome"] for each in json.loads(capsys.readouterr().out)] == ["private", "exact"]


def test_without_the_generator_it_says_what_to_install(
    example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(sys, "argv", ["run.py", "--data", str(tmp_path)])
    assert example.main() == 1
    assert "pip install tpchgen-cli" in capsys.readouterr().err
