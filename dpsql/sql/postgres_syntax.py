"""PostgreSQL's SQL as the tree of the same query in DuckDB's: each difference is rewritten, or refused by name.

The parser reads both languages into one kind of tree, but not all that is written alike means the same. Types are not
known here, so a `/` between things that may be whole numbers stays marked (`typed`): below an aggregate the converter
knows the types, above it the finishing SQL refuses the mark. Two differences are by design: where PostgreSQL would
raise on some row, the answer is NULL, and names are found whatever their case.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import Error
from dpsql.sql.span import refuse

_WHOLE = {"TINYINT", "SMALLINT", "INT", "BIGINT"}
_REAL = {"DOUBLE", "DECIMAL"}


_KEPT = {"TO_CHAR", "TO_DATE", "TO_TIMESTAMP", "DIV", "TO_HEX"}
_MARK = "postgres_"


def keep(tokens: list[Token]) -> list[Token]:
    """Mark the calls that the parser would translate in its own way, so that it leaves them as they are written."""
    for name, bracket in pairwise(tokens):
        if bracket.token_type is TokenType.L_PAREN and name.text.upper() in _KEPT:
            name.text = f"{_MARK}{name.text.lower()}"
    return tokens


def in_duckdb(query: exp.Expr) -> exp.Expr:
    """The same query for DuckDB."""
    for limit in list(query.find_all(exp.Limit, exp.Fetch)):
        _limit(limit)
    aliases = _aliases(query)
    for node in reversed(list[exp.Expr](query.walk(bfs=True))):
        rule = _RULES.get(type(node))
        made = rule(node, aliases) if rule is not None else None
        if made is not None and made is not node:
            made.meta.update(node.meta)
            node.replace(made)
    return query


Aliases = dict[str, str | None]


def _aliases(query: exp.Expr) -> Aliases:
    """The kinds of the columns that the query itself names, where they are evident."""
    found: Aliases = {}
    for alias in query.find_all(exp.Alias):
        kind = _kind(alias.this, {})
        name = alias.alias.lower()
        found[name] = kind if found.get(name, kind) == kind else None
    return found


def _kind(node: exp.Expr | None, aliases: Aliases) -> str | None:
    """`whole` or `real` if the text alone determines it in PostgreSQL, otherwise None."""
    match node:
        case exp.Literal():
            return None if node.is_string else "real" if not node.name.isdigit() else "whole"
        case exp.Cast():
            name = _type_name(node)
            return "whole" if name in _WHOLE else "real" if name in _REAL else None
        case exp.Count() | exp.Length() | exp.StrPosition() | exp.DateDiff() | exp.CountIf():
            return "whole"
        case exp.Extract() | exp.Avg() | exp.Sqrt() | exp.Ln() | exp.Exp() | exp.Pow() | exp.Stddev() | exp.Variance():
            return "real"
        case exp.Column():
            return aliases.get(node.name.lower())
        case exp.Sum():
            return _sum_kind(node.this, aliases)
        case exp.Paren() | exp.Neg() | exp.Abs() | exp.Max() | exp.Min() | exp.Filter() | exp.Window():
            return _kind(node.this, aliases)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod() | exp.IntDiv() | exp.Nullif():
            return _mixed([node.this, node.expression], aliases)
        case exp.Coalesce() | exp.Greatest() | exp.Least():
            return _mixed([node.this, *node.expressions], aliases)
        case exp.Round() | exp.Trunc() if node.args.get("decimals") is not None:
            return "real"
        case exp.Round() | exp.Trunc() | exp.Floor() | exp.Ceil():
            return "real" if _kind(node.this, aliases) == "real" else None
        case exp.Case():
            results = [branch.args["true"] for branch in node.args["ifs"]]
            default = node.args.get("default")
            return _mixed([r for r in [*results, default] if r is not None and not isinstance(r, exp.Null)], aliases)
    return None


def _sum_kind(summed: exp.Expr, aliases: Aliases) -> str | None:
    """The sum of a bigint is a numeric, and how wide a column is cannot be seen here."""
    kind = _kind(summed, aliases)
    wide = any(
        isinstance(p, exp.Count) or (isinstance(p, exp.Cast) and _type_name(p) == "BIGINT") for p in summed.walk()
    )
    return kind if kind == "real" else "real" if wide else None if isinstance(summed.unnest(), exp.Column) else kind


def _type_name(cast: exp.Cast) -> str:
    """The target type of a cast; empty for an unknown type name."""
    return cast.to.this.name if isinstance(cast.to.this, exp.DataType.Type) else ""


def _mixed(parts: list[exp.Expr], aliases: Aliases) -> str | None:
    kinds = [_kind(part, aliases) for part in parts]
    return "real" if "real" in kinds else "whole" if set(kinds) == {"whole"} else None


def _limit(node: exp.Expr) -> None:
    """LIMIT ALL is dropped; FETCH FIRST n ROWS ONLY becomes LIMIT n."""
    if isinstance(node, exp.Limit) and node.expression.name.upper() in ("ALL", "NULL"):
        node.pop()
    if isinstance(node, exp.Fetch):
        options = node.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            raise _no("FETCH takes a number of rows", node, "FETCH FIRST 10 ROWS ONLY")
        node.replace(exp.Limit(expression=node.args.get("count") or exp.Literal.number(1)))


def _no(message: str, node: exp.Expr, instead: str) -> Error:
    return refuse(f"{message} (read as PostgreSQL)", node, hint=f"write {instead}", reason="dialect")


def _division(node: exp.Expr, aliases: Aliases) -> exp.Expr | None:
    kind = _mixed([node.this, node.expression], aliases)
    if kind == "whole":
        return exp.IntDiv(this=node.this, expression=node.expression)
    node.set("typed", kind is None)
    return None


def _round(node: exp.Expr, aliases: Aliases) -> exp.Expr | None:
    """Of a float, PostgreSQL's round goes half to even; of a numeric, half away from zero."""
    if node.args.get("decimals") is None and not _numeric(node.this, aliases):
        raise _no("round(x) depends on whether x is a float or a numeric", node, "round(x::numeric) or round(x, 0)")
    return None


