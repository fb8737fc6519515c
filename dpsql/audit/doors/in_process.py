"""The doors of a session in this process: its methods, and the PEP 249 cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dpsql.audit.doors.folder import entered
from dpsql.audit.doors.sweep import Door, Opened, Send
from dpsql.session import Connection

AS_VALUE = "SELECT count(*) FROM people WHERE note = ?"
VALUE = "the statement is the value of a parameter, and the plan is that of any other value; nothing was run"


def _door(ask: Callable[[Connection], Send], harmless: str | None = None) -> Door:
    @contextmanager
    def opened(folder: Path) -> Iterator[Opened]:
        with entered(folder) as db:
            yield Opened(ask(db), lambda _: harmless)

    return opened


def _query(db: Connection) -> Send:
    return lambda sql: str(db.query(sql).fetchall())


def _explain(db: Connection) -> Send:
    return lambda sql: str(db.explain(sql))


def _describe(db: Connection) -> Send:
    return lambda sql: str(db.describe(sql))


def _prepare(db: Connection) -> Send:
    return lambda sql: str(db.prepare(sql).plan)


def _cursor(db: Connection) -> Send:
    return lambda sql: str(db.cursor().execute(sql).fetchall())


def _executemany(db: Connection) -> Send:
    return lambda sql: str(db.cursor().executemany(sql, [[1], ["x"]]).fetchall())


def _postgres(db: Connection) -> Send:
    return lambda sql: str(db.query(sql, dialect="postgres").fetchall())


def _value(db: Connection) -> Send:
    def send(sql: str) -> str:
        plan = db.prepare(AS_VALUE, parameters=[sql]).plan
        assert (len(plan.releases), len(plan.outputs), plan.public) == (1, 1, ()), plan
        return ""

    return send


DOORS: dict[str, Door] = {
    "query": _door(_query), "explain": _door(_explain), "describe": _door(_describe), "prepare": _door(_prepare),
    "query in PostgreSQL's dialect": _door(_postgres), "cursor": _door(_cursor), "executemany": _door(_executemany),
    "value of a parameter": _door(_value, VALUE),
}  # fmt: skip
