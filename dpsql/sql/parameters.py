"""Parameters of a query: each placeholder becomes the literal that its value is, as a token, before anything is parsed.

No text is pasted: the tokenizer has found strings, comments and quoted names before, and a value is one token of the
kind that its type names (or `DATE` and a string, or a bracketed negative number), whatever characters it holds. So a
value cannot change what the query around it says.

Styles, told apart by what stands in the query: `?` (qmark), `:name` (named), `:1` and `$1` (numeric), `$name`, `%s`
(format) and `%(name)s` (pyformat). After an operand, `%s` is a remainder and `:name` a slice, as in plain SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import InterfaceError, ParseError, Span

Parameters = Sequence[Any] | Mapping[str, Any]
Parts = tuple[tuple[TokenType, str], ...]

_WORD = re.compile(r"[A-Za-z_]\w*")
_DIGITS = re.compile(r"[1-9]\d{0,5}")
_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)
_OPERAND_ENDS = frozenset({
    TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER, TokenType.R_PAREN, TokenType.R_BRACKET,
    TokenType.R_BRACE, TokenType.END, TokenType.NULL, TokenType.TRUE, TokenType.FALSE, TokenType.PLACEHOLDER,
    TokenType.HEREDOC_STRING,
})  # fmt: skip
MOST_DIGITS = 38
HOW = 'pass a list or tuple for ?, %s or $1: execute("… WHERE age > ?", [30]); a dict for :age or %(age)s'


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A placeholder: the tokens `first` to `last`, and the name of its value, or its number from 1."""

    style: str
    first: int
    last: int
    key: str | int


def bind(tokens: Sequence[Token], parameters: Parameters | None = None) -> list[Token]:
    """The tokens of a query with a literal in the place of each placeholder."""
    found = list(placeholders(tokens))
    values = _given(parameters)
    if not found and not values:
        return list(tokens)
    _fitting(tokens, found, values)
    bound: list[Token] = []
    done = 0
    for each in found:
        first, last = tokens[each.first], tokens[each.last]
        value = values[str(each.key)] if isinstance(values, Mapping) else values[int(each.key) - 1]
        bound += tokens[done : each.first]
        try:
            parts = literal(value)
        except ParseError as refusal:
            said = f"parameter {each.key}: {refusal.message}"
            raise ParseError(said, span=_span(tokens, each), hint=refusal.hint) from None
        bound += [Token(kind, text, first.line, last.col, first.start, last.end) for kind, text in parts]
        done = each.last + 1
    return [*bound, *tokens[done:]]


def meaning(parameters: Parameters | None) -> list[tuple[Any, Parts | None]]:
    """The literal of each parameter, to tell questions apart; None if it has none: it is unused, or refused."""
    given = _given(parameters)
    listed = given.items() if isinstance(given, Mapping) else enumerate(given)
    return [(key, _meant(value)) for key, value in listed]


def _meant(value: Any) -> Parts | None:
    try:
        return literal(value)
    except ParseError:
        return None


def placeholders(tokens: Sequence[Token]) -> Iterator[Placeholder]:
    """The placeholders of a query, in the order of its text."""
    number = index = 0
    while index < len(tokens):
        found = _placeholder(tokens, index, number + 1)
        if found is not None:
            yield found
            number += isinstance(found.key, int)
            index = found.last
        index += 1


def _placeholder(tokens: Sequence[Token], at: int, number: int) -> Placeholder | None:
    token = tokens[at]
    if token.token_type is TokenType.PLACEHOLDER and token.text == "?":
        return Placeholder("?", at, at, number)
    texts = _adjacent(tokens, at)
    if token.token_type is TokenType.PARAMETER and token.text == "$" and len(texts) > 1:
        return _named("$", at, texts[1])
    if at and tokens[at - 1].token_type in _OPERAND_ENDS:
        return None
    if token.token_type is TokenType.COLON and len(texts) > 1:
        return _named(":", at, texts[1])
    if token.token_type is TokenType.MOD and texts[1:2] == ["s"]:
        return Placeholder("%s", at, at + 1, number)
    if token.token_type is TokenType.MOD and len(texts) == 5 and texts[1::2] == ["(", ")"] and texts[4] == "s":
        return Placeholder("%(name)s", at, at + 4, texts[2])
    return None


def _named(sign: str, at: int, text: str) -> Placeholder | None:
    if _DIGITS.fullmatch(text):
        return Placeholder(f"{sign}1", at, at + 1, int(text))
    return Placeholder(f"{sign}name", at, at + 1, text) if _WORD.fullmatch(text) else None


def _adjacent(tokens: Sequence[Token], at: int) -> list[str]:
    """The texts of up to five tokens from here that stand without a space between them; none that is quoted."""
    texts = [tokens[at].text]
    for before, after in zip(tokens[at : at + 4], tokens[at + 1 : at + 5], strict=False):
        if after.start != before.end + 1 or after.token_type in _QUOTED:
            break
        texts.append(after.text)
    return texts


def _given(parameters: Parameters | None) -> Sequence[Any] | Mapping[str, Any]:
    if parameters is None:
        return ()
    if isinstance(parameters, Mapping):
        return parameters
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence):
        raise InterfaceError(f"parameters are a list, tuple or dict, not {type(parameters).__name__}", hint=HOW)
    return parameters


