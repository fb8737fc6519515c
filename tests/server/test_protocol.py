"""The protocol by hand: describing spends nothing, one Execute is one release, and hostile bytes meet an error."""

from __future__ import annotations

import socket
import struct
import threading
import time
import urllib.request
from collections.abc import Iterator

import psycopg
import pytest
from raw import SYNC, Raw, bind, describe, execute, faults, frame, kinds, parse, query, startup
from served import PASSWORD, Served

COUNT = "SELECT category, count(*) AS n FROM orders GROUP BY category"


@pytest.fixture
def raw(served: Served) -> Iterator[Raw]:
    client = Raw(served)
    assert kinds(client.login()).endswith("KZ")
    yield client
    client.close()


def _spent(served: Served) -> str:
    import dpsql

    with dpsql.connect(served.folder / "shop.duckdb", policy=served.folder / "policy.yaml", steward=True) as db:
        return repr(db.budget().dataset.spent)


def test_parse_bind_and_describe_spend_nothing_and_one_execute_spends_once(raw: Raw, served: Served) -> None:
    before = _spent(served)
    sql = "SELECT category, avg(amount) AS a FROM orders WHERE amount > 7.25 GROUP BY category"  # that nobody else asks
    seen = raw.ask(parse(sql, "s"), describe("S", "s"), bind(name="s"), describe(), SYNC)
    assert kinds(seen) == "1tT2TZ"
    assert _spent(served) == before
    seen = raw.ask(bind(name="s"), execute(), SYNC)
    assert kinds(seen).startswith("2D") and kinds(seen).endswith("CZ")
    after = _spent(served)
    assert after != before
    raw.ask(bind(name="s"), execute(), SYNC)
    raw.ask(query(sql))
    assert _spent(served) == after


def test_a_portal_gives_its_rows_in_parts(raw: Raw, served: Served) -> None:
    raw.ask(query("BEGIN"))
    seen = raw.ask(parse(COUNT), bind("p"), execute(2, "p"), SYNC)
    assert kinds(seen).replace("N", "") == "12DDsZ"
    spent = _spent(served)
    rest = raw.ask(execute(0, "p"), SYNC)
    assert kinds(rest).replace("N", "").startswith("DDD") and b"SELECT" in dict(rest)[b"C"]
    assert _spent(served) == spent
    assert kinds(raw.ask(query("COMMIT"))) == "CZ"
    assert faults(raw.ask(execute(0, "p"), SYNC)) == ["34000"]


def test_several_statements_in_one_message_stop_at_the_first_error(raw: Raw) -> None:
    seen = raw.ask(query("SELECT 1; SET dpsql.epsilon = 0.25; SELECT count(*) FROM stores; SELECT nope; SELECT 2"))
    assert kinds(seen).replace("N", "") == "TDCCTDCEZ"


def test_the_position_of_an_error_counts_from_the_beginning_of_the_message(raw: Raw) -> None:
    seen = raw.ask(query("SELECT 1; SELECT sum(nope) FROM orders"))
    [error] = [body for kind, body in seen if kind == b"E"]
    assert b"\0P22\0" in error


def test_a_statement_is_described_as_it_is_executed_whoever_used_the_connection_before(
    raw: Raw, served: Served
) -> None:
    """The Python door speaks DuckDB's dialect and sets its own price on a connection that clients of one account share."""
    import dpsql

    sql = "SELECT DATE '2024-01-31' - DATE '2024-01-01' AS d, 7 / 2 AS q, count(*) AS n FROM stores"
    described = []
    for _ in range(2):
        seen = raw.ask(parse(sql), describe("S"), SYNC)
        described.append(dict(seen)[b"T"])
        with dpsql.connect(f"dpsql://ana@127.0.0.1:{served.port}/shop", password=PASSWORD) as far:
            far.settle("SET dpsql.mechanism = 'laplace'")
            far.query("SELECT count(*) FROM stores")
    assert described[0] == described[1] == dict(raw.ask(query(sql)))[b"T"]


def test_an_error_skips_to_the_next_sync(raw: Raw) -> None:
    seen = raw.ask(parse("SELECT nope FROM orders"), bind(), describe(), execute(), SYNC)
    assert kinds(seen) == "12EZ"
    assert kinds(raw.ask(query("SELECT 1"))) == "TDCZ"


