"""What is remembered of earlier questions: so many, the latest, small ones, and none that reads the clock."""

from __future__ import annotations

from typing import Any

import pytest
from sqlglot import exp, parse_one

from dpsql.answers.cache import AnswerCache, BoundedCache, CachedAnswer
from dpsql.plan.clock import reads_the_clock


def test_the_oldest_of_more_than_a_hundred_and_twenty_eight_is_forgotten() -> None:
    few: BoundedCache[int] = BoundedCache()
    for number in range(128):
        few.keep(str(number), number)
    assert [few.get(str(number)) for number in range(128)] == list(range(128))
    few.keep("5", -5)
    assert few.get("5") == -5 and few.get("0") == 0 and len(few.kept) == 128
    few.keep("0", 0)
    few.keep("new", 128)
    assert few.get("1") is None and few.get("0") == 0 and few.get("2") == 2 and few.get("new") == 128
    assert len(few.kept) == 128


def query(sql: str) -> exp.Query:
    made = parse_one(sql, dialect="duckdb")
    assert isinstance(made, exp.Query)
    return made


@pytest.mark.parametrize(("rows", "kept"), [(0, True), (10_000, True), (10_001, False)])
def test_an_answer_is_kept_if_it_is_small(rows: int, kept: bool) -> None:
    recent, answer = AnswerCache(), CachedAnswer(_of(rows), "v", {})
    recent.offer("asked", answer)
    assert recent.get("asked") == (answer if kept else None)


def _of(rows: int) -> Any:
    """Whatever has so many rows."""
    return range(rows)


@pytest.mark.parametrize(
    ("sql", "reads"),
    [
        ("SELECT x FROM r", False),
        ("SELECT DATE '2024-01-01'", False),
        ("SELECT x, current_date FROM r", True),
        ("SELECT now()", True),
        ("SELECT 1 FROM r WHERE d < current_date", True),
        ("SELECT current_timestamp", True),
        ("SELECT localtimestamp", True),
        ("SELECT x FROM (SELECT today() AS x)", True),
    ],
)
def test_which_queries_mean_something_else_a_moment_later(sql: str, reads: bool) -> None:
    assert reads_the_clock(query(sql)) == reads