def _fitting(tokens: Sequence[Token], found: Sequence[Placeholder], values: Parameters) -> None:
    """Is there one style, and a value for each placeholder?"""
    other = next((each for each in found if each.style != found[0].style), None)
    if other is not None:
        raise ParseError(
            f"two styles of parameters in one query: {found[0].style} and {other.style}",
            span=_span(tokens, other), hint=f"write all of them as {found[0].style}",
        )  # fmt: skip
    if not values and found:
        raise ParseError(
            f"parameter {found[0].key} has no value", span=_span(tokens, found[0]), hint=f"{HOW}; or write the value"
        )
    if isinstance(values, Mapping):
        for each in found:
            if str(each.key) not in values:
                listed = ", ".join(map(str, values))
                raise ParseError(
                    f"parameter {each.key} has no value", span=_span(tokens, each),
                    hint=f"values by name were given for: {listed}" if isinstance(each.key, str) else HOW,
                )  # fmt: skip
        return
    if named := [each for each in found if isinstance(each.key, str)]:
        raise ParseError(f"parameter {named[0].key} is named", span=_span(tokens, named[0]), hint=HOW)
    wanted = max((int(each.key) for each in found), default=0)
    if wanted != len(values):
        raise ParseError(
            f"{wanted} value{'' if wanted == 1 else 's'} needed, {len(values)} given",
            span=_span(tokens, found[-1]) if found else None,
            hint="one value for each placeholder; text in quotes has none: write LIKE ?, not LIKE '?'",
        )


def _span(tokens: Sequence[Token], each: Placeholder) -> Span:
    return Span(tokens[each.first].start, tokens[each.last].end + 1)


def literal(value: Any) -> Parts:
    """A value as tokens: the literal that one would write."""
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    if value is None:
        return ((TokenType.NULL, "NULL"),)
    if isinstance(value, bool):
        return ((TokenType.TRUE, "TRUE") if value else (TokenType.FALSE, "FALSE"),)
    if isinstance(value, str):
        return ((TokenType.STRING, _text(value)),)
    if isinstance(value, UUID):
        return ((TokenType.STRING, str(value)),)
    if isinstance(value, int | float | Decimal):
        text = float.__repr__(value) if isinstance(value, float) else _exact(value)
        if not text.lstrip("-")[0].isdigit():
            raise ParseError(f"{text} cannot be compared", hint=NULL)
        return _number(text)
    if isinstance(value, date):
        return _moment(value)
    raise ParseError(
        f"a value of type {type(value).__name__} cannot be a parameter", hint=HINTS.get(type(value).__name__, KNOWN)
    )


NULL = "leave it out, or pass None for NULL"
KNOWN = "pass None, a bool, a number, text, a date or a datetime"
HINTS = {
    "bytes": "decode it to text: value.decode()", "bytearray": "decode it to text: value.decode()",
    "memoryview": "decode it to text: bytes(value).decode()", "timedelta": "write it: INTERVAL 3 DAY", "NAType": NULL,
    "list": "one placeholder for each: IN (?, ?, ?)", "tuple": "one placeholder for each: IN (?, ?, ?)",
    "set": "one placeholder for each: IN (?, ?, ?)",
    "time": "compare parts of a timestamp, for example extract(hour FROM placed) >= ?",
}  # fmt: skip


def _text(value: str) -> str:
    text = str.__str__(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        hint = "decode the bytes that it came from with their encoding"
        raise ParseError("this text is not valid Unicode", hint=hint) from None
    if "\0" in text:
        raise ParseError("this text has a NUL character", hint="take it out")
    return text


def _exact(value: int | Decimal) -> str:
    """The digits of a whole number or a decimal, without an exponent."""
    number = value if isinstance(value, Decimal) else Decimal(int(value))
    if not number.is_finite():
        return str(number)
    digits, exponent = len(number.as_tuple().digits), int(number.as_tuple().exponent)
    if max(digits + max(exponent, 0), -exponent) > MOST_DIGITS:
        raise ParseError(f"this number has more than {MOST_DIGITS} digits", hint="round it, or pass a float")
    return f"{number:f}"


def _number(text: str) -> Parts:
    """A negative number is put in brackets, so that it remains one operand."""
    if not text.startswith("-"):
        return ((TokenType.NUMBER, text),)
    negative = ((TokenType.DASH, "-"), (TokenType.NUMBER, text[1:]))
    return ((TokenType.L_PAREN, "("), *negative, (TokenType.R_PAREN, ")"))


def _moment(value: date) -> Parts:
    """A date or a timestamp; one with a time zone in UTC, in which dpsql reads all of them."""
    if value != value:
        raise ParseError("NaT is not a date", hint=NULL)
    if not isinstance(value, datetime):
        return ((TokenType.DATE, "DATE"), (TokenType.STRING, date.isoformat(value)))
    if getattr(value, "nanosecond", 0):
        raise ParseError("a timestamp has microseconds, not nanoseconds", hint="round it")
    try:
        moment = value if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        hint = "pass one without a time zone"
        raise ParseError("this timestamp lies outside the calendar", hint=hint) from None
    return ((TokenType.TIMESTAMPNTZ, "TIMESTAMP"), (TokenType.STRING, f"{moment:%Y-%m-%d %H:%M:%S.%f}".zfill(26)))