def test_an_empty_query_and_only_comments(raw: Raw) -> None:
    for text in ("", ";", "-- nothing", "/* nothing */ ;"):
        assert kinds(raw.ask(query(text))) == "IZ"


@pytest.mark.parametrize(
    "sql",
    [
        "COPY orders TO STDOUT", "COPY orders FROM STDIN", "INSERT INTO orders VALUES (1)", "CREATE TABLE t (a int)",
        "DROP TABLE orders", "SELECT * FROM orders", "SELECT * FROM read_csv('/etc/passwd')", "ATTACH 'x'", "VACUUM",
        "SELECT pg_read_file('/etc/passwd')", "SELECT pg_sleep(100)", "DO $$ BEGIN END $$", "LOCK TABLE orders",
        "SELECT count(*) FROM orders, pg_class", "SELECT lo_import('/etc/passwd')", "TABLE orders",
        "CREATE TEMP TABLE t AS SELECT 1", "SELECT set_config('statement_timeout', '0', false), pg_sleep(9)",
        "SELECT dblink('x', 'y')", "EXPLAIN ANALYZE SELECT count(*) FROM orders", "PREPARE x AS SELECT 1",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity", "CREATE FUNCTION f() RETURNS int AS 'SELECT 1' LANGUAGE sql",
    ],
)  # fmt: skip
def test_what_is_not_a_private_query_is_refused_and_free(raw: Raw, served: Served, sql: str) -> None:
    before = _spent(served)
    assert len(faults(raw.ask(query(sql)))) == 1
    assert _spent(served) == before
    assert kinds(raw.ask(query("SELECT 1"))) == "TDCZ"


def test_the_catalogue_knows_no_rows_no_estimates_and_no_other_queries(raw: Raw) -> None:
    def values(sql: str) -> list[bytes]:
        return [body for kind, body in raw.ask(query(sql)) if kind == b"D"]

    assert (
        values(
            "SELECT relname FROM pg_catalog.pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND reltuples > 0"
        )
        == []
    )
    assert values("SELECT * FROM pg_catalog.pg_stats WHERE schemaname = 'public'") == []
    assert values("SELECT query FROM pg_catalog.pg_stat_activity WHERE query LIKE '%SELECT%'") == []
    assert values("SELECT 1 FROM pg_catalog.pg_enum") == []


# hostile bytes --------------------------------------------------------------------------------------------------------


def _alive(served: Served) -> None:
    with psycopg.connect(served.dsn()) as db:
        assert db.execute("SELECT 1").fetchone() == (1,)