def _numeric(node: exp.Expr, aliases: Aliases) -> bool:
    """Is it evidently exact in PostgreSQL?"""
    parts = [p for p in node.walk() if isinstance(p, exp.Cast | exp.Literal | exp.Column | exp.Func)]
    casts = [p for p in parts if isinstance(p, exp.Cast) and _type_name(p) in _REAL]
    return _kind(node, aliases) == "whole" or any(c.meta.get("numeric") for c in casts)


def _cast(node: exp.Expr, aliases: Aliases) -> exp.Expr | None:
    assert isinstance(node, exp.Cast)
    name, sizes = _type_name(node), node.to.expressions
    if name == "DECIMAL" and not sizes:
        node.set("to", exp.DataType.build("double"))
        node.meta["numeric"] = True
        return None
    if name in ("VARCHAR", "TEXT") and sizes:
        inner = exp.Cast(this=node.this, to=exp.DataType.build("text"))
        return exp.Left(this=inner, expression=exp.Literal.number(int(sizes[0].name)))
    if name in ("CHAR", "NCHAR", "BPCHAR"):
        raise _no("char(n) pads with blanks", node, "x::text or x::varchar(n)")
    if name == "FLOAT":
        raise _no("real has the precision of 32 bits", node, "x::double precision")
    if name == "INTERVAL" and isinstance(node.this, exp.Literal) and node.this.is_string:
        return exp.Interval(this=node.this)
    if name == "INTERVAL" and node.find(exp.Column) is None:
        return None
    if name in ("INTERVAL", "TIME", "TIMETZ"):
        raise _no(f"{name.lower()} is not a supported type", node, "date_part, date_trunc or + INTERVAL '1 day'")
    if name in _WHOLE and isinstance(node.this, exp.Cast) and node.this.meta.get("numeric"):
        node.set("this", exp.Round(this=node.this))
    if name in ("VARCHAR", "TEXT") and _kind(node.this, aliases) == "real":
        raise _no("PostgreSQL formats such numbers differently", node, "x::numeric(18, 2) :: text, or no cast")
    return None


def _like(node: exp.Expr, _: Aliases) -> exp.Expr | None:
    """A backslash escapes."""
    pattern = node.expression
    plain = isinstance(pattern, exp.Literal) and "\\" not in pattern.name
    if plain or isinstance(node.parent, exp.Escape):
        return None
    return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))


def _pattern(node: exp.Expr) -> str:
    pattern = node.expression
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        raise _no("a pattern must be a constant", node, "x ~ '^abc'")
    if re.search(r"\\[a-zA-Z]", re.sub(r"\\[dDwWsStnrf]", "", pattern.name.replace("\\\\", ""))):
        raise _no("this escape means something else there", pattern, r"\d, \w, \s or a set such as [0-9]")
    return pattern.name


def _matches(flags: str) -> Callable[[exp.Expr, Aliases], exp.Expr | None]:
    """`~` and `~*`: a dot matches a line's end too."""

    def rule(node: exp.Expr, _: Aliases) -> exp.Expr | None:
        if node.args.get("flag") is not None:
            return None
        pattern = exp.Literal.string(_pattern(node))
        return exp.RegexpLike(this=node.this, expression=pattern, flag=exp.Literal.string(flags))

    return rule


