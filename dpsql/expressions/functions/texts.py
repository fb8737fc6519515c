"""Texts. What can make a text longer says by how much (`growth`), and the emitted SQL keeps it within a limit.

Functions whose work grows with the product of two lengths take short texts only; a longer one gives NULL.
"""

from __future__ import annotations

import hashlib
import re
from decimal import Decimal

from sqlglot import exp

from dpsql.expressions.expression import Expression, Literal
from dpsql.expressions.functions.function import (
    NUMBER,
    SHORT_WORDS,
    WHOLE,
    WORDS,
    Anything,
    Builder,
    Elsewhere,
    Function,
    Image,
    Parameter,
    constant,
    count,
)
from dpsql.expressions.types import BOOLEAN, DOUBLE, TEXT, Kind, Type, integer
from dpsql.expressions.typing import Mismatch, call, require

LENGTH = integer(0, 2**32)
CODED = Parameter((Kind.TEXT, Kind.INTEGER))
"""Written out byte by byte."""
POSITION = count(-(10**6), 10**6)
_ALL = Anything()
_E = Elsewhere()


def _value(expression: Expression) -> object:
    return expression.value if isinstance(expression, Literal) else None


def _end(value: object) -> str | None:
    """An end of a bar: between such numbers no product overflows, where DuckDB would raise on some rows only."""
    fits = isinstance(value, int | float | Decimal) and -(10**15) <= value <= 10**15
    return None if fits else "takes constants from -1e15 to 1e15 here"


END = Parameter(NUMBER.kinds, "DOUBLE", _end)


def _positions(op: str) -> Builder:
    """Constant positions are options of the call, not operands."""

    def build(args: tuple[Expression, ...]) -> Expression:
        places = tuple(int(str(_value(a))) for a in args[1:])
        return call(op, TEXT, args[0], option=places if op == "substring" else places[0])

    return build


def _repeated(value: object) -> str | None:
    return None if isinstance(value, str) and len(value.encode()) <= 64 else "takes a constant of at most 64 bytes here"


def _padding(value: object) -> str | None:
    return _repeated(value) if value else "takes a padding that is not empty"


def joined(args: tuple[Expression, ...]) -> Expression:
    """`||`: NULL if a part is."""
    return call("join", TEXT, *(require(a, Kind.TEXT, what="text concatenation") for a in args))


def _concat(args: tuple[Expression, ...]) -> Expression:
    return call("concat", TEXT, *(require(a, Kind.TEXT, what="text concatenation") for a in args))


def _concat_ws(args: tuple[Expression, ...]) -> Expression:
    if len(args) < 2:
        raise Mismatch("CONCAT_WS takes a separator and at least one text")
    return call("concat_ws", TEXT, *(require(a, Kind.TEXT, what="CONCAT_WS") for a in args))


def _digest(name: str) -> Function:
    def value(text: str) -> str:
        return hashlib.new(name, text.encode(), usedforsecurity=False).hexdigest()

    nodes = {"md5": exp.MD5, "sha1": exp.SHA}
    length = 2 * hashlib.new(name, usedforsecurity=False).digest_size
    return Function(name, (WORDS,), TEXT, _ALL, value=value, growth=(0, length), node=nodes.get(name, ()))


def _ascii(text: str) -> str:
    """Beyond ASCII, libraries differ."""
    if not text.isascii():
        raise ValueError(text)
    return text


def _near(
    name: str, bounds: Anything | Image, type_: Type, node: type[exp.Expr] | None = None, **more: object
) -> Function:
    return Function(name, (SHORT_WORDS, SHORT_WORDS), type_, bounds, null=True, node=node or (), **more)  # type: ignore[arg-type]


def _split(text: str, separator: str, index: int) -> str:
    if not separator or index == 0:
        raise ValueError(text)
    parts = text.split(separator)
    return parts[index - 1 if index > 0 else index] if abs(index) <= len(parts) else ""


def _translated(text: str, old: str, new: str) -> str:
    table: dict[int, str] = {}
    for i, letter in enumerate(old):
        table.setdefault(ord(letter), new[i] if i < len(new) else "")
    return text.translate(table)


