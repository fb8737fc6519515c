"""Reload, shutdown, logs, and what a stranger may find out: a server as its steward runs it."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from inside import MARK, POLICY, Inside, held, inside, until
from raw import Raw, bind, describe, execute, faults, frame, kinds, parse, query, startup
from served import PASSWORD, Served

import dpsql
from dpsql.interfaces.server.client_catalogue import AnalystCatalogue, AnalystCatalogues
from dpsql.interfaces.server.login import derive_pepper
from dpsql.interfaces.server.scram import Verifier, unknown_user_verifier
from dpsql.interfaces.server.users import User, add_user, remove_user


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    with inside(tmp_path_factory.mktemp("running")) as server:
        yield server


def client(server: Inside, user: str = "ana") -> Raw:
    made = Raw(server)  # type: ignore[arg-type]
    assert kinds(made.login(user)).endswith("Z")
    return made


def values(seen: list[tuple[bytes, bytes]]) -> list[bytes]:
    return [body for kind, body in seen if kind == b"D"]


# reload ---------------------------------------------------------------------------------------------------------------


def test_reload_while_a_query_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The query ends under the policy that it began with; the next one, and the catalogue, are under the new one."""
    tables = "SELECT relname FROM pg_catalog.pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    with inside(tmp_path) as server:
        ana, bob = client(server), client(server, "bob")
        assert len(values(ana.ask(query(tables)))) == 2
        with held(monkeypatch, "age > 21", charged=True) as gate:
            ana.send(query("SELECT count(*) FROM people WHERE age > 21"))
            assert gate.arrived.wait(30)
            server.place.policy.write_text(POLICY.replace("age: {min: 0, max: 120}, ", "").replace("numbers", "digits"))
            remove_user(server.place.users, "bob")
            with pytest.raises(dpsql.PolicyError):
                server.reload()  # there is no table digits: nothing changes
            assert kinds(bob.ask(query("SELECT count(*) FROM numbers"))).endswith("CZ")
            server.place.policy.write_text(
                POLICY.replace("age: {min: 0, max: 120}, ", "").replace("  numbers: {public: true}", "")
            )
            server.reload()
            gate.leave.set()
            assert len(values(ana.until_ready())) == 1
        assert bob.message() is not None and bob.message() is None
        assert faults(ana.ask(query("SELECT count(*) FROM people WHERE age > 21"))) == ["42703"]
        assert faults(ana.ask(query("SELECT count(*) FROM numbers"))) == ["42P01"]
        assert len(values(ana.ask(query(tables)))) == 1
        assert set(server.server._views._views) == {"ana"}
        add_user(server.place.users, User("ana", Verifier.of("another password"), "ana"))
        server.reload()
        seen = ana.until_ready()
        assert faults(seen) == ["57P01"] and b"changed or removed" in seen[0][1]
        assert faults(Raw(server).login()) == ["28P01"]  # type: ignore[arg-type]