def _similar(node: exp.Expr, _: Aliases) -> exp.Expr | None:
    """SQL's own patterns: % and _ as in LIKE, the rest as in regular expressions."""
    pattern = node.expression
    if not isinstance(pattern, exp.Literal) or set(pattern.name) & set("\\[]"):
        raise _no("SIMILAR TO takes a constant pattern without \\ and []", node, "x ~ '^…$'")
    made = "".join({"%": ".*", "_": "."}.get(c) or (f"\\{c}" if c in ".^$" else c) for c in pattern.name)
    return exp.RegexpFullMatch(this=node.this, expression=exp.Literal.string(made), options=exp.Literal.string("s"))


_SIMPLE = re.compile(r"\^?(?:[^\\\[\](){}|*+?.^$]|\\[dDwWsS.]|\[[^\[\]\\]+\])+(?:[*+?]|\{\d+(?:,\d*)?\})?\$?")


def _replaced(node: exp.Expr, _: Aliases) -> exp.Expr | None:
    """PostgreSQL takes the longest match, DuckDB the first. They agree if only the last part of the pattern repeats."""
    flags = node.args.get("modifiers")
    if not _SIMPLE.fullmatch(_pattern(node)) or "\\" in node.text("replacement"):
        raise _no("this pattern may replace another part of the text there", node, "a set or a word, such as '[^0-9]+'")
    if flags is not None and not set(flags.name) <= {"g", "i"}:
        raise _no("regexp_replace takes the flags g and i", node, "regexp_replace(x, '[0-9]+', '', 'g')")
    return None


def _part(node: exp.Expr, _: Aliases) -> exp.Expr | None:
    """Seconds and milliseconds have their fraction."""
    scales = {"SECOND": "1000000.0", "SECONDS": "1000000.0", "MILLISECOND": "1000.0", "MILLISECONDS": "1000.0"}
    scale = scales.get(node.this.name.upper())
    if scale is None:
        return None
    whole = exp.Extract(this=exp.Var(this="MICROSECONDS"), expression=node.expression)
    return exp.Paren(this=exp.Div(this=whole, expression=exp.Literal.number(scale), typed=False, safe=False))


def _substring(node: exp.Expr, _: Aliases) -> exp.Expr | None:
    start = node.args.get("start")
    if not isinstance(start, exp.Literal) or start.is_string or int(start.name) < 1:
        raise _no("SUBSTRING needs a constant position of at least 1", node, "SUBSTRING(x FROM 1 FOR 3)")
    return None


def _pad(node: exp.Expr, _: Aliases) -> exp.Expr | None:
    if node.args.get("fill_pattern") is None:
        node.set("fill_pattern", exp.Literal.string(" "))
    return None


def _between(node: exp.Expr, _: Aliases) -> exp.Expr | None:
    if not node.args.get("symmetric"):
        return None
    it, low, high = node.this, node.args["low"], node.args["high"]
    one = exp.Between(this=it.copy(), low=low.copy(), high=high.copy())
    return exp.Paren(this=exp.Or(this=one, expression=exp.Between(this=it, low=high, high=low)))


def _any(node: exp.Expr, _: Aliases) -> exp.Expr | None:
    """X = ANY(ARRAY[…]) is x IN (…)."""
    other = node.expression
    if not isinstance(other, exp.Any):
        return None
    listed = other.this.unnest()
    if not isinstance(listed, exp.Array) or not listed.expressions:
        raise _no("ANY takes a list of constants", node, "x IN (1, 2)")
    return exp.In(this=node.this, expressions=listed.expressions)


def _is(node: exp.Expr, _: Aliases) -> exp.Expr | None:
    """IS NOT NULL."""
    if not node.args.get("negate"):
        return None
    return exp.Not(this=exp.Is(this=node.this, expression=node.expression))


def _text(node: exp.Expr, _: Aliases) -> exp.Expr | None:
    return exp.Literal.string(node.name)


def _without_public(node: exp.Expr, _: Aliases) -> exp.Expr | None:
    """Drop the schema `public` of a table or a column, which PostgreSQL searches by default."""
    if node.text("db").lower() == "public" and not node.text("catalog"):
        node.set("db", None)
    alias = node.args.get("alias")
    if isinstance(node.this, exp.GenerateSeries) and isinstance(alias, exp.TableAlias) and not alias.columns:
        alias.set("columns", [alias.this.copy()])  # the column of a function is called after it
    return None


_TOKENS = {
    "FMMONTH": "%B", "FMDAY": "%A", "FMMM": "%-m", "FMDD": "%-d", "FMHH24": "%-H", "FMHH12": "%-I", "YYYY": "%Y",
    "IYYY": "%G", "HH24": "%H", "HH12": "%I", "DDD": "%j", "YY": "%y", "MM": "%m", "DD": "%d", "MI": "%M", "SS": "%S",
    "US": "%f", "IW": "%V", "ID": "%u", "HH": "%I", "AM": "%p", "PM": "%p",
}  # fmt: skip
_NAMED = {"Mon": "%b", "Dy": "%a", "FMMonth": "%B", "FMDay": "%A"}
_PIECE = re.compile(
    r'"([^"]*)"|(FMMonth|FMDay|Mon|Dy|AM|PM)|(FMMM|FMDD|FMHH24|FMHH12|YYYY|IYYY|HH24|HH12|DDD|YY|MM|DD|MI|SS|US|IW|ID|HH)'
    r"|([-/.,:; ])",
    re.ASCII,
)


