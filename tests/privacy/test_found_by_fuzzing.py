"""What the fuzzer, the forbidden statements and the totality sweep found, each as the short statement that showed it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest
from attack.fuzz.canaries import opened, stored

import dpsql
import dpsql.options
from dpsql.errors import Error, InternalError, ParseError, UnsupportedQuery
from dpsql.interfaces.cli.shell import Shell
from dpsql.interfaces.server.session_commands import _SET
from dpsql.interfaces.server.statement_routing import StatementKind, split_statements
from dpsql.sql import read_hints, read_setting


@pytest.fixture(scope="module")
def db() -> Iterator[dpsql.Connection]:
    with stored() as path, opened(path) as connection:
        yield connection


def chain(first: str, step: str, last: str, many: int) -> str:
    steps = [f"c{i} AS ({step.format(f'c{i - 1}')})" for i in range(1, many)]
    return f"WITH c0 AS ({first}), {', '.join(steps)} SELECT {last} FROM c{many - 1}"


@pytest.mark.parametrize(
    ("first", "step"),
    [
        ("SELECT * FROM people", "SELECT * FROM {0} UNION ALL SELECT * FROM {0}"),
        ("SELECT id FROM people", "SELECT x.id FROM {0} x JOIN {0} y ON x.id = y.id"),
        ("SELECT id FROM people", "SELECT id FROM {0} x WHERE EXISTS (SELECT 1 FROM {0} y WHERE y.id = x.id)"),
    ],
)
def test_a_cte_that_uses_the_last_one_twice_is_refused_and_not_planned_for_ever(
    db: dpsql.Connection, first: str, step: str
) -> None:
    """Forty lines stood for 2**40 relations, and nobody came back from planning them."""
    with pytest.raises(UnsupportedQuery, match="once its CTEs are expanded"):
        db.explain(chain(first, step, "count(*)", 40))
    assert db.explain(chain(first, step, "count(*)", 3)).releases


def test_public_ctes_that_multiply_are_refused_below_an_aggregate(db: dpsql.Connection) -> None:
    public = chain("SELECT store FROM stores", "SELECT x.store FROM {0} x JOIN {0} y ON x.store = y.store", "1", 40)
    with pytest.raises(UnsupportedQuery, match="expanded"):
        db.explain(public.replace("SELECT 1 FROM c39", "SELECT count(*) FROM orders JOIN c39 ON number = c39.store"))


def test_a_chain_of_ctes_is_planned(db: dpsql.Connection) -> None:
    assert db.explain(chain("SELECT id, age FROM people", "SELECT id, age FROM {0} WHERE age > 1", "sum(age)", 50)).sql


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT count(*) FROM people WHERE age + " + " + ".join(["age"] * 199) + " > 3", "levels deep"),
        (
            "SELECT count(*) FROM people " + " ".join(f"JOIN stores s{i} ON age = s{i}.store" for i in range(400)),
            "joins",
        ),
        ("SELECT " + ", ".join(["count(*)"] * 1_500) + " FROM people", "columns"),
        ("SELECT count(*) FROM people GROUP BY " + ", ".join(["region"] * 500), "GROUP BY"),
        ("SELECT count(*) FROM people WHERE age IN (" + ",".join(["1"] * 49_000) + ")", "tokens; at most"),
        ("SELECT count(*) FROM people WHERE age > " + "9" * 5_000, "digits"),
        ("SELECT sum(age * " + "9" * 1_000 + ") FROM people", "digits"),
        ("SELECT count(*) FROM people WHERE age <> 1e400", "largest number"),
        ("SELECT count(*) AS \ud800 FROM people", "half a character"),
        ("SELECT count(*) FROM people WHERE note = '\ud800'", "half a character"),
        (
            "SELECT count(*) FROM people WHERE " + "EXISTS (SELECT 1 FROM stores WHERE " * 150 + "true" + ")" * 150,
            "deeply",
        ),
    ],
    ids=["recursion", "joins", "columns", "keys", "words", "digits", "wide", "infinite", "name", "text", "depth"],
)
def test_what_crashed_or_took_long_is_refused_before_it_is_charged(db: dpsql.Connection, sql: str, said: str) -> None:
    before = db.ledger.last(db.analyst, None)
    for ask in (db.query, db.explain, db.describe):
        with pytest.raises(Error, match=said) as caught:
            ask(sql)
        assert not isinstance(caught.value, InternalError)
        str(caught.value).encode("utf-8", "backslashreplace")
    assert db.ledger.last(db.analyst, None) == before


@pytest.mark.parametrize(
    "form",
    ["strftime(NULL, '%Y-%m')", "extract(EPOCH FROM NULL)", "length(NULL)", "date_trunc('month', NULL)", "sqrt(NULL)"],
)
def test_null_as_an_argument_is_answered(db: dpsql.Connection, form: str) -> None:
    """The database did not know which function was meant, after the query was charged."""
    assert db.query(f"SELECT count({form}) AS n FROM people").columns == ("n",)


def test_a_sum_beyond_64_bits_does_not_stop_at_the_largest_number(db: dpsql.Connection) -> None:
    result = db.query("SELECT sum(100000000000000000000) AS s FROM people", epsilon=1e5)
    assert result.types == ("DOUBLE",)
    assert result.fetchall()[0][0] == pytest.approx(24e20, rel=1e-3)


def test_a_fault_of_our_own_is_an_error_of_our_own(db: dpsql.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its text is constant: what failed may have had a stored value in hand."""
    monkeypatch.setattr("dpsql.query_draft.build", lambda *_: 1 / 0)
    with pytest.raises(InternalError, match="a fault of dpsql") as caught:
        db.query("SELECT count(*) FROM people")
    assert "division" not in str(caught.value) and caught.value.__cause__ is None