def test_who_was_removed_while_logging_in_is_sent_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The password was right, but the reload comes before the server has noted whose connection it is."""
    arrived, leave, of = threading.Event(), threading.Event(), AnalystCatalogues.of

    async def late(self: AnalystCatalogues, user: User) -> AnalystCatalogue:
        view = await of(self, user)
        arrived.set()
        assert await asyncio.to_thread(leave.wait, 30)
        return view

    with inside(tmp_path) as server, ThreadPoolExecutor(1) as thread, monkeypatch.context() as patch:
        patch.setattr(AnalystCatalogues, "of", late)
        seen = thread.submit(lambda: Raw(server).login("bob"))  # type: ignore[arg-type]
        try:
            assert arrived.wait(30)
            remove_user(server.place.users, "bob")
            server.reload()
        finally:
            leave.set()
        assert faults(seen.result(30)) == ["57P01"]


def test_another_datasets_policy_is_not_taken_in(running: Inside) -> None:
    text = running.place.policy.read_text()
    try:
        running.place.policy.write_text(text.replace("dataset: shop", "dataset: other"))
        with pytest.raises(dpsql.InterfaceError, match="restart the server"):
            running.reload()
    finally:
        running.place.policy.write_text(text)


# shutdown -------------------------------------------------------------------------------------------------------------


def test_a_shutdown_lets_queries_end_and_sends_the_others_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with inside(tmp_path) as server:
        busy, idle = client(server), client(server)
        health = f"http://127.0.0.1:{server.steward_port}/healthz"
        assert urllib.request.urlopen(health, timeout=10).read() == b"ok\n"
        with held(monkeypatch, "age > 21", charged=True) as gate:
            busy.send(query("SELECT count(*) FROM people WHERE age > 21"))
            assert gate.arrived.wait(30)
            stopping = server.begin(server.server.stop(30))
            assert faults(idle.until_ready()) == ["57P01"]
            with pytest.raises(OSError):
                socket.create_connection(("127.0.0.1", server.port), timeout=5)
            gate.leave.set()
            seen = busy.until_ready()
            assert len(values(seen)) == 1 and kinds(seen).endswith("CZ")
            assert faults(busy.until_ready()) == ["57P01"]
            stopping.result(60)


# logs -----------------------------------------------------------------------------------------------------------------


def test_the_log_has_no_value_and_no_text_of_a_query(running: Inside, caplog: pytest.LogCaptureFixture) -> None:
    """Passing and failing statements through both protocols and the Python door; each line is JSON with known words."""
    caplog.set_level(logging.INFO)
    asked = [
        f"SELECT count(*) FROM people WHERE secret = '{MARK}7'", "SELECT kind, avg(age) FROM people GROUP BY kind",
        "SELECT secret, count(*) FROM people GROUP BY secret", "SELECT * FROM people", f"SELECT '{MARK}'::int", f"SELECT {MARK}",
        f"SELECT count(*) FROM people WHERE kind = '{MARK}' AND age > 774177", "SELECT sum(774177) / 0 FROM people", "SELECT 1/0",
        f"SELECT '{MARK}'::date FROM pg_catalog.pg_class", f"SET dpsql.epsilon = '{MARK}'", f"SET x.y = '{MARK}'", "SHOW x.y",
        f"EXPLAIN SELECT count(*) FROM people WHERE secret = '{MARK}'", f"COPY people TO '{MARK}'", "SELECT (((", "SELECT 'a",
        f"SELECT dpsql.query('{MARK}')", "SELECT cast(max(kind) AS INTEGER) FROM people", "SELECT count(*) FROM people, pg_class",
    ]  # fmt: skip
    ana = client(running)
    for sql in asked:
        ana.ask(query(sql))
        ana.ask(parse(sql), bind(), describe(), execute(), frame(b"S"))
    ana.ask(parse("SELECT count(*) FROM people WHERE kind = $1"), bind(values=(MARK.encode(),)), execute(), frame(b"S"))
    ana.send(frame(b"Q", MARK.encode()))
    ana.close()
    with dpsql.connect(f"dpsql://bob@127.0.0.1:{running.port}/shop", password=PASSWORD) as far:
        far.query("SELECT count(*) FROM people WHERE secret = ?", (MARK,))
        with pytest.raises(dpsql.Error):
            far.query(f"SELECT {MARK} FROM people")
    assert faults(Raw(running).login("ana", MARK)) == ["28P01"]  # type: ignore[arg-type]
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) > 25
    for line in lines:
        assert "7741" not in line and "Zanzibar" not in line and "SELECT" not in line and "people" not in line
        assert set(json.loads(line)) <= {"at", "event", "user", "analyst", "state", "ms", "kind", "address"}
    assert {json.loads(line)["event"] for line in lines} >= {
        "login",
        "query",
        "describe",
        "explain",
        "set",
        "login refused",
    }


def test_no_answer_error_or_notice_has_a_raw_value(running: Inside) -> None:
    """Casts, divisions, dates and conversions that an engine would refuse with the value in its message."""
    ana = client(running)
    for sql in (
        "SELECT count(*) FROM people WHERE secret::int > 3", "SELECT sum(secret::int) FROM people", "SELECT max(secret) FROM people",
        "SELECT count(*) FROM people WHERE secret::date > '2020-01-01'", "SELECT avg(1 / (age - age)) FROM people",
        "SELECT count(*) FROM people WHERE strptime(secret, '%Y') > '2020-01-01'", "SELECT secret FROM people GROUP BY secret",
        "SELECT count(*) FROM people GROUP BY error(secret)", "SELECT DISTINCT secret FROM people", "SELECT hidden FROM people",
        "SELECT count(*) FROM people WHERE hidden > 1", "SELECT min(secret) FROM people", "SELECT string_agg(secret, ',') FROM people",
        "SELECT count(*) FROM people WHERE regexp_matches(secret, '(((')", "SELECT mode(secret) FROM people", "SELECT secret::uuid FROM people",
        "SELECT CASE WHEN secret LIKE 'Z%' THEN error(secret) ELSE 1 END FROM people", "SELECT count(*) FROM people WHERE json(secret) IS NULL",
    ):  # fmt: skip
        for seen in (ana.ask(query(sql)), ana.ask(parse(sql), bind(), execute(), frame(b"S"))):
            assert not any(b"Zanzibar" in body or b"7741" in body for _, body in seen), sql
    ana.close()


# what a stranger, or another analyst, may find out ----------------------------------------------------------------------


def test_unknown_names_look_like_users_at_every_step(running: Inside, tmp_path: Path) -> None:
    """The same messages of the same length, the same salt at each try and after a restart, and the same wait."""

    def steps(name: str) -> list[tuple[bytes, int]]:
        line = Raw(running)  # type: ignore[arg-type]
        seen = []
        line.send(startup(user=name, database="shop"))
        seen.append(line.message())
        line.send(frame(b"p", b"SCRAM-SHA-256\0\0\0\0\x17n,,n=,r=abcdefghijklmno"))
        seen.append(line.message())
        line.send(frame(b"p", seen[1][1].split(b",")[0][4:].replace(b"r=", b"c=biws,r=") + b",p=" + b"A" * 43 + b"="))
        seen.append(line.message())
        assert line.message() is None
        return [(kind, len(body)) for kind, body in seen]  # type: ignore[misc]

    assert steps("bob") == steps("nob")
    key = (running.folder / "server.key").read_bytes()
    assert unknown_user_verifier("nob", derive_pepper(key)) == unknown_user_verifier("nob", running.server._door.pepper)
    assert (
        unknown_user_verifier("nob", derive_pepper(key)).salt != unknown_user_verifier("nod", derive_pepper(key)).salt
    )
    assert len(unknown_user_verifier("nob", derive_pepper(key)).salt) == len(Verifier.of("x" * 8).salt)


def test_the_catalogue_is_the_same_whatever_the_rows_are(tmp_path: Path) -> None:
    """All that tools read of it, over two databases with other rows: byte by byte, but for times and process numbers."""
    import duckdb

    seen = []
    for number, change in enumerate(("DELETE FROM people", "UPDATE people SET secret = 'x', age = 3, kind = 'c'")):
        folder = tmp_path / str(number)
        folder.mkdir()
        with inside(folder) as server:
            server.end()
        with duckdb.connect(str(folder / "shop.duckdb")) as data:
            data.execute(change)
        again = Inside(server.place)
        ana = client(again)
        seen.append([
            values(ana.ask(query(sql))) for sql in (
                "SELECT relname, reltuples, relpages, relhasindex FROM pg_catalog.pg_class ORDER BY 1",
                "SELECT attrelid::regclass::text, attname, atttypid, attnotnull FROM pg_catalog.pg_attribute ORDER BY 1, 2",
                "SELECT * FROM information_schema.columns WHERE table_schema = 'public' ORDER BY table_name, ordinal_position",
                "SELECT * FROM pg_catalog.pg_stats ORDER BY 1, 2, 3", "SELECT obj_description('people'::regclass)",
                "SELECT pg_relation_size('people')", "SELECT n_live_tup FROM pg_catalog.pg_stat_all_tables WHERE relname = 'people'",
                "SELECT * FROM people LIMIT 0", "SELECT DISTINCT kind FROM people",
            )
        ])  # fmt: skip
        seen[-1].append([str(ana.ask(query("EXPLAIN SELECT kind, avg(age) FROM people GROUP BY kind"))).encode()])
        ana.close()
        again.end()
    assert seen[0] == seen[1] and all(seen[0][:3])


def test_error_bars_come_as_a_notice(running: Inside) -> None:
    with psycopg.connect(
        f"host=127.0.0.1 port={running.port} dbname=shop user=ana password='{PASSWORD}' sslmode=require",
        autocommit=True,
    ) as db:
        said: list[str] = []
        db.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
        sql = "SELECT kind, count(*) AS n, avg(age) AS a FROM people WHERE age < 90 GROUP BY kind"
        for _ in range(2):
            said.clear()
            db.execute(sql)
            [bars] = [text for text in said if "±" in text]
            width = float(bars.partition("n ± ")[2].replace(",", ""))
            [low, high] = db.execute(
                "SELECT dp_low(count(*)), dp_high(count(*)) FROM people WHERE age < 90 GROUP BY kind"
            ).fetchone()  # type: ignore[misc]
            assert width == pytest.approx((high - low) / 2, abs=1)
            [others] = [text for text in said if "DP_LOW" in text]
            assert others.startswith("error bars of a ")
        said.clear()
        db.execute("SELECT count(*) FROM numbers")
        assert said == ["free"]


def test_sighup_and_sigterm(served: Served) -> None:
    """The real process: SIGHUP while it serves; what it wrote to its log is JSON. (SIGTERM: the fixture's end.)"""
    import signal

    with psycopg.connect(served.dsn(), autocommit=True) as db:
        served.process.send_signal(signal.SIGHUP)
        log = served.folder / "server.log"
        assert until(lambda: '"reloaded"' in log.read_text())
        assert db.execute("SELECT count(*) FROM stores").fetchone()
    lines = [line for line in log.read_text().splitlines() if line.startswith("{")]
    assert all("event" in json.loads(line) for line in lines)
    page = f"http://127.0.0.1:{served.steward_port}"
    assert "dpsql_held_bytes 0" in urllib.request.urlopen(f"{page}/metrics", timeout=10).read().decode()
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{page}/policy.yaml", timeout=10)
