"""Limits on the size of a query, so that parsing and planning take bounded time, memory and stack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sqlglot import TokenType, exp
from sqlglot.tokenizer_core import Token

from dpsql.errors import ParseError, UnsupportedQuery

MAX_LENGTH = 100_000
MAX_DEPTH = 100
MAX_DIGITS = 100
MAX_TREE = 500
TOO_DEEP = "the query is nested too deeply"
MAX_TOKENS = 30_000
MOST: dict[type[exp.Expr], tuple[int, str]] = {
    exp.Join: (50, "joins"), exp.CTE: (200, "CTEs"), exp.Select: (300, "SELECTs"), exp.Window: (300, "windows"),
    exp.Case: (400, "CASEs"), exp.SetOperation: (200, "set operations"), exp.Group: (200, "GROUP BYs"),
}  # fmt: skip
"""Parts that a query may have so many of: each is cheap, and a thousand of them are not."""
MOST_LISTED: dict[type[exp.Expr], tuple[int, str]] = {
    exp.Select: (1_000, "columns"), exp.Group: (100, "keys in GROUP BY"), exp.Order: (1_000, "keys in ORDER BY"),
}  # fmt: skip
MOST_AGGREGATES = 200


def limit_text(sql: str) -> None:
    """Refuse what is too long, too deep, or no text at all."""
    _limit_length(len(sql))
    _is_text(sql)
    depth = deepest = 0
    for character in sql:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    words = sql.upper()
    if deepest > MAX_DEPTH or words.count("CASE") > 400 or words.count("NOT ") > 2_000:
        raise ParseError(f"{TOO_DEEP}: at most {MAX_DEPTH} levels are allowed")


def limit_tokens(tokens: Sequence[Token]) -> None:
    """Refuse too many tokens, those of the parameters' values included."""
    texts = [token.text for token in tokens]
    if any(len(token.text) > MAX_DIGITS for token in tokens if token.token_type is TokenType.NUMBER):
        raise ParseError(f"a number has more than {MAX_DIGITS} digits", hint="round it")
    _limit_length(sum(map(len, texts)))
    _is_text("".join(texts))
    if len(texts) > MAX_TOKENS:
        raise ParseError(f"the query has {len(texts):,} tokens; at most {MAX_TOKENS:,} are read")


def limit_parts(statement: exp.Expr) -> None:
    """Refuse more parts of a kind than can be planned in a second or so."""
    seen: Counter[type[exp.Expr]] = Counter()
    aggregates: dict[int, set[exp.Expr]] = {}
    waiting = [(statement, 1)]
    while waiting:
        node, depth = waiting.pop()
        waiting += ((child, depth + 1) for child in node.iter_expressions())
        if depth > MAX_TREE:
            raise ParseError(TOO_DEEP, hint="a long chain of + or OR is nested, too: write IN (…), or split the query")
        seen.update(kind for kind in MOST if isinstance(node, kind))
        if isinstance(node, exp.AggFunc) and not isinstance(node.parent, exp.Window):
            aggregates.setdefault(id(node.parent_select), set()).add(_with_filter(node))
        most, what = MOST_LISTED.get(type(node), (len(node.expressions), ""))
        if len(node.expressions) > most:
            raise ParseError(f"one query may have {most:,} {what}, not {len(node.expressions):,}", hint="ask for fewer")
    for kind, (most, what) in MOST.items():
        if seen[kind] > most:
            raise ParseError(f"one query may have {most} {what}, not {seen[kind]:,}", hint="ask for fewer at a time")
    if max(map(len, aggregates.values()), default=0) > MOST_AGGREGATES:
        raise too_many_aggregates()


def too_many_aggregates() -> UnsupportedQuery:
    """Equal ones count once."""
    return UnsupportedQuery(
        f"one SELECT may have {MOST_AGGREGATES} different aggregates", hint="ask for fewer at a time"
    )


def _with_filter(node: exp.Expr) -> exp.Expr:
    return node.parent if isinstance(node.parent, exp.Filter) and node.parent.this is node else node


def _is_text(text: str) -> None:
    """Half of a surrogate pair is not a character, and no database accepts it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        message = "the query contains half a character, so it is not valid Unicode"
        raise ParseError(message, hint="check its encoding") from None


def _limit_length(length: int) -> None:
    if length > MAX_LENGTH:
        raise ParseError(f"the query has {length:,} characters; at most {MAX_LENGTH:,} are read")
