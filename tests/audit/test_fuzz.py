"""The fuzzer finds nothing, and would find what is planted."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from attack.fuzz import equal
from attack.fuzz.corpus import built_in, read
from attack.fuzz.judge import Judge
from attack.fuzz.run import Run, statement

import dpsql
from dpsql.audit.outcome import AuditFinding
from dpsql.errors import ParseError

ROOT = Path(dpsql.__file__).parent.parent
CORPUS = [ROOT / each for each in ("tests/golden/cases", "README.md", "docs", "examples/tpch/queries")]
MANY, PARTS = 3_000, 4


@pytest.mark.parametrize("part", range(PARTS))
def test_random_statements_are_answered_or_refused_properly(part: int) -> None:
    run = Run(1, MANY * part // PARTS, MANY * (part + 1) // PARTS, read(CORPUS))
    judge = run.run(lambda *_: None)
    assert run.findings == []
    assert judge.seen["answered"] > 30 and judge.seen["compared with DuckDB"] > 10


def test_a_statement_is_a_function_of_seed_and_number() -> None:
    corpus = built_in()
    assert statement(3, 77, corpus) == statement(3, 77, corpus) != statement(4, 77, corpus)
    assert len({statement(0, number, corpus) for number in range(200)}) > 190


@pytest.fixture
def judge() -> Iterator[Judge]:
    made = Judge()
    yield made
    made.close()


def found(judge: Judge, sql: str = "SELECT count(*) FROM people") -> list[AuditFinding]:
    return judge.judge(sql, explain=True)


def test_an_exception_of_another_kind_is_found(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(judge.db), "query", lambda *_: {}["x"])
    assert "KeyError is no error of dpsql" in found(judge)[0].what


def test_a_stored_value_in_a_message_is_found(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    def leak(*_: object) -> None:
        raise ParseError("could not convert 'zqx07'")

    monkeypatch.setattr(type(judge.db), "query", leak)
    assert "stored value" in found(judge)[0].what


def test_a_stored_value_in_the_log_is_found(judge: Judge) -> None:
    import logging

    kept = judge._ask
    judge._ask = lambda *asked: logging.getLogger("dpsql.steward").error("row 7340019") or kept(*asked)  # type: ignore[method-assign, func-returns-value]
    assert "the log has a stored value" in found(judge)[0].what


def test_a_wrong_answer_is_found(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(judge) == []
    real = equal.exact_answer
    monkeypatch.setattr(equal, "exact_answer", lambda *a, **k: [(row[0] + 1, *row[1:]) for row in real(*a, **k)])
    assert "not what DuckDB answers" in found(judge)[0].what


def test_a_charged_refusal_is_found(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    real = type(judge.db).query

    def late(self: dpsql.Connection, sql: str) -> None:
        real(self, sql)
        raise ParseError("too late")

    monkeypatch.setattr(type(judge.db), "query", late)
    assert any("charged" in each.what for each in found(judge))


def test_the_grammar_is_accepted_often_enough() -> None:
    from attack.fuzz.canaries import opened, stored
    from attack.fuzz.grammar import Grammar

    taken = 0
    with stored() as path, opened(path) as db:
        for number in range(150):
            try:
                db.describe(Grammar(random.Random(number)).sentence())
                taken += 1
            except dpsql.Error:
                continue
    assert taken > 15
