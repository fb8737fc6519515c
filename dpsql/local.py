"""Local privacy: each person's answer is randomised where it is given, so the collected answers may be public.

Nobody needs to be trusted with the true answers, and nothing is charged to a budget. In return, the error of a share is
of the order of 1/√n, where noise on a total makes it 1/n. **Who answers is public**: the guarantee is about what a
person answered (neighbours replace an answer), not about whether a person is among those asked.

`Answers` stores the answers that were given, and returns them whenever the same person is asked the same question.

**Theorem.** Everything that is ever revealed about a person's truth at the first time of asking is ε-DP for each
question; the ε of several questions add up.
**Proof.** The answer is drawn once, by randomized response, stored before it is shown, and read from the store from
then on, so any number of repetitions is a function of one ε-DP answer (post-processing). A truth that changes later is
not read: an answer that followed it would reveal that it had changed. Another ε for the same question is refused,
because it would be a second look at the same truth.
**Requires** one store for a question: after the loss of a store, or with another one, the question is asked anew, and
the ε of both add up.
**Checked by** `tests/unit/local/test_answers.py`.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import threading
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np

from dpsql.errors import InterfaceError, LedgerError, ProgrammingError
from dpsql.mechanisms import RandomizedResponse, Share
from dpsql.mechanisms.exact_numbers import Number

_TABLES = """
CREATE TABLE IF NOT EXISTS questions (question TEXT PRIMARY KEY, epsilon TEXT NOT NULL, options TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS answers (question TEXT, person TEXT, answer INTEGER NOT NULL, PRIMARY KEY (question, person))
"""


class Answers:
    """A store of randomised answers, in memory or in a file; it holds no truths."""

    def __init__(self, path: str | os.PathLike[str] = ":memory:") -> None:
        self._lock = threading.RLock()
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(_TABLES)
        except sqlite3.Error as problem:
            raise LedgerError(
                f"the answers cannot be kept in {os.fspath(path)}: {problem}", hint="name a file that can be written"
            ) from None

    def ask(
        self, question: str, people: Sequence[Hashable], truths: Sequence[Hashable], response: RandomizedResponse
    ) -> list[Hashable]:
        """Each person's answer to a question: the one that was given before, or a new one."""
        keys = [_written(person) for person in people]
        if len(set(keys)) != len(keys):
            raise ProgrammingError(
                "a person has several rows, but only one answer",
                hint="keep one row for each person before asking",
            )
        with self._transaction():
            self._same_question(question, response)
            known: dict[str, int] = dict(self._rows("SELECT person, answer FROM answers WHERE question = ?", question))
            new = [i for i, key in enumerate(keys) if key not in known]
            drawn = response.answers(np.array([response.place(truths[i]) for i in new], dtype=np.int64)).tolist()
            given = {keys[i]: answer for i, answer in zip(new, drawn, strict=True)}
            rows = sorted((question, person, answer) for person, answer in given.items())
            self._db.executemany("INSERT INTO answers VALUES (?, ?, ?)", rows)
        known |= given
        return [response.values[known[key]] for key in keys]

    def spent(self) -> float:
        """The ε of all questions together, for somebody who answered each of them."""
        return float(sum(Fraction(epsilon) for (epsilon,) in self._rows("SELECT epsilon FROM questions")))

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _same_question(self, question: str, response: RandomizedResponse) -> None:
        """Note a question, or refuse to ask it otherwise than before."""
        said = (str(response.rate), json.dumps([_written(value) for value in response.values]))
        before = self._rows("SELECT epsilon, options FROM questions WHERE question = ?", question)
        if not before:
            self._db.execute("INSERT INTO questions VALUES (?, ?, ?)", (question, *said))
        elif Fraction(before[0][0]) != response.rate or before[0][1] != said[1]:
            raise ProgrammingError(
                f"{question} was asked before, with epsilon = {float(Fraction(before[0][0])):g} and the values "
                f"{before[0][1]}",
                hint='ask it like that again; another question="…" gets another answer, whose epsilon adds up',
            )

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock, closing(self._db.execute(sql, values)) as cursor:
            return list(cursor.fetchall())

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All answers of one asking, or none; stored before they are shown."""
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as problem:
                raise LedgerError(f"the answers cannot be written: {problem}", hint="ask again later") from None
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")


def _written(value: object) -> str:
    """A person or a value as text, told apart by kind: 1 is not '1'.

    One person has one text in every frame, or would be asked anew: numbers become floats where a column once had a
    missing one, so 1 and 1.0 are the same. What has no text of its own (an object's is its address) is refused.
    """
    match value.item() if isinstance(value, np.generic) and value.dtype.kind in "biufU" else value:
        case bool() | str() | UUID() as plain:
            return f"{type(plain).__name__}:{plain}"
        case int() as number:
            return f"int:{number}"
        case float() | Decimal() | Fraction() as number if math.isfinite(number):
            return f"{'int' if Fraction(number).denominator == 1 else 'number'}:{Fraction(number)}"
        case date() as day if day == day:
            return f"{'datetime' if isinstance(day, datetime) else 'date'}:{day.isoformat()}"
        case tuple() as parts:
            return f"tuple:{json.dumps([_written(part) for part in parts])}"
    raise ProgrammingError(
        "a person is identified by text, a number, a date, or several of these",
        hint="drop rows without a unit before asking",
    )


# the share of each answer ---------------------------------------------------------------------------------------------


if TYPE_CHECKING:
    import pandas as pd

ATTRS = "dpsql.randomized"
"""Where a pandas column says how it was randomised."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated shares of people, each with an interval that misses with probability at most 1 − `confidence`.

    The interval is about the people who answered, and as well about the population if they are a random sample of it.
    """

    shares: dict[Hashable, Share]
    n: int
    epsilon: float
    confidence: float

    def df(self) -> pd.DataFrame:
        """One row for each value: share, low, high."""
        import pandas as pd

        rows = [(value, each.share, each.low, each.high) for value, each in self.shares.items()]
        return pd.DataFrame(rows, columns=["value", "share", "low", "high"])

    def __str__(self) -> str:
        lines = [f"{value}: {s.share:.4f} ({s.low:.4f} to {s.high:.4f})" for value, s in self.shares.items()]
        told = (
            f"{self.n} answers, each randomised with ε = {self.epsilon:g}; {self.confidence:.0%} intervals. "
            "Who answered is public, what they truly answered is not."
        )
        return "\n".join([*lines, told])


def estimate(
    answers: Iterable[Hashable],
    *,
    epsilon: Number | None = None,
    values: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """The share of people for each value, from answers of randomized response.

    What `df.dp.randomize` gives knows its ε and values; for other answers say them. Shares are unbiased, so one may lie
    a little below 0 or above 1.
    """
    said: dict[str, Any] = getattr(answers, "attrs", {}).get(ATTRS, {})
    rate, options = epsilon if epsilon is not None else said.get("epsilon"), values or said.get("values")
    if rate is None or options is None:
        raise InterfaceError(
            "these answers do not say how they were randomised", hint='write epsilon=1, values=["yes", "no"]'
        )
    listed = list(answers)
    response = RandomizedResponse(rate, options)
    shares = response.estimate(listed, beta=1 - confidence)
    return Estimate(shares, len(listed), float(response.rate), confidence)
