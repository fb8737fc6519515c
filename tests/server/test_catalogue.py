"""The empty database behind the server: what it may be asked, and that it tells no analyst of another."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import psycopg
import pytest
from inside import Inside, inside
from raw import Raw, faults, kinds, query
from served import PASSWORD

from dpsql.errors import InterfaceError
from dpsql.interfaces.server.catalogue_allowlist import check
from dpsql.interfaces.server.catalogue_server import MEMORY, CatalogueServers, SupervisorClient
from dpsql.interfaces.server.sqlstates import StatementError


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    with inside(tmp_path_factory.mktemp("catalogue")) as server:
        yield server


def client(server: Inside, user: str = "ana") -> Raw:
    made = Raw(server)  # type: ignore[arg-type]
    assert kinds(made.login(user)).endswith("Z")
    return made


TELLING = (
    "SELECT * FROM pg_locks", "SELECT * FROM pg_catalog.pg_stat_activity", 'SELECT * FROM "pg_stat_database"',
    "TABLE pg_prepared_statements", "SELECT * FROM pg_cursors", "SELECT * FROM pg_stat_io", "SELECT * FROM pg_stat_wal",
    "SELECT * FROM pg_stat_bgwriter", "SELECT * FROM pg_shmem_allocations", "SELECT * FROM pg_backend_memory_contexts",
    "SELECT pg_current_wal_lsn()", "SELECT pg_catalog.pg_current_snapshot()", "SELECT pg_export_snapshot()",
    "SELECT txid_current_snapshot()", "SELECT pg_current_xact_id()", "SELECT pg_snapshot_xmin('1:1:')",
    "SELECT pg_try_advisory_lock(1)", "SELECT pg_advisory_xact_lock(1)", "SELECT pg_advisory_unlock_all()",
    "SELECT pg_notify('a', 'b')", "SELECT pg_listening_channels()", "SELECT pg_notification_queue_usage()",
    "SELECT lo_create(0)", "SELECT lo_get(1)", "SELECT pg_logical_emit_message(false, 'a', 'b')", "SELECT nextval('s')",
    "SELECT pg_stat_get_activity(NULL)", "SELECT pg_lock_status()", "SELECT pg_blocking_pids(1)",
    "SELECT pg_sleep(1)", "SELECT pg_catalog.pg_sleep_for('1s')", "SELECT repeat('x', 1000)", "SELECT lpad('x', 1000)",
    "SELECT rpad('x', 1000)", "SELECT array_fill(1, ARRAY[1000])", "SELECT pg_terminate_backend(1)",
    "SELECT query_to_xml('SELECT * FROM pg_locks', true, true, '')", "SELECT set_config('work_mem', '1GB', false)",
    "SELECT set_config('statement_timeout', '0', true) FROM pg_class", "SELECT set_config(name, '0', true) FROM pg_settings",
    "SELECT set_config('jit' || '_above_cost', '1', true)", "SELECT set_config('jit'::text || '_provider', '1', true)",
    "SELECT pg_ls_dir('.')", "SELECT pg_read_file('x')", "SELECT pg_reload_conf()", "SELECT pg_stat_reset()",
    "SELECT * FROM pg_prepared_xact()", "SELECT gen_random_uuid()", "SELECT setseed(0)",
)  # fmt: skip
HIDDEN = (
    'SELECT "pg_sleep"(1)', "SELECT pg_sleep/**/(1)", "SELECT pg_sleep -- x\n(1)", "SELECT PG_SLEEP (1)",
    'SELECT U&"pg\\005fsleep"(1)', 'SELECT u&"pg!005fsleep" UESCAPE \'!\' (1)', "SELECT 1 /* /* */ */ , pg_sleep(1) /* */",
    "SELECT E'\\'' || pg_sleep(1) || E'\\''", "SELECT '\\' || pg_sleep(1) || '\\'", "SELECT e'a'\n'\\', pg_sleep(1), '\\''",
    "SELECT $a$ $b$ $a$, pg_sleep(1), $b$ $a$ $b$", "SELECT DISTINCT ON (1) pg_sleep(1)",
    "SELECT 1 OPERATOR(pg_catalog.=) pg_sleep(1)::text::int", "SELECT 'a' \"as\", pg_sleep(1)",
    "SELECT * FROM pg_class AS pg_locks, pg_catalog.pg_locks", "SELECT 1 AS pg_locks FROM pg_locks", "SELECT 'x", "SELECT \\",
)  # fmt: skip


@pytest.mark.parametrize("sql", [*TELLING, *HIDDEN])
def test_what_is_not_about_the_catalogue_is_refused_before_it(sql: str) -> None:
    with pytest.raises(StatementError) as refused:
        check(sql)
    assert refused.value.state == "42501"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT $$pg_sleep(1)$$, 'pg_locks', $1::text, E'it\\'s pg_sleep(1)' -- pg_sleep(1)\n FROM pg_class /* pg_locks */",
        "WITH t(a) AS (SELECT oid FROM pg_class) SELECT count(*) FROM t AS u(b) WHERE b IN (SELECT 1)",
        "SELECT set_config('bytea_output', 'hex', false) FROM pg_show_all_settings() WHERE name = 'bytea_output'",
        "SELECT pg_get_expr(adbin, adrelid) AS pg_get_expr_1 FROM pg_attrdef ORDER BY pg_get_expr_1",
        "SELECT (information_schema._pg_expandarray(i.indkey)).n FROM pg_catalog.pg_index i",
        "SELECT c.relname ~ '^(orders)$' COLLATE pg_catalog.default FROM pg_class c WHERE c.oid OPERATOR(pg_catalog.=) 1",
    ],
)
def test_what_clients_ask_passes(sql: str) -> None:
    check(sql)


def test_the_database_itself_refuses_what_is_not_listed(running: Inside) -> None:
    """Should a text get past the list: the same, one layer below."""
    client(running).close()
    shadow = running.server._views._views["ana"].shadow
    told = f"host={shadow.folder} dbname=shop user=analyst"
    with psycopg.connect(told, autocommit=True) as db:
        for sql in (each for each in TELLING if "set_config" not in each and "setseed" not in each):
            with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedTable)):
                db.execute(sql)  # type: ignore[arg-type]
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            db.execute("CREATE TABLE t (a int)")
        assert db.execute("SELECT pg_backend_pid(), txid_current()").fetchone() == (1, 1000)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(f"host={shadow.folder} dbname=shop user=postgres")


def test_each_analyst_has_a_database_of_their_own_and_two_users_of_one_share_it(running: Inside) -> None:
    for user in ("ana", "ana", "bob"):
        client(running, user).close()
    views = running.server._views._views
    assert set(views) == {"ana", "bob"}
    assert views["ana"].shadow.socket != views["bob"].shadow.socket


def test_what_one_analyst_holds_in_the_catalogue_changes_nothing_for_another(running: Inside) -> None:
    """A long question of ana's with all her turns: bob reads the same bytes as before, and at once."""
    asked = [
        "SELECT * FROM pg_catalog.pg_class ORDER BY oid", "SELECT * FROM pg_catalog.pg_database",
        "SELECT * FROM pg_catalog.pg_stat_all_tables ORDER BY relid", "SELECT * FROM pg_catalog.pg_stat_user_tables",
        "SELECT pg_backend_pid(), txid_current()", "SELECT pg_database_size('shop')", "SELECT * FROM pg_settings",
    ]  # fmt: skip
    bob = client(running, "bob")
    before = [bob.ask(query(sql)) for sql in asked]
    crowd = [client(running) for _ in range(6)]
    for one in crowd:
        one.send(query("SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_attribute c"))
    during = [bob.ask(query(sql)) for sql in asked]
    for one in crowd:
        one.close()
    assert before == during and all("D" in kinds(seen) for seen in before if seen is not before[3])
    bob.close()


