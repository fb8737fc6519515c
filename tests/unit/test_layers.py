"""The flow of the design as a test: each package imports only what lies before it, and exact values stay where they are made."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import dpsql

ROOT = Path(dpsql.__file__).parent
FLOW = ["errors", "options", "rights", "refusals", "notebook_html", "cancellation", "progress", "connection_decorators", "steward_log", "server_address", "policy", "sql", "mechanisms", "local", "expressions", "bounds", "plan", "sensitivity",
        "budget", "engines", "answers", "query_draft", "dataset", "accounts", "search", "accuracy_first", "session", "audit", "interfaces", "pandas", "__main__"]  # fmt: skip
MAY_NAME_EXACT = {"engines/base.py", "engines/sealed.py", "engines/sql/release_statements.py", "engines/duckdb/engine.py",
                  "engines/isolated/engine.py", "engines/postgres/engine.py", "engines/spark/engine.py", "answers/noise_stage.py",
                  "audit/traces.py"}  # fmt: skip


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All of a file's syntax tree."""
    return tuple(ast.walk(ast.parse(path.read_text())))


@cache
def imports(path: Path) -> frozenset[str]:
    """The dpsql modules that a file imports, also inside functions."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return frozenset(name for name in found if name.split(".")[0] == "dpsql" and "." in name)


def package(name: str) -> str:
    return name.split(".")[1]


def modules() -> list[tuple[str, Path]]:
    return [(path.relative_to(ROOT).parts[0].removesuffix(".py"), path) for path in ROOT.rglob("*.py")]


def test_every_package_has_its_place_in_the_flow() -> None:
    assert {name for name, _ in modules()} - {"__init__"} == set(FLOW)


def test_imports_point_backwards_only() -> None:
    wrong = []
    for name, path in modules():
        for imported in imports(path):
            if (
                name != "__init__"
                and FLOW.index(package(imported)) > FLOW.index(name)
                and not _typing_only(path, imported)
            ):
                wrong.append(f"{path.relative_to(ROOT)} imports {imported}")
    assert wrong == []


def _typing_only(path: Path, imported: str) -> bool:
    """Inside `if TYPE_CHECKING:`, or the one lazy door from the conductor to the DB-API cursor."""
    guarded = [n for n in nodes(path) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
    inside = {n.module for g in guarded for n in ast.walk(g) if isinstance(n, ast.ImportFrom)}
    return imported in inside or (path.name == "session.py" and imported == "dpsql.interfaces.dbapi")


def test_exact_values_are_named_only_where_they_are_made_and_where_noise_is_added() -> None:
    named = {
        path.relative_to(ROOT).as_posix()
        for _, path in modules()
        if any((isinstance(n, ast.Name) and n.id == "Exact") or (isinstance(n, ast.alias) and n.name == "Exact")
               for n in nodes(path))
    }  # fmt: skip
    assert named <= MAY_NAME_EXACT


def test_the_engine_library_stays_in_its_folder_and_the_sealed_database() -> None:
    allowed = {"engines/duckdb", "answers/finish.py", "policy", "interfaces", "audit/world.py"}
    for _, path in modules():
        where = path.relative_to(ROOT).as_posix()
        if "duckdb" in {n.names[0].name for n in nodes(path) if isinstance(n, ast.Import)}:
            assert any(where.startswith(a) for a in allowed), where


def test_psycopg_stays_with_the_engine_and_the_ledger() -> None:
    for _, path in modules():
        where = path.relative_to(ROOT).as_posix()
        words = [ast.unparse(n) for n in nodes(path) if isinstance(n, ast.Import | ast.ImportFrom)]
        inside = where.startswith(("engines/postgres/", "budget/ledger/postgres/", "server_address.py"))
        assert inside or not any("psycopg" in word for word in words), where


def test_an_engine_is_known_in_its_folder_and_where_engines_are_opened() -> None:
    """DuckDB is also the sealed database and the audit's own; of the others nobody else knows."""
    for _, path in modules():
        where = path.relative_to(ROOT).as_posix()
        for engine in ("postgres", "spark"):
            named = any(name.startswith(f"dpsql.engines.{engine}") for name in imports(path))
            assert not named or where.startswith(f"engines/{engine}/") or where == "engines/open_engine.py", where


def test_spark_stays_in_its_folder() -> None:
    for _, path in modules():
        where = path.relative_to(ROOT).as_posix()
        words = [ast.unparse(n) for n in nodes(path) if isinstance(n, ast.Import | ast.ImportFrom)]
        assert where.startswith("engines/spark/") or not any("pyspark" in word for word in words), where


def test_importing_dpsql_is_light() -> None:
    import subprocess
    import sys

    code = "import sys, dpsql; print([m for m in ('pandas', 'numpy', 'sqlglot', 'pydantic', 'duckdb') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_each_file_of_tests_has_a_name_of_its_own() -> None:
    """pytest takes two of one name in different folders for one module, and runs nothing."""
    names = Counter(path.name for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_each_test_that_a_docstring_names_exists() -> None:
    """A theorem says what checks it: a test that was renamed checks nothing that a reader could find."""
    named = {(path, test) for _, path in modules() for test in re.findall(r"`(tests/[\w/]+\.py)`", path.read_text())}
    assert len(named) > 50
    assert [
        f"{path.relative_to(ROOT)}: {test}" for path, test in sorted(named) if not (ROOT.parent / test).exists()
    ] == []
