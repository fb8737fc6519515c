"""`dpsql serve --isolate`: the process that clients talk to never opens the database, and outlives the one that does."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psycopg
from served import Served, start, stop

import dpsql


def holders(served: Served) -> set[int]:
    """The processes that have the database open, of the server and its children."""
    numbers = {int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()}
    parents = {n: _parent(n) for n in numbers}
    family = {n for n in numbers if n == served.process.pid or parents.get(n) == served.process.pid}
    return {n for n in family if any(os.path.realpath(fd) == str(served.folder / "shop.duckdb") for fd in _open(n))}


def _parent(number: int) -> int:
    try:
        return int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _open(number: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{number}/fd").iterdir())
    except OSError:
        return []


def test_the_server_survives_the_death_of_the_process_that_has_the_data(shop: Path) -> None:
    served = start(shop, "--isolate")
    try:
        with psycopg.connect(served.dsn(), autocommit=True) as client:
            assert len(client.execute("SELECT region, count(*) FROM customers GROUP BY region").fetchall()) >= 4
            [number] = holders(served)
            assert number != served.process.pid
            os.kill(number, signal.SIGKILL)
            try:  # it is started again at once if its end was noticed already
                client.execute("SELECT avg(age) FROM customers")
            except psycopg.Error as error:
                assert dpsql.EngineError.TEXT in str(error)
            assert len(client.execute("SELECT max(age) - 1, count(*) FROM customers").fetchall()) == 1
            [again] = holders(served)
            assert again not in (number, served.process.pid)
    finally:
        stop(served)
    assert not Path(f"/proc/{again}").exists()
