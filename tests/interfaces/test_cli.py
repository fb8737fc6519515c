"""Every command of the command line, through its real entry, and its error paths."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import duckdb
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import dpsql
from dpsql import progress
from dpsql.answers import number_format
from dpsql.expressions.functions.function import Function
from dpsql.expressions.functions.table import SUBJECTS
from dpsql.interfaces.cli import output, shell, terminal
from dpsql.interfaces.cli.function_list import listing
from dpsql.interfaces.cli.main import app
from dpsql.interfaces.cli.shell import complete, split
from dpsql.policy import parse_policy

POLICY = """\
dataset: town
search: false
budget: {epsilon: 4, delta: 1e-6, analysts: {ana: {epsilon: 2}, bob: {tables: [streets]}}}
limits: {epsilon: 1}
tables:
  people:
    unit: id
    unique: true
    columns:
      age: {min: 0, max: 100}
      sex: {values: [f, m], nulls: false}
      name: {}
      note: {}
      born: {min: 1920-01-01, max: 2024-12-31}
  streets: {public: true}
"""
COUNT = "SELECT sex, count(*) AS n, avg(age) AS age FROM people GROUP BY sex ORDER BY sex"


@pytest.fixture
def town(tmp_path: Path) -> Path:
    """A database of 400 people without any constraint, and its policy beside it."""
    path = tmp_path / "town.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE people AS SELECT i AS id, (i % 90)::INTEGER AS age, ['f', 'm'][i % 2 + 1] AS sex, "
            "chr(27) || '[31mred' AS name, 0.5 * i AS note, DATE '1950-01-01' + (i % 9000)::INTEGER AS born "
            "FROM range(400) AS r(i)"
        )
        connection.execute("CREATE TABLE streets AS SELECT 'High Street' AS name, 7 AS houses")
    (tmp_path / "policy.yaml").write_text(POLICY)
    return path


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setenv("DPSQL_HISTORY", str(tmp_path / "private" / "history"))


def run(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments], input=stdin)


def ask(town: Path, sql: str, *more: object) -> Result:
    return run("query", town, sql, "--analyst", "ana", *more)


def refused(done: Result, *parts: str) -> None:
    """Exit code 1, nothing on standard output, message and hint on standard error, and never a traceback."""
    assert done.exit_code == 1, done.output
    assert done.stdout == ""
    assert "hint: " in done.stderr and "Traceback" not in done.stderr
    for part in parts:
        assert part in done.stderr


# query -----------------------------------------------------------------------------------------------


def test_a_table_has_error_bars_cost_and_what_they_leave_out(town: Path) -> None:
    done = ask(town, COUNT)
    assert done.exit_code == 0, done.output
    assert re.search(r"^ f +[\d,]+ ± \d+ ", done.stdout, re.M)
    assert "% of your budget; left: " in done.stdout
    assert "note: values of age outside [0, 100] are clamped" in done.stdout


def test_the_second_time_is_free_and_shows_the_same(town: Path) -> None:
    one, two = ask(town, COUNT), ask(town, COUNT)
    assert "cost: free (released before, and replayed)" in two.stdout
    assert one.stdout.partition("cost:")[0] == two.stdout.partition("cost:")[0]


def test_csv_has_the_ends_beside_each_noisy_column(town: Path) -> None:
    done = ask(town, COUNT, "--format", "csv")
    header, *rows = list(csv.reader(StringIO(done.stdout)))
    assert header == ["sex", "n", "n_low", "n_high", "age", "age_low", "age_high"]
    assert [row[0] for row in rows] == ["f", "m"]
    for row in rows:
        assert int(row[2]) <= int(row[1]) <= int(row[3])
        assert float(row[5]) <= float(row[4]) <= float(row[6])


def test_json_holds_everything_and_is_strict(town: Path) -> None:
    done = ask(town, COUNT, "--format", "json")
    read = json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert [each["name"] for each in read["columns"]] == ["sex", "n", "age"]
    assert [each["noisy"] for each in read["columns"]] == [False, True, True]
    assert len(read["rows"]) == 2 and len(read["intervals"]["n"]) == 2
    assert read["cost"]["epsilon"] == 0.5 and read["replayed"] is False and read["confidence"] == 0.95


def test_json_turns_what_json_lacks_into_null_and_text() -> None:
    from datetime import date
    from decimal import Decimal

    made = json.loads(output.as_json({"a": float("nan"), "b": [date(2024, 1, 2), Decimal("1.5")], "c": float("inf")}))
    assert made == {"a": None, "b": ["2024-01-02", 1.5], "c": None}


def test_the_query_comes_from_standard_input_or_a_file(town: Path, tmp_path: Path) -> None:
    file = tmp_path / "q.sql"
    file.write_text("SELECT count(*) AS n FROM people -- a comment\n;\n")
    assert run("query", town, "-", "--analyst", "ana", stdin="SELECT count(*) AS n FROM people;").exit_code == 0
    assert "replayed" in run("query", town, "--file", file, "--analyst", "ana").stdout


def test_price_and_mechanism_are_taken(town: Path) -> None:
    done = ask(town, COUNT, "--epsilon", 0.25, "--mechanism", "laplace", "--format", "json")
    read = json.loads(done.stdout)
    assert read["cost"]["epsilon"] == 0.25 and read["cost"]["delta"] == 0 and read["mechanism"] == "laplace"


def test_nonnegative_shows_no_count_below_zero(town: Path) -> None:
    sql = "SELECT age, count(*) AS n FROM people WHERE id < 0 GROUP BY age"
    counts = json.loads(ask(town, sql, "--epsilon", 0.1, "--format", "json").stdout)["rows"]
    clipped = json.loads(ask(town, sql, "--epsilon", 0.1, "--format", "json", "--nonnegative").stdout)["rows"]
    assert min(row[1] for row in counts) < 0
    assert [row[1] for row in clipped] == [max(0, row[1]) for row in counts]


def test_clipped_measures_what_the_bounds_cut_off(town: Path) -> None:
    done = ask(town, "SELECT avg(age) FROM people", "--epsilon", 1, "--format", "json", "--clipped")
    read = json.loads(done.stdout)
    assert read["cost"]["epsilon"] == 1
    assert all(0 <= each["low"] <= each["high"] <= 1 for each in read["clipped"])
    assert "were clamped to" in read["clipped"][-1]["what"]
    assert "avg(CAST" in run("explain", town, "SELECT avg(age) FROM people", "--analyst", "ana", "--clipped").stdout


def test_error_bars_stand_beside_the_aggregate(town: Path) -> None:
    [[n, low, high]] = json.loads(
        ask(town, "SELECT count(*) AS n, DP_LOW(n), DP_HIGH(n) FROM people", "--format", "json").stdout
    )["rows"]
    assert low < n < high
    assert "dp_error" in run("functions").stdout


def test_a_public_table_is_exact_and_free(town: Path) -> None:
    done = ask(town, "SELECT name, houses FROM streets")
    assert "High Street" in done.stdout and "free (no private data was used)" in done.stdout and "±" not in done.stdout


def test_a_key_from_the_data_cannot_send_control_codes_to_the_terminal(town: Path) -> None:
    done = ask(town, "SELECT name, count(*) AS n FROM people GROUP BY name", "--epsilon", 1)
    assert "�[31mred" in done.stdout
    assert "\x1b" not in done.stdout


# errors ----------------------------------------------------------------------------------------------


def test_a_refusal_points_at_the_clause(town: Path) -> None:
    done = ask(town, "SELECT sex,\n  sum(note) FROM people GROUP BY sex")
    refused(done, "needs bounds")
    line, carets = re.findall(r"^(line 2: .*)\n( *\^+)$", done.stderr, re.M)[0]
    assert line[carets.index("^") : len(carets)] == "note"


def test_a_long_line_is_not_wrapped_so_the_caret_stays_in_place(town: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    done = ask(town, "SELECT sex, count(*) AS how_many_people_there_are, sum(note) FROM people GROUP BY sex")
    line, carets = re.findall(r"^(line 1: .*)\n( *\^+)$", done.stderr, re.M)[0]
    assert line[carets.index("^") : len(carets)] == "note"


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["query", "{db}", "SELECT * FROM people", "--analyst", "ana"], "would list rows"),
        (["query", "{db}", "SELECT count(* FROM people", "--analyst", "ana"], "could not be parsed"),
        (["query", "{db}", "SELECT count(*) FROM peopl", "--analyst", "ana"], "did you mean people?"),
        (["query", "{db}", "SELECT count(*) FROM people", "--analyst", "bob"], "no table people"),
        (["query", "{db}", "SELECT count(*) FROM people", "--analyst", "eve"], "no analyst"),
        (["query", "{db}", "SELECT count(*) FROM people", "--analyst", "ana", "--epsilon", "1.5"], "up to 1"),
        (["query", "{db}.not", "SELECT 1", "--analyst", "ana"], "no database file"),
        (["query", "{db}", "SELECT 1", "--policy", "nowhere.yaml"], "no policy file"),
        (["explain", "{db}", "DROP TABLE people", "--analyst", "ana"], "not a query"),
        (["budget", "{db}", "--analyst", "eve"], "no analyst"),
        (["shell", "{db}", "--analyst", "eve"], "no analyst"),
        (["check", "{db}", "--policy", "nowhere.yaml"], "no policy file"),
        (["init", "{db}.not"], "no database file"),
    ],
)
def test_what_cannot_be_done_is_said_on_standard_error(town: Path, arguments: list[str], part: str) -> None:
    refused(run(*(each.format(db=town) for each in arguments)), part)


@pytest.mark.parametrize(
    "arguments",
    [
        ["query", "{db}"],
        ["query", "{db}", "SELECT 1", "--file", "{db}"],
        ["query", "{db}", "--file", "nowhere.sql"],
        ["query", "{db}", "SELECT 1", "--mechanism", "magic"],
        ["query", "{db}", "SELECT 1", "--format", "xml"],
        ["query", "{db}", "SELECT 1", "--epsilon", "much"],
        ["budget", "{db}", "--format", "csv"],
        ["nonsense"],
    ],
)
def test_wrong_usage_has_exit_code_2(town: Path, arguments: list[str]) -> None:
    done = run(*(each.format(db=town) for each in arguments))
    assert done.exit_code == 2 and done.stdout == "" and "Traceback" not in done.stderr


def test_a_spent_budget_refuses_and_charges_nothing(town: Path) -> None:
    prices = [0.5 + number / 1000 for number in range(400)]
    done = next(d for d in (ask(town, COUNT, "--epsilon", p, "--mechanism", "laplace") for p in prices) if d.exit_code)
    refused(done, "costs", "left for ana")
    before = run("budget", town, "--format", "json").stdout
    refused(ask(town, "SELECT avg(age) FROM people", "--epsilon", 1, "--mechanism", "laplace"))
    assert run("budget", town, "--format", "json").stdout == before


def test_an_unexpected_failure_is_named_by_its_kind_only(town: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("the salary of Ann is 4321")

    monkeypatch.setattr("dpsql.session.connect", fail)
    done = ask(town, COUNT)
    assert done.exit_code == 1 and "ValueError" in done.stderr and "4321" not in done.output
    assert "Traceback" not in done.output


# explain, budget, functions, version -----------------------------------------------------------------


def test_explain_spends_nothing_and_keeps_the_salt(town: Path, tmp_path: Path) -> None:
    ask(town, "SELECT count(*) FROM people")
    before = run("budget", town, "--format", "json").stdout
    plan, sql = (run("explain", town, COUNT, "--analyst", "ana", *more) for more in ([], ["--sql"]))
    assert "release over people" in plan.stdout and "laplace" in plan.stdout and "gaussian*" in plan.stdout
    assert sql.stdout.split()[0] == "SELECT"
    with dpsql.connect(town, policy=tmp_path / "policy.yaml", steward=True) as db:
        assert db.ledger.salt().hex() not in sql.stdout
    assert run("budget", town, "--format", "json").stdout == before


def test_the_budget_shows_dataset_and_analyst(town: Path) -> None:
    ask(town, COUNT)
    read = json.loads(run("budget", town, "--analyst", "ana", "--format", "json").stdout)
    assert read["dataset"]["caps"]["epsilon"] == 4 and read["analyst"]["caps"]["epsilon"] == 2
    assert read["analyst"]["name"] == "ana" and 0 < read["analyst"]["spent"]["epsilon"] < 1
    table = run("budget", town, "--analyst", "ana").stdout
    assert "dataset" in table and "analyst ana" in table
    assert "analyst" not in run("budget", town).stdout


def test_a_ledger_elsewhere_is_another_account(town: Path, tmp_path: Path) -> None:
    ask(town, COUNT, "--ledger", tmp_path / "other.ledger")
    assert json.loads(run("budget", town, "--format", "json").stdout)["dataset"]["spent"]["epsilon"] == 0
    assert (tmp_path / "other.ledger").stat().st_mode & 0o777 == 0o600
    assert ask(town, COUNT, "--ledger", ":memory:").exit_code == 0 and not Path(":memory:").exists()


def test_functions_are_grouped_and_none_is_left_over() -> None:
    done = run("functions")
    assert done.exit_code == 0 and "date_trunc" in done.stdout and "count(DISTINCT x)" in done.stdout
    groups = listing()
    assert "other" not in groups, groups["other"]
    assert {"min(x)", "max(x)", "median(x)"} <= set(groups["aggregates"])
    assert "like" not in {form for forms in groups.values() for form in forms}


TABLE = [function for functions in SUBJECTS.values() for function in functions]


@pytest.mark.parametrize("function", TABLE, ids=[f.name for f in TABLE])
def test_every_listed_function_is_accepted(session: dpsql.Connection, function: Function) -> None:
    columns = ("age", "name", "born", "age > 1")
    tried = (re.sub(r"\b[ab]\b", column, form) for column in columns for form in function.written)
    assert any(_accepted(session, form) for form in tried), f"{function.name} is listed and refused"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    """A connection for plans only."""
    import pandas as pd

    frame = pd.DataFrame(
        {"id": [1], "age": [5], "sex": ["f"], "name": ["x"], "note": [1.0], "born": [pd.Timestamp("2000-01-01")]}
    )
    policy = parse_policy(
        POLICY.replace("  streets: {public: true}\n", "").replace("bob: {tables: [streets]}", "bob: {}")
    )
    with dpsql.connect({"people": frame}, policy=policy, ledger=":memory:", analyst="ana") as db:
        yield db


def _accepted(session: dpsql.Connection, call: str) -> bool:
    try:
        session.explain(f"SELECT count({call}) FROM people")
    except dpsql.Error:
        return False
    return True


def test_the_version_and_the_help_are_quick() -> None:
    assert run("--version").stdout == f"dpsql {dpsql.__version__}\n"
    code = (
        "import sys; from typer.testing import CliRunner; from dpsql.interfaces.cli.main import app; "
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0; "
        "sys.exit(', '.join({'duckdb', 'pandas', 'numpy', 'sqlglot', 'pydantic'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"loaded for --help: {done.stderr}"


# the steward's commands ------------------------------------------------------------------------------


def test_a_fact_counts_only_once_check_has_verified_it(town: Path) -> None:
    before = run("explain", town, COUNT, "--analyst", "ana").stdout
    done = run("check", town)
    assert done.exit_code == 0, done.output
    assert re.search(r"✓ +people +unique", done.stdout) and "for this version of the data: 1" in done.stdout
    after = run("explain", town, COUNT, "--analyst", "ana").stdout
    assert "(verified)" in after and "(verified)" not in before


def test_a_missing_file_of_a_query_is_named(town: Path) -> None:
    done = run("query", town, "--file", "nowhere.sql", "--analyst", "ana")
    assert done.exit_code == 2 and "there is no file nowhere.sql" in " ".join(done.output.split())


def test_a_second_ledger_of_a_dataset_is_pointed_out(town: Path, tmp_path: Path) -> None:
    """With a policy in another folder the ledger is there too, and has a budget of its own."""
    assert "another ledger" not in run("check", town).stderr
    (tmp_path / "elsewhere").mkdir()
    copy = shutil.copy(town.parent / "policy.yaml", tmp_path / "elsewhere")
    assert "is another ledger of town" in " ".join(run("check", town, "--policy", copy).stderr.split())


def test_a_violated_fact_is_not_recorded(town: Path) -> None:
    with duckdb.connect(str(town)) as connection:
        connection.execute("INSERT INTO people SELECT * FROM people WHERE id = 3")
    done = run("check", town)
    assert (
        done.exit_code == 1 and "1 units have more than one row" in done.stdout and "fix what is marked" in done.stderr
    )
    assert "(verified)" not in run("explain", town, COUNT, "--analyst", "ana").stdout


def test_a_verified_fact_ends_with_the_version_of_the_data(town: Path) -> None:
    run("check", town)
    with duckdb.connect(str(town)) as connection:
        connection.execute("INSERT INTO people SELECT * FROM people WHERE id = 3")
    assert "(verified)" not in run("explain", town, COUNT, "--analyst", "ana").stdout


def test_init_drafts_beside_the_database_and_replaces_nothing(town: Path, tmp_path: Path) -> None:
    refused(run("init", town), "exists already")
    (tmp_path / "policy.yaml").unlink()
    done = run("init", town)
    assert done.exit_code == 0, done.output
    drafted, observed = tmp_path / "policy.yaml", tmp_path / "policy.observed.yaml"
    assert observed.stat().st_mode & 0o777 == 0o600
    assert "dataset: town\n" in drafted.read_text() and "High Street" not in drafted.read_text()
    assert "High Street" in observed.read_text()
    refused(run("init", town), "exists already")


def test_init_takes_a_path_and_a_name(town: Path, tmp_path: Path) -> None:
    assert run("init", town, "--policy", tmp_path / "new.yaml", "--dataset", "village").exit_code == 0
    assert "dataset: village\n" in (tmp_path / "new.yaml").read_text()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "noise.duckdb"
    file.write_bytes(b"not a database" * 1000)
    refused(run("init", file), "cannot be opened")


# the shell -------------------------------------------------------------------------------------------


def pipe(town: Path, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dpsql", "shell", str(town), "--analyst", "ana"],
        input=script, check=False, capture_output=True, text=True, timeout=600,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip


def test_a_command_ends_an_explain_that_has_no_semicolon(town: Path) -> None:
    done = pipe(town, "\\explain SELECT count(*) FROM people\n\\budget\n")
    assert done.returncode == 0, done.stderr
    assert "sensitivity" in done.stdout and "spent" in done.stdout


def test_a_script_can_be_piped_into_the_shell(town: Path) -> None:
    done = pipe(
        town,
        "\\tables\n\\d people\n\\epsilon 0.25\nSELECT sex, -- a ; in a comment\n count(*) AS n FROM people\n"
        "WHERE sex <> ';' GROUP BY sex; SELECT houses FROM streets;\n\\explain SELECT avg(age) FROM people;\n\\budget\n"
        "SELECT count(*) AS last_one FROM people",
    )
    assert done.returncode == 0, done.stderr
    assert "public: answered exactly, free" in done.stdout and "0 to 100" in done.stdout
    assert "(ε = 0.25, " in done.stdout and "release over people" in done.stdout
    assert "analyst ana" in done.stdout and "last_one" in done.stdout and "dpsql>" not in done.stdout


def test_errors_do_not_end_the_shell_but_its_exit_code_tells(town: Path) -> None:
    done = pipe(town, "SELECT * FROM people;\n\\nonsense\n\\d persons\n\\epsilon lots\nSELECT houses FROM streets;\n")
    assert done.returncode == 1 and "houses" in done.stdout and "Traceback" not in done.stderr
    assert "^" in done.stderr and done.stderr.count("hint:") == 4


def test_the_shell_knows_the_words_that_other_shells_know(town: Path) -> None:
    """Also in the middle of a query, which goes on afterwards."""
    lines = [
        "help",
        "\\?",
        "\\dt",
        "\\d",
        "\\timing",
        "\\x",
        "SELECT count(*) AS many",
        "\\dt",
        "FROM people;",
        "exit",
        "SELECT 1",
    ]
    done = pipe(town, "\n".join(lines))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("leave, also exit") == 2
    assert done.stdout.count("streets") >= 3
    assert "timing is on" in done.stdout and "rows as lines: on" in done.stdout
    row, many = (
        next(at for at, line in enumerate(done.stdout.splitlines()) if word in line) for word in ("row 1", "many ")
    )
    assert many == row + 1 and "ms" in done.stdout
    assert done.stdout.count("cost:") == 1


def test_the_shell_shows_an_analyst_only_their_tables(town: Path) -> None:
    done = run("shell", town, "--analyst", "bob", stdin="\\tables\n\\d people\n")
    assert "streets" in done.stdout and "people" not in done.stdout and "there is no table people" in done.stderr


def test_at_a_terminal_the_shell_edits_completes_and_remembers(town: Path, tmp_path: Path) -> None:
    steps = [
        (b"dpsql> ", b"SELECT dropped\n"), (b"...> ", b"\x03"), (b"dpsql> ", b"SELECT hou\t FROM stree\t;\n"),
        (b"dpsql> ", b"SELECT * FROM people;\n"), (b"dpsql> ", b"\x04"),
    ]  # fmt: skip
    shown, code = at_a_terminal(["shell", str(town), "--analyst", "ana"], steps)
    assert code == 0, shown
    assert "SELECT houses FROM streets;" in shown and "7" in shown
    assert "would list rows" in shown and "Traceback" not in shown
    kept = tmp_path / "private" / "history"
    assert "SELECT houses FROM streets;" in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600 and kept.parent.stat().st_mode & 0o777 == 0o700


PATIENCE = 120
"""Seconds for one answer of a process on a busy machine; nothing waits that long elsewhere."""


def at_a_terminal(arguments: list[str], steps: list[tuple[bytes, bytes]]) -> tuple[str, int]:
    """Run the command line in a terminal of its own: wait for each mark, then type."""
    child, terminal_end = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, [sys.executable, "-m", "dpsql", *arguments])
    shown, before = b"", b""
    for mark, typed in [*steps, (b"", b"")]:
        shown += _read(terminal_end, mark, again=before if before == b"\x03" else b"")
        if typed:
            _await_line_editor(terminal_end)
            os.write(terminal_end, typed)
        before = typed
    os.close(terminal_end)
    return shown.decode(errors="replace"), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _await_line_editor(terminal_end: int) -> None:
    """The prompt may be shown before the line editor has taken over the terminal: it does so by leaving line mode."""
    patience = time.monotonic() + PATIENCE
    while termios.tcgetattr(terminal_end)[3] & termios.ICANON and time.monotonic() < patience:
        time.sleep(0.01)


def _read(terminal_end: int, mark: bytes, *, again: bytes) -> bytes:
    """Until the mark appears; without a mark, until the end.

    Python overlooks a Ctrl-C that comes between the prompt and its wait for a key, so that is typed `again`.
    """
    shown, patience, retype = b"", time.monotonic() + PATIENCE, time.monotonic() + 10
    while time.monotonic() < patience and not (mark and mark in shown):
        if again and time.monotonic() > retype:
            os.write(terminal_end, again)
            retype = time.monotonic() + 10
        if select.select([terminal_end], [], [], 0.1)[0]:
            try:
                more = os.read(terminal_end, 65_536)
            except OSError:
                break
            if not more:
                break
            shown += more
    return shown


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;", ["SELECT 1", ""]),
        ("SELECT ';'", ["SELECT ';'"]),
        ("SELECT ';", ["SELECT ';"]),
        ("SELECT 1 -- ;\n", ["SELECT 1 -- ;\n"]),
        ("SELECT 1; SELECT 2; SEL", ["SELECT 1", " SELECT 2", " SEL"]),
        ("\\explain SELECT 1;", ["\\explain SELECT 1", ""]),
    ],
)
def test_statements_end_at_semicolons_that_are_sql(text: str, parts: list[str]) -> None:
    assert split(text) == parts


def test_an_open_history_file_is_closed_before_anything_is_written(tmp_path: Path) -> None:
    """Some line editors write in place and keep the mode they find."""
    file, modes = tmp_path / "history", []
    file.write_text("")
    file.chmod(0o644)

    class Editor:
        def set_history_length(self, _: int) -> None: ...

        def write_history_file(self, name: str) -> None:
            modes.append(Path(name).stat().st_mode & 0o777)

    shell._save(Editor(), file)  # type: ignore[arg-type]
    assert modes == [0o600]


def test_completion_keeps_the_case_of_words_and_the_spelling_of_names() -> None:
    assert complete("SEL", ["Selma"]) == ["SELECT", "Selma"]
    assert complete("sel", []) == ["select"]
    assert complete("xyz", ["people"]) == []


# numbers and waiting ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (1234, 1200, 1268, "1,234 ± 34"),
        (1234, 1200, 1267, "1,234 ± 34"),
        (12.3456, 12.1, 12.59, "12.35 ± 0.25"),
        (12.3456, 12.3, 13.9, "12.35 (12.30 to 13.90)"),
        (123456.7, 120000.0, 126913.4, "123,457 ± 3,457"),
        (0.00123, 0.0012, 0.00126, "0.001230 ± 0.000030"),
        (None, 1.0, 2.0, "NULL"),
        (5, float("nan"), float("nan"), "5 ± ?"),
        (2.0, 2.0, 2.0, "2.00 ± 0.00"),
    ],
)
def test_an_answer_is_shown_to_the_digits_of_its_error(value: Any, low: float, high: float, text: str) -> None:
    assert number_format.with_error(value, low, high) == text


def test_a_spinner_waits_and_needs_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def spun(patience: float, work: float, *, is_terminal: bool) -> str:
        stream, end = StringIO(), time.monotonic() + work
        monkeypatch.setattr(terminal, "problems", lambda: Console(file=stream, force_terminal=is_terminal))
        monkeypatch.setattr(progress, "PATIENCE", patience)
        with terminal.waiting("thinking"):
            while "thinking" not in stream.getvalue() and time.monotonic() < end:
                time.sleep(0.01)
        return stream.getvalue()

    assert "thinking" in spun(0.0, PATIENCE, is_terminal=True)
    assert spun(600.0, 0.05, is_terminal=True) == "" and spun(0.0, 0.05, is_terminal=False) == ""


def test_an_accuracy_can_be_asked_for_and_is_priced_by_explain(town: Path) -> None:
    told = run("explain", town, "SELECT count(*) AS n FROM people", "--analyst", "ana", "--within", 60)
    assert told.exit_code == 0 and "the lowest price that gives" in told.stdout and "± 60 (95%)" in told.stdout
    read = json.loads(ask(town, "SELECT count(*) AS n FROM people", "--within", "n=60", "--format", "json").stdout)
    [(low, high)] = read["intervals"]["n"]
    assert 110 <= high - low <= 121
    relative = ask(town, "SELECT count(*) AS n FROM people", "--accuracy", "20%")
    assert relative.exit_code == 0 and "note: " in relative.stdout
    refused(ask(town, "SELECT count(*) AS n FROM people", "--within", "0.001"))
    refused(ask(town, "SELECT count(*) AS n FROM people", "--within", "m=5"))
    assert ask(town, "SELECT count(*) AS n FROM people", "--within", "5", "--within", "n=5").exit_code == 2


def test_the_shell_takes_settings_in_sql(town: Path) -> None:
    done = pipe(
        town,
        "SET dpsql.price = '2%';\n\\price\n\\epsilon 0.125\nSELECT count(*) AS n FROM people;\n"
        "RESET ALL;\n\\explain SELECT count(*) AS n FROM people;\nSET dpsql.epsilon = 9;\n",
    )
    assert (
        "price = 2%" in done.stdout
        and "price = epsilon 0.125" in done.stdout
        and "% of your budget; left: " in done.stdout
        and "of your budget (ε = 0.5, " in done.stdout
    )
    assert done.returncode == 1 and "up to 1, not 9" in done.stderr


def test_bounds_prints_what_searches_found_and_searches_on_demand(town: Path) -> None:
    policy = town.parent / "policy.yaml"
    policy.write_text(POLICY.replace("note: {}", "note: {bounds: auto}"))
    before = run("bounds", town)
    assert before.exit_code == 0 and "tables.people.columns.note: not searched for yet" in before.output
    found = run("bounds", town, "--search")
    assert (
        found.exit_code == 0 and "tables.people.columns.note: " in found.output and "not searched" not in found.output
    )
    assert run("bounds", town).output == found.output


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_two_columns_may_have_one_name(town: Path, form: str) -> None:
    said = run("query", town, "SELECT count(*), count(*) FROM people", "--analyst", "ana", "--format", form)
    assert said.exit_code == 0, said.output
