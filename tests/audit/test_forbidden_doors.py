"""Forbidden statements through every door, and doors that are open although they should not be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from attack.doors.check import FEWER, WHOLE
from attack.doors.interfaces import ALL_DOORS
from attack.doors.statements import Statement, generated, listed, statements
from attack.doors.sweep import Door, Opened, Swept, charges, entered, prepared, sweep
from tiers import SERVER, need

from dpsql.errors import ParseError

NEEDED = {
    "SQLAlchemy": ("sqlalchemy",),
    "dpsql://": SERVER,
    "server, simple protocol": SERVER,
    "server, extended protocol": SERVER,
}
assert NEEDED.keys() <= ALL_DOORS.keys()


def swept(name: str, door: Door, sent: list[Statement]) -> tuple[Swept, list[str]]:
    made = Swept(name)
    with prepared() as folder:
        with door(folder) as opened:
            for _ in sweep(made, opened, sent):
                pass
        return made, charges(folder)


@pytest.mark.parametrize("name", ALL_DOORS)
def test_every_statement_is_refused_free_soon_and_silently(name: str) -> None:
    need(*NEEDED.get(name, ()))
    sent = statements(1 if name in WHOLE else FEWER)
    made, charged = swept(name, ALL_DOORS[name], sent)
    assert [(each.what, each.again) for each in made.findings if "it took" not in each.what] == []
    assert made.slowest < 10  # the check itself says 2 s; a busy machine counts more
    assert charged == []
    assert made.refused + sum(made.harmless.values()) == len(sent)
    if not name.startswith(("server", "value", "dpsql shell")):
        assert made.harmless == {}


def test_there_are_many_of_every_kind() -> None:
    assert len(listed()) + len(generated()) >= 500
    assert len({each.sql for each in statements()}) == len(statements())
    assert len({each.kind for each in statements()}) >= 18
    assert max(len(each.sql) for each in statements()) >= 10_000_000


LEAK = [Statement("rows", "SELECT * FROM people")]


def planted(send: object) -> Door:
    @contextmanager
    def door(folder: Path) -> Iterator[Opened]:
        with entered(folder) as db:
            yield Opened(lambda sql: send(db, sql))  # type: ignore[operator]

    return door


def test_a_door_that_answers_is_found() -> None:
    made, _ = swept("planted", planted(lambda *_: "[(1,)]"), LEAK)
    assert "it was answered" in made.findings[0].what


def test_a_door_that_charges_is_found() -> None:
    def send(db: object, _: str) -> str:
        db.query("SELECT count(*) FROM people")  # type: ignore[attr-defined]
        raise ParseError("refused, but late")

    made, charged = swept("planted", planted(send), LEAK)
    assert made.findings == [] and len(charged) == 1


def test_a_door_that_tells_a_value_or_crashes_or_dawdles_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    def tells(*_: object) -> str:
        raise ParseError("could not convert zqx03")

    def dawdles(*_: object) -> str:
        began = time.process_time()
        while time.process_time() - began < 1.2:
            pass
        raise ParseError("at last")

    monkeypatch.setattr("attack.doors.sweep.SECONDS", 1.0)
    assert "stored value" in swept("planted", planted(tells), LEAK)[0].findings[0].what
    assert "no error of dpsql" in swept("planted", planted(lambda *_: 1 / 0), LEAK)[0].findings[0].what
    assert "it took" in swept("planted", planted(dawdles), LEAK)[0].findings[0].what
