"""The functions of the table that Spark has too, in a form that cannot raise; the others are not computed there."""

from __future__ import annotations

import re

from dpsql.engines.spark import datetime_rules
from dpsql.engines.spark.number_rules import INFINITY, NAN, guarded, is_nan
from dpsql.engines.spark.text_rules import text
from dpsql.engines.spark.type_names import spark_type
from dpsql.engines.sql.expression_rules import Emit
from dpsql.engines.sql.sql_types import physical
from dpsql.expressions.expression import Call, Expression, Literal
from dpsql.expressions.types import Kind

_REAL = ("sqrt", "cbrt", "exp", "sin", "cos", "tan", "cot", "asin", "acos", "atan", "sinh", "cosh", "tanh", "degrees",
         "radians")  # fmt: skip


def _logarithm(name: str) -> str:
    """Spark has NULL where a logarithm is not a number."""
    return f"CASE WHEN {{0}} = 0 THEN -{INFINITY} WHEN {{0}} < 0 THEN {NAN} ELSE {name}({{0}}) END"


def _between(low: int, high: int) -> str:
    """The argument where it is in the years 1 to 9999."""
    return f"CASE WHEN {{0}} BETWEEN {low}L AND {high}L THEN {{0}} END"


_ONE = f"({{0}} = 1 OR ({{0}} = -1 AND abs({{1}}) = {INFINITY})) AND {{1}} IS NOT NULL"
"""What Java says is not a number, and C and IEEE's recommendation say is 1."""


def _minus(number: str) -> str:
    """Is it below zero, or the zero below zero? That shows in its power -1."""
    return f"power({number}, -1D) < 0"


_BEHIND = f"{{0}} = 0 AND ({{1}} < 0 OR {_minus('{1}')})"
"""Where atan2 tells the two zeros apart, and Spark does not."""

FORMS: dict[str, str] = {
    **{name: f"{name}({{all}})" for name in _REAL},
    **{name: _logarithm(name) for name in ("ln", "log10", "log2")},
    "pi": "pi()",
    "power": f"CASE WHEN {_ONE} THEN 1D ELSE power({{0}}, {{1}}) END",
    "atan2": f"CASE WHEN {_BEHIND} THEN if({_minus('{0}')}, -pi(), pi()) ELSE atan2({{0}}, {{1}}) END",
    "isnan": is_nan("{0}"),
    "isinf": f"(abs({{0}}) = {INFINITY})",
    "isfinite": f"(abs({{0}}) < {INFINITY})",
    "bit_and": "({0} & {1})", "bit_or": "({0} | {1})", "xor": "({0} ^ {1})", "bit_not": "(~{0})",
    "shift_left": "shiftleft(CASE WHEN {0} BETWEEN 0 AND shiftright(9223372036854775807L, {1}) THEN {0} END, {1})",
    "strlen": "octet_length({0})", "bit_length": "bit_length({0})", "translate": "translate({0}, {1}, {2})",
    "repeat": "repeat({0}, {1})", "lpad": "lpad({0}, {1}, {2})", "rpad": "rpad({0}, {1}, {2})",
    "split_part": "split_part({0}, {1}, {2})", "md5": "md5(CAST({0} AS BINARY))", "sha1": "sha1(CAST({0} AS BINARY))",
    "sha256": "sha2(CAST({0} AS BINARY), 256)", "hex": "hex({0})",
    "last_day": "last_day({0})", "dayname": "date_format({0}, 'EEEE')", "monthname": "date_format({0}, 'MMMM')",
    "epoch": f"({datetime_rules.micros('{0}')} / 1000000D)", "epoch_us": datetime_rules.micros("{0}"),
    "epoch_ms": f"round({datetime_rules.micros('{0}')} * 0.001BD)",
    "make_timestamp": datetime_rules.from_micros(_between(-62_135_596_800_000_000, 253_402_300_799_999_999)),
    "make_timestamp_ms": datetime_rules.from_micros(f"({_between(-62_135_596_800_000, 253_402_300_799_999)} * 1000L)"),
}  # fmt: skip
GROWN = {"translate": 4, "hex": 2}
"""Bytes of the result for each byte of the first argument."""
LONGEST = 2**18
_FORMATS = {
    "Y": "yyyy", "m": "MM", "d": "dd", "H": "HH", "M": "mm", "S": "ss", "j": "DDD", "y": "yy", "I": "hh", "p": "a",
    "f": "SSSSSS", "a": "EEE", "A": "EEEE", "b": "MMM", "B": "MMMM", "-m": "M", "-d": "d", "-H": "H", "-M": "m",
    "-S": "s", "-I": "h", "-j": "D",
}  # fmt: skip