def _padded(left: bool):  # type: ignore[no-untyped-def]
    def value(text: str, length: int, fill: str) -> str:
        missing = max(0, length - len(text))
        more = (fill * (missing // len(fill) + 1))[:missing]
        return more + text[:length] if left else text[:length] + more

    return value


def _percent(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.~-]", lambda m: "".join(f"%{b:02X}" for b in m[0].encode()), text)


_CHARACTER = "CASE WHEN {0} BETWEEN 0 AND 55295 OR {0} BETWEEN 57344 AND 1114111 THEN TRY_CAST({0} AS INTEGER) END"

FUNCTIONS: tuple[Function, ...] = (
    Function("lower", (WORDS,), TEXT, sql=_E, aliases=("lcase",), node=exp.Lower),
    Function("upper", (WORDS,), TEXT, sql=_E, aliases=("ucase",), node=exp.Upper),
    Function("length", (WORDS,), LENGTH, sql=_E, aliases=("len", "char_length", "character_length"), node=exp.Length,
             reads=("this",)),
    Function("strlen", (WORDS,), LENGTH, Image(low=0), value=lambda a: len(a.encode())),
    Function("bit_length", (WORDS,), integer(0, 2**35), Image(low=0), node=exp.BitLength,
             value=lambda a: 8 * len(a.encode())),
    Function("length_grapheme", (WORDS,), LENGTH, Image(low=0)),
    *(Function(side, (WORDS, WORDS), TEXT, sql=_E, optional=1,
               forms=(f"{side}(a)", f"{side}(a, b)", f"{side}(a, 'ab')"))
      for side in ("trim", "ltrim", "rtrim")),
    Function("left", (WORDS, POSITION), build=_positions("left"), sql=_E, node=exp.Left,
             forms=("left(a, 2)", "left(a, -2)")),
    Function("right", (WORDS, POSITION), build=_positions("right"), sql=_E, node=exp.Right,
             forms=("right(a, 2)", "right(a, -2)")),
    Function("substring", (WORDS, POSITION, POSITION), optional=1, build=_positions("substring"), sql=_E,
             node=exp.Substring, aliases=("substr",),
             forms=("substring(a, 2, 3)", "substring(a, 2)", "substring(a, -3, 2)", "substring(a, 0, 3)")),
    Function("left_grapheme", (WORDS, POSITION), TEXT, _ALL, forms=("left_grapheme(a, 2)", "left_grapheme(a, -1)")),
    Function("right_grapheme", (WORDS, POSITION), TEXT, _ALL, forms=("right_grapheme(a, 2)", "right_grapheme(a, -1)")),
    Function("substring_grapheme", (WORDS, POSITION, POSITION), TEXT, _ALL, optional=1,
             forms=("substring_grapheme(a, 2, 3)", "substring_grapheme(a, -2)")),
    Function("replace", (WORDS, WORDS, WORDS), TEXT, sql=_E, node=exp.Replace,
             reads=("this", "expression", "replacement"),
             forms=("replace(a, 'a', 'bcd')", "replace(a, b, 'x')", "replace(a, 'a', b)")),
    Function("translate", (WORDS, WORDS, WORDS), TEXT, _ALL, value=_translated, growth=(4, 0), node=exp.Translate,
             reads=("this", "from_", "to"), forms=("translate(a, 'ab', 'é')", "translate(a, b, 'xyz')")),
    Function("reverse", (WORDS,), TEXT, _ALL, value=lambda a: _ascii(a)[::-1], node=exp.Reverse),
    Function("repeat", (constant(_repeated), count(0, 1000)), TEXT, _ALL, value=lambda a, n: a * n, growth=(0, 64_000),
             node=exp.Repeat, forms=("repeat('ab', 5)",)),
    Function("lpad", (WORDS, count(0, 1000), constant(_padding)), TEXT, _ALL, value=_padded(True), growth=(0, 4000),
             forms=("lpad(a, 5, 'xy')", "lpad(a, 2, ' ')", "lpad(a, 0, 'x')")),
    Function("rpad", (WORDS, count(0, 1000), constant(_padding)), TEXT, _ALL, value=_padded(False), growth=(0, 4000),
             forms=("rpad(a, 5, 'xy')", "rpad(a, 2, ' ')", "rpad(a, 0, 'x')")),
    Function("concat", build=_concat, node=exp.Concat, reads=("expressions",),
             forms=("concat(a, b)", "concat(a, 'x', b)")),
    Function("concat_ws", build=_concat_ws, bounds=Anything(), strict=False, node=exp.ConcatWs, reads=("expressions",),
             forms=("concat_ws('-', a, b)", "concat_ws(a, b, 'x')")),
    Function("joined", build=joined, node=exp.DPipe, forms=("a || b", "a || 'x'"), reads=("this", "expression")),
    Function("strpos", (WORDS, WORDS), LENGTH, sql=_E, aliases=("instr", "position"), node=exp.StrPosition,
             reads=("this", "substr"), forms=("strpos(a, b)", "instr(a, 'b')", "position('b' IN a)")),
    Function("contains", (WORDS, WORDS), BOOLEAN, sql=_E, node=exp.Contains, reads=("this", "expression")),
    Function("starts_with", (WORDS, WORDS), BOOLEAN, sql=_E, aliases=("prefix",), node=exp.StartsWith,
             forms=("starts_with(a, b)", "prefix(a, 'a')", "a ^@ 'a'")),
    Function("ends_with", (WORDS, WORDS), BOOLEAN, sql=_E, aliases=("suffix",), node=exp.EndsWith,
             forms=("ends_with(a, b)", "suffix(a, 'c')")),
    Function("split_part", (WORDS, WORDS, POSITION), TEXT, _ALL, value=_split, node=exp.SplitPart,
             reads=("this", "delimiter", "part_index"),
             forms=("split_part(a, 'b', 1)", "split_part(a, b, 2)", "split_part(a, '-', -1)", "split_part(a, '', 1)")),
    Function("ascii", (WORDS,), integer(0, 0x10FFFF), _ALL, node=exp.Ascii, value=lambda a: ord(a[0]) if a else 0),
    Function("ord", (WORDS,), integer(-1, 0x10FFFF), _ALL, value=lambda a: ord(_ascii(a)[0]) if a else -1),
    Function("unicode", (WORDS,), integer(-1, 0x10FFFF), _ALL, node=exp.Unicode,
             value=lambda a: ord(_ascii(a)[0]) if a else -1),
    Function("chr", (WHOLE,), TEXT, _ALL, sql=f"chr({_CHARACTER})", null=True, growth=(0, 4), node=exp.Chr,
             reads=("expressions",)),
    _digest("md5"), _digest("sha1"), _digest("sha256"),
    Function("hash", (WORDS,), integer(0, 2**64 - 1), _ALL),
    Function("hex", (CODED,), TEXT, _ALL, growth=(2, 0), aliases=("to_hex",),
             node=exp.Hex),
    Function("bin", (CODED,), TEXT, _ALL, growth=(8, 0),
             aliases=("to_binary",), node=exp.ToBinary),
    Function("to_base", (WHOLE, count(2, 36), count(0, 64)), TEXT, _ALL, sql=_E, null=True, optional=1, growth=(0, 64),
             forms=("to_base(a, 2)", "to_base(a, 36, 20)")),
    _near("levenshtein", Image(low=0), LENGTH, exp.Levenshtein, aliases=("editdist3",), reads=("this", "expression")),
    _near("damerau_levenshtein", Image(low=0), LENGTH),
    _near("jaro_similarity", Image(0, 1), DOUBLE),
    _near("jaro_winkler_similarity", Image(0, 1), DOUBLE, exp.JarowinklerSimilarity, reads=("this", "expression")),
    _near("jaccard", Image(0, 1), DOUBLE, sql="jaccard(nullif({0}, ''), nullif({1}, ''))"),
    _near("hamming", Image(low=0), LENGTH, aliases=("mismatches",),
          sql="hamming(CASE WHEN {0} <> '' AND strlen({0}) = strlen({1}) THEN {0} END, {1})"),
    Function("strip_accents", (WORDS,), TEXT, _ALL, value=_ascii, growth=(2, 0)),
    Function("nfc_normalize", (WORDS,), TEXT, _ALL, value=_ascii, growth=(3, 0)),
    Function("url_encode", (WORDS,), TEXT, _ALL, value=_percent, growth=(3, 0)),
    Function("regexp_escape", (WORDS,), TEXT, _ALL, growth=(4, 0)),
    Function("parse_filename", (WORDS,), TEXT, _ALL),
    Function("parse_dirname", (WORDS,), TEXT, _ALL),
    Function("parse_dirpath", (WORDS,), TEXT, _ALL),
    Function("overlay", (WORDS, WORDS, POSITION, POSITION), TEXT, _ALL, optional=1, growth=(2, 0), node=exp.Overlay,
             reads=("this", "expression", "from_", "for_"),
             forms=("overlay(a PLACING 'xy' FROM 2 FOR 1)", "overlay(a PLACING b FROM 2)")),
    Function("format_bytes", (WHOLE,), TEXT, _ALL, aliases=("formatreadablesize",), growth=(0, 32)),
    Function("formatreadabledecimalsize", (WHOLE,), TEXT, _ALL, growth=(0, 32)),
    Function("bar", (NUMBER, END, END, count(1, 100)), TEXT, _ALL, optional=1, growth=(0, 400),
             sql=_E, forms=("bar(a, 0, 100, 20)", "bar(a, -5, 5)")),
)  # fmt: skip
