"""Every form of every function, operator and piece of grammar, over every type that it takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import sqlglot
from sqlglot import exp

from attack.totality.edges import EDGES, column
from dpsql.errors import Error
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.from_syntax import convert
from dpsql.expressions.functions.conditions import SYNTAX
from dpsql.expressions.functions.datetimes import SHIFTS
from dpsql.expressions.functions.table import FUNCTIONS
from dpsql.expressions.types import Kind, Type, from_engine
from dpsql.expressions.typing import CASTS

PAIRS = [
    *((t, t) for t in EDGES), ("TINYINT", "BIGINT"), ("INTEGER", "UTINYINT"), ("BIGINT", "DOUBLE"), ("BIGINT",
    "UBIGINT"),
    ("DOUBLE", "DECIMAL(9,2)"), ("DECIMAL(9,2)", "BIGINT"), ("HUGEINT", "INTEGER"), ("DATE", "TIMESTAMP"), ("FLOAT",
    "HUGEINT"),
    ("TIMESTAMP", "DATE"), ("DATE", "INTEGER"), ("DATE", "BIGINT"), ("BOOLEAN", "DOUBLE"), ("BOOLEAN", "VARCHAR"),
    ("VARCHAR", "INTEGER"), ("VARCHAR", "UUID"), ("TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"), ("DECIMAL(38,10)",
    "DOUBLE"),
]  # fmt: skip
GRAMMAR = (
    *SYNTAX, *SHIFTS, *(f"CAST(a AS {name})" for name in CASTS), "CAST(a AS DECIMAL(18, 6))",
    "CAST(a AS DECIMAL(38, 0))",
    "CASE a WHEN b THEN 1 END", "CASE WHEN a = b THEN a ELSE b END", "a IN (b, NULL)", "a NOT IN (1, 2)",
    "a IN ('x', '')", "a = ''",
    "a LIKE '%a_'", "a ILIKE 'É%'", "a NOT LIKE '\\\\%' ESCAPE '\\\\'", "a SIMILAR TO '(a|b)*'",
    "regexp_matches(a, '(a*)*b')",
    "regexp_matches(a, '(a|aa)+$')", "regexp_replace(a, '(.*)(.*)(.*)x', 'y', 'g')",
    "regexp_extract(a, '^(([a-z])+.)+[A-Z]', 0)",
    "-a", "+a", "a + 9223372036854775807", "a * 1e300", "a / 0", "a % 0", "a // 0", "a = 0.1", "a < 1e308",
    "a > '2024-01-01'", "a = true",
    "a + INTERVAL 1000000 DAY", "a - INTERVAL '100000' YEAR", "a + INTERVAL 9223372036854 SECOND",
    "a::VARCHAR || b::VARCHAR",
    "(a, b) IS NULL", "a IS DISTINCT FROM NULL", "a AND NULL", "NOT (a = b)", "coalesce(a, b, NULL)", "a ** 400",
    "a ^ b", "1 << a", "~a",
)  # fmt: skip
_LETTER = re.compile(r"(?<![\w'])[abc](?![\w'(])")


@dataclass(frozen=True, slots=True)
class Form:
    """A form over columns of the edges, as SQL, and what it gives."""

    sql: str
    gives: Type


@dataclass(frozen=True, slots=True)
class _Row:
    types: dict[str, str]

    def column(self, node: exp.Column) -> Expression:
        type_ = from_engine(self.types[node.name])
        assert type_ is not None
        return Column(type_, name=node.name)


def written() -> tuple[str, ...]:
    """All forms over letters; also with NULL in the place of each letter."""
    forms = dict.fromkeys([*(form for function in FUNCTIONS.values() for form in function.written), *GRAMMAR])
    nulls = [re.sub(rf"(?<![\w']){letter}(?![\w'(])", "NULL", form) for form in forms for letter in letters(form)]
    return tuple(dict.fromkeys([*forms, *nulls]))


def forms() -> Iterator[Form]:
    """All that the allow-list takes."""
    for form in written():
        names = letters(form)
        for types in _choices(len(names)):
            made = _converted(form, dict(zip(names, types, strict=True)))
            if made is not None:
                yield made


def letters(form: str) -> tuple[str, ...]:
    """The columns of a form."""
    tree = _parsed(form)
    return () if tree is None else tuple(sorted({c.name for c in tree.find_all(exp.Column)} & {"a", "b", "c"}))


@cache
def _parsed(form: str) -> exp.Expr | None:
    try:
        tree = sqlglot.parse_one(f"SELECT {form}", dialect="duckdb")
        return tree.expressions[0] if isinstance(tree, exp.Select) else None
    except (sqlglot.errors.SqlglotError, IndexError):
        return None


def _choices(count: int) -> Iterator[tuple[str, ...]]:
    if count == 1:
        yield from ((t,) for t in EDGES)
    elif count == 2:
        yield from PAIRS
    else:
        yield from ((t,) * count for t in EDGES) if count else ((),)


def _converted(form: str, types: dict[str, str]) -> Form | None:
    tree = _parsed(form)
    if tree is None:
        return None
    try:
        made = convert(tree, _Row(types))
    except Error:
        return None
    if made.type.kind is Kind.INTERVAL:
        return None
    return Form(_LETTER.sub(lambda m: column(m[0], types[m[0]]) if m[0] in types else m[0], form), made.type)
