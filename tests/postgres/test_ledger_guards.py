"""What a server must promise, what a role may do, and what shows when somebody went past the guards."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from ledger_crowd import PRICE, ask, charged
from postgres_server import OWNER, PASSWORD, Server, fresh_ledger

from dpsql.budget import ChainedLedger, open_ledger, pure_charge
from dpsql.budget.ledger import backend, create_ledger
from dpsql.budget.ledger.entries import next_entry
from dpsql.budget.ledger.postgres import server_connection
from dpsql.budget.ledger.postgres.server_connection import read_address
from dpsql.errors import LedgerError


@pytest.fixture
def url(postgres: Server) -> str:
    made = fresh_ledger(postgres)
    with open_ledger(made, "shop") as ledger:
        ledger.store(ledger.reserve(ask()).entry, b"f", b"noisy")
    return made


def refused(url: str, words: str) -> None:
    with pytest.raises(LedgerError, match=words) as refusal:
        open_ledger(url, "shop")
    assert refusal.value.hint


# the role and the triggers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["entry", "payload"])
@pytest.mark.parametrize("change", ["UPDATE {} SET number = 9", "DELETE FROM {}", "TRUNCATE {} CASCADE"])
def test_neither_the_role_nor_the_owner_changes_an_entry(postgres: Server, url: str, table: str, change: str) -> None:
    statement = change.format(f"dpsql_ledger.{table}")
    with closing(psycopg.connect(url)) as role, pytest.raises(psycopg.errors.InsufficientPrivilege):
        role.execute(statement.encode())
    with pytest.raises(psycopg.errors.RestrictViolation, match="append-only"):
        postgres.run(statement)
    with pytest.raises(psycopg.errors.RestrictViolation, match="append-only"):
        postgres.run("SET session_replication_role = replica", statement)


@pytest.mark.parametrize("wrong", ["number", "gap", "hash", "body", "twice"])
def test_a_row_that_does_not_follow_the_last_is_not_taken(url: str, wrong: str) -> None:
    with open_ledger(url, "shop") as ledger:
        number, _, _, _, head = ledger.rows()[-1]
    row = next_entry(head, number, "fact", ["t", "unique", "v"], {"at": "2026-01-01T00:00:00+00:00"})
    bad = {
        "number": (number, *row[1:]),
        "gap": next_entry(head, number + 1, "fact", ["t", "unique", "v"], {"at": ""}),
        "hash": (*row[:4], b"\1" * 32),
        "body": (*row[:3], row[3] + " ", row[4]),
        "twice": ledger_first(url),
    }[wrong]
    with closing(psycopg.connect(url)) as role, pytest.raises(psycopg.errors.IntegrityError):
        insert(role, bad)
    with closing(psycopg.connect(url)) as role:
        insert(role, row)


def ledger_first(url: str) -> tuple[object, ...]:
    with open_ledger(url, "shop") as ledger:
        return ledger.rows()[0]


def insert(db: psycopg.Connection, row: tuple[object, ...]) -> None:
    sql = "INSERT INTO dpsql_ledger.entry VALUES ('shop', %s, %s, %s, %s, %s, gen_random_uuid())"
    db.execute(sql, row)


def test_two_who_follow_one_entry_without_the_lock_cannot_both_be_taken(url: str) -> None:
    with open_ledger(url, "shop") as ledger:
        number, _, _, _, head = ledger.rows()[-1]
    rows = [next_entry(head, number, "fact", ["t", who, "v"], {"at": ""}) for who in ("one", "two")]
    with closing(psycopg.connect(url)) as one, closing(psycopg.connect(url)) as two:
        insert(one, rows[0])
        late = threading.Timer(0.3, one.commit)
        late.start()
        with pytest.raises(psycopg.errors.UniqueViolation):
            insert(two, rows[1])
        late.join()


# what goes past the guards ----------------------------------------------------------------------------------------------


def behind(postgres: Server, statement: str) -> None:
    """As the owner with the guards away, who puts them back."""
    off = [f"ALTER TABLE dpsql_ledger.{table} DISABLE TRIGGER USER" for table in ("entry", "payload")]
    on = [f"ALTER TABLE dpsql_ledger.{table} ENABLE ALWAYS TRIGGER {name}" for table, name in
          (("entry", "follows"), ("entry", "append_only"), ("payload", "append_only"))]  # fmt: skip
    postgres.run(*off, statement, *on)


@pytest.mark.parametrize(
    "statement",
    [
        """UPDATE dpsql_ledger.entry SET gist = '["ana",1,0,1]' WHERE kind = 'charge'""",
        "UPDATE dpsql_ledger.entry SET body = replace(body, 'SELECT 1', 'SELECT 2')",
        "UPDATE dpsql_ledger.entry SET kind = 'clock' WHERE kind = 'charge'",
        "DELETE FROM dpsql_ledger.entry WHERE number = 2",
    ],
)
def test_a_changed_entry_is_refused(postgres: Server, url: str, statement: str) -> None:
    behind(postgres, statement)
    refused(url, "is refused")


def test_a_changed_payload_is_not_replayed(postgres: Server, url: str) -> None:
    behind(postgres, "UPDATE dpsql_ledger.payload SET bytes = 'forged'")
    with open_ledger(url, "shop") as ledger, pytest.raises(LedgerError, match="was changed"):
        ledger.find(b"f")


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TRIGGER append_only ON dpsql_ledger.entry",
        "ALTER TABLE dpsql_ledger.payload DISABLE TRIGGER append_only",
        "ALTER TABLE dpsql_ledger.entry ENABLE TRIGGER follows",
        "CREATE OR REPLACE FUNCTION dpsql_ledger.follows() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "ALTER TABLE dpsql_ledger.entry ENABLE ROW LEVEL SECURITY",
        "CREATE RULE nothing AS ON INSERT TO dpsql_ledger.entry DO INSTEAD NOTHING",
        "ALTER TABLE dpsql_ledger.payload SET UNLOGGED",
        "ALTER TABLE dpsql_ledger.payload DROP CONSTRAINT payload_pkey",
        "CREATE FUNCTION dpsql_ledger.other() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
        " CREATE TRIGGER other BEFORE INSERT ON dpsql_ledger.entry EXECUTE FUNCTION dpsql_ledger.other()",
    ],
)
def test_tables_without_their_guards_are_refused(postgres: Server, url: str, statement: str) -> None:
    postgres.run(statement)
    refused(url, "tables or the triggers that guard them")


def test_entries_that_vanish_under_an_open_ledger_are_noticed(postgres: Server, url: str) -> None:
    with open_ledger(url, "shop") as ledger:
        behind(postgres, "DELETE FROM dpsql_ledger.payload; DELETE FROM dpsql_ledger.entry WHERE number = 4")
        with pytest.raises(LedgerError, match="are missing"):
            ledger.reserve(ask())


def test_a_witness_refuses_a_server_that_was_set_back(postgres: Server, url: str, tmp_path: Path) -> None:
    seen = f"{url}?witness={tmp_path}/shop"
    with open_ledger(seen, "shop") as ledger:
        ledger.reserve(ask())
    with open_ledger(url, "shop") as elsewhere:
        elsewhere.reserve(ask())
        elsewhere.reserve(ask())
    open_ledger(seen, "shop").close()
    with open_ledger(seen, "shop") as ledger:
        ledger.reserve(ask())
        assert (tmp_path / "shop.head").exists()
    behind(postgres, "DELETE FROM dpsql_ledger.entry WHERE number > 6")
    open_ledger(url, "shop").close()
    refused(seen, "older copy")
    with open_ledger(url, "shop") as elsewhere:
        for _ in range(4):
            elsewhere.reserve(ask())
    refused(seen, "replaced")
    postgres.run("DROP SCHEMA dpsql_ledger CASCADE")
    refused(seen, "it is missing, but a file on this machine says that it had 8 entries")
    with pytest.raises(LedgerError, match="had 8 entries"):
        create_ledger(f"{postgres.url()}?witness={tmp_path}/shop", "shop")


# what the server must promise -------------------------------------------------------------------------------------------


@contextmanager
def setting(postgres: Server, name: str, value: str) -> Iterator[None]:
    """Changed under the feet of open sessions, as a reload does."""
    postgres.run(f"ALTER SYSTEM SET {name} = {value}", "SELECT pg_reload_conf()")
    try:
        _shown(postgres, name, value)
        yield
    finally:
        postgres.run(f"ALTER SYSTEM RESET {name}", "SELECT pg_reload_conf()")
        _shown(postgres, name, "on" if value == "off" else "")


def _shown(postgres: Server, name: str, value: str) -> None:
    deadline = time.monotonic() + 20
    while postgres.run(f"SHOW {name}") != [(value.strip("'"),)]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.1)


@pytest.mark.parametrize("name", ["fsync", "full_page_writes"])
def test_a_server_that_may_forget_is_refused_at_once(postgres: Server, url: str, name: str) -> None:
    with open_ledger(url, "shop") as ledger:
        ledger.reserve(ask())
        with setting(postgres, name, "off"):
            with pytest.raises(LedgerError, match=f"{name} = off, so a charge could be lost"):
                ledger.reserve(ask())
            refused(url, f"{name} = off")
        ledger.reserve(ask())
    assert len(charged(url)) == 3


def test_a_commit_waits_for_the_disk_whatever_the_role_is_set_to(postgres: Server, url: str) -> None:
    postgres.run("ALTER ROLE dpsql_server SET synchronous_commit = off")
    try:
        with open_ledger(url, "shop") as ledger, ledger._writing():
            assert ledger._storage._session.ask("SHOW synchronous_commit") == [("on",)]  # type: ignore[attr-defined]
    finally:
        postgres.run("ALTER ROLE dpsql_server RESET synchronous_commit")


def test_a_standby_that_does_not_answer_means_that_nothing_is_released(
    postgres: Server, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "PATIENCE", 0.3)
    monkeypatch.setattr(server_connection, "GRACE", 0.2)
    with open_ledger(url, "shop") as ledger, setting(postgres, "synchronous_standby_names", "'nobody'"):
        with pytest.raises(LedgerError, match=r"nothing was released, and the query counts as charged"):
            ledger.reserve(ask())
        waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        cancel = f"SELECT pg_cancel_backend(pid) FROM ({waiting}) w"
        postgres.run(cancel)
        monkeypatch.setattr(backend, "PATIENCE", 30.0)
        impatient = threading.Thread(target=lambda: [time.sleep(1), postgres.run(cancel)])
        impatient.start()
        with pytest.raises(LedgerError, match=r"warned that a standby may not; nothing was released"):
            ledger.reserve(ask())
        impatient.join()
    assert len(charged(url)) == 3


def test_a_read_only_copy_is_refused(postgres: Server, url: str) -> None:
    sign = postgres.folder / "data" / "standby.signal"
    postgres.stop()
    sign.touch()
    try:
        postgres.start()
        assert postgres.run("SELECT pg_is_in_recovery()") == [(True,)]
        refused(url, "read-only replica")
    finally:
        postgres.stop()
        sign.unlink()
        postgres.start()


def test_a_role_without_rights_is_told_what_it_needs(postgres: Server, url: str) -> None:
    postgres.run("REVOKE INSERT ON dpsql_ledger.entry FROM dpsql_server")
    with open_ledger(url, "shop") as ledger, pytest.raises(LedgerError, match=r"closed to this role.*\n.*grants"):
        ledger.reserve(ask())


# peers that hang --------------------------------------------------------------------------------------------------------


def test_a_peer_that_holds_the_lock_gives_an_error_and_no_hang(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_ledger(url, "shop") as holder, holder._storage._session.writing():  # type: ignore[attr-defined]
        monkeypatch.setattr(backend, "PATIENCE", 0.3)
        with open_ledger(url, "shop") as ledger:
            assert ledger.spent(None).epsilon
            with pytest.raises(LedgerError, match=r"is busy.*nothing was charged"):
                ledger.reserve(ask())
    assert len(charged(url)) == 1


def test_a_peer_that_fell_asleep_with_the_lock_is_ended_by_the_server(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpsql.budget.ledger.postgres.server_connection._QUIET", 0.3)
    with open_ledger(url, "shop") as sleeper, open_ledger(url, "shop") as ledger:
        with pytest.raises(LedgerError, match="nothing was charged"), sleeper._writing():
            ledger.reserve(ask())
            sleeper._append("charge", ["ana", 1, 0, None], {})
        sleeper.reserve(ask())
    assert len(charged(url)) == 3


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "PATIENCE", 0.3)
    monkeypatch.setattr(server_connection, "GRACE", 0.2)


def server_process(ledger: ChainedLedger) -> int:
    return int(ledger._storage._session.ask("SELECT pg_backend_pid()")[0][0])  # type: ignore[attr-defined]


@pytest.mark.usefixtures("impatient")
def test_a_session_whose_server_side_is_frozen_is_replaced(url: str) -> None:
    with open_ledger(url, "shop") as ledger:
        frozen = server_process(ledger)
        os.kill(frozen, signal.SIGSTOP)
        try:
            ledger.reserve(ask())
            assert server_process(ledger) != frozen
        finally:
            os.kill(frozen, signal.SIGCONT)
    assert len(charged(url)) == 2


@pytest.mark.usefixtures("impatient")
def test_a_server_that_freezes_before_a_commit_gives_an_error_and_no_hang(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was told is in its inbox: the entry appears when it goes on, and the client was told to reckon with it."""
    with open_ledger(url, "shop") as ledger:
        frozen = server_process(ledger)
        try:
            with pytest.raises(LedgerError, match=r"the query counts as charged"), ledger._writing():
                units = pure_charge(PRICE)
                ledger._append(
                    "charge", ["ana", units.rho, 0, units.epsilon], {"cost": ["0.1", "0.0", "0.0"], "sql": ""}
                )
                os.kill(frozen, signal.SIGSTOP)
            with pytest.raises(LedgerError, match="busy"):
                ledger.reserve(ask())
        finally:
            os.kill(frozen, signal.SIGCONT)
        monkeypatch.setattr(backend, "PATIENCE", 30.0)
        ledger.reserve(ask())
    assert len(charged(url)) == 3


