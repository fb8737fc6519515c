"""The engine in a process of its own: the same integers, and a death that costs one answer and tells nothing."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.audit import trace
from dpsql.budget.fingerprint import fingerprint
from dpsql.budget.pricing import Priced
from dpsql.engines.isolated import engine as processes
from dpsql.engines.isolated.codec import BadMessage, pack, unpack
from dpsql.engines.isolated.engine import IsolatedEngine
from dpsql.engines.sealed import Exact, Integers

SALT = b"0123456789abcdef"
TABLES = {
    "t": {"unit": "u", "max_rows_per_unit": 3, "columns": {
        "x": {"min": 0, "max": 9}, "g": {"values": ["a", "b"]}, "y": {"min": 0, "max": 1}, "k": {}}},
    "p": {"public": True},
}  # fmt: skip
QUERIES = [
    "SELECT count(*), sum(x), avg(y) FROM t",
    "SELECT g, count(*), avg(x) FROM t GROUP BY g",
    "SELECT k, count(*) FROM t GROUP BY k",
    "SELECT g, median(x) FROM t GROUP BY g",
    "SELECT count(DISTINCT x) FROM t WHERE y > 0.25 AND g = 'a'",
    "SELECT label, sum(y) FROM t JOIN p ON t.g = p.g GROUP BY label",
    "SELECT avg(n) FROM (SELECT u, count(*) AS n FROM t GROUP BY u)",
    "SELECT g, count(*) FROM t GROUP BY ROLLUP (g)",
    "SELECT count(*) FROM t WHERE x > (SELECT avg(x) FROM t)",
    "SELECT count(*) FROM (SELECT u, x FROM t UNION ALL SELECT u, x + 1 FROM t)",
    "SELECT sum(r) FROM (SELECT u, row_number() OVER (PARTITION BY u ORDER BY x) AS r FROM t)",
]
QUICK = "SELECT count(*) FROM t"
ENDLESS = "SELECT sum(a.x) FROM t a JOIN t b ON a.u = b.u JOIN t c ON b.u = c.u AND a.y + b.y + c.y <> 1.5"


def make(path: Path, without: int | None = None) -> Path:
    with duckdb.connect(str(path)) as data:
        data.execute(
            "CREATE TABLE t AS SELECT i % 40 AS u, (i * 7) % 10 AS x, chr((97 + i % 2)::INT) AS g, i / 200 AS y, "
            f"'k' || (i % 4) AS k FROM range(200) r(i) WHERE i % 40 IS DISTINCT FROM {without or 'NULL'}"
        )
        data.execute("INSERT INTO t SELECT 1000, 1, 'a', i / 2e4, 'z' FROM range(20000) r(i)")
        data.execute("CREATE TABLE p AS SELECT * FROM (VALUES ('a', 'first'), ('b', 'second')) v(g, label)")
        data.execute("CREATE TABLE hidden AS SELECT 1 AS u, 2 AS x")
    return path


def connect(path: Path, *, isolate: bool = True, seconds: int | None = None) -> dpsql.Connection:
    policy = {
        "dataset": "d", "search": False, "budget": {"epsilon": 1000, "delta": 1e-5}, "replay": False, "tables": TABLES,
        "limits": {"memory": "500MB", "seconds": seconds, "epsilon": 100},
    }  # fmt: skip
    return dpsql.connect(path, policy=policy, ledger=":memory:", steward=True, isolate=isolate)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("isolated") / "d.duckdb")


@pytest.fixture(scope="module")
def db(file: Path) -> Iterator[dpsql.Connection]:
    with connect(file) as opened:
        yield opened


def engine(db: dpsql.Connection) -> IsolatedEngine:
    assert isinstance(db.engine, IsolatedEngine)
    return db.engine


def gone(number: int, patience: float = 20) -> bool:
    """Has the process ended (or is it only waited for)?"""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


# the same answers -------------------------------------------------------------------------------------------------------


def test_a_process_of_its_own_gives_the_same_integers(db: dpsql.Connection, tmp_path: Path) -> None:
    with connect(make(tmp_path / "same.duckdb"), isolate=False) as here:
        for sql in QUERIES:
            assert trace(db, sql, salt=SALT) == trace(here, sql, salt=SALT), sql


def test_neighbours_move_by_no_more_than_is_claimed(db: dpsql.Connection, tmp_path: Path) -> None:
    moved = 0
    with connect(make(tmp_path / "neighbour.duckdb", without=7)) as other:
        for sql in QUERIES[:8]:
            for one, two in zip(trace(db, sql, salt=SALT), trace(other, sql, salt=SALT), strict=True):
                assert one.rule == two.rule
                for a, b in zip(one.statistics, two.statistics, strict=True):
                    places = (range(len(a.values)), range(len(b.values)))
                    keys = places if one.keys == two.keys else (one.keys, two.keys)
                    first, second = (dict(zip(k, v.values, strict=True)) for k, v in zip(keys, (a, b), strict=True))
                    steps = [abs(first.get(k, 0) - second.get(k, 0)) for k in {*first, *second}]
                    assert a.linf is None or max(steps) <= a.linf
                    assert a.l1 is None or sum(steps) <= a.l1
                    moved += sum(steps) > 0
    assert moved > 5


def test_answers_public_rows_and_nested_results_come_through(db: dpsql.Connection) -> None:
    assert db.query("SELECT label FROM p ORDER BY label").fetchall() == [("first",), ("second",)]
    assert len(db.query("SELECT g, count(*) AS n, dp_low(count(*)) FROM t GROUP BY g", epsilon=1)) == 2
    assert (
        len(
            db.query(
                "SELECT count(*) FROM t JOIN (SELECT g, count(*) AS n FROM t GROUP BY g) r ON t.g = r.g", epsilon=1
            )
        )
        == 1
    )


def test_threads_and_connections_share_one_process(db: dpsql.Connection, file: Path) -> None:
    others = [connect(file) for _ in range(3)]
    assert {engine(each).process.number for each in others} == {engine(db).process.number}
    wanted = [trace(db, sql, salt=SALT) for sql in QUERIES[:4]]
    with ThreadPoolExecutor(8) as threads:
        jobs = [(i, threads.submit(trace, others[i % 3], QUERIES[i % 4], salt=SALT)) for i in range(24)]
    assert all(job.result() == wanted[i % 4] for i, job in jobs)
    for each in others:
        each.close()
    assert not gone(engine(db).process.number, 0.1), "one connection still uses it"


def test_this_process_never_opens_the_database(db: dpsql.Connection, file: Path) -> None:
    db.query(QUICK)

    def opened(number: int) -> bool:
        return any(os.path.realpath(each) == str(file) for each in Path(f"/proc/{number}/fd").iterdir())

    assert not opened(os.getpid())
    assert opened(engine(db).process.number)


# its death --------------------------------------------------------------------------------------------------------------


def failing(db: dpsql.Connection, meanwhile: Callable[[int], None]) -> None:
    """An endless query that something happens to: a constant text, the charge kept, the next query answered."""
    number, before = engine(db).process.number, db.budget().dataset.spent.rho
    later = threading.Timer(0.5, meanwhile, [number])
    later.start()
    with pytest.raises(dpsql.EngineError) as failed:
        db.query(ENDLESS, epsilon=1)
    later.join()
    assert str(failed.value) == dpsql.EngineError.TEXT
    assert failed.value.__cause__ is None and failed.value.__context__ is None
    spent = db.budget().dataset.spent.rho
    assert spent > before
    assert len(db.query(QUICK, epsilon=1)) == 1
    assert db.budget().dataset.spent.rho > spent


def test_a_process_that_is_killed_in_a_query_is_started_again(db: dpsql.Connection) -> None:
    number = engine(db).process.number
    failing(db, lambda it: os.kill(it, signal.SIGKILL))
    assert engine(db).process.number != number


def test_a_query_that_takes_too_long_is_stopped_and_the_process_lives(file: Path) -> None:
    with connect(file, seconds=1) as db:
        number = engine(db).process.number
        failing(db, lambda it: None)
        assert engine(db).process.number == number


def test_a_process_that_hangs_is_ended(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE", 0.3)
    with connect(file, seconds=1) as db:
        number = engine(db).process.number
        failing(db, lambda it: os.kill(it, signal.SIGSTOP))
        assert gone(number) and engine(db).process.number != number


def test_a_database_that_was_replaced_while_the_process_was_gone_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    path, other = make(tmp_path / "d.duckdb"), make(tmp_path / "new.duckdb", without=3)
    with connect(path) as db:
        db.query(QUICK)
        other.replace(path)
        with connect(path) as new:
            assert new.data_version() != db.data_version(), "a new connection has the new file, in its own process"
            assert engine(new).process.number != engine(db).process.number
        os.kill(engine(db).process.number, signal.SIGKILL)
        for _ in range(2):
            with pytest.raises(dpsql.EngineError):
                db.query(QUICK)


def test_what_cannot_be_opened_is_said_at_once(tmp_path: Path) -> None:
    broken = tmp_path / "broken.duckdb"
    broken.write_bytes(b"CANARY" * 1000)
    for path, said in ((tmp_path / "none.duckdb", "there is no database file"), (broken, "cannot be opened read-only")):
        with pytest.raises(dpsql.InterfaceError, match=said) as refused:
            connect(path)
        assert "CANARY" not in str(refused.value)
    with pytest.raises(dpsql.InterfaceError, match="only files"):
        dpsql.connect(duckdb.connect(), policy={"dataset": "d", "search": False, "budget": {"epsilon": 1}, "tables": TABLES},
                      ledger=":memory:", isolate=True)  # fmt: skip


def test_the_process_ends_with_the_one_that_started_it(file: Path) -> None:
    code = (
        "import sys, time\nsys.path.insert(0, sys.argv[1])\nfrom pathlib import Path\n"
        "from test_isolated_engine import connect, engine, ENDLESS\ndb = connect(Path(sys.argv[2]))\n"
        "import threading; threading.Thread(target=lambda: db.query(ENDLESS), daemon=True).start(); time.sleep(0.3)\n"
        "print(engine(db).process.number, flush=True); time.sleep(60)"
    )
    here = str(Path(__file__).parent)
    parent = subprocess.Popen([sys.executable, "-c", code, here, str(file)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert not gone(child, 0.1)
    parent.kill()
    parent.wait()
    assert gone(child)


# what it can be asked, and what it may do -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "args"),
    [
        ("rows", ("t", ("x",))),
        ("rows", ("hidden", ("x",))),
        ("domains", ("t", ("x",))),
        ("unique", ("t", frozenset({"u"}))),
        ("execute", ("SELECT * FROM t",)),
        ("run", ("SELECT * FROM t", SALT, None, {}, None)),
    ],
)
def test_the_other_side_gets_no_rows_of_private_tables(
    db: dpsql.Connection, verb: str, args: tuple[object, ...]
) -> None:
    with pytest.raises(dpsql.EngineError):
        engine(db).process.ask(verb, *args)


def test_a_release_over_a_table_that_the_policy_does_not_name_is_refused(db: dpsql.Connection) -> None:
    [priced] = db.prepare(QUICK).bill.releases
    release = priced.bounded.release
    other = replace(release, source=replace(release.source, table="hidden"))  # type: ignore[call-arg]
    with pytest.raises(dpsql.EngineError):
        ask_other(db, replace(priced, bounded=replace(priced.bounded, release=other)), None)


def ask_other(db: dpsql.Connection, priced: Priced, shown: tuple[int, str, str, bytes] | None) -> object:
    """Ask the other process for a release, with what it is shown of a reservation; None is a steward's trace."""
    plain = replace(priced, bounded=replace(priced.bounded, release=replace(priced.bounded.release, bars=())))
    return engine(db).process.ask("run", plain, SALT, shown, {}, None)


