"""Patterns over texts. A pattern is a constant of the query, and only such as cannot raise (see `regex`)."""

from __future__ import annotations

import re

from sqlglot import exp

from dpsql.expressions.expression import Call, Expression, Literal, Value
from dpsql.expressions.functions.function import WORDS, Accepts, Anything, Builder, Function, constant, count
from dpsql.expressions.functions.regex import Rejected, groups_of
from dpsql.expressions.types import BOOLEAN, TEXT
from dpsql.expressions.typing import Mismatch, call

_ALL = Anything()


def _regex(value: Value) -> str | None:
    try:
        groups_of(str(value))
    except Rejected as problem:
        return f"takes a regular expression, but this one {problem}"
    return None


def _letters(allowed: str) -> Accepts:
    def accepts(value: Value) -> str | None:
        return None if set(str(value)) <= set(allowed) and len(str(value)) <= 4 else f"takes the options {allowed}"

    return accepts


REGEX = constant(_regex)
OPTIONS = constant(_letters("ics"))
GLOBAL = constant(_letters("gics"))
ANY_TEXT = constant(lambda value: None if len(str(value)) <= 500 else "takes a pattern of at most 500 characters")


def _escape(value: Value) -> str | None:
    plain = len(str(value)) == 1 and str(value).isascii() and str(value) not in "%_"
    return None if plain else "takes one ASCII sign after ESCAPE"


def _text(expression: Expression) -> str:
    return str(expression.value) if isinstance(expression, Literal) else ""


def like(op: str) -> Builder:
    """LIKE and ILIKE with a constant pattern."""

    def build(args: tuple[Expression, ...]) -> Expression:
        return call(op, BOOLEAN, *args)

    return build


def _like_escape(name: str) -> Builder:
    def build(args: tuple[Expression, ...]) -> Expression:
        pattern, sign = _text(args[1]), _text(args[2])
        if re.fullmatch(f"(?:[^{re.escape(sign)}]|{re.escape(sign)}.)*", pattern, re.DOTALL) is None:
            raise Mismatch("the pattern must not end with the ESCAPE sign")
        return call(name, BOOLEAN, *args)

    return build


def _extract(args: tuple[Expression, ...]) -> Expression:
    group = int(_text(args[2])) if len(args) > 2 else 0
    if group > groups_of(_text(args[1])):
        raise Mismatch(f"the pattern has no group {group}")
    return call("regexp_extract", TEXT, *args)


def _replace(args: tuple[Expression, ...]) -> Expression:
    groups, rest = groups_of(_text(args[1])), re.sub(r"\\\\", "", _text(args[2]))
    asked = [int(n) for n in re.findall(r"\\([0-9])", rest)]
    if "\\" in re.sub(r"\\[0-9]", "", rest) or max(asked, default=0) > groups or "\0" in rest:
        raise Mismatch("a replacement may name groups of the pattern, \\1 to \\9, and has no other backslash")
    return call("regexp_replace", TEXT, *args)


def _grown(node: Call) -> tuple[int, int]:
    """Each match adds the replacement; the matches are disjoint, so a group that is named adds the text once."""
    new = _text(node.args[2])
    size = len(new.encode())
    return 1 + size + new.count("\\"), size


def _glob(args: tuple[Expression, ...]) -> Expression:
    if set(_text(args[1])) & set("[]\\"):
        raise Mismatch("GLOB takes * and ? here; write regexp_matches for more")
    return call("glob", BOOLEAN, *args)


FUNCTIONS: tuple[Function, ...] = (
    Function("like", (WORDS, ANY_TEXT), build=like("like"), forms=("a LIKE 'a%'", "a NOT LIKE '%b_'", "a LIKE '%\\'")),
    Function("ilike", (WORDS, ANY_TEXT), build=like("ilike"), forms=("a ILIKE '%B%'", "a NOT ILIKE 'é%'")),
    *(Function(f"{no}{kind}_escape", (WORDS, ANY_TEXT, constant(_escape)), BOOLEAN, _ALL,
               build=_like_escape(f"{no}{kind}_escape"),
               forms=(f"a {no.strip('_').upper()} {kind.upper()} 'a$%b%' ESCAPE '$'",
                      f"{no}{kind}_escape(a, '$$_', '$')"))
      for no in ("", "not_") for kind in ("like", "ilike")),
    Function("glob", (WORDS, ANY_TEXT), BOOLEAN, _ALL, build=_glob, sql="({0} GLOB {1})", node=exp.Glob,
             forms=("a GLOB 'a*'", "a GLOB '?b*c'")),
    Function("similar_to", (WORDS, REGEX), BOOLEAN, _ALL, sql="regexp_full_match({0}, {1})", node=exp.SimilarTo,
             forms=("a SIMILAR TO 'a.*|b'",)),
    Function("regexp_matches", (WORDS, REGEX, OPTIONS), BOOLEAN, _ALL, optional=1, node=exp.RegexpLike,
             reads=("this", "expression", "flag"),
             forms=("regexp_matches(a, '^a[b-d]+')", "a ~ '[0-9]{2,}'", "regexp_matches(a, 'B', 'i')")),
    Function("regexp_full_match", (WORDS, REGEX, OPTIONS), BOOLEAN, _ALL, optional=1, node=exp.RegexpFullMatch,
             reads=("this", "expression", "options"),
             forms=("regexp_full_match(a, '(a|b)+c?')", "regexp_full_match(a, '.*', 's')")),
    Function("regexp_extract", (WORDS, REGEX, count(0, 9), OPTIONS), TEXT, _ALL, optional=2, build=_extract,
             node=exp.RegexpExtract, reads=("this", "expression", "group", "parameters"),
             forms=("regexp_extract(a, '(.)(b)', 1)", "regexp_extract(a, '\\d+')",
                    "regexp_extract(a, 'B(.)', 1, 'i')")),
    Function("regexp_replace", (WORDS, REGEX, ANY_TEXT, GLOBAL), TEXT, _ALL, optional=1, build=_replace, growth=_grown,
             node=exp.RegexpReplace, reads=("this", "expression", "replacement", "modifiers"),
             forms=("regexp_replace(a, '[aeiou]', '*', 'g')", "regexp_replace(a, '(.)b', '\\1\\1', 'g')",
                    "regexp_replace(a, '', 'x', 'g')", "regexp_replace(a, 'A', 'x', 'i')")),
)  # fmt: skip
