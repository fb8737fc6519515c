"""A session with a server that is played by hand: connections that are lost, at the first words and at the commit."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import psycopg
import pytest

from dpsql.budget.ledger.postgres import transactions as module
from dpsql.budget.ledger.postgres.transactions import LedgerSession
from dpsql.errors import LedgerError


class Cursor:
    """One row, and how the statement ended."""

    def __init__(self, row: tuple[Any, ...] | None, status: str) -> None:
        self._rows, self.statusmessage = [] if row is None else [row], status

    def nextset(self) -> bool:
        return False

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows


class Connection:
    """A connection of the server, which is told each statement."""

    def __init__(self, server: Server) -> None:
        self._server, self.closed, self.inside = server, False, False
        self.warnings: list[str] = []

    @property
    def idle(self) -> bool:
        return not self.closed and not self.inside

    def execute(self, sql: str | bytes, values: object = None) -> Cursor:
        text = sql.decode() if isinstance(sql, bytes) else sql
        self.inside = text.startswith("BEGIN") or (self.inside and text not in ("COMMIT", "ROLLBACK"))
        self._server.told.append(text.split()[0])
        return self._server.answer(self, text)

    def close(self) -> None:
        self.closed = True


class Server:
    """Stands for an address too: it has a name, and gives connections."""

    name = "a server"

    def __init__(self, *faults: Callable[[Connection, str], None]) -> None:
        self.told: list[str] = []
        self.made: list[Connection] = []
        self.faults = list(faults)
        self.settings = ("on", "on", "on")
        self.arrived = False

    def connect(self) -> Connection:
        self.made.append(Connection(self))
        return self.made[-1]

    def discreet(self, text: str) -> str:
        return text

    def answer(self, db: Connection, text: str) -> Cursor:
        if self.faults:
            self.faults.pop(0)(db, text)
        if text.startswith("BEGIN"):
            return Cursor(self.settings, "SELECT 1")
        if "dpsql_ledger.entry" in text:
            return Cursor((1,) if self.arrived else None, "SELECT")
        return Cursor((text,), text)


def fine(_db: Connection, _text: str) -> None:
    """No fault."""


def gone(db: Connection, _text: str) -> None:
    """The connection is lost."""
    db.close()
    raise psycopg.OperationalError("the connection is lost")


def busy(_db: Connection, _text: str) -> None:
    """The server refuses, on a connection that stays."""
    raise psycopg.OperationalError("the lock was not free in time")


def wrong(db: Connection, _text: str) -> None:
    """The statement is wrong, whatever comes of the connection."""
    db.close()
    raise psycopg.ProgrammingError("no such table")


def session_with(server: Server) -> LedgerSession:
    return LedgerSession(server, "main")  # type: ignore[arg-type]


def test_what_an_idle_connection_that_is_lost_was_asked_is_asked_of_a_new_one() -> None:
    server = Server(gone)
    assert session_with(server).ask("SELECT 7") == [("SELECT 7",)]
    assert len(server.made) == 2


@pytest.mark.parametrize("fault", [busy, wrong])
def test_what_failed_for_another_reason_is_not_asked_again(fault: Callable[[Connection, str], None]) -> None:
    server = Server(fault)
    with pytest.raises(LedgerError, match="at most this one query was charged"):
        session_with(server).ask("SELECT 7")
    assert (len(server.made), server.told) == (1, ["SELECT"])


def test_a_connection_that_is_lost_twice_is_an_error() -> None:
    server = Server(gone, gone)
    with pytest.raises(LedgerError):
        session_with(server).ask("SELECT 7")
    assert len(server.made) == 2


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_server_that_may_forget_what_it_confirmed_is_refused(place: int) -> None:
    server, entered = Server(), False
    server.settings = tuple("off" if at == place else "on" for at in range(3))  # type: ignore[assignment]
    with pytest.raises(LedgerError, match="could be lost in a crash"), session_with(server).writing():
        entered = True
    assert not entered and server.told == ["BEGIN", "ROLLBACK"]


def test_a_commit_that_is_confirmed_is_over() -> None:
    server = Server()
    with session_with(server).writing():
        pass
    assert server.told == ["BEGIN", "COMMIT"]


def test_a_commit_with_a_warning_is_an_error() -> None:
    def warned(db: Connection, _text: str) -> None:
        db.warnings.append("the standby did not answer")

    with pytest.raises(LedgerError, match="a standby may not"), session_with(Server(fine, warned)).writing():
        pass


@pytest.mark.parametrize("arrived", [True, False])
def test_whether_a_commit_arrived_whose_connection_was_lost_is_asked_of_the_server(arrived: bool) -> None:
    server = Server(fine, gone)
    server.arrived = arrived
    if arrived:
        with session_with(server).writing():
            pass
    else:
        with pytest.raises(LedgerError, match="nothing was charged"), session_with(server).writing():
            pass
    assert server.told == ["BEGIN", "COMMIT", "BEGIN", "SELECT", "ROLLBACK"]


def test_the_server_is_asked_until_it_answers_or_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question takes ten seconds on this clock: so many fit into the patience, and the one that is beyond it."""
    clock = count(0, 10)
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(module.time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(module.backend, "PATIENCE", 25.0)
    patient = Server(fine, gone, gone, gone)
    patient.arrived = True
    with session_with(patient).writing():
        pass
    assert patient.told == ["BEGIN", "COMMIT", "BEGIN", "BEGIN", "BEGIN", "SELECT", "ROLLBACK"]
    lost = Server(fine, *[gone] * 9)
    with pytest.raises(LedgerError, match="counts as charged if the commit arrived"), session_with(lost).writing():
        pass
    assert lost.told == ["BEGIN", "COMMIT", "BEGIN", "BEGIN", "BEGIN"]


def test_a_session_that_was_closed_asks_nothing() -> None:
    server = Server()
    closed = session_with(server)
    closed.close()
    with pytest.raises(LedgerError, match="is closed"):
        closed.ask("SELECT 7")
    assert not server.told