def test_the_other_process_runs_what_it_is_shown_was_paid_for_and_nothing_else(db: dpsql.Connection) -> None:
    [priced], [other] = (db.prepare(sql).bill.releases for sql in (QUICK, "SELECT sum(x) FROM t"))
    version = engine(db).version()
    mark = fingerprint(priced, engine(db).emit(priced, SALT), version, "d")
    assert isinstance(ask_other(db, priced, (3, "d", version, mark)), Integers)
    for shown in ((3, "d", "another version", mark), (3, "e", version, mark), (3, "d", version, b"another mark")):
        with pytest.raises(dpsql.EngineError):
            ask_other(db, priced, shown)
    with pytest.raises(dpsql.EngineError):
        ask_other(db, other, (3, "d", version, mark))


def test_exact_values_do_not_go_through_the_pipe_unopened(db: dpsql.Connection) -> None:
    with pytest.raises(TypeError, match="cannot be sent"):
        pack(object.__new__(Exact))


@pytest.mark.parametrize("sql", QUERIES)
def test_a_plan_survives_the_pipe(db: dpsql.Connection, sql: str) -> None:
    for priced in db.prepare(sql).bill.releases:
        plain = replace(priced, bounded=replace(priced.bounded, release=replace(priced.bounded.release, bars=())))
        assert unpack(pack(plain)) == plain


