"""No value of the data in errors, logs, warnings or output, whatever fails: canaries are looked for everywhere."""

from __future__ import annotations

import logging
import re
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.engines.duckdb import engine as duckdb_engine
from dpsql.steward_log import VALUES

CANARY = "CANARY-4711"
TABLES = {
    "t": {"unit": "u", "columns": {"x": {"min": 0, "max": 9}, "g": {"values": ["a", "b"]}}},
    "p": {"public": True},
}
POLICY = {"dataset": "d", "search": False, "budget": {"epsilon": 1000, "delta": 1e-6}, "tables": TABLES}
BROKEN = {
    "a cast of a text": "SELECT CAST(secret AS INTEGER) FROM t",
    "an error with the value": "SELECT error(secret) FROM t",
    "a date": "SELECT strptime(secret, '%Y') FROM t",
    "a name": 'SELECT "CANARY-4711" FROM t',
    "a constraint": "SELECT [1, 2][CAST(secret AS BIGINT)] FROM t",
    "a wrong answer": "SELECT secret AS z0 FROM t",
    "a syntax error": "SELECT 'CANARY-4711",
}
REFUSED = [
    "SELECT secret FROM t", "SELECT g FROM t", "SELECT count(*) FROM t WHERE secret = 1", "SELECT avg(y) FROM t", "SELECT",
    "SELECT count(*) FROM nothing", "SELECT CAST(CAST(count(*) AS VARCHAR) || 'x' AS INTEGER) FROM t",
    "SELECT sum(x) FROM t GROUP BY u", "DROP TABLE t", "SELECT * FROM duckdb_settings()",
]  # fmt: skip


def data(path: Path) -> Path:
    with duckdb.connect(str(path)) as made:
        made.execute(
            f"CREATE TABLE t AS SELECT range AS u, range % 10 AS x, 'a' AS g, '{CANARY}' AS secret FROM range(50)"
        )
        made.execute("CREATE TABLE p AS SELECT 'a' AS g")
    return path