def test_one_question_takes_little_memory_and_is_refused_when_it_wants_more(running: Inside) -> None:
    ana = client(running)
    for sql in (
        "SELECT string_agg(a.attname || b.attname, '') FROM pg_attribute a, pg_attribute b",
        "SELECT array_agg(a.attname || b.attname) FROM pg_attribute a, pg_attribute b",
    ):
        assert faults(ana.ask(query(sql))) in (["53200"], ["57014"])
    assert MEMORY <= 128 * 2**20
    assert kinds(ana.ask(query("SELECT relname FROM pg_catalog.pg_class"))).endswith("CZ")
    ana.close()


def test_questions_of_several_clients_are_answered_while_another_waits(running: Inside) -> None:
    """Who leaves in the middle of a question frees its turn."""
    ana = [client(running) for _ in range(4)]
    for one in ana:
        one.send(query("SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_attribute c"))
        one.close()
    done = threading.Event()

    def ask() -> None:
        with psycopg.connect(
            f"host=127.0.0.1 port={running.port} dbname=shop user=ana password='{PASSWORD}' sslmode=require"
        ) as db:
            assert db.execute("SELECT count(*) FROM pg_catalog.pg_class").fetchone()
        done.set()

    thread = threading.Thread(target=ask)
    thread.start()
    assert done.wait(90)
    thread.join()


def test_a_database_that_is_ended_answers_nobody_and_leaves_no_file() -> None:
    shadows = CatalogueServers("shop")
    try:
        kept, gone = shadows.make(()), shadows.make(())
        shadows.end(gone)
        assert not gone.folder.exists() and shadows._caretaken.ended(gone.number)
        assert kept.folder.exists() and not shadows._caretaken.ended(kept.number)
        with socket.socket(socket.AF_UNIX) as asked:
            asked.connect(kept.socket)
    finally:
        shadows.close()
    assert not kept.folder.exists()


def test_a_program_that_cannot_be_started_has_failed() -> None:
    started = SupervisorClient()
    try:
        with pytest.raises(InterfaceError, match="could not be created"):
            started.run(["/no/such/program"])
        started.run(["true"])
    finally:
        started.close()