@pytest.mark.parametrize(
    "message",
    [
        b"", b"[]", b"{}", b"[1]", b'[["os.system","true"]]', b'[["dpsql.errors.Span",1,"2"]]', b'[["dpsql.errors.Span",1]]',
        b'[["tuple",[0]]]', b'[["array","O","AAAA"]]', b'[["Decimal","x"]]', b'[["dpsql.expressions.types.Kind","NONE"]]',
        b'[["dpsql.engines.duckdb.engine.DuckDBEngine","x"]]', pickle.dumps(signal.SIGKILL),
    ],
)  # fmt: skip
def test_what_is_no_message_is_not_read(message: bytes) -> None:
    with pytest.raises(BadMessage):
        unpack(message)


def test_nonsense_ends_the_process_and_not_this_one(db: dpsql.Connection) -> None:
    number = engine(db).process.number
    engine(db).process._running._send(b"nonsense")
    assert gone(number)
    with pytest.raises(dpsql.EngineError):
        engine(db).process._running.ask("run", (), 5)
    assert len(db.query(QUICK)) == 1


def test_the_operating_system_holds_it_to_its_limits(db: dpsql.Connection) -> None:
    number = engine(db).process.number
    limits = {line[:26].strip(): line[26:].split() for line in Path(f"/proc/{number}/limits").read_text().splitlines()}
    assert limits["Max core file size"][:2] == ["0", "0"]
    assert limits["Max file size"][:2] == ["0", "0"]
    assert 10**9 < int(limits["Max address space"][1]) < 2**36
    assert "NoNewPrivs:\t1" in Path(f"/proc/{number}/status").read_text()


def test_confined_a_process_gets_no_memory_and_writes_no_file(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom dpsql.engines.isolated.worker import confine\nfrom dpsql.engines.base import Resources\n"
        "confine(Resources(64 * 10**6))\n"
        "try: bytearray(4 * 10**9); print('memory')\nexcept MemoryError: pass\n"
        "try:\n    with open(sys.argv[1], 'wb', buffering=0) as f: f.write(b'x'); print('file')\nexcept OSError: pass"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "f")], capture_output=True, text=True, check=True)
    assert done.stdout == ""


@pytest.mark.parametrize("address", ["postgresql://reader@host/shop", "spark://host:7077", "local[2]"])
def test_a_server_is_not_taken_for_a_file(address: str) -> None:
    policy = {"dataset": "d", "search": False, "budget": {"epsilon": 1}, "tables": {"t": {"public": True}}}
    with pytest.raises(dpsql.InterfaceError, match="this is the address of a server"):
        dpsql.connect(address, policy=policy, ledger=":memory:", isolate=True)
