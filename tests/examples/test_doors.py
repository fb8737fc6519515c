"""The scripts in examples/doors run, each in a process of its own, as a newcomer would run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiers import need

import dpsql

DOORS = Path(dpsql.__file__).parents[1] / "examples" / "doors"
SCRIPTS = sorted(path.name for path in DOORS.glob("*.py") if path.name != "clinic.py")
WITH_DIALECT = (
    "import runpy, sys; from sqlalchemy.dialects import registry; "
    "registry.register('dpsql', 'dpsql.interfaces.sqlalchemy_dialect', 'DpsqlDialect'); runpy.run_path(sys.argv[1], run_name='__main__')"
)
"""The entry point is there once dpsql is installed; a source tree that is only on the path has none."""


def run(*command: str, path: str = "") -> str:
    environment = os.environ | {
        "PYTHONPATH": f"{DOORS.parents[1]}{os.pathsep}{DOORS}",
        "PATH": f"{path}{os.environ['PATH']}",
    }
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=DOORS)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_is_a_script_for_each_door() -> None:
    assert SCRIPTS == [
        "dbapi.py",
        "pandas_read_sql.py",
        "polars_read_database.py",
        "sql.py",
        "sqlalchemy_core.py",
        "sqlalchemy_orm.py",
    ]
    table = (DOORS / "README.md").read_text(encoding="utf-8")
    assert [name for name in [*SCRIPTS, "command_line.sh"] if f"`{name}`" not in table] == []


@pytest.mark.parametrize("script", SCRIPTS)
def test_it_runs(script: str) -> None:
    need("sqlalchemy", *(["polars"] if "polars" in script else []))
    said = run(sys.executable, "-c", WITH_DIALECT, str(DOORS / script))
    assert all(ward in said for ward in ("heart", "skin", "eyes"))
    assert script != "sqlalchemy_orm.py" or "which are private" in said


def test_the_command_line(tmp_path: Path) -> None:
    for name, module in (("dpsql", "-c 'from dpsql.interfaces.cli.main import main; main()'"), ("python", "")):
        shim = tmp_path / name
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        shim.chmod(0o755)
    said = run("sh", str(DOORS / "command_line.sh"), path=f"{tmp_path}{os.pathsep}")
    assert "ward,n" in said and "left" in said