# settings, hints and what the server reads in its loop ------------------------------------------------------------------


def quick(seconds: float, began: float) -> bool:
    """Far above what it takes now, far below what it took."""
    return time.process_time() - began < seconds


def test_a_set_with_many_spaces_does_not_occupy_the_server() -> None:
    """20,000 spaces took 2.5 s in the loop that serves everybody, 200,000 would have taken minutes."""
    began = time.process_time()
    found = _SET.match("SET a = x" + " " * 200_000 + "y ")
    assert found is not None and found["value"].strip().startswith("x ") and quick(2, began)


def test_a_long_message_is_not_read_in_the_servers_loop() -> None:
    began = time.process_time()
    assert [each.kind for each in split_statements("(" * 10_000_000, {"people"})] == [StatementKind.QUERY]
    assert quick(1, began)


def test_a_long_setting_is_none() -> None:
    assert read_setting("SET dpsql.epsilon = " + "9" * 1_000_000, dpsql.options.QueryOptions()) is None
    with pytest.raises(ParseError, match="more than 100 characters"):
        read_setting("SET dpsql.epsilon = " + "9" * 1_000, dpsql.options.QueryOptions())


def test_hints_beside_many_texts_are_read_in_one_pass() -> None:
    began = time.process_time()
    assert read_hints("/*+ epsilon(0.5) */ SELECT " + "'x'," * 20_000).epsilon is not None
    assert quick(5, began)


def test_a_long_script_is_read_line_by_line_in_the_shell(db: dpsql.Connection) -> None:
    said, shell = StringIO(), Shell(db)
    with redirect_stdout(said), redirect_stderr(said):
        for _ in range(3_000):
            shell.feed("-- a line of a comment")
        shell.feed("SELECT note FROM people;")
    assert shell.failed and "private" in said.getvalue()


def test_a_hint_before_or_after_a_query_reaches_dpsql_through_the_server() -> None:
    """It was cut off with the comments around a statement, so that the default price was charged instead."""
    sent = "/*+ epsilon(0.1) */ SELECT count(*) FROM people /*+ delta(0) */; SELECT 1"
    first, second = split_statements(sent, {"people"})
    asked = read_hints(first.text)
    assert (float(asked.epsilon or 0), asked.delta) == (0.1, 0)
    assert sent[first.start :].startswith(first.text) and second.text == "SELECT 1"
