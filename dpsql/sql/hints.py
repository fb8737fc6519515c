"""The price of a query where only SQL can be sent: `SET dpsql.price = '2%'`, or a hint `/*+ price(2%) */`."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlglot import TokenType, tokenize
from sqlglot.errors import TokenError

from dpsql.errors import InterfaceError, ParseError, Span
from dpsql.options import QueryOptions, read_share
from dpsql.sql.text_limits import MAX_DIGITS, MAX_LENGTH

SETTING_NAMES = ("price", "epsilon", "delta", "mechanism", "dialect")
"""The options that are also settings of a session."""
SETTINGS = (
    "SET dpsql.price = '2%', SET dpsql.epsilon = 0.2, SET dpsql.delta = 1e-8, SET dpsql.mechanism = laplace, "
    "SET dpsql.dialect = postgres, RESET dpsql.price, RESET ALL"
)
_MECHANISMS = ("auto", "laplace", "gaussian")
_DIALECTS = ("duckdb", "postgres")
_LEAD = r"(?>\s+|--[^\n]*(?:\n|$)|/\*(?:[^*]|\*(?!/))*+\*/)*+"
_SET = re.compile(
    _LEAD + r"SET\s+(?:SESSION\s+)?dpsql\.(\w+)(?:\s*=\s*|\s+TO\s+)(['\"]?)([\w.+-]+%?)\2\s*;?\s*", re.IGNORECASE
)
_RESET = re.compile(_LEAD + r"RESET\s+(?:(ALL)|dpsql\.(\w+))\s*;?\s*", re.IGNORECASE)
_MEANT = re.compile(_LEAD + r"(?:SET\s+(?:\w+\s+)?|RESET\s+)dpsql\b", re.IGNORECASE)
_HINT = re.compile(r"(\w+)\s*\(\s*([\w.+-]+\s?%?)\s*\)[\s,]*")


def read_setting(sql: str, now: QueryOptions) -> QueryOptions | None:
    """The settings after `SET dpsql.…` or `RESET`; None if the text is neither, or too long to be read."""
    if len(sql) > MAX_LENGTH:
        return None
    if found := _SET.fullmatch(sql):
        name, _, value = found.groups()
        return _reset(now, name, sql) if value.upper() == "DEFAULT" else _taken(name, value, sql).over(now)
    if found := _RESET.fullmatch(sql):
        return QueryOptions() if found[1] else _reset(now, found[2], sql)
    if _MEANT.match(sql):
        raise ParseError("this setting could not be parsed", hint=f"settings: {SETTINGS}")
    return None


def read_hints(sql: str) -> QueryOptions:
    """The options in the comments `/*+ … */` of a query, anywhere in it; a malformed hint is refused."""
    asked = QueryOptions()
    for hint in _hints(sql):
        span = _span(sql, hint)
        rest = hint[1:].strip()
        while rest:
            found = _HINT.match(rest)
            if found is None:
                raise ParseError(
                    "this hint could not be parsed",
                    sql=sql,
                    span=span,
                    hint="write /*+ price(2%) */, or /*+ epsilon(0.2) delta(1e-8) */",
                )
            one = _taken(found[1], found[2], sql, span)
            if one.over(asked) != asked.over(one):
                two = "the price" if found[1].lower() in ("price", "epsilon") else found[1].lower()
                raise ParseError(f"two hints give {two} two values", sql=sql, span=span, hint="keep one")
            asked, rest = one.over(asked), rest[found.end() :]
    return asked


def _hints(sql: str) -> list[str]:
    """The comments that begin with a plus, as found by the tokenizer, so that quoted text is not one."""
    if "/*+" not in sql:
        return []
    try:
        tokens = tokenize(sql, dialect="duckdb")
    except TokenError:
        return []
    pieces, end = list[str](), 0
    for token in tokens:
        if token.token_type is TokenType.STRING:
            pieces.append(sql[end : token.start])
            end = token.end + 1
    bare = " ".join([*pieces, sql[end:]])
    comments = [comment for token in tokens for comment in token.comments]
    return [comment for comment in comments if comment.startswith("+") and f"/*{comment}*/" in bare]


def _span(sql: str, comment: str) -> Span:
    begin = sql.index(f"/*{comment}*/")
    return Span(begin, begin + len(comment) + 4)


def _reset(now: QueryOptions, name: str, sql: str) -> QueryOptions:
    unset: dict[str, Any] = {_known(name, sql, None): None}
    return replace(now, **unset)


def _taken(name: str, value: str, sql: str, span: Span | None = None) -> QueryOptions:
    known = _known(name, sql, span)
    if len(value) > MAX_DIGITS:
        raise ParseError(
            f"the value of {known} has more than {MAX_DIGITS} characters", span=span, hint="write a short one"
        )
    if known == "mechanism":
        if value.lower() not in _MECHANISMS:
            raise ParseError(f"there is no mechanism {value}", sql=sql, span=span, hint="use laplace, gaussian or auto")
        return QueryOptions(mechanism=value.lower())
    if known == "dialect":
        return QueryOptions(dialect=known_dialect(value, sql, span))
    if known == "price":
        return QueryOptions(price=_share(value, sql, span))
    try:
        number = Decimal(value)
        if not number.is_finite():
            raise InvalidOperation
    except InvalidOperation:
        raise ParseError(
            f"{known} is a number, not {value}", sql=sql, span=span, hint=f"settings: {SETTINGS}"
        ) from None
    return QueryOptions(epsilon=number) if known == "epsilon" else QueryOptions(delta=number)


def _share(value: str, sql: str, span: Span | None) -> str:
    try:
        read_share(value)
    except InterfaceError as problem:
        raise ParseError(problem.message, sql=sql, span=span, hint=f"settings: {SETTINGS}") from None
    return value


def known_dialect(name: str, sql: str | None = None, span: Span | None = None) -> str:
    """The dialect of that name."""
    if name.lower() not in _DIALECTS:
        raise ParseError(f"there is no dialect {name}", sql=sql, span=span, hint=f"use {' or '.join(_DIALECTS)}")
    return name.lower()


def _known(name: str, sql: str, span: Span | None) -> str:
    if name.lower() not in SETTING_NAMES:
        raise ParseError(
            f"there is no setting {name}", sql=sql, span=span, hint=f"there are {', '.join(SETTING_NAMES)}: {SETTINGS}"
        )
    return name.lower()
