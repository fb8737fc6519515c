"""One query, asked of dpsql and of plain DuckDB: is it answered, how far off, at what cost, how much slower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import duckdb

import dpsql

QUERIES = Path(__file__).with_name("queries")
NOISELESS = 1e9
"""An epsilon at which no noise is seen, to tell what the bounds cut off; a measurement may ask for it, nobody else."""
Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Question:
    """A query of the benchmark, or the rewriting of one that is refused."""

    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class Price:
    """What one query may cost, and the law of its noise."""

    epsilon: float
    mechanism: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of a question. Errors are medians of relative ones, over the runs and all numbers with noise."""

    name: str
    outcome: str
    """`exact`, `private` or `refused`; `wrong` if what should be exact is not."""
    reason: str = ""
    cost: str = ""
    error: float | None = None
    cut: float | None = None
    """What of the error is no noise, but cut off by the bounds of the policy."""
    found: int = 0
    """How many of the exact answer's rows the private one has (in the median run)."""
    rows: int = 0
    runs: int = 0
    """How often it was asked."""
    seconds: float | None = None
    plain_seconds: float | None = None

    @property
    def ratio(self) -> float | None:
        """Time against plain DuckDB."""
        return self.seconds / self.plain_seconds if self.seconds and self.plain_seconds else None


def questions(number: int) -> list[Question]:
    """A query, and the rewriting that is asked if it is refused."""
    files = [QUERIES / f"q{number:02}.sql", QUERIES / f"q{number:02}_rewritten.sql"]
    names = [f"Q{number}", f"Q{number} rewritten"]
    return [Question(n, f.read_text(encoding="utf-8")) for n, f in zip(names, files, strict=True) if f.is_file()]


def compare(
    db: dpsql.Connection,
    plain: duckdb.DuckDBPyConnection,
    question: Question,
    price: Price,
    runs: int,
    patience: float = float("inf"),
) -> Comparison:
    """Is it answered, and if so, what is lost in accuracy and time? After `patience` seconds it is asked no more."""
    asked = {"epsilon": price.epsilon, "mechanism": price.mechanism}
    try:
        explained = db.explain(question.sql, **asked)
    except dpsql.Error as refusal:
        return Comparison(question.name, "refused", reason=refusal.message)
    turns: list[Turn] = []
    while len(turns) < runs and (not turns or sum(t.seconds + t.plain_seconds for t in turns) < patience):
        turns.append(_both(db, plain, question.sql, asked))
    exact, answers = turns[0].exact, [turn.answer.fetchall() for turn in turns]
    made = Comparison(
        question.name,
        "private" if explained.releases else "exact" if answers[0] == exact else "wrong",
        cost=str(turns[0].answer.cost) if explained.releases else "free",
        rows=len(exact),
        runs=len(turns),
        seconds=median(turn.seconds for turn in turns),
        plain_seconds=median(turn.plain_seconds for turn in turns),
    )
    noisy = [explained.columns.index(name) for name in explained.expected_error()]
    matches = [match(exact, answer, noisy) for answer in answers]
    made = replace(made, found=round(median(map(len, matches))), error=_median_error(matches, noisy))
    if made.outcome != "private":
        return made
    noiseless = db.query(question.sql, **asked | {"epsilon": NOISELESS}).fetchall()
    return replace(made, cut=_median_error([match(exact, noiseless, noisy)], noisy))


@dataclass(frozen=True, slots=True)
class Turn:
    """Both answers, and how long each took."""

    exact: Rows
    plain_seconds: float
    answer: dpsql.Result
    seconds: float


def _both(db: dpsql.Connection, plain: duckdb.DuckDBPyConnection, sql: str, asked: dict[str, Any]) -> Turn:
    """Both are asked in turns, so that whatever else runs on the machine meets both alike."""
    begin = perf_counter()
    exact = plain.execute(sql).fetchall()
    middle = perf_counter()
    answer = db.query(sql, **asked)
    return Turn(exact, middle - begin, answer, perf_counter() - middle)


def match(exact: Rows, answer: Rows, noisy: Sequence[int]) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Rows of both with the same values in all columns that carry no noise."""

    def key(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(value for i, value in enumerate(row) if i not in noisy)

    answered = {key(row): row for row in answer}
    return [(row, answered[key(row)]) for row in exact if key(row) in answered]


def _median_error(matches: Sequence[Rows], noisy: Sequence[int]) -> float | None:
    """A number that has no answer (a quotient of noise may have none) is wholly off."""
    pairs = [(float(truth[i]), answer[i]) for rows in matches for truth, answer in rows for i in noisy if truth[i]]
    errors = [1.0 if said is None else abs(float(said) - truth) / abs(truth) for truth, said in pairs]
    return median(errors) if errors else None