def _format(node: exp.Expr, written: exp.Expr) -> str:
    """A format of TO_CHAR as one of strftime."""
    text, made, place = written.name if isinstance(written, exp.Literal) else "", "", 0
    while place < len(text):
        found = _PIECE.match(text, place)
        if found is None:
            break
        quoted, named, token, sign = found.groups()
        made += (
            quoted.replace("%", "%%")
            if quoted is not None
            else _NAMED.get(named) or _TOKENS.get(named or token) or sign
        )
        place = found.end()
    if not text or place < len(text):
        raise _no(
            "this format is not supported",
            node,
            "one with YYYY, MM, DD, HH24, MI, SS, Mon, Dy, FMMonth, FMDay, IYYY or IW",
        )
    return made


def _moment(node: exp.Expr, text: str, written: exp.Expr, type_: str) -> exp.Expr:
    """A constant that TO_TIMESTAMP or TO_DATE reads; only a text that has exactly this format."""
    format_ = _format(node, written)
    try:
        moment = datetime.strptime(text, format_)
        exact = "%Y" in format_ and moment.strftime(format_) == text
    except ValueError:
        exact = False
    if not exact:
        raise _no(f"'{text}' does not have this format", node, "TIMESTAMP '2026-12-31 23:59:59'")
    value = moment.date().isoformat() if type_ == "date" else moment.isoformat(" ")
    return exp.Cast(this=exp.Literal.string(value), to=exp.DataType.build(type_))


def _translated(node: exp.Expr, _: Aliases) -> exp.Expr | None:
    raise _no("the name of this function must not be quoted", node, "to_char(x, 'YYYY-MM')")


def _call(node: exp.Expr, _: Aliases) -> exp.Expr | None:
    """A call of a function, by its name."""
    name, args = node.name.lower().removeprefix(_MARK), node.expressions
    if name == "to_char" and len(args) == 2:
        return exp.TimeToStr(this=args[0], format=exp.Literal.string(_format(node, args[1])))
    if name in ("to_date", "to_timestamp") and len(args) == 2:
        if isinstance(args[0], exp.Literal) and args[0].is_string:
            return _moment(node, args[0].name, args[1], "date" if name == "to_date" else "timestamp")
        if name == "to_date" and args[1].name == "YYYY-MM-DD":
            return exp.Cast(this=args[0], to=exp.DataType.build("date"))
        raise _no(f"{name.upper()} with a format is more lenient there", node, "x::date or x::timestamp")
    if name == "to_timestamp" and len(args) == 1:
        return exp.UnixToTime(this=args[0])
    if name == "to_hex" and len(args) == 1:
        return exp.Lower(this=exp.Hex(this=args[0]))
    if name == "octet_length" and len(args) == 1:
        return exp.Anonymous(this="strlen", expressions=args)
    if name in _UNLIKE or name.upper() in _KEPT:
        raise _no(f"{name.upper()} means something else there", node, _UNLIKE.get(name, "it without a format"))
    return None


_UNLIKE = {
    "regexp_matches": "x ~ 'pattern'", "regexp_match": "x ~ 'pattern'", "div": "a / b for whole numbers",
    "age": "EXTRACT(YEAR FROM x)", "date_diff": "a - b for dates", "hash": "md5(x)", "format_bytes": "x / 1024",
    "strlen": "octet_length(x)", "epoch_ms": "EXTRACT(EPOCH FROM x)", "bar": "x", "printf": "x || y",
}  # fmt: skip

_RULES: dict[type[exp.Expr], Callable[[exp.Expr, Aliases], exp.Expr | None]] = {
    exp.Div: _division, exp.Round: _round, exp.Cast: _cast, exp.Like: _like, exp.ILike: _like,
    exp.RegexpLike: _matches("s"), exp.RegexpILike: _matches("is"), exp.SimilarTo: _similar,
    exp.RegexpReplace: _replaced, exp.Extract: _part, exp.Substring: _substring, exp.Pad: _pad, exp.Between: _between,
    exp.EQ: _any, exp.Is: _is, exp.ByteString: _text, exp.RawString: _text,
    exp.Table: _without_public, exp.Column: _without_public, exp.Anonymous: _call,
    **dict.fromkeys((exp.TimeToStr, exp.StrToTime, exp.StrToDate, exp.ToChar, exp.ToNumber), _translated),
}  # fmt: skip
