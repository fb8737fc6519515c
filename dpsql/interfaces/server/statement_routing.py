"""What a client sent, by its first words and its names: a setting, a question to the catalogue, or a query for dpsql.

The catalogue is an empty database, so nothing that is sent there can tell of data, whatever it says. A statement goes
there if it names the catalogue, or no table at all; one that names a table of the policy never does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum

from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.interfaces.server.remote_calls import NAMES
from dpsql.sql.text_limits import MAX_LENGTH

MOST_STATEMENTS = 100
_CATALOGUE = ("pg_catalog", "information_schema")
_WORDS = {
    "BEGIN": "begin", "START": "begin", "COMMIT": "commit", "END": "commit", "ROLLBACK": "rollback",
    "ABORT": "rollback", "SAVEPOINT": "savepoint", "RELEASE": "savepoint", "SET": "set", "RESET": "reset",
    "SHOW": "show", "DISCARD": "discard", "DEALLOCATE": "deallocate", "LISTEN": "listen", "UNLISTEN": "listen",
    "CLOSE": "close", "EXPLAIN": "explain", "COPY": "copy",
}  # fmt: skip
_RUNS = re.compile(r"(?:query|cursor|table|schema|database)_to_xml\w*|ts_stat|ts_rewrite|dblink\w*")
"""Functions that read tables which are named in a text."""
_READING = ("SELECT", "WITH", "VALUES", "TABLE", "(")
"""What may go to the catalogue; anything else is for dpsql to refuse."""


class StatementKind(Enum):
    """Where a statement goes."""

    SESSION = "session"
    CATALOGUE = "catalogue"
    QUERY = "query"
    BOTH = "both"
    CALL = "call"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class ClientStatement:
    """One statement: its text, where it begins in what was sent, what it is, and the command that it begins with."""

    text: str
    start: int
    kind: StatementKind
    word: str = ""


class TooManyStatements(Exception):
    """More statements in one message than are taken."""


def split_statements(sql: str, tables: Collection[str]) -> list[ClientStatement]:
    """The statements of a message; text that is too long or cannot be read is one query, for dpsql to refuse."""
    if len(sql) > MAX_LENGTH:
        return [ClientStatement(sql, 0, StatementKind.QUERY)]
    try:
        tokens = list(Postgres().tokenize(sql))
    except SqlglotError:
        return [ClientStatement(sql, 0, StatementKind.QUERY)]
    found: list[ClientStatement] = []
    for begin, part, stop in _parts(tokens, len(sql)):
        if len(found) == MOST_STATEMENTS:
            raise TooManyStatements
        start, end = part[0].start, part[-1].end + 1
        if (called := _call(part)) is not None:
            found.append(ClientStatement(part[5].text, start, StatementKind.CALL, called))
            continue
        kind, word = _kind(part, tables)
        if kind is StatementKind.QUERY:
            start, end = begin, stop
        found.append(ClientStatement(sql[start:end], start, kind, word))
    return found or [ClientStatement("", 0, StatementKind.EMPTY)]


def _parts(tokens: list[Token], length: int) -> Iterator[tuple[int, list[Token], int]]:
    """The tokens of each statement, and where its text begins and ends: hints may stand before and after them."""
    part, begin = list[Token](), 0
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            if part:
                yield begin, part, token.start
            part, begin = [], token.end + 1
        else:
            part.append(token)
    if part:
        yield begin, part, length


def _call(tokens: list[Token]) -> str | None:
    """The name in `SELECT dpsql.name('…')`, if it is that and no more; the statement's text is what stands inside."""
    words = [token.text.lower() for token in tokens[:8]]
    if len(words) != 7 or words[:3] != ["select", "dpsql", "."] or (words[4], words[6]) != ("(", ")"):
        return None
    return words[3] if words[3] in NAMES and tokens[5].token_type is TokenType.STRING else None


def _kind(tokens: list[Token], tables: Collection[str]) -> tuple[StatementKind, str]:
    word = _WORDS.get(tokens[0].text.upper(), "")
    if word:
        return StatementKind.SESSION, word
    if tokens[0].text.upper() not in _READING:
        return StatementKind.QUERY, ""
    names = {t.text.lower() for t in tokens if t.token_type not in (TokenType.STRING, TokenType.NUMBER)}
    if any(_RUNS.fullmatch(name) for name in names):
        return StatementKind.BOTH, ""
    catalogue = any(name in _CATALOGUE or name.startswith("pg_") for name in names)
    own = not names.isdisjoint(tables) or _escaped(tokens)
    if catalogue:
        return (StatementKind.BOTH if own and _reads(tokens, tables) else StatementKind.CATALOGUE), ""
    return (
        StatementKind.QUERY if own or "from" in names or tokens[0].text.upper() == "TABLE" else StatementKind.CATALOGUE
    ), ""


def _reads(tokens: list[Token], tables: Collection[str]) -> bool:
    """Does a table of the policy stand where a relation can, behind any number of parentheses?

    That is after FROM, JOIN, a comma, the dot of a schema, ONLY, or TABLE, which is a query of its own. A name in
    Unicode escapes could be any.
    """
    before = ""
    for token in tokens:
        named = token.token_type is not TokenType.STRING and token.text.lower() in tables
        if named and before in ("FROM", "JOIN", ",", ".", "ONLY", "TABLE"):
            return True
        if token.text != "(":
            before = token.text.upper()
    return _escaped(tokens)


def _escaped(tokens: list[Token]) -> bool:
    """Is there a name in Unicode escapes, as U&"…"?"""
    return any(
        a.text.upper() == "U" and b.text == "&" and c.token_type is TokenType.IDENTIFIER and a.end + 1 == b.start
        for a, b, c in zip(tokens, tokens[1:], tokens[2:], strict=False)
    )