# addresses --------------------------------------------------------------------------------------------------------------


def test_a_password_is_never_shown(postgres: Server, url: str, tmp_path: Path) -> None:
    texts = [repr(read_address(url)), str(read_address(url))]
    with open_ledger(url, "shop") as ledger:
        texts += [ledger.place, repr(ledger), repr(vars(ledger)), repr(ledger._storage._session.__dict__)]  # type: ignore[attr-defined]
    wrong = "s3cret%2Fword"
    for bad in (
        f"postgresql://{OWNER}:{wrong}@127.0.0.1:{postgres.port}/postgres",
        f"postgresql://{OWNER}:{wrong}@127.0.0.1:1/postgres",
        f"postgresql://{OWNER}:{wrong}@127.0.0.1:x{wrong}/postgres",
        f"postgresql://{OWNER}@127.0.0.1/postgres?password={wrong}&{wrong}={wrong}",
        f"postgresql://{OWNER}:{wrong}@[127.0.0.1/{wrong}",
        f"postgresql://{OWNER}:x/s3cret@127.0.0.1/postgres",
        f"postgresql://{OWNER}:x@s3cret/word@127.0.0.1/postgres",
        f"postgresql://{OWNER}:x?s3cret@127.0.0.1/postgres",
        f"postgresql://{OWNER}:s3cret@x@127.0.0.1/postgres",
    ):
        with pytest.raises(LedgerError) as refusal:
            open_ledger(bad, "shop")
        texts += [str(refusal.value), repr(refusal.value), repr(refusal.value.__cause__), str(refusal.value.hint)]
    for text in texts:
        assert "s3cret" not in text and PASSWORD not in text and "geheim" not in text, text


def test_an_address_keeps_what_is_libpqs_and_takes_what_is_dpsqls() -> None:
    found = read_address("postgresql://ana:pw@one:1,two:2/db?dataset=shop&witness=/w&application_name=a%20b&service=s")
    assert (found.dataset, found.witness) == ("shop", "/w")
    assert found.server.told["application_name"] == "a b" and "dataset" not in found.server.told
    assert "pw" not in found.name


def test_an_address_is_no_path() -> None:
    with pytest.raises(LedgerError, match="must be a string, not a path"):
        open_ledger(Path("postgresql://host/db"), "shop")
