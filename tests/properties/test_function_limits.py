"""Texts cannot grow without bound, and no pattern that is taken can fail to compile."""

from __future__ import annotations

import random
import re

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.duckdb.function_rules import growth, listed
from dpsql.engines.duckdb.text_rules import LONGEST
from dpsql.errors import Error, ParseError
from dpsql.expressions.expression import Call, Column, Expression
from dpsql.expressions.from_syntax import convert
from dpsql.expressions.functions.patterns import Rejected, groups_of
from dpsql.expressions.functions.table import FUNCTIONS
from dpsql.expressions.types import BIGINT, TEXT, Kind


class Row:
    def column(self, node: exp.Column) -> Expression:
        return Column(BIGINT if node.name == "n" else TEXT, name=node.name)


def made(form: str) -> Expression | None:
    try:
        return convert(sqlglot.parse_one(f"SELECT {form}", dialect="duckdb").selects[0], Row())
    except Error:
        return None


FORMS = [form for f in FUNCTIONS.values() for form in f.written if (e := made(form)) and e.type.kind is Kind.TEXT]


@pytest.fixture(scope="module")
def db() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT repeat('ab', 100000) AS a, repeat('é', 60000) AS b")
    connection.execute("INSERT INTO t VALUES ('ab-c', 'é'), ('', ''), (repeat('%', 5000), 'b')")
    return connection


@pytest.mark.parametrize("form", FORMS)
def test_a_text_stays_within_the_limit_however_deep_the_calls(db: duckdb.DuckDBPyConnection, form: str) -> None:
    text = form
    for _ in range(4):
        one = made(text)
        assert isinstance(one, Expression)
        try:
            emitted = DUCKDB.sql(one, str)
        except Error:
            return
        longest = db.execute(f"SELECT max(strlen({emitted})) FROM t").fetchall()[0][0] or 0
        function = listed(one) if isinstance(one, Call) else None
        assert longest <= (LONGEST if function is None or growth(function, one) > (1, 0) else 2 * LONGEST), text
        text = re.sub(r"(?<!')\ba\b(?!')", lambda _, inner=text: inner, form)


def test_short_texts_come_through_whole(db: duckdb.DuckDBPyConnection) -> None:
    nested = made("hex(url_encode(lpad(a, 100, 'é')))")
    assert nested is not None
    wanted = db.execute("SELECT hex(url_encode(lpad(a, 100, 'é'))) FROM t WHERE a = 'ab-c'").fetchall()
    assert db.execute(f"SELECT {DUCKDB.sql(nested, str)} FROM t WHERE a = 'ab-c'").fetchall() == wanted


SIGNS = ["a", "b", ".", "*", "+", "?", "|", "(", ")", "[", "]", "^", "$", "\\", "{", "}", "2", ",", "-", "d", "w", ":",
         "é", " ", "(?:", "(?i:", "\\d", "\\b", "[^", "{2,3}", "a{3}", "\\.", "[a-z]", "(a|b)"]  # fmt: skip


def patterns() -> list[str]:
    rng = random.Random(11)
    return ["".join(rng.choice(SIGNS) for _ in range(rng.randint(0, 12))) for _ in range(20_000)]


def test_a_pattern_that_is_taken_compiles(db: duckdb.DuckDBPyConnection) -> None:
    taken: dict[str, int] = {}
    for pattern in patterns():
        try:
            taken[pattern] = groups_of(pattern)
        except Rejected:
            continue
    assert len(taken) > 1_500
    db.execute("CREATE TABLE p (p VARCHAR, g INTEGER)")
    db.execute("INSERT INTO p SELECT unnest(?), unnest(?)", [list(taken), list(taken.values())])
    db.execute("SELECT count(*) FROM p WHERE regexp_matches('abc', p) OR regexp_full_match('a b', p)").fetchall()
    assert db.execute("SELECT sum(strlen(regexp_replace('aXbé', p, 'y', 'g'))) FROM p").fetchall()[0][0] > 0


@pytest.mark.parametrize(
    "pattern",
    ["(", "a)", "a**", "a{101}", "(a{100}){100}", "[z-a]", "[[:alpha:]]", "\\1", "(?=a)", "(?P<x>a)", "a{2", "*a", "\\p{L}",
     "(" * 30 + ")" * 30, "a" * 501, "[", "\\"],
)  # fmt: skip
def test_a_pattern_that_may_not_compile_or_grows_is_refused(pattern: str) -> None:
    with pytest.raises(Rejected):
        groups_of(pattern)


@pytest.mark.parametrize(
    ("form", "said"),
    [("regexp_matches(a, b)", "constant"), ("regexp_extract(a, '(b)', 2)", "no group 2"), ("lpad(a, 5, '')", "not empty"),
     ("regexp_replace(a, 'x', '\\2')", "groups"), ("repeat(a, 10)", "constant"), ("lpad(a, 100000, 'x')", "1000"),
     ("a LIKE 'x$' ESCAPE '$'", "end with"), ("regexp_matches(a, 'x', 'g')", "options"), ("chr(a)", "integer"),
     ("strftime(n, '%Y')", "date"), ("a GLOB '[a]'", "GLOB"), ("strlen(a, b)", "1 arguments"), ("bit_count(n % 5)", "width")],
)  # fmt: skip
def test_a_refusal_says_what_is_taken(form: str, said: str) -> None:
    with pytest.raises((ParseError, Error), match=said):
        convert(sqlglot.parse_one(f"SELECT {form}", dialect="duckdb").selects[0], Row())
