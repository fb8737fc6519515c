"""Patterns over texts. A pattern is a constant of the query, and only such as cannot raise."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp

from dpsql.expressions.expression import Call, Expression, Literal, Value
from dpsql.expressions.functions.function import WORDS, Accepts, Anything, Builder, Function, constant, count
from dpsql.expressions.types import BOOLEAN, TEXT
from dpsql.expressions.typing import Mismatch, call

# regular expressions --------------------------------------------------------------------------------------------------
# Which regular expressions are taken: a part of RE2's grammar that cannot fail to compile and stays small.
#
# A pattern is a constant of the query, so that nothing about it depends on data; RE2 takes linear time in the text.


MOST_LENGTH = 500
MOST_REPEATED = 100
MOST_SIZE = 2_000
MOST_DEPTH = 20
_CLASSES = set("dDwWsS")
_PLACES = set("bBAz")
_CONTROLS = set("tnrf")
_PUNCTUATION = set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ")
_SPECIAL = set("*+?{}()|[]\\^$.")


class Rejected(Exception):
    """A pattern outside the grammar; the message says where."""


@dataclass(slots=True)
class PatternReader:
    """A recursive descent; `size` counts atoms times how often they are repeated."""

    text: str
    place: int = 0
    groups: int = 0
    depth: int = 0

    def peek(self) -> str:
        """The next character, or nothing."""
        return self.text[self.place : self.place + 1]

    def take(self) -> str:
        """The next character, which is consumed."""
        made = self.peek()
        if not made:
            raise Rejected("ends too early")
        self.place += 1
        return made

    def alternatives(self) -> int:
        """a|b|c"""
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise Rejected("is nested too deeply")
        size = self.sequence()
        while self.peek() == "|":
            self.take()
            size += 1 + self.sequence()
        self.depth -= 1
        return size

    def sequence(self) -> int:
        """Atoms one after the other, each with its repetition."""
        size = 0
        while self.peek() and self.peek() not in "|)":
            one, fixed = self.atom()
            size += one if fixed else one * self.repetition()
            if size > MOST_SIZE:
                raise Rejected("is too large once its repetitions are written out")
        return size

    def atom(self) -> tuple[int, bool]:
        """Its size, and whether it is a place, which cannot be repeated."""
        sign = self.take()
        if sign == "(":
            return self.group(), False
        if sign == "[":
            return self.set(), False
        if sign == "\\":
            escaped = self.take()
            if escaped in _PLACES:
                return 1, True
            if escaped not in _CLASSES | _CONTROLS | _PUNCTUATION:
                raise Rejected(f"has \\{escaped}, which is not supported")
            return 1, False
        if sign in "^$":
            return 1, True
        if sign != "." and sign in _SPECIAL:
            raise Rejected(f"has a {sign} where it means nothing; write \\{sign}")
        return 1, False

    def group(self) -> int:
        """(…), (?:…) or (?i:…)"""
        if self.peek() == "?":
            self.take()
            flag = self.take()
            if flag in "is":
                flag = self.take()
            if flag != ":":
                raise Rejected("has a group of a kind that is not supported; write (?:…)")
        else:
            self.groups += 1
        size = self.alternatives()
        if self.peek() != ")":
            raise Rejected("has a bracket that is not closed")
        self.take()
        return size + 1

    def set(self) -> int:
        """[a-z], [^…]"""
        if self.peek() == "^":
            self.take()
        members = 0
        while self.peek() != "]" or not members:
            low = self.member()
            if low is not None and self.peek() == "-" and self.text[self.place + 1 : self.place + 2] not in ("]", ""):
                self.take()
                high = self.member()
                if high is None or high < low:
                    raise Rejected("has a range of letters that is the wrong way round")
            members += 1
        self.take()
        return 2

    def member(self) -> str | None:
        """One letter of a set; None for a class, such as that of digits."""
        sign = self.take()
        if sign == "\\":
            escaped = self.take()
            if escaped in _CLASSES:
                return None
            if escaped not in _CONTROLS | _PUNCTUATION:
                raise Rejected(f"has \\{escaped}, which is not supported")
            return {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(escaped, escaped)
        if sign in "[]^":
            raise Rejected(f"has a {sign} inside […]; write \\{sign}")
        return sign

    def repetition(self) -> int:
        """How often the atom before may count: * + ? {2} {2,5} {2,}, each also lazy."""
        most = 1
        if self.peek() and self.peek() in "*+?":
            most = 2 if self.take() == "+" else 1
        elif self.peek() == "{":
            most = self.counted()
        else:
            return 1
        if self.peek() == "?":
            self.take()
        if self.peek() and self.peek() in "*+?{":
            raise Rejected("repeats a repetition")
        return most

    def counted(self) -> int:
        """{2}, {2,} or {2,5}"""
        end = self.text.find("}", self.place)
        low, comma, high = self.text[self.place + 1 : max(end, self.place + 1)].partition(",")
        numbers = [n for n in (low, high) if n]
        if end < 0 or not low or not all(n.isascii() and n.isdigit() and len(n) < 4 for n in numbers):
            raise Rejected("has a { that begins no repetition; write \\{")
        sizes = [int(n) for n in numbers]
        if max(sizes) > MOST_REPEATED or sizes != sorted(sizes):
            raise Rejected(f"repeats more than {MOST_REPEATED} times, or the wrong way round")
        self.place = end + 1
        return max(sizes) + (1 if comma and not high else 0) or 1


def groups_of(pattern: str) -> int:
    """The number of groups of a pattern that is taken; raises Rejected for any other."""
    if len(pattern) > MOST_LENGTH or "\0" in pattern:
        raise Rejected(f"has more than {MOST_LENGTH} characters, or a NUL")
    reader = PatternReader(pattern)
    reader.alternatives()
    if reader.place < len(pattern):
        raise Rejected("has a bracket that was not opened")
    return reader.groups


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
