"""Text functions of PostgreSQL, by characters as DuckDB counts them. What can make a text longer is limited.

**Theorem.** No rule here raises, and none gives a text of more than `LONGEST` bytes unless a stored one is longer.
**Proof.** PostgreSQL's text functions used here are total over texts (positions and patterns are constants of the
query, checked at planning). Each part of what is joined has at most its share of the bytes, else it is NULL; a
replacement at most doubles the share of its pattern.
**Requires** stored texts cut at `STORED` bytes where they are read (`dpsql.engines.postgres.dialect`), a database in
UTF-8, and patterns that are constants.
**Checked by** `tests/engines/test_postgres_total.py`.
"""

from __future__ import annotations

from dpsql.engines.postgres.syntax import called, cast, text
from dpsql.engines.sql.case_mapping import SEPARATORS
from dpsql.engines.sql.expression_rules import Emit, Rule
from dpsql.engines.sql.sql_types import physical
from dpsql.expressions.expression import Call, Expression, Literal
from dpsql.expressions.types import Kind

LONGEST = 2**18
"""The most bytes that a function which lengthens a text gives; a part that is too long becomes NULL."""


def _short(value: str, most: int) -> str:
    return called("short", value, str(most))


def _joined(call: Call, emit: Emit) -> str:
    parts = _leaves(call)
    share = LONGEST // (len(parts) * (2 if call.op == "concat_ws" else 1))
    made = [_short(emit(part, "VARCHAR"), share) for part in parts]
    return f"({' || '.join(made)})" if call.op == "join" else f"{call.op}({', '.join(made)})"


def _leaves(call: Call) -> list[Expression]:
    """The parts of a || b || c, so that each gets its share."""
    if call.op != "join":
        return list(call.args)
    return [leaf for a in call.args for leaf in (_leaves(a) if isinstance(a, Call) and a.op == "join" else [a])]


def _replaced(call: Call, emit: Emit) -> str:
    """Every byte of the text may become one replacement."""
    it, old, new = (emit(a, "VARCHAR") for a in call.args)
    written = call.args[2]
    longest = len(written.value.encode()) if isinstance(written, Literal) and isinstance(written.value, str) else 512
    return f"replace({_short(it, LONGEST // max(longest, 1))}, {old}, {_short(new, max(longest, 128))})"


def _like(call: Call, emit: Emit) -> str:
    """A backslash is an ordinary character."""
    it, pattern = (emit(a, "VARCHAR") for a in call.args)
    if call.op == "ilike":
        it, pattern = called("lower", it), called("lower", pattern)
    return f"({it} LIKE {pattern} ESCAPE '')"


def _like_escape(call: Call, emit: Emit) -> str:
    it, pattern, sign = (emit(a, "VARCHAR") for a in call.args)
    return f"({it} {'NOT ' if call.op.startswith('not_') else ''}LIKE {pattern} ESCAPE {sign})"


def _trim(name: str) -> Rule:
    def rule(call: Call, emit: Emit) -> str:
        letters = emit(call.args[1], "VARCHAR") if len(call.args) > 1 else text(SEPARATORS)
        return f"{name}({emit(call.args[0], 'VARCHAR')}, {letters})"

    return rule


def _end(name: str) -> Rule:
    return lambda call, emit: f"{name}({emit(call.args[0], 'VARCHAR')}, {call.option})"


def _substring(call: Call, emit: Emit) -> str:
    """A position below zero counts from the end."""
    it, (start, *rest) = emit(call.args[0], "VARCHAR"), _positions(call)
    if start < 0:
        return f"substr({it}, length({it}) - {-start - 1}, {rest[0]})" if rest else f"right({it}, {-start})"
    return f"substr({it}, {', '.join(map(str, (start, *rest)))})"


def _positions(call: Call) -> list[int]:
    return [int(str(place)) for place in call.option] if isinstance(call.option, tuple) else []


def _plain(form: str, *handed: str) -> Rule:
    """A total form over texts, whole numbers in the types that are named."""

    def rule(call: Call, emit: Emit) -> str:
        types = [*handed, *["VARCHAR"] * len(call.args)]
        made = form.format(*(emit(a, t) for a, t in zip(call.args, types, strict=False)))
        return cast(made, physical(call.type)) if call.type.kind is Kind.INTEGER else made

    return rule


def _lengthening(form: str, factor: int, *handed: str) -> Rule:
    """The same over a first text that is limited."""

    def rule(call: Call, emit: Emit) -> str:
        types = [*handed, *["VARCHAR"] * len(call.args)]
        first, *rest = (emit(a, t) for a, t in zip(call.args, types, strict=False))
        return form.format(_short(first, LONGEST // factor), *rest)

    return rule


def _constant(expression: Expression) -> object:
    return expression.value if isinstance(expression, Literal) else None


def has_form(call: Call) -> bool:
    """Whether the constants of a call are among those that PostgreSQL reads as DuckDB does."""
    match call.op:
        case "substring":
            return all(length >= 0 for length in _positions(call)[1:])
        case "split_part":
            return bool(_constant(call.args[1])) and _constant(call.args[2]) != 0
    return True


_CHARACTER = "CASE WHEN {0} BETWEEN 1 AND 55295 OR {0} BETWEEN 57344 AND 1114111 THEN CAST({0} AS integer) END"
RULES: dict[str, Rule] = {
    **dict.fromkeys(("join", "concat", "concat_ws"), _joined), "replace": _replaced,
    "like": _like, "ilike": _like, **dict.fromkeys(("like_escape", "not_like_escape"), _like_escape),
    "trim": _trim("btrim"), "ltrim": _trim("ltrim"), "rtrim": _trim("rtrim"),
    "left": _end("left"), "right": _end("right"), "substring": _substring,
    "lower": _plain(called("lower", "{0}")), "upper": _plain(called("upper", "{0}")),
    "length": _plain("length({0})"), "strlen": _plain("octet_length({0})"),
    "bit_length": _plain("(CAST(octet_length({0}) AS bigint) * 8)"), "strpos": _plain("strpos({0}, {1})"),
    "contains": _plain("(strpos({0}, {1}) > 0)"), "starts_with": _plain("(left({0}, length({1})) = {1})"),
    "ends_with": _plain("(right({0}, length({1})) = {1})"),
    "translate": _lengthening("translate({0}, {1}, {2})", 4),
    "lpad": _plain("lpad({0}, {1}, {2})", "VARCHAR", "INTEGER"),
    "rpad": _plain("rpad({0}, {1}, {2})", "VARCHAR", "INTEGER"),
    "repeat": _plain("repeat({0}, {1})", "VARCHAR", "INTEGER"),
    "split_part": _plain("split_part({0}, {1}, {2})", "VARCHAR", "VARCHAR", "INTEGER"),
    "ascii": _plain("ascii({0})"), "unicode": _plain("CASE WHEN {0} = '' THEN -1 ELSE ascii({0}) END"),
    "ord": _plain("CASE WHEN {0} = '' THEN -1 ELSE ascii({0}) END"),
    "chr": _plain(f'(chr({_CHARACTER}) COLLATE "C")', "BIGINT"),
    "md5": _plain('(md5({0}) COLLATE "C")'),
    "sha256": _plain("(encode(sha256(convert_to({0}, 'UTF8')), 'hex') COLLATE \"C\")"),
}  # fmt: skip
