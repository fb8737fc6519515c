"""The finishing connection sees released and public tables only: asked from inside, while a query is being finished."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.answers.finish import Finisher
from dpsql.errors import InternalError
from dpsql.plan.plan import Plan

ROOT = Path(dpsql.__file__).parent
CANARY = "CANARY-4711"
POLICY = {
    "dataset": "d",
    "search": False,
    "budget": {"epsilon": 100, "delta": 1e-6},
    "tables": {
        "t": {"unit": "u", "columns": {"x": {"min": 0, "max": 9}, "g": {"values": ["a", "b"]}}},
        "p": {"public": True, "columns": {"g": {}}},
    },
}
QUERIES = [
    "SELECT g, count(*) AS n, avg(x), dp_low(count(*)) FROM t GROUP BY g ORDER BY n",
    "SELECT p.g, n FROM p JOIN (SELECT g, count(*) AS n FROM t GROUP BY g) r ON p.g = r.g",
    "SELECT count(*) FROM t WHERE x > (SELECT avg(x) FROM t)",
    "SELECT g, sum(x) / count(*) AS r FROM t GROUP BY g HAVING count(*) > 1",
]
FILES = [
    "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM '/etc/passwd'", "SELECT * FROM glob('/*')",
    "ATTACH '/tmp/other.duckdb' AS other", "COPY p TO '/tmp/out.csv'", "INSTALL httpfs", "LOAD httpfs",
    "SET enable_external_access = true", "SET lock_configuration = false", "SET memory_limit = '100GB'",
    "RESET max_execution_time", "CREATE PERSISTENT SECRET s (TYPE s3)", "SELECT * FROM engine", "SELECT * FROM self",
    "SELECT * FROM duckdb_extensions()", "SELECT name FROM duckdb_secrets()",
]  # fmt: skip


class Open(InternalError):
    """The database holds, or reaches, something else."""


def inspect(connection: duckdb.DuckDBPyConnection, tables: set[str]) -> None:
    """Everything that the connection can see, from inside: `Open` if it is more than these tables."""

    def names(sql: str) -> set[Any]:
        return {row[0] for row in connection.execute(sql).fetchall()}

    seen = {
        "databases": (names("SELECT database_name FROM duckdb_databases()"), {"memory", "system", "temp"}),
        "files": (names("SELECT path FROM duckdb_databases()"), {None}),
        "schemas": (names("SELECT schema_name FROM duckdb_schemas() WHERE NOT internal"), {"main"}),
        "tables": (names("SELECT table_name FROM duckdb_tables()"), tables),
        "views": (names("SELECT view_name FROM duckdb_views() WHERE NOT internal"), set()),
        "sequences": (names("SELECT sequence_name FROM duckdb_sequences()"), set()),
        "types": (names("SELECT type_name FROM duckdb_types() WHERE NOT internal"), set()),
        "macros": (
            names("SELECT function_name FROM duckdb_functions() WHERE NOT internal"),
            {"_short", "_replace", "_regexp_replace"},
        ),
        "variables": (names("SELECT name FROM duckdb_variables()"), set()),
        "settings": (
            names(
                "SELECT name || '=' || value FROM duckdb_settings() WHERE name IN ('enable_external_access', "
                "'lock_configuration', 'python_enable_replacements', 'temp_directory', 'autoload_known_extensions')"
            ),
            {"enable_external_access=false", "lock_configuration=true", "python_enable_replacements=false",
             "temp_directory=", "autoload_known_extensions=false"},
        ),
    }  # fmt: skip
    wrong = {what: found for what, (found, wanted) in seen.items() if not found <= wanted}
    if wrong:
        raise Open(wrong)
    for table in tables & names("SELECT table_name FROM duckdb_tables()"):
        if CANARY in str(connection.execute(f'SELECT * FROM "{table}"').fetchall()):
            raise Open(table)
    for statement in FILES:
        try:
            connection.execute(statement)
        except duckdb.Error:
            continue
        raise Open(statement)


@pytest.fixture
def db(tmp_path: Path) -> dpsql.Connection:
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as data:
        data.execute(f"CREATE TABLE t AS SELECT range AS u, range % 10 AS x, 'a' AS g, '{CANARY}' AS s FROM range(50)")
        data.execute(f"CREATE TABLE p AS SELECT 'a' AS g, '{CANARY}' AS not_in_the_policy")
        data.execute(f"CREATE TABLE hidden AS SELECT '{CANARY}' AS s")
    return dpsql.connect(path, policy=POLICY, ledger=":memory:")


@contextmanager
def inspected(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every time that the sealed database is used it is inspected, with the released tables in it."""
    real, looks = Finisher._tables, list[str]()

    @contextmanager
    def tables(
        self: Finisher, plan: Plan, columns: Mapping[str, Mapping[str, Sequence[Any]]]
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        with real(self, plan, columns) as cursor:
            inspect(cursor, {*(release.name for release in plan.releases), "p"})
            looks.extend(columns)
            yield cursor

    with monkeypatch.context() as patched:
        patched.setattr(Finisher, "_tables", tables)
        yield looks


def test_it_sees_released_and_public_tables_only(db: dpsql.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    with inspected(monkeypatch) as looks:
        for sql in QUERIES:
            db.query(sql, epsilon=1).intervals()
    assert len(looks) >= len(QUERIES)
    inspect(db.dataset.finisher._connection, {"p"})


def test_the_engines_own_connection_would_be_found_out(db: dpsql.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    with inspected(monkeypatch), pytest.raises(Open):
        db.dataset.finisher._connection = db.engine.connection  # type: ignore[attr-defined]
        db.query(QUERIES[0])


def test_a_private_table_that_was_loaded_would_be_found_out(db: dpsql.Connection) -> None:
    db.dataset.finisher._connection.execute("CREATE TABLE hidden AS SELECT 1")
    with pytest.raises(Open):
        inspect(db.dataset.finisher._connection, {"p"})


def test_only_public_tables_are_read_into_it(db: dpsql.Connection) -> None:
    for table in ("t", "hidden"):
        with pytest.raises((AssertionError, dpsql.Error)):
            db.dataset._read_public(table)
    assert set(db.dataset._read_public("p").types) == {"g"}


def test_what_it_is_given_was_released() -> None:
    """Whoever fills the sealed database has released tables in hand: none of them can name exact values.

    The steward's trace has exact ones, of a type of its own, and asks for the steward's permit first.
    """
    trees = {
        p.relative_to(ROOT).as_posix(): ast.parse(p.read_text())
        for p in ROOT.rglob("*.py")
        if "inisher" in p.read_text()
    }
    calls = [(name, n) for name, tree in trees.items() for n in ast.walk(tree) if isinstance(n, ast.Call)]
    fillers = {
        name
        for name, call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in ("run", "numbers", "run_each")
        and ast.unparse(call.func.value).endswith("finisher")
    }
    assert fillers == {
        "audit/traces.py",
        "answers/error_bars.py",
        "answers/nested_results.py",
        "answers/result.py",
    }
    for each in fillers - {"audit/traces.py"}:
        assert "Exact" not in {getattr(n, "id", getattr(n, "attr", None)) for n in ast.walk(trees[each])}, each
    built = [ast.unparse(call) for _, call in calls if isinstance(call.func, ast.Name) and call.func.id == "Finisher"]
    assert built == ["Finisher(self._read_public, self.policy.limits.memory, self.policy.limits.seconds)"]