HOSTILE = [
    b"", b"\0", b"GET / HTTP/1.1\r\n\r\n", struct.pack("!i", 0), struct.pack("!i", -1), struct.pack("!ii", 8, 12345),
    struct.pack("!i", 2**31 - 1) + b"x" * 100, startup(user="ana")[:-3], startup(user="ana", database="shop") + b"\xff" * 50,
    struct.pack("!iii", 12, 80877102, 1), struct.pack("!iiii", 16, 80877102, 1, 1), struct.pack("!ii", 8, 80877103) + startup(user="ana"),
    startup(user="ana", database="shop") + frame(b"p", b"PLAIN\0" + struct.pack("!i", 3) + b"abc"),
    startup(user="ana", database="shop") + frame(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", -1)),
    startup(user="ana", database="shop") + frame(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", 9) + b"y,,n=,r=\xff"),
    startup(user="ana", database="shop") + query("SELECT 1"),
]  # fmt: skip


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_bytes_before_a_login_get_no_further(served: Served, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        said = b""
        while part := client.recv(4096):
            said += part
    assert b"Z\0\0\0\5" not in said
    _alive(served)


BROKEN = [
    frame(b"Q", b"no end"), frame(b"P", b"\0"), frame(b"B", b"\0\0\0\1"), frame(b"D", b"X\0"), frame(b"E", b"\0"), frame(b"!", b""),
    b"Q" + struct.pack("!i", 3), b"Q" + struct.pack("!i", 2**31 - 1), frame(b"Q", b"\xff\xfe\0"), frame(b"C", b"Z\0"),
    frame(b"B", b"\0\0" + struct.pack("!h", 0) + struct.pack("!H", 65535)), frame(b"p", b"again"),
]  # fmt: skip


@pytest.mark.parametrize("data", BROKEN, ids=range(len(BROKEN)))
def test_broken_messages_end_in_an_error_and_others_go_on(served: Served, data: bytes) -> None:
    client = Raw(served)
    client.login()
    client.send(parse("SELECT 1") + data + SYNC)
    seen = client.until_ready()
    assert len(faults(seen)) == 1
    client.close()
    _alive(served)


def test_a_hundred_thousand_statements_and_too_many_parameters(raw: Raw) -> None:
    """Refused as too many where they are counted, or as too long before they are read."""
    assert faults(raw.ask(query("SELECT 1;" * 100_000)))[0] in ("54000", "42601")
    many = ", ".join(f"${i}" for i in range(1, 65_000))
    assert faults(raw.ask(parse(f"SELECT count(*) FROM orders WHERE amount IN ({many})"), SYNC))[0] in (
        "54000",
        "42601",
    )
    assert kinds(raw.ask(query("SELECT 1"))) == "TDCZ"


def test_a_client_that_never_reads_is_nobody_elses_problem(served: Served) -> None:
    client = Raw(served)
    client.login()
    client.socket.settimeout(2)
    try:
        for _ in range(2000):
            client.send(query("SELECT repeat('x', 10000) FROM generate_series(1, 100)") * 10)
    except (TimeoutError, OSError):
        pass
    _alive(served)
    client.close()


def test_many_connections_at_once(served: Served) -> None:
    clients = []

    def connect() -> None:
        client = Raw(served)
        client.login()
        clients.append(client)

    threads = [threading.Thread(target=connect) for _ in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(clients) == 60
    for client in clients:
        assert kinds(client.ask(query("SELECT 1"))) == "TDCZ"
        client.close()


def test_cancel_needs_the_key_and_what_was_charged_stays_charged(raw: Raw, served: Served) -> None:
    process, secret = struct.unpack("!i4s", raw.key)
    for key in (b"none", secret):
        with socket.create_connection(("127.0.0.1", served.port), timeout=30) as client:
            client.sendall(struct.pack("!iii4s", 16, 80877102, process, key))
            assert client.recv(1) == b""
    assert kinds(raw.ask(query("SELECT 1"))) == "TDCZ"


def test_health_and_metrics(served: Served) -> None:
    base = f"http://127.0.0.1:{served.steward_port}"
    assert urllib.request.urlopen(f"{base}/healthz", timeout=10).read() == b"ok\n"
    _alive(served)
    time.sleep(0.1)
    text = urllib.request.urlopen(f"{base}/metrics", timeout=10).read().decode()
    assert "dpsql_connections_total" in text and "# TYPE" in text


def _setting(raw: Raw, name: str = "dpsql.epsilon") -> str:
    return raw.ask(query(f"SHOW {name}"))[1][1][6:].decode()


@pytest.mark.parametrize(
    "sent",
    [
        ["BEGIN", "SET dpsql.epsilon = 0.25", "ROLLBACK"],
        ["BEGIN", "SET dpsql.epsilon = 0.25", "SELECT nothing FROM nowhere", "COMMIT"],
        ["BEGIN", "RESET ALL", "SET dpsql.epsilon = 0.25", "ABORT"],
        ["BEGIN; SET dpsql.epsilon = 0.25; ROLLBACK"],
        ["SET dpsql.epsilon = 0.25; SELECT nothing FROM nowhere"],
        ["BEGIN", "SAVEPOINT a", "SET dpsql.epsilon = 0.25", "ROLLBACK TO a", "COMMIT"],
        ["BEGIN", "SAVEPOINT a", "SET dpsql.epsilon = 0.25", "ROLLBACK TO SAVEPOINT b", "ROLLBACK TO A", "COMMIT"],
        ["BEGIN", "SAVEPOINT a", "SET dpsql.epsilon = 0.25", "RELEASE a", "ROLLBACK"],
    ],
)
def test_what_was_set_in_a_transaction_that_is_rolled_back_is_undone(raw: Raw, sent: list[str]) -> None:
    raw.ask(query("SET dpsql.epsilon = 0.125"))
    for each in sent:
        raw.ask(query(each))
    assert _setting(raw) == "0.125"


@pytest.mark.parametrize(
    "sent",
    [
        ["BEGIN", "SET dpsql.epsilon = 0.25", "COMMIT", "ROLLBACK"],
        ["BEGIN", "SET dpsql.epsilon = 0.25", "SAVEPOINT a", "SET dpsql.epsilon = 0.5", "ROLLBACK TO a", "COMMIT"],
        ["BEGIN; SET dpsql.epsilon = 0.25; COMMIT; SELECT nothing FROM nowhere"],
        ["SET dpsql.epsilon = 0.25", "BEGIN", "ROLLBACK"],
    ],
)
def test_what_was_set_and_committed_stays(raw: Raw, sent: list[str]) -> None:
    for each in sent:
        raw.ask(query(each))
    assert _setting(raw) == "0.25"


@pytest.mark.parametrize(
    "sent",
    [
        ["BEGIN", "SET LOCAL application_name = 'two'", "COMMIT"],
        ["BEGIN", "SET LOCAL application_name = 'two'", "ROLLBACK"],
        ["BEGIN", "SET LOCAL application_name = 'two'", "SELECT nothing FROM nowhere", "COMMIT"],
        ["BEGIN", "SET application_name = 'one'", "SET LOCAL application_name = 'two'", "COMMIT"],
        [
            "BEGIN",
            "SET LOCAL application_name = 'two'",
            "SAVEPOINT a",
            "SET application_name = 'x'",
            "ROLLBACK TO a",
            "END",
        ],
        ["BEGIN", "SAVEPOINT a", "SET LOCAL application_name = 'two'", "RELEASE a", "COMMIT"],
        ["BEGIN; SET LOCAL application_name = 'two'; COMMIT"],
        ["SET LOCAL application_name = 'two'; SELECT 1"],
        ["SET LOCAL application_name = 'two'"],
    ],
)
def test_what_was_set_for_a_transaction_ends_with_it(raw: Raw, sent: list[str]) -> None:
    """The client, too, has heard last that it is as it was."""
    raw.ask(query("SET application_name = 'one'"))
    told = [b"application_name\0one\0"]
    for each in sent:
        told += [body for kind, body in raw.ask(query(each)) if kind == b"S"]
    assert _setting(raw, "application_name") == "one" and told[-1] == b"application_name\0one\0"


def test_what_was_set_for_a_transaction_holds_in_it_and_gives_way_to_what_is_set_for_good(raw: Raw) -> None:
    raw.ask(query("BEGIN"))
    raw.ask(query("SET LOCAL application_name = 'two'"))
    assert _setting(raw, "application_name") == "two"
    raw.ask(query("SET application_name = 'three'"))
    raw.ask(query("COMMIT"))
    assert _setting(raw, "application_name") == "three"


def test_a_client_hears_that_a_setting_is_undone_by_an_error_outside_a_transaction(raw: Raw) -> None:
    raw.ask(query("SET timezone = 'Europe/Berlin'"))
    seen = raw.ask(query("SET timezone = 'Asia/Tokyo'; SELECT nothing FROM nowhere"))
    told = [body for kind, body in seen if kind == b"S"]
    assert _setting(raw, "timezone") == "Europe/Berlin" and told[-1:] in ([], [b"TimeZone\0Europe/Berlin\0"])


def test_an_error_before_a_sync_undoes_what_was_set_with_it(raw: Raw) -> None:
    raw.ask(query("SET dpsql.epsilon = 0.125"))
    raw.ask(
        parse("SET dpsql.epsilon = 0.25"),
        bind(),
        execute(),
        parse("SELECT nothing FROM nowhere"),
        bind(),
        execute(),
        SYNC,
    )
    assert _setting(raw) == "0.125"
    raw.ask(query("SET application_name = 'one'"))
    raw.ask(query("BEGIN"))
    raw.ask(query("SET application_name = 'two'"))
    told = [body for kind, body in raw.ask(query("ROLLBACK")) if kind == b"S"]
    assert told == [b"application_name\0one\0"] and _setting(raw, "application_name") == "one"
