"""What one client may hold and how long it may take: others go on, and what is refused was not charged."""

from __future__ import annotations

import socket
import struct
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from inside import POLICY, Inside, held, held_at_the_charge, inside, make, until
from raw import SYNC, Raw, bind, execute, faults, frame, kinds, parse, query
from served import PASSWORD

import dpsql
from dpsql.interfaces.server.listener import PATIENCE
from dpsql.interfaces.server.query_runner import MAX_THREADS_PER_ACCOUNT
from dpsql.interfaces.server.server_limits import ServerLimits

SMALL = ServerLimits(texts=20_000, answers=800_000, write=1, failures=0.05)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    with inside(tmp_path_factory.mktemp("small"), SMALL) as running:
        yield running


def client(server: Inside, user: str = "ana") -> Raw:
    made = Raw(server)  # type: ignore[arg-type]
    assert kinds(made.login(user)).endswith("Z")
    return made


def gauge(server: Inside, name: str) -> float:
    text = urllib.request.urlopen(f"http://127.0.0.1:{server.steward_port}/metrics", timeout=10).read().decode()
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")))


def test_answers_that_are_left_unread_are_counted_and_no_more_are_made_or_charged(small: Inside) -> None:
    ana, other, bob = client(small), client(small), client(small, "bob")
    ana.ask(query("BEGIN"))
    for name in ("p", "q"):
        seen = ana.ask(parse("SELECT * FROM numbers"), bind(name), execute(1, name), SYNC)
        assert kinds(seen) == "12DsZ"
    assert gauge(small, "dpsql_held_bytes") > 100_000
    before = small.spent()
    for one in (ana, other):
        assert faults(one.ask(query("SELECT count(*) FROM people WHERE age > 33"))) == ["53200"]
        assert faults(one.ask(query("SELECT relname FROM pg_catalog.pg_class"))) == (
            ["25P02"] if one is ana else ["53200"]
        )
    assert small.spent() == before
    assert kinds(bob.ask(query("SELECT count(*) FROM people WHERE age > 33"))).endswith("CZ")
    ana.ask(query("ROLLBACK"))
    assert gauge(small, "dpsql_held_bytes") == 0
    assert "C" in kinds(other.ask(query("SELECT count(*) FROM people WHERE age > 33")))
    for one in (ana, other, bob):
        one.close()


def test_a_portal_that_is_closed_replaced_or_left_behind_holds_nothing(small: Inside) -> None:
    ana = client(small)
    ana.ask(query("BEGIN"))
    part = (parse("SELECT * FROM numbers"), bind("p"), execute(1, "p"), SYNC)
    ana.ask(*part)
    ana.ask(frame(b"C", b"Pp\0"), SYNC)
    assert gauge(small, "dpsql_held_bytes") == 0
    ana.ask(*part)
    once = gauge(small, "dpsql_held_bytes")
    ana.ask(*part)
    assert gauge(small, "dpsql_held_bytes") == once > 0
    ana.close()
    assert until(lambda: gauge(small, "dpsql_held_bytes") == 0)


def test_prepared_statements_and_bound_values_are_limited_in_bytes(small: Inside) -> None:
    ana = client(small)
    long = "SELECT count(*) FROM people WHERE kind = '" + "x" * 8000 + "'"
    assert [faults(ana.ask(parse(long, f"s{i}"), SYNC)) for i in range(4)] == [[], [], ["54000"], ["54000"]]
    ana.ask(frame(b"C", b"Ss0\0"), SYNC)
    assert faults(ana.ask(parse(long, "again"), SYNC)) == []
    ana.ask(query("DISCARD ALL"))
    ana.ask(query("BEGIN"))
    ana.ask(parse("SELECT count(*) FROM people WHERE kind = $1", "v"), SYNC)
    seen = [faults(ana.ask(bind(f"p{i}", "v", (b"x" * 8000,)), SYNC)) for i in range(3)]
    assert seen == [[], [], ["54000"]]
    ana.close()


def test_a_client_that_never_reads_is_sent_away_and_its_answers_are_let_go(small: Inside) -> None:
    ana = client(small)
    ana.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    lost = gauge(small, "dpsql_lost_total")
    with pytest.raises(OSError):
        ana.socket.settimeout(0.5)
        while True:
            ana.send(query("SELECT * FROM numbers a") * 50)
    assert until(lambda: gauge(small, "dpsql_lost_total") > lost)
    assert until(lambda: gauge(small, "dpsql_held_bytes") == 0)
    assert until(lambda: gauge(small, "dpsql_connections") == 0)
    ana.close()