def said(error: BaseException) -> str:
    """All that an error carries: its words, its causes and contexts, and a whole traceback."""
    chain: list[BaseException] = [error]
    while (below := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(below)
    words = [f"{each!s} {each!r} {each.__dict__}" for each in chain]
    return "\n".join([*words, *traceback.format_exception(error)])


def break_the_engine(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(duckdb_engine, "shared_statements", lambda *_, **__: [text])


@pytest.fixture
def everything(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """Every log at every level, and what was printed."""
    caplog.set_level(logging.DEBUG)
    for name in ("dpsql", "dpsql.steward", "dpsql.server", "duckdb"):
        caplog.set_level(logging.DEBUG, logger=name)

    def read() -> str:
        out, err = capfd.readouterr()
        return caplog.text + out + err + "".join(f"{r.getMessage()} {r.exc_info} {r.__dict__}" for r in caplog.records)

    return read


@pytest.mark.parametrize("kind", BROKEN)
def test_an_engine_that_prints_values_is_not_heard(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, everything: Callable[[], str]
) -> None:
    with dpsql.connect(data(tmp_path / "d.duckdb"), policy=POLICY, ledger=":memory:") as db:
        break_the_engine(monkeypatch, BROKEN[kind])
        with warnings.catch_warnings(record=True) as warned, pytest.raises(dpsql.EngineError) as failed:
            warnings.simplefilter("always")
            db.query("SELECT count(*) FROM t")
    assert str(failed.value) == dpsql.EngineError.TEXT
    logged = everything()
    assert "a release failed: " in logged
    for text in (said(failed.value), logged, *(str(each.message) for each in warned)):
        assert CANARY not in text and "4711" not in text.replace(BROKEN[kind], "")


def test_the_steward_can_ask_for_the_engines_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, everything: Callable[[], str]
) -> None:
    monkeypatch.setenv(VALUES, "yes")
    with dpsql.connect(data(tmp_path / "d.duckdb"), policy=POLICY, ledger=":memory:") as db:
        break_the_engine(monkeypatch, BROKEN["a cast of a text"])
        with pytest.raises(dpsql.EngineError) as failed:
            db.query("SELECT count(*) FROM t")
    assert CANARY in everything()
    assert CANARY not in said(failed.value), "but the analyst never"


def test_a_public_table_that_cannot_be_read_is_logged_and_not_quoted(
    tmp_path: Path, everything: Callable[[], str]
) -> None:
    with duckdb.connect() as own:
        own.execute("CREATE TABLE p AS SELECT 'a' AS g; CREATE TABLE t AS SELECT 1 AS u, 1 AS x, 'a' AS g")
        with dpsql.connect(own, policy=POLICY, ledger=":memory:") as db:
            own.execute(f"DROP TABLE p; CREATE TABLE p AS SELECT '{CANARY}' AS h")
            with pytest.raises(dpsql.EngineError) as failed:
                db.engine.read_public("p", ["g"])
    logged = everything()
    assert "a public table cannot be read: " in logged
    assert CANARY not in said(failed.value) + logged


@pytest.mark.parametrize("sql", REFUSED)
def test_refusals_hold_no_values(sql: str, tmp_path: Path, everything: Callable[[], str]) -> None:
    db = dpsql.connect(data(tmp_path / "d.duckdb"), policy=POLICY, ledger=":memory:")
    with db, pytest.raises(dpsql.Error) as refused:
        db.query(sql)
    assert CANARY not in said(refused.value) + everything()


def test_data_that_cannot_be_opened_is_not_quoted(tmp_path: Path, everything: Callable[[], str]) -> None:
    broken = tmp_path / "t.parquet"
    broken.write_bytes(b"PAR1" + CANARY.encode() * 50 + b"PAR1")
    file = tmp_path / "d.duckdb"
    file.write_bytes(CANARY.encode() * 500)
    locked = duckdb.connect()
    locked.execute("CREATE TABLE t AS SELECT 1 AS u; SET default_collation = 'nocase'; SET lock_configuration = true")
    for source in ({"t": broken}, file, locked):
        with pytest.raises(dpsql.InterfaceError) as refused:
            dpsql.connect(source, policy=POLICY, ledger=":memory:")
        assert refused.value.__cause__ is None and refused.value.__context__ is None
        assert CANARY not in said(refused.value) + everything()


def test_the_command_line_prints_no_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, everything: Callable[[], str]
) -> None:
    from typer.testing import CliRunner

    from dpsql.interfaces.cli.main import app

    data(tmp_path / "d.duckdb")
    (tmp_path / "policy.yaml").write_text(
        "dataset: d\nsearch: false\nbudget: {epsilon: 10}\ntables: {t: {unit: u, columns: {x: {min: 0, max: 9}}}}\n"
    )
    break_the_engine(monkeypatch, BROKEN["a cast of a text"])
    done = CliRunner().invoke(app, ["query", str(tmp_path / "d.duckdb"), "SELECT count(*) FROM t"])
    assert done.exit_code != 0
    assert CANARY not in done.output + everything() + (said(done.exception) if done.exception else "")


SERVER = (
    "import logging, sys\nlogging.getLogger().setLevel(logging.DEBUG)\n"
    "from dpsql.engines.duckdb import engine\n"
    "engine.shared_statements = lambda *_, **__: ['SELECT CAST(secret AS INTEGER) FROM t']\n"
    "from dpsql.interfaces.cli.main import app\n"
    "sys.argv = ['dpsql', 'serve', 'd.duckdb', '--port', '0']\napp()"
)


def test_a_server_sends_and_logs_no_value(tmp_path: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    data(tmp_path / "d.duckdb")
    (tmp_path / "policy.yaml").write_text(
        "dataset: d\nsearch: false\nbudget: {epsilon: 10}\ntables: {t: {unit: u, columns: {x: {min: 0, max: 9}}}}\n"
    )
    subprocess.run(
        [sys.executable, "-m", "dpsql", "user", "add", "ana", "--password-stdin"],
        cwd=tmp_path, input="secret word\n", text=True, check=True, capture_output=True,
    )  # fmt: skip
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-u", "-c", SERVER], cwd=tmp_path, stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert server.stdout is not None
    port = next(found[1] for line in server.stdout if (found := re.search(r"on 127\.0\.0\.1:(\d+)", line)))
    words = f"host=127.0.0.1 port={port} dbname=d user=ana password='secret word' sslmode=require"
    with psycopg.connect(words, autocommit=True) as client, pytest.raises(psycopg.Error) as failed:
        client.execute("SELECT count(*) FROM t")
    server.send_signal(signal.SIGTERM)
    rest = server.stdout.read()
    server.wait(60)
    logged = (tmp_path / "log").read_text()
    assert dpsql.EngineError.TEXT in str(failed.value)
    assert "a release failed: ConversionException" in logged
    assert CANARY not in said(failed.value) + logged + rest
