"""`dpsql serve` over a PostgreSQL: the same front desk, another store behind it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import psycopg
import pytest
from served import run, start_words, stop

if TYPE_CHECKING:
    from postgres_server import Server


def test_a_server_answers_from_another_server(
    shop: Path, postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers lie near those of DuckDB, a repetition is free, and rows are refused; the shell does the same."""
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    folder = tmp_path / "shop"
    shutil.copytree(shop, folder, ignore=shutil.ignore_patterns("*.ledger*", "*.log"))
    postgres.run("DROP DATABASE IF EXISTS shop WITH (FORCE)", "CREATE DATABASE shop")
    truth = _copied(folder / "shop.duckdb", postgres.url(database="shop"))
    address = f"postgresql://steward@127.0.0.1:{postgres.port}/shop"
    words = [address, "--policy", "policy.yaml", "--ledger", "shop.ledger"]
    served = start_words(folder, ["serve", *words, "--port", "0", "--steward-port", "0"])
    try:
        with psycopg.connect(served.dsn(), autocommit=True) as db:
            first = db.execute("SELECT count(*) FROM orders").fetchone()
            assert first is not None and abs(float(first[0]) - truth) < 0.05 * truth
            assert db.execute("SELECT count(*) FROM orders").fetchone() == first
            with pytest.raises(psycopg.Error, match="rows"):
                db.execute("SELECT * FROM orders")
    finally:
        assert stop(served) == 0
    shown = run(folder, "shell", *words, "--analyst", "ana", stdin="SELECT count(*) FROM orders;\n")
    assert f"{first[0]:,}"[:3] in shown and "Traceback" not in shown


def _copied(file: Path, address: str) -> int:
    """All tables of the shop, and how many orders there are."""
    with duckdb.connect(str(file), read_only=True) as source, psycopg.connect(address, autocommit=True) as target:
        for (table,) in source.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            columns = source.execute(f"DESCRIBE {table}").fetchall()
            words = ", ".join(f'"{c[0]}" {str(c[1]).replace("DOUBLE", "double precision")}' for c in columns)
            target.execute(f"CREATE TABLE {table} ({words})".encode())
            with target.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
                for row in source.execute(f"SELECT * FROM {table}").fetchall():
                    copy.write_row(row)
        return int(source.execute("SELECT count(*) FROM orders").fetchall()[0][0])
