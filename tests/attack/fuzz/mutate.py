"""Statements that are nearly right: characters, tokens and parts of the tree changed, moved, repeated, left out."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

ODD = (
    "\0", "\ufeff", "\u2028", "\u200b", "\u00a0", "\uff08", "\u0430", "\ud800", "\U0001f926", "'",
    '"', "`", ";", "--", "/*", "*/", "$$",
    "\\", "{", "}", "[", "]", "(", ")", "?", "$1", ":a", "%s", "%", "::", "->", "\r", "\n", "\t",
    "\x1b", "é", "..", ",,", "@", "#", "!", "~",
    "E'\\x00'", "0x1F", "1_000", "1e", "1e999", ".5", "9" * 400, "''", "b'1'", "x'00'", "U&'\\0041'",
)  # fmt: skip
WORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "OFFSET", "UNION", "INTERSECT", "EXCEPT",
    "ALL", "DISTINCT", "ON",
    "USING", "JOIN", "LEFT", "LATERAL", "AS", "WITH", "RECURSIVE", "CASE", "WHEN", "THEN", "ELSE", "END", "NOT",
    "NULL", "IS", "IN", "EXISTS",
    "BETWEEN", "LIKE", "ESCAPE", "OVER", "PARTITION BY", "ROWS", "RANGE", "UNBOUNDED PRECEDING", "FILTER",
    "WITHIN GROUP", "CAST", "TRY_CAST",
    "INTERVAL", "DATE", "VALUES", "PIVOT", "UNPIVOT", "SAMPLE", "TABLESAMPLE", "QUALIFY", "WINDOW", "ROLLUP", "CUBE",
    "GROUPING SETS", "ASOF",
    "POSITIONAL", "SEMI", "ANTI", "NATURAL", "FETCH FIRST", "FOR UPDATE", "INTO", "COLLATE", "AT TIME ZONE",
    "EXCLUDE", "REPLACE", "COLUMNS(*)",
    "STRUCT", "MAP", "ARRAY", "*", "count(*)", "rowid", "random()", "error('x')", "unnest", "range(9)", "secret",
    "ghosts", "people", "orders",
)  # fmt: skip
_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\w+|\s+|[^\w\s]")
Mutation = Callable[[random.Random, str, Sequence[str]], str]


def _characters(rng: random.Random, sql: str, _: Sequence[str]) -> str:
    place = rng.randrange(len(sql) + 1)
    cut = place + rng.choice((0, 0, 1, 1, 2, 9))
    put = rng.choice((rng.choice(ODD), "", chr(rng.randrange(0x250)), sql[place:cut] * 2))
    return sql[:place] + put + sql[cut:]


def _tokens(rng: random.Random, sql: str, corpus: Sequence[str]) -> str:
    tokens = _TOKEN.findall(sql) or [""]
    one, two = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    match rng.randrange(6):
        case 0:
            del tokens[one]
        case 1:
            tokens[one], tokens[two] = tokens[two], tokens[one]
        case 2:
            tokens[one] = f" {rng.choice(WORDS)} "
        case 3:
            tokens.insert(one, f" {rng.choice(WORDS)} ")
        case 4:
            tokens[one] = rng.choice(_TOKEN.findall(rng.choice(corpus)) or [""])
        case _:
            tokens[one:one] = tokens[min(one, two) : max(one, two)]
    return "".join(tokens)


def _trees(rng: random.Random, sql: str, corpus: Sequence[str]) -> str:
    """A part of the tree replaced by a part of another, of the same kind where there is one."""
    here, there = _parsed(sql), _parsed(rng.choice(corpus))
    if here is None or there is None:
        return _tokens(rng, sql, corpus)
    places, parts = list(here.walk())[1:], list(there.walk())
    if not places:
        return sql
    place = rng.choice(places)
    alike = [part for part in parts if type(part) is type(place)]
    place.replace(rng.choice(alike or parts).copy())
    return here.sql("duckdb")


def _parsed(sql: str) -> exp.Expr | None:
    try:
        return sqlglot.parse_one(sql, dialect="duckdb")
    except (SqlglotError, RecursionError, ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None


def _wrapped(rng: random.Random, sql: str, _: Sequence[str]) -> str:
    form = rng.choice((
        "SELECT * FROM ({}) AS w", "SELECT count(*) FROM ({}) AS w", "WITH w AS ({}) SELECT * FROM w", "({})",
        "{} UNION ALL {}",
        "{} EXCEPT {}", "SELECT ({})", "SELECT count(*) FROM people WHERE age IN ({})", "EXPLAIN {}", "{};{}",
        "SELECT EXISTS ({})",
        "CREATE TABLE w AS {}", "COPY ({}) TO 'w.csv'", "DESCRIBE {}", "SUMMARIZE {}",
        "SELECT * FROM people, ({}) AS w",
    ))  # fmt: skip
    return form.replace("{}", sql)


MUTATIONS: tuple[Mutation, ...] = (_characters, _tokens, _tokens, _trees, _trees, _wrapped)


def mutated(rng: random.Random, sql: str, corpus: Sequence[str]) -> str:
    """The statement after one to three changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        try:
            sql = rng.choice(MUTATIONS)(rng, sql, corpus)
        except (SqlglotError, RecursionError, ValueError, AttributeError, TypeError, KeyError, IndexError):
            continue
    return sql
