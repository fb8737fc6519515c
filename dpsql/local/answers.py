"""Answers that were given once, and are given again whenever the same person is asked the same question.

**Theorem.** All that is ever told about a person's truth at the first time of asking is ε-DP for each question; several
questions add up.
**Proof.** The answer is drawn once, by randomized response, stored before it is shown, and read from the store from
then on; so any number of repetitions is a function of one ε-DP answer (post-processing). A truth that changes later is
not looked at: an answer that followed it would tell that it had changed. Another ε for the same question is refused:
it would be a second look at the same truth.
**Requires** one store for a question: a lost store, or another one, asks anew, and the ε of both add up.
**Checked by** `tests/unit/local/test_answers.py`.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Hashable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import numpy as np

from dpsql.errors import LedgerError, ProgrammingError
from dpsql.mechanisms import RandomizedResponse

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
                "a person has several rows, and gives one answer", hint="keep one row for each person before asking"
            )
        with self._transaction():
            self._same_question(question, response)
            known: dict[str, int] = dict(self._rows("SELECT person, answer FROM answers WHERE question = ?", question))
            new = [i for i, key in enumerate(keys) if key not in known]
            drawn = response.answers(np.array([response.place(truths[i]) for i in new], dtype=np.int64)).tolist()
            given = {keys[i]: answer for i, answer in zip(new, drawn, strict=True)}
            rows = [(question, person, answer) for person, answer in given.items()]
            self._db.executemany("INSERT INTO answers VALUES (?, ?, ?)", rows)
        return [response.values[(known | given)[key]] for key in keys]

    def spent(self) -> float:
        """The ε of all questions together, for somebody who answered each of them."""
        return sum(float(epsilon) for (epsilon,) in self._rows("SELECT epsilon FROM questions"))

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _same_question(self, question: str, response: RandomizedResponse) -> None:
        """Note a question, or refuse to ask it otherwise than before."""
        said = (str(response.epsilon), json.dumps([_written(value) for value in response.values]))
        before = self._rows("SELECT epsilon, options FROM questions WHERE question = ?", question)
        if not before:
            self._db.execute("INSERT INTO questions VALUES (?, ?, ?)", (question, *said))
        elif float(before[0][0]) != float(said[0]) or before[0][1] != said[1]:
            raise ProgrammingError(
                f"{question} was asked before, with epsilon = {before[0][0]} and the values {before[0][1]}",
                hint='ask it like that again; another question="…" gets another answer, whose epsilon adds up',
            )

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock, closing(self._db.execute(sql, values)) as cursor:
            return list(cursor.fetchall())

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All answers of one asking, or none; stored before they are shown."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")


def _written(value: object) -> str:
    """A person or a value as text, told apart by type: 1 is not '1'."""
    plain = value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value
    if plain is None or plain != plain:
        raise ProgrammingError("a person has no name here", hint="drop rows without a unit before asking")
    return f"{type(plain).__name__}:{plain}"