def test_a_statement_that_takes_too_long_is_told_so_and_replayed_later(
    small: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql, before = "SELECT kind, count(*) FROM people WHERE age > 41 GROUP BY kind", small.spent()
    monkeypatch.setattr(small.server, "limits", replace(SMALL, statement=0.5))
    ana = client(small)
    monkeypatch.undo()
    with held(monkeypatch, "age > 41", charged=True) as gate:
        assert faults(ana.ask(query(sql))) == ["57014"]
        assert gate.arrived.wait(30)
    after = small.spent()
    assert after > before
    ana.close()
    ana = client(small)
    seen = ana.ask(query(sql))
    assert any(b"replayed: free" in body for _, body in seen)
    assert small.spent() == after
    ana.close()


def _cancel(server: Inside, key: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.sendall(struct.pack("!ii", 16, 80877102) + key)
        assert line.recv(1) == b""


def test_a_cancel_between_charge_and_send_sends_nothing_and_keeps_the_charge(
    small: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana, sql = client(small), "SELECT kind, count(*) FROM people WHERE age > 42 GROUP BY kind"
    before = small.spent()
    with held(monkeypatch, "age > 42", charged=True) as gate:
        ana.send(query(sql))
        assert gate.arrived.wait(30)
        _cancel(small, ana.key)
        seen = ana.until_ready()
    assert faults(seen) == ["57014"] and "D" not in kinds(seen) and "T" not in kinds(seen)
    after = small.spent()
    assert after > before
    again = ana.ask(query(sql))
    assert any(b"replayed: free" in body for _, body in again) and small.spent() == after
    ana.close()


def test_what_is_cancelled_before_its_turn_is_never_begun(small: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    """One account may keep some of the threads busy; its next query waits, and a cancelled one charges nothing."""
    crowd, last, bob = [client(small) for _ in range(MAX_THREADS_PER_ACCOUNT)], client(small), client(small, "bob")
    before = small.spent()
    with held(monkeypatch, "age > 99", charged=False) as gate:
        for number, one in enumerate(crowd):
            one.send(query(f"SELECT count(*) + {number} FROM people WHERE age > 99"))
        assert until(lambda: gate.many == MAX_THREADS_PER_ACCOUNT)
        last.send(query("SELECT count(*) FROM people WHERE age > 77"))
        assert kinds(bob.ask(query("SELECT count(*) FROM numbers"))).endswith("CZ")
        _cancel(small, last.key)
        assert faults(last.until_ready()) == ["57014"]
    for one in crowd:
        one.until_ready()
    spent = small.spent()
    assert spent > before
    last.ask(query("SELECT count(*) FROM people WHERE age > 77"))
    assert small.spent() > spent
    for one in (*crowd, last, bob):
        one.close()


def test_two_tabs_that_ask_at_once_are_charged_once(small: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the first of them is cancelled while it runs."""
    for number, cancelled in ((51, False), (52, True)):
        one, two, before = client(small), client(small), small.spent()
        sql = f"SELECT kind, count(*) FROM people WHERE age > {number} GROUP BY kind"
        with held_at_the_charge(monkeypatch) as gate:
            one.send(query(sql))
            assert gate.arrived.wait(30)
            two.send(query(sql))
            if cancelled:
                _cancel(small, one.key)
            assert not until(lambda: gate.many > 1, 0.5)
            gate.leave.set()
            seen = [each.until_ready() for each in (one, two)]
        assert any(b"replayed: free" in body for _, body in seen[1])
        rows = [[body for kind, body in each if kind == b"D"] for each in seen]
        assert faults(seen[0]) == ["57014"] if cancelled else rows[0] == rows[1]
        after = small.spent()
        assert after > before
        one.ask(query(sql))
        assert small.spent() == after
        one.close()
        two.close()


def test_another_account_is_served_while_one_keeps_its_threads_busy(
    small: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd, bob = [client(small) for _ in range(12)], client(small, "bob")
    with held(monkeypatch, "age > 98", charged=False) as gate:
        for number, one in enumerate(crowd):
            one.send(query(f"SELECT count(*) + {number} FROM people WHERE age > 98"))
        assert until(lambda: gate.many == MAX_THREADS_PER_ACCOUNT)
        assert kinds(bob.ask(query("SELECT count(*) FROM people WHERE age > 12"))).endswith("CZ")
    for one in (*crowd, bob):
        one.close()


def test_guesses_of_one_name_wait_for_each_other_and_others_do_not(small: Inside) -> None:
    def guess(name: str) -> None:
        one = Raw(small)  # type: ignore[arg-type]
        assert faults(one.login(name, "not this one")) == ["28P01"]
        one.close()

    for name in ("bob", "nobody"):
        guess(name)
        tries = small.server._door.throttle._tries["127.0.0.1", name]
        threads = [threading.Thread(target=guess, args=(name,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert until(tries.turn.locked)
        client(small).close()
        for thread in threads:
            thread.join(30)
        assert tries.failures == 5
    assert kinds(Raw(small).login("bob", PASSWORD)).endswith("Z")  # type: ignore[arg-type]
    assert ("127.0.0.1", "bob") not in small.server._door.throttle._tries


# who has not logged in, who left, and what is kept -----------------------------------------------------------------------


def test_silent_sockets_lock_nobody_out(small: Inside) -> None:
    """As many as the server has connections, from the same address: they push each other out."""
    silent = [socket.create_connection(("127.0.0.1", small.port), timeout=30) for _ in range(310)]
    try:
        for user in ("ana", "bob"):
            client(small, user).close()
        assert until(lambda: gauge(small, "dpsql_strangers") > 0)
        time.sleep(PATIENCE)
        client(small).close()
        assert until(lambda: gauge(small, "dpsql_strangers") <= SMALL.strangers_of_address + 1)
        assert gauge(small, "dpsql_evicted_total") >= 310 - SMALL.strangers_of_address - 1
    finally:
        for each in silent:
            each.close()
    assert until(lambda: gauge(small, "dpsql_strangers") == 0)


def test_one_account_leaves_connections_for_others(tmp_path: Path) -> None:
    with inside(tmp_path, replace(SMALL, connections=12)) as server:
        ana = [client(server) for _ in range(6)]
        assert faults(Raw(server).login()) == ["53300"]  # type: ignore[arg-type]
        bob = [client(server, "bob") for _ in range(3)]
        assert faults(Raw(server).login("bob")) == ["53300"]  # type: ignore[arg-type]
        ana.pop().close()
        assert until(lambda: gauge(server, "dpsql_connections") == 8)
        bob.append(client(server, "bob"))
        for one in (*ana, *bob):
            one.close()


def test_the_work_of_a_client_that_left_is_stopped_and_stays_charged(tmp_path: Path) -> None:
    """With statements still unread behind it; the thread is free again, and nothing is answered."""
    endless = "SELECT sum(a.age) FROM crowd a JOIN crowd b ON a.id = b.id AND a.age + b.age <> 1.5"
    policy = POLICY.replace("tables:", "tables:\n  crowd: {unit: id, columns: {age: {min: 0, max: 1}}}")
    place = make(tmp_path)
    with duckdb.connect(str(place.database)) as data:
        data.execute("CREATE TABLE crowd AS SELECT 1 AS id, i / 2e6 AS age FROM range(1000000) r(i)")
    place.policy.write_text(policy)
    server = Inside(place)
    try:
        crowd = [client(server) for _ in range(MAX_THREADS_PER_ACCOUNT)]
        for number, one in enumerate(crowd):
            one.send(parse(f"{endless} AND a.age <> {number}") + bind() + execute() + SYNC + query("SELECT 1"))
        assert until(lambda: server.spent() > 0)
        time.sleep(0.5)
        for one in crowd:
            one.close()
        assert until(lambda: gauge(server, "dpsql_abandoned_total") == MAX_THREADS_PER_ACCOUNT)
        last = client(server)
        assert kinds(last.ask(query("SELECT count(*) FROM people"))).endswith("CZ")
        assert server.spent() > 0 and gauge(server, "dpsql_connections") == 1
        last.close()
    finally:
        server.end()


def test_answers_that_are_kept_for_their_error_bars_count_and_give_way(small: Inside) -> None:
    """Calls of the Python door, from several connections: half of what an account may hold, and queries go on."""
    address = f"dpsql://ana@127.0.0.1:{small.port}/shop"
    sql = "SELECT * FROM numbers a"
    with ExitStack() as stack:
        doors = [
            stack.enter_context(dpsql.connect(address, password=PASSWORD, certificate=small.folder / "server.crt"))
            for _ in range(3)
        ]
        kinds_of = doors[0].query("SELECT kind, count(*) AS n FROM people GROUP BY kind")
        assert len(kinds_of.intervals()) == 3 and gauge(small, "dpsql_held_bytes") > 0
        for door in doors:
            for number in range(10):
                assert len(door.query(f"{sql} WHERE n >= {1800 + number}")) == 200 - number
                assert 0 < gauge(small, "dpsql_held_bytes") <= SMALL.answers // 8
        assert len(doors[0].query("SELECT count(*) FROM people").intervals()) == 1
        with pytest.raises(dpsql.InterfaceError, match="no longer has this answer"):
            kinds_of.intervals(0.5)
    assert until(lambda: gauge(small, "dpsql_held_bytes") == 0)
