"""What an analyst writes above the aggregate ends in bounded time and memory, with one constant text; the charge stays."""

from __future__ import annotations

import pandas as pd
import pytest

import dpsql
from dpsql.answers import finish
from dpsql.answers.finish import with_short_texts

TOO_MUCH = "the part of the query above the aggregate needs more time or memory than it may have"
LONG = "a" * 5000
GREEDY = {
    "a cross join": "SELECT count(*) FROM p a, p b, p c, p d",
    "many rows": "SELECT a.i, b.i, c.i FROM p a, p b, p c",
    "a long text": f"SELECT length(replace('{LONG}', 'a', '{LONG}'))",
    "a text in a text": f"SELECT length(replace(replace('{'a' * 3000}', 'a', '{'a' * 3000}'), 'a', 'bbbb'))",
    "a pattern": f"SELECT length(regexp_replace('{LONG}', '(a)', '{LONG}', 'g'))",
    "a joined text": "SELECT length(string_agg(a.s || b.s || c.s, '')) FROM p a, p b, p c",
    "a long list": "SELECT len(list(a.s || b.s)) FROM p a, p b, p c",
    "a doubled text": "WITH " + ", ".join(
        f"t{i} AS (SELECT {' || '.join(['s'] * 10)} AS s FROM {f't{i - 1}' if i else 'p'})" for i in range(6)
    ) + " SELECT max(length(s)) FROM t5",
    "a list of lists": "WITH " + ", ".join(
        f"t{i} AS (SELECT [{', '.join(['s'] * 10)}] AS s FROM {f't{i - 1}' if i else 'p'})" for i in range(6)
    ) + " SELECT max(len(s)) FROM t5",
    "a recursion": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
}  # fmt: skip


@pytest.fixture(scope="module")
def db() -> dpsql.Connection:
    public = pd.DataFrame({"i": range(2000), "s": [f"some text {i}" for i in range(2000)]})
    private = pd.DataFrame({"u": range(1000), "x": [u % 10 for u in range(1000)]})
    policy = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 100},
        "limits": {"seconds": 1, "memory": "300MB"},
        "tables": {"t": {"unit": "u", "columns": {"x": {"min": 0, "max": 9}}}, "p": {"public": True}},
    }
    return dpsql.connect({"t": private, "p": public}, policy=policy, ledger=":memory:")


@pytest.mark.parametrize("name", GREEDY)
def test_a_greedy_query_over_public_tables_is_ended(db: dpsql.Connection, name: str) -> None:
    with pytest.raises(dpsql.Error) as ended:
        db.query(GREEDY[name])
    said = "is not allowed" if name == "a recursion" else TOO_MUCH
    assert said in ended.value.message or isinstance(ended.value, dpsql.UnsupportedQuery), ended.value.message
    assert len(db.query("SELECT count(*) FROM p")) == 1, "and the next one is answered"


def test_a_greedy_query_over_a_release_stays_charged_and_is_replayed(db: dpsql.Connection) -> None:
    before = db.budget().dataset.spent.epsilon
    greedy = (
        "SELECT count(*) FROM (SELECT x, count(*) AS n FROM t GROUP BY x) r, p a, p b, p c, p d WHERE r.n + a.i > b.i"
    )
    with pytest.raises(dpsql.ParseError) as ended:
        db.query(greedy, epsilon=1)
    assert ended.value.message == TOO_MUCH
    assert ended.value.hint is not None
    assert db.budget().dataset.spent.epsilon == before + 1
    assert db.query("SELECT max(n) FROM (SELECT x, count(*) AS n FROM t GROUP BY x) r", epsilon=1).replayed


def test_texts_within_the_limit_are_replaced_as_ever(db: dpsql.Connection) -> None:
    asked = (
        "SELECT replace(replace(s, 'some', 'any'), 'text', NULL), replace(replace(s, 'so', 'x'), 'xme', 'a'), "
        "regexp_replace(s, '(t)ext', '\\1\\1'), regexp_replace(s, '[a-z]', '-', 'g') FROM p WHERE i = 7"
    )
    assert db.query(asked).fetchall() == [(None, "a text 7", "some tt 7", "---- ---- 7")]


def test_every_function_that_replaces_is_guarded_wherever_it_stands() -> None:
    from sqlglot import parse_one

    text = with_short_texts(parse_one("SELECT replace(replace(s, 'a', regexp_replace(s, 'b', 'c')), 'd', 'e')"))
    assert text.upper().count("_REPLACE(") == 3
    assert with_short_texts(parse_one("replace(s, 'a', 'b')")) == "_REPLACE(s, 'a', 'b')"


def test_an_answer_with_too_many_values_is_not_held(db: dpsql.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(db.query("SELECT i, s FROM p")) == 2000
    monkeypatch.setattr(finish, "VALUES", 3999)
    with pytest.raises(dpsql.ParseError) as ended:
        db.query("SELECT s, i FROM p")
    assert ended.value.message == TOO_MUCH


def test_the_policys_limits_hold_for_finishing_too_and_are_locked(db: dpsql.Connection) -> None:
    asked = "SELECT current_setting('max_execution_time'), current_setting('memory_limit')"
    assert db.dataset.finisher._connection.execute(asked).fetchall() == [(1000, "286.1 MiB")]
    usual = finish.Finisher(db.dataset._read_public)
    assert usual._connection.execute(asked).fetchall() == [(60_000, "1.8 GiB")]
    usual.close()
