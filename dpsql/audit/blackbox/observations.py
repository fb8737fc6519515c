"""What an analyst sees of one answer, and the questions asked again and again of two neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.outcome import Ask
from dpsql.audit.traces import same_integers
from dpsql.audit.world import World, load
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
    engine, known, asked = db.engine, dict[str, Any](), dict[str, int]()
    compute = engine._compute  # noqa: SLF001 - the audit alone goes below `run`, as `test_locks.py` knows
    write, texts = engine.statements, dict[int, tuple[Any, bytes | None, list[str]]]()

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


# answers as features --------------------------------------------------------------------------------------------------


MOST_WORDS = 12
ABSENT = "absent"
Seen = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class FeatureTable:
    """Features of many answers: numbers (NaN where there is none), and whether a word was seen."""

    numbers: Mapping[str, NDArray[np.float64]]
    flags: Mapping[str, NDArray[np.bool_]]


def features_of(observation: Observation, noisy: Sequence[bool]) -> Seen:
    """The features of one answer. Rows are told apart by what has no noise in them: their keys."""
    seen: dict[str, object] = {"error": observation.error, "shape": observation.shape, "rows": len(observation.rows)}
    keys = [repr(tuple(v for v, n in zip(row, noisy, strict=False) if not n)) for row in observation.rows]
    seen["order"] = "|".join(keys)
    count: Counter[str] = Counter()
    for key, row in zip(keys, observation.rows, strict=True):
        count[key] += 1
        place = key if count[key] == 1 else f"{key} #{count[key]}"
        seen |= {f"{place} [{i}]": value for i, value in enumerate(row) if i < len(noisy) and noisy[i]}
        seen[f"{place} shown"] = "yes"
    return seen


def names_in(seen: Sequence[Seen]) -> dict[str, bool]:
    """All features of these answers, and whether each is a number."""
    names: dict[str, bool] = {}
    for each in seen:
        for name, value in each.items():
            names[name] = names.get(name, True) and (value is None or _number(value) is not None)
    return names


def varying_words(seen: Sequence[Seen], names: Mapping[str, bool]) -> list[tuple[str, str]]:
    """The words that vary: of each feature the most frequent ones, and whether it is there, or NULL."""
    found: list[tuple[str, str]] = []
    for name, numeric in names.items():
        words = Counter(_word(each, name, numeric) for each in seen)
        if len(words) > 1:
            found += [(name, word) for word, _ in words.most_common(MOST_WORDS)]
    return found


def tabulate(seen: Sequence[Seen], names: Mapping[str, bool], words: Sequence[tuple[str, str]]) -> FeatureTable:
    """The features of these answers, for names and words that were found before."""
    numeric = [name for name, number in names.items() if number]
    numbers = {name: np.array([_or_nan(each.get(name)) for each in seen]) for name in numeric}
    asked = {name: [_word(each, name, names[name]) for each in seen] for name, _ in words}
    flags = {f"{name} is {word}": np.array([w == word for w in asked[name]], np.bool_) for name, word in words}
    return FeatureTable(numbers, flags)


def _word(seen: Seen, name: str, numeric: bool) -> str:
    if name not in seen:
        return ABSENT
    value = seen[name]
    return "NULL" if value is None else "a number" if numeric else str(value)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None if value is None else float(value)
    if isinstance(value, int | float | Decimal):
        return float(value)
    if isinstance(value, datetime):
        return value.timestamp()
    return float(value.toordinal()) if isinstance(value, date) else None


def _or_nan(value: object) -> float:
    number = _number(value)
    return np.nan if number is None else number
