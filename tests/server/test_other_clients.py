"""node-postgres, pgjdbc and psqlODBC against a real server; each skips with a reason where its machine is missing."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from served import PASSWORD, Served

CLIENTS = Path(__file__).parent / "clients"
JDBC = Path("/usr/share/java/postgresql.jar")
COLUMNS = ["amount", "category", "customer_id", "placed", "status", "tip"]


def _run(words: list[str], served: Served, folder: Path | None = None) -> str:
    environment = {
        **os.environ, "PGHOST": "127.0.0.1", "PGPORT": str(served.port), "PGDATABASE": "shop", "PGUSER": "ana",
        "PGPASSWORD": PASSWORD, "NODE_NO_WARNINGS": "1",
    }  # fmt: skip
    done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with node-postgres: the one that `.ci/run` made, else from npm, which is tried a few times."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    folder = tmp_path_factory.mktemp("node")
    shutil.copy(CLIENTS / "ask.js", folder)
    made = os.environ.get("DPSQL_NODE_MODULES")
    if made:
        (folder / "node_modules").symlink_to(made)
        return folder
    for name in ("package.json", "package-lock.json"):
        shutil.copy(CLIENTS / name, folder)
    words = ["npm", "ci", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries", "5"]
    for _ in range(3):
        with contextlib.suppress(subprocess.SubprocessError, OSError):
            subprocess.run(words, cwd=folder, capture_output=True, check=True, timeout=120)
            return folder
    pytest.skip("npm could not install the packages of tests/server/clients in three tries")


def test_node_postgres(served: Served, node: Path) -> None:
    said = json.loads(_run(["node", "ask.js"], served, node))
    assert said["regions"] == ["east", "north", "south", "west"]
    assert said["fields"] == [["region", 25], ["n", 20], ["age", 701]]
    assert len(said["counts"]) == 7 and len(set(said["counts"])) == 1
    assert said["since"] == 1 and said["probe"] == len(COLUMNS) and said["alive"] == 1
    assert said["error"]["code"] == "0A000" and said["error"]["position"] == "17"
    assert "least(greatest(" in said["error"]["hint"]
    assert said["notice"]


@pytest.mark.skipif(
    shutil.which("javac") is None, reason="no Java compiler is installed (Debian: default-jdk-headless)"
)
@pytest.mark.skipif(not JDBC.exists(), reason="pgjdbc is not installed (Debian: libpostgresql-jdbc-java)")
def test_pgjdbc(served: Served) -> None:
    url = f"jdbc:postgresql://127.0.0.1:{served.port}/shop"
    text = _run(["java", "-cp", str(JDBC), str(CLIENTS / "Ask.java"), url], served)
    said = dict(line.split(" ", 1) for line in text.splitlines())
    assert said["tables"] == "[customers, orders, stores, visits]"
    assert said["columns"] == f"[{', '.join(COLUMNS)}]"
    assert "public" in said["schemas"] and said["keys"] == "[]"
    assert said["type"] == "int8" and said["prepared"] == "true" and said["counts"] == "1"
    assert said["since"] == "true" and said["fetched"] == "5" and said["valid"] == "true"
    assert said["refused"] == "0A000 17"


@pytest.mark.skipif(importlib.util.find_spec("pyodbc") is None, reason="pyodbc is not installed (pip install pyodbc)")
def test_psqlodbc(served: Served) -> None:
    pyodbc = pytest.importorskip(
        "pyodbc", reason="pyodbc finds no driver manager (Debian: unixodbc)", exc_type=ImportError
    )
    driver = next((name for name in pyodbc.drivers() if name.startswith("PostgreSQL Unicode")), None)
    if driver is None:
        pytest.skip("psqlODBC is not installed (Debian: odbc-postgresql)")
    words = (
        f"DRIVER={{{driver}}};SERVER=127.0.0.1;PORT={served.port};DATABASE=shop;UID=ana;PWD={PASSWORD};SSLmode=require"
    )
    with pyodbc.connect(words, autocommit=True) as db:
        cursor = db.cursor()
        assert {row.table_name for row in cursor.tables(schema="public")} == {"customers", "orders", "stores", "visits"}
        assert sorted(row.column_name for row in cursor.columns(table="orders")) == COLUMNS
        counts = {
            cursor.execute("SELECT count(*) FROM customers WHERE age > ? AND region = ?", 40, "north").fetchval()
            for _ in range(3)
        }
        assert len(counts) == 1 and isinstance(counts.pop(), int)
        rows = cursor.execute(
            "SELECT region, count(*), avg(age) FROM customers GROUP BY region ORDER BY region"
        ).fetchall()
        assert [row[0] for row in rows] == ["east", "north", "south", "west"]
        assert all(isinstance(row[1], int) and isinstance(row[2], float | None) for row in rows)
        with pytest.raises(pyodbc.Error, match="CAST"):
            cursor.execute("SELECT avg(CAST(city AS DOUBLE PRECISION)) FROM customers").fetchall()
        assert cursor.execute("SELECT 1").fetchval() == 1
