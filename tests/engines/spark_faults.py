"""Spark's disk is full in the middle of a shuffle, and its process of Java is killed: what the analyst is told.

`python tests/engines/spark_faults.py` does it and says what happened; it needs root, for a disk that is really full.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from full_disk import NoDisk, disk, grown
from spark_cluster import LONG, POLICY, QUERIES, configured, data, say

import dpsql
from dpsql.errors import EngineError, InterfaceError


def spent(db: dpsql.Connection) -> float:
    return db.budget().dataset.spent.epsilon


def fails(db: dpsql.Connection, sql: str) -> None:
    """The constant text, and a charge that is kept."""
    before = spent(db)
    try:
        db.query(sql, epsilon=1, delta=1e-6)
        raise SystemExit("a query was answered all the same")
    except EngineError as failed:
        assert str(failed) == EngineError.TEXT
    assert spent(db) > before


def full_disk(db: dpsql.Connection, room: Path) -> None:
    fails(db, QUERIES[0])
    say("a full disk in the middle of a shuffle: the constant text, the charge is kept")
    grown(room, 900_000)
    db.query(QUERIES[0], epsilon=1, delta=1e-6)
    say("with more room the next query is answered")


def killed(db: dpsql.Connection, process: int) -> None:
    threading.Timer(0.5, lambda: os.kill(process, signal.SIGKILL)).start()
    fails(db, LONG)
    before = spent(db)
    try:
        db.query(LONG, epsilon=1, delta=1e-6)
        raise SystemExit("a query was answered by nobody")
    except InterfaceError as gone:
        say(f"the process of Java was killed: the constant text, then: {gone.message}")
    assert spent(db) == before


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="dpsql-faults-") as name, configured(Path(name)):
        folder = Path(name)
        paths = data(folder)
        with disk(folder / "disk", 200) as room:
            with (folder / "spark-defaults.conf").open("a") as settings:
                settings.write(f"spark.local.dir {room}\n")
            with dpsql.connect(("local[2]", paths), policy=POLICY, ledger=":memory:") as db:
                context = db.engine._opened.session.sparkContext  # type: ignore[attr-defined]
                context.setLogLevel("OFF")
                full_disk(db, room)
                killed(db, context._gateway.proc.pid)
            with dpsql.connect(("local[2]", paths), policy=POLICY, ledger=":memory:") as db:
                db.query(QUERIES[0], epsilon=1, delta=1e-6)
            say("connected again, the next query is answered")
    say("ok")


if __name__ == "__main__":
    try:
        main()
    except NoDisk:
        say("skipped: only root can fill a disk of its own")
