"""A real cluster of several processes on this machine: a master, two workers and their executors, on 127.0.0.1 only.

`python tests/engines/spark_cluster.py` starts it, asks the same queries of it and of DuckDB, kills executors and workers
in the middle, stops the session, and says what happened. It takes about a minute.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

import dpsql
from dpsql.audit.traces import traced
from dpsql.errors import EngineError, InterfaceError

ROWS = 1_000_000
POLICY: dict[str, Any] = {
    "dataset": "cluster", "search": False, "budget": {"epsilon": 1000, "delta": "1e-3"}, "replay": False,
    "tables": {"sales": {"unit": "person", "max_rows_per_unit": 40, "max_groups_per_unit": 4,
                         "columns": {"amount": {"min": 0, "max": 100}, "kind": {"values": list("abcdefg")}, "day": {}}},
               "kinds": {"public": True}},
}  # fmt: skip
QUERIES = (
    "SELECT kind, count(*), sum(amount) FROM sales GROUP BY kind",
    "SELECT median(amount), count(*) FROM sales",
    "SELECT k.family, avg(s.amount) FROM sales s JOIN kinds k ON k.name = s.kind GROUP BY k.family",
)
LONG = "SELECT sum(amount * sin(amount) * cos(amount)), count(*) FROM sales WHERE sqrt(amount) + ln(amount) <> 1"


@dataclass(slots=True)
class Cluster:
    """The processes of a cluster that this program started."""

    folder: Path
    master: str = ""
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> None:
        """A master, and two workers with one core each."""
        port = _free()
        self.master = f"spark://127.0.0.1:{port}"
        self._run("master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        _wait("the master", lambda: _listens(port))
        for number in (1, 2):
            self._run("worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0",
                      "-d", str(self.folder / f"worker{number}"), self.master)  # fmt: skip

    def _run(self, name: str, *words: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        with (self.folder / "log").open("ab") as log:
            self.started.append(subprocess.Popen(
                [home / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *words], stdout=log, stderr=log,
                env={**os.environ, "SPARK_HOME": str(home), "SPARK_NO_DAEMONIZE": "1"}, start_new_session=True,
            ))  # fmt: skip

    def executors(self) -> list[int]:
        """The processes that the workers started for the application."""
        return [child for worker in self.started[1:] for child in _children(worker.pid)]

    def stop(self) -> None:
        """End what was started, executors first."""
        for process in self.executors():
            os.kill(process, signal.SIGKILL)
        for each in reversed(self.started):
            each.kill()
            each.wait()


def _free() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def _children(process: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == process:
            found.append(int(status.parent.name))
    return found


def _wait(what: str, there: Any, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not there():
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not come up")
        time.sleep(0.2)


def say(text: str) -> None:
    print(text, flush=True)


def data(folder: Path) -> dict[str, str]:
    """Parquet files: sales of 60,000 people, and a public table."""
    paths = {name: str(folder / f"{name}.parquet") for name in ("sales", "kinds")}
    duckdb.sql(
        f"SELECT CAST(hash(i) % 60000 AS INTEGER) AS person, CAST(hash(i + 1) % 20000 AS DOUBLE) / 100 - 50 AS amount, "
        f"chr(97 + CAST(hash(i + 2) % 8 AS INTEGER)) AS kind, i % 365 AS day FROM range({ROWS}) AS r(i)"
    ).write_parquet(paths["sales"], row_group_size=200_000)
    duckdb.sql(
        "SELECT * FROM (VALUES ('a', 'one'), ('b', 'one'), ('c', 'two'), ('d', 'two'), ('e', 'two')) AS v(name, family)"
    ).write_parquet(paths["kinds"])
    return paths


def integers(db: dpsql.Connection, sql: str) -> str:
    return repr(traced(db, db.prepare(sql, epsilon=1, delta=1e-6), salt=b"s")[0])


@contextmanager
def configured(folder: Path) -> Iterator[None]:
    """Settings of the driver and the executors, as a site has them in a file."""
    (folder / "spark-defaults.conf").write_text(
        "spark.ui.enabled false\nspark.executor.memory 600m\nspark.driver.host 127.0.0.1\n"
        "spark.driver.bindAddress 127.0.0.1\nspark.sql.shuffle.partitions 4\nspark.task.maxFailures 4\n"
    )
    os.environ |= {"SPARK_CONF_DIR": str(folder), "SPARK_LOCAL_IP": "127.0.0.1"}
    yield


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="dpsql-cluster-") as name, configured(Path(name)):
        cluster = Cluster(Path(name))
        try:
            cluster.start()
            paths = data(Path(name))
            examine(cluster, paths)
        finally:
            cluster.stop()
    say("ok")


def examine(cluster: Cluster, paths: dict[str, str]) -> None:
    limits = {**POLICY, "limits": {"seconds": 20}}
    with (
        dpsql.connect((cluster.master, paths), policy=POLICY, ledger=":memory:", steward=True) as db,
        dpsql.connect(paths, policy=POLICY, ledger=":memory:", steward=True) as reference,
        dpsql.connect((cluster.master, paths), policy=limits, ledger=":memory:") as limited,
    ):
        session = db.engine._opened.session  # type: ignore[attr-defined]
        session.sparkContext.setLogLevel("OFF")
        for sql in QUERIES:
            assert integers(db, sql) == integers(reference, sql), sql
        say(f"{len(QUERIES)} queries on {len(cluster.executors())} executors: DuckDB's integers")
        lost_executor(cluster, db, integers(db, LONG))
        lost_workers(cluster, limited)
        stopped(session, db)


def lost_executor(cluster: Cluster, db: dpsql.Connection, wanted: str) -> None:
    """Spark runs the lost tasks again: the same integers, or the constant error; afterwards the same integers."""
    threading.Timer(0.5, lambda: os.kill(cluster.executors()[0], signal.SIGKILL)).start()
    try:
        assert integers(db, LONG) == wanted
        say("an executor was killed in the middle: the same integers")
    except EngineError as failed:
        say(f"an executor was killed in the middle: {failed.message}")
    time.sleep(1)
    assert integers(db, LONG) == wanted
    say("the next query has the same integers")


def lost_workers(cluster: Cluster, db: dpsql.Connection) -> None:
    """Nobody is left to work: the time limit ends it, with the constant error, and the charge is kept."""
    for worker in cluster.started[1:]:
        worker.kill()
    for process in cluster.executors():
        os.kill(process, signal.SIGKILL)
    before = db.budget().dataset.spent.epsilon
    try:
        db.query(LONG, epsilon=1, delta=1e-6)
        raise SystemExit("a query was answered by nobody")
    except EngineError as failed:
        say(f"all workers were killed: {failed.message}")
    assert db.budget().dataset.spent.epsilon > before
    say("the charge is kept")


def stopped(session: Any, db: dpsql.Connection) -> None:
    """The session is stopped in the middle: the constant error; afterwards a clear one, and no charge."""
    threading.Timer(2, session.sparkContext.stop).start()
    try:
        db.query(LONG, epsilon=1, delta=1e-6)
        raise SystemExit("a query was answered by nobody")
    except EngineError as failed:
        say(f"the session was stopped in the middle: {failed.message}")
    before = db.budget().dataset.spent.epsilon
    try:
        db.query(LONG, epsilon=1, delta=1e-6)
        raise SystemExit("a query was answered by nobody")
    except InterfaceError as gone:
        say(f"afterwards: {gone.message}")
    assert db.budget().dataset.spent.epsilon == before


if __name__ == "__main__":
    sys.exit(main())
