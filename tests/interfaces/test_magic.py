"""The notebook's magic: results in `_` and in names, refusals as message, caret and hint instead of a traceback."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql.pandas

pytest.importorskip("IPython")
POLICY = """
dataset: town
search: false
budget: {epsilon: 10, analysts: {ana: {epsilon: 5}}}
defaults: {epsilon: 0.5}
tables:
  people: {unit: id, unique: true, columns: {age: {min: 18, max: 90}, sex: {values: [f, m]}}}
"""
SQL = "SELECT sex, count(*) AS n FROM people GROUP BY sex"


@pytest.fixture
def town(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "town.duckdb")) as db:
        db.execute(
            "CREATE TABLE people AS SELECT i AS id, 18 + i % 70 AS age, ['f', 'm'][1 + i % 2] AS sex FROM range(200) t(i)"
        )
    (tmp_path / "policy.yaml").write_text(POLICY)
    return tmp_path


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A shell that sets `_` to its last result: IPython leaves it alone where a doctest has left one behind."""
    from IPython.core.interactiveshell import InteractiveShell

    monkeypatch.delattr(builtins, "_", raising=False)
    made = InteractiveShell()
    made.run_line_magic("load_ext", "dpsql")
    yield made
    made.run_line_magic("unload_ext", "dpsql")
    InteractiveShell.clear_instance()


@pytest.fixture
def connected(shell: Any, town: Path) -> Any:
    shell.run_line_magic("dpsql", f"connect {town / 'town.duckdb'} --analyst ana")
    return shell


def test_a_cell_is_answered_and_its_result_kept(connected: Any) -> None:
    done = connected.run_cell(f"%%dpsql --epsilon 0.2 --as answer\n{SQL}", store_history=True)
    result = done.result
    assert done.success and isinstance(result, dpsql.Result) and result.cost.epsilon == 0.2
    assert connected.user_ns["answer"] is result and connected.user_ns["_"] is result


def test_every_option_reaches_the_query(connected: Any, town: Path) -> None:
    run = connected.run_cell_magic
    assert run("dpsql", "--mechanism laplace", SQL).mechanism == "laplace"
    assert "cost" in str(run("dpsql", "--explain --epsilon 0.3", SQL)) and not hasattr(
        run("dpsql", "--explain", SQL), "df"
    )
    assert run("dpsql", "--within n=60", "SELECT count(*) AS n FROM people WHERE age > 30").cost.epsilon < 0.5
    assert connected.run_line_magic("dpsql", SQL).columns == ("sex", "n")
    assert "cost" in str(connected.run_line_magic("dpsql", f"explain {SQL}"))
    assert connected.run_line_magic("dpsql", "budget").name == "ana"


def test_settings_are_settled(connected: Any) -> None:
    assert connected.run_line_magic("dpsql", "SET dpsql.epsilon = 0.25") is None
    assert connected.run_cell_magic("dpsql", "", "SELECT avg(age) FROM people").cost.epsilon == 0.25


def test_tables_and_help_are_printed(connected: Any, capsys: Any) -> None:
    connected.run_line_magic("dpsql", "tables")
    connected.run_line_magic("dpsql", "")
    told = capsys.readouterr().out
    assert "people" in told and "18 to 90" in told and "%%dpsql" in told


def test_a_connection_or_a_frame_of_ones_own(shell: Any, town: Path) -> None:
    import pandas as pd

    shell.user_ns["frame"] = pd.DataFrame({"x": [1, 2, 3]}).dp.protect(unit="row", bounds={"x": (0, 5)}, epsilon=3)
    shell.run_line_magic("dpsql", "use frame")
    assert shell.run_cell_magic("dpsql", "", "SELECT sum(x) FROM df").cost.epsilon == pytest.approx(0.3)
    assert "cost" in str(shell.run_line_magic("dpsql", "explain SELECT sum(x) FROM df"))
    shell.run_line_magic("dpsql", "tables")
    with dpsql.connect(town / "town.duckdb", policy=town / "policy.yaml", analyst="ana") as db:
        shell.user_ns["db"] = db
        shell.run_line_magic("dpsql", "use db")
        assert len(shell.run_cell_magic("dpsql", "", SQL)) >= 2


REFUSED = {
    "a wrong column": (SQL.replace("sex, ", "sexx, "), "", "^^^^"),
    "a listing of rows": ("SELECT * FROM people", "", "hint:"),
    "syntax": ("SELECT FROM WHERE", "", "hint:"),
    "too much": (SQL, "--epsilon 20", "hint:"),
    "a wrong option": (SQL, "--epsylon 2", "%dpsql help"),
    "a wrong number": (SQL, "--epsilon much", "%dpsql help"),
    "a wrong name": (SQL, "--as 3x", "--as answer"),
    "an open quote": (SQL, "--as 'x", "hint:"),
    "a wrong accuracy": (SQL, "--within much", "--within 100"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_is_short_and_has_no_traceback(connected: Any, case: str, capsys: Any) -> None:
    sql, options, said = REFUSED[case]
    done = connected.run_cell(f"%%dpsql {options}\n{sql}")
    shown = "".join(capsys.readouterr())
    assert not done.success and isinstance(done.error_in_exec, dpsql.Error)
    assert said in shown and "Traceback" not in shown and "session.py" not in shown and len(shown.splitlines()) < 8
    assert connected.run_line_magic("dpsql", "budget").analyst.spent.epsilon == 0


@pytest.mark.parametrize(
    "line", [SQL, "budget", "explain SELECT 1", "tables", "use nothing", "use", "connect", "connect nowhere.duckdb"]
)
def test_without_a_connection_the_way_there_is_told(shell: Any, line: str) -> None:
    with pytest.raises(dpsql.Error) as caught:
        shell.run_line_magic("dpsql", line)
    assert caught.value.hint
