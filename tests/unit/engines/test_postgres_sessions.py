"""Sessions with PostgreSQL: a query is stopped by the server, which is told first, and from here; then it is kept."""

from __future__ import annotations

import threading
import time

import psycopg
import pytest

from dpsql.engines.postgres.engine import PostgresEngine
from dpsql.engines.postgres.server_session import stopped_after


class Session:
    """Remembers what it was told, and when it was cancelled."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def execute(self, text: str) -> None:
        self.told.append(text)

    def cancel_safe(self, *, timeout: float) -> None:
        self.told.append("cancel")


@pytest.mark.parametrize(("seconds", "milliseconds"), [(5.0, 5000), (0.25, 250), (0.0001, 1)])
def test_the_server_is_told_how_long_a_query_may_take(seconds: float, milliseconds: int) -> None:
    session = Session()
    with stopped_after(seconds, session):  # type: ignore[arg-type]
        assert session.told == [f"SET LOCAL statement_timeout = {milliseconds}"]
    assert session.told[1:] == []


def test_a_query_without_a_limit_has_none() -> None:
    session = Session()
    with stopped_after(None, session):  # type: ignore[arg-type]
        pass
    assert session.told == []


def test_a_server_that_does_not_stop_is_told_from_here() -> None:
    session = Session()
    with stopped_after(0.01, session):  # type: ignore[arg-type]
        until = time.monotonic() + 10
        while session.told[-1] != "cancel" and time.monotonic() < until:
            time.sleep(0.01)
    assert session.told == ["SET LOCAL statement_timeout = 10", "cancel"]


class Broken(Session):
    """A session whose connection is lost."""

    closed = False

    def execute(self, text: str) -> None:
        raise psycopg.OperationalError

    def close(self) -> None:
        self.closed = True


def test_a_session_is_kept_for_the_next_query_unless_it_is_broken() -> None:
    engine = object.__new__(PostgresEngine)
    engine._turn, engine._idle = threading.Lock(), []
    good, broken = Session(), Broken()
    for each in (good, broken):
        engine._let_go(each)  # type: ignore[arg-type]
    assert (engine._idle, good.told, broken.closed) == ([good], ["ROLLBACK"], True)
    assert engine._begun() is good and engine._idle == []
