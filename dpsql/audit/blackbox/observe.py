"""What an analyst sees of one answer, and the questions asked again and again of two neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dpsql.audit.database import load
from dpsql.audit.outcome import Ask
from dpsql.audit.traces import same_integers
from dpsql.audit.world import World
from dpsql.errors import Error, InternalError
from dpsql.session import Connection, connect

RECHECKED = 500
"""Every so many runs the engine computes its integers anew, and they must be the same."""
REMEMBERED = 64


@dataclass(frozen=True, slots=True)
class Observation:
    """One answer: rows in their order, or the text of an error; and what else came with it."""

    rows: tuple[tuple[Any, ...], ...]
    error: str = ""
    shape: str = ""


Observe = Callable[[str], Observation]


class Changed(InternalError):
    """The engine gave other integers for the same question: the noise is not all that is random."""


def through(ask: Ask) -> Observe:
    """What is seen through a door that gives rows, or raises."""

    def observe(sql: str) -> Observation:
        try:
            return Observation(tuple(map(tuple, ask(sql))))
        except Error as refused:
            return Observation((), f"{type(refused).__name__}: {refused}")

    return observe


def through_session(db: Connection) -> Observe:
    """The same in this process, with names, types and notes."""

    def observe(sql: str) -> Observation:
        try:
            answer = db.query(sql)
        except Error as refused:
            return Observation((), f"{type(refused).__name__}: {refused}")
        return Observation(tuple(answer.fetchall()), "", repr((answer.columns, answer.types, answer.notes)))

    return observe


@contextmanager
def opened(world: World, *, steward: bool = False) -> Iterator[Connection]:
    """A world as a database file, which nobody else writes to, so that a plan is made once."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "world.duckdb"
        save(world, path)
        analyst = None if steward else next(iter(world.policy.budget.analysts), None)
        with connect(path, policy=world.endless, ledger=":memory:", steward=steward, analyst=analyst) as db:
            yield db


def save(world: World, path: Path) -> None:
    """The tables as a database file."""
    raw = load(world.tables)
    raw.execute(f"ATTACH '{path}' AS copied; COPY FROM DATABASE memory TO copied; DETACH copied")
    raw.close()


def remember_integers(db: Connection) -> None:
    """Let the engine write and compute what a question asks of it once, and compute it now and then again.

    The integers are a function of the question and the rows, which stay; if they ever differ, `Changed` is raised. What
    reads results of its own is computed each time. So a run costs its noise, its charge and its finishing.
    """
    engine, known, asked = db._engine, dict[str, Any](), dict[str, int]()
    compute, write, texts = engine._compute, engine.statements, dict[int, tuple[Any, bytes | None, list[str]]]()

    def statements(release: Any, salt: bytes | None) -> list[str]:
        found = texts.get(id(release))
        if found is None or found[0] is not release or found[1] != salt:
            if len(texts) > REMEMBERED:
                texts.clear()
            found = texts[id(release)] = (release, salt, write(release, salt))
        return found[2]

    def computed(release: Any, salt: bytes, warrant: Any, contents: Any, seconds: Any) -> Any:
        if contents:
            return compute(release, salt, warrant, contents, seconds)
        text = "\n".join([type(warrant).__name__, *statements(release, salt)])
        asked[text] = asked.get(text, 0) + 1
        if text not in known:
            known[text] = compute(release, salt, warrant, contents, seconds)
        elif asked[text] % RECHECKED == 0:
            again = compute(release, salt, warrant, contents, seconds)
            if not same_integers(again, known[text]):
                raise Changed("the same rows gave other integers")
        return known[text]

    setattr(engine, "_compute", computed)  # noqa: B010 (methods of this one engine)
    setattr(engine, "statements", statements)  # noqa: B010


def ask_until(
    total: int,
    observers: tuple[Observe, Observe],
    sides: tuple[list[Observation], list[Observation]],
    sql: str,
    told: Callable[[int], None],
) -> None:
    """Ask both sides in turn until each has `total` answers: whatever drifts with time drifts on both."""
    for number in range(len(sides[0]), total):
        for side, observe in zip(sides, observers, strict=True):
            side.append(observe(sql))
        if number % 20 == 0:
            told(number)