def computed(node: Call) -> bool:
    """Is there a total form of this very function?"""
    if node.op == "strftime":
        return _format(node) is not None
    if node.op == "chr":
        return _letter(node) is not None
    if node.op == "split_part":
        separator, place = (a.value if isinstance(a, Literal) else None for a in node.args[1:])
        return bool(separator) and bool(place)
    if node.op == "hex" and node.args[0].type.kind is Kind.INTEGER:
        return node.args[0].type.sums_whole
    return node.op in FORMS


def written(node: Call, emit: Emit) -> str:
    """The total form, in the type that the call has."""
    if node.op == "strftime":
        moment = datetime_rules.timestamp(node.args[0], emit)
        if isinstance(node.args[0], Call):
            moment = guarded(moment, "TIMESTAMP")
        return f"date_format({moment}, {text(_format(node) or '')})"
    if node.op == "chr":
        return text(_letter(node) or "")
    parts = [_handed(node, i, a, emit) for i, a in enumerate(node.args)]
    made = FORMS[node.op].format(*parts, all=", ".join(parts))
    exact = node.type.kind in (Kind.INTEGER, Kind.DATE)
    return f"CAST({made} AS {spark_type(physical(node.type))})" if exact else made


_COUNTS = {"repeat": (1,), "lpad": (1,), "rpad": (1,), "split_part": (2,), "shift_left": (1,)}


def _handed(node: Call, place: int, argument: Expression, emit: Emit) -> str:
    """An argument in the type that the function takes."""
    if argument.type.temporal:
        return datetime_rules.timestamp(argument, emit)
    if place in _COUNTS.get(node.op, ()):
        return emit(argument, "INTEGER")
    kind = argument.type.kind
    if kind is Kind.TEXT:
        made = emit(argument, "VARCHAR")
        most = LONGEST // GROWN.get(node.op, 1)
        grown = node.op in GROWN and not isinstance(argument, Literal)
        return f"CASE WHEN octet_length({made}) <= {most} THEN {made} END" if grown else made
    whole = kind is Kind.INTEGER and (node.type.kind in (Kind.INTEGER, Kind.TIMESTAMP) or node.op == "hex")
    return emit(argument, "BIGINT" if whole else "DOUBLE")


def _letter(node: Call) -> str | None:
    """The letter of a constant number; of others Spark knows only 256."""
    number = node.args[0].value if isinstance(node.args[0], Literal) else None
    inside = isinstance(number, int) and 0 <= number < 0x110000 and not 0xD800 <= number < 0xE000
    return chr(int(str(number))) if inside else None


def _format(node: Call) -> str | None:
    """The pattern of a format; None if Spark has no sign for a part of it."""
    given = node.args[1].value if isinstance(node.args[1], Literal) else None
    if not isinstance(given, str):
        return None
    made = ""
    for sign, letters in re.findall(r"%(-?.)|([^%]+)", given, re.DOTALL):
        if sign and sign != "%" and sign not in _FORMATS:
            return None
        plain = letters or "%"
        made += _FORMATS[sign] if sign in _FORMATS else "'" + plain.replace("'", "''") + "'"
    return made
