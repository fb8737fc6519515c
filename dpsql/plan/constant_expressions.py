"""Constant expressions where a constant must stand: `IN (1999, 1999 + 1)`, `LIMIT 5 + 5`, `INTERVAL '1 day 2 hours'`.

They are computed by the sealed database, so that they mean what DuckDB means, and are put back as literals before
anything is planned: in lists, limits, intervals and arguments, and wherever the clock is read. Elsewhere bounds
inference computes with them, and the plan keeps them as they are written, so that what was paid for is still known.

**Theorem.** A query and the one with its constants computed have the same meaning. **Proof.** What is computed has no
column, no subquery and only functions of the table, which are deterministic; the literal has the value and the type
that DuckDB gave. What has no value, or fails, stays as it is. **Requires** that GROUP BY and ORDER BY items stay, where
a number is a position. **Checked by** `tests/unit/plan/test_constant_expressions.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot import exp, parse_one

from dpsql.errors import Error
from dpsql.expressions.functions.table import find
from dpsql.plan.builder.clauses import keep_title
from dpsql.plan.clock import CLOCK
from dpsql.plan.finishing import check_finishing

Evaluate = Callable[[Sequence[exp.Expr]], Sequence[tuple[str, str] | None]]
"""The type and the text of each constant; None where it has no value."""

LONGEST = 1_000
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Pow, exp.Neg, exp.Paren, exp.DPipe)
_PLAIN = (exp.Literal, exp.Boolean, exp.Null, exp.Var, exp.DataType, exp.DataTypeParam, exp.Identifier)
_POSITIONS = (exp.Group, exp.Ordered, exp.Tuple, exp.Cube, exp.Rollup, exp.GroupingSets, exp.Paren)
_WHOLE = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT"}
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d{1,6})?)?")
_MONTHS = "datepart('year', {0}) * 12 + datepart('month', {0})"
_MICROS = "(datepart('hour', {0}) * 60 + datepart('minute', {0})) * 60000000 + datepart('microsecond', {0})"
_INTERVAL = f"concat({_MONTHS}, ' months ', datepart('day', {{0}}), ' days ', {_MICROS}, ' microseconds')"


def compute_constants(query: exp.Query, evaluate: Evaluate) -> exp.Query:
    """The query with a literal in the place of each constant expression that has to be one."""
    wanted = [node for node in _outermost(query) if _must_be_literal(node) and _allowed(node)]
    if not wanted:
        return query
    for node, value in zip(wanted, evaluate(wanted), strict=True):
        made = None if value is None else _interval(node, evaluate) if value[0] == "INTERVAL" else literal_of(*value)
        if made is not None:
            keep_title(node)
            made.meta.update(node.meta)
            node.replace(made)
    return query


def _outermost(query: exp.Expr) -> list[exp.Expr]:
    """The largest constant expressions that are more than a literal."""
    found, constant = [], dict[int, bool]()
    for node in reversed(list[exp.Expr](query.walk(bfs=True))):
        constant[id(node)] = _is_constant(node) and all(constant[id(child)] for child in node.iter_expressions())
    for node in query.walk(bfs=True):
        above = node.parent
        if constant[id(node)] and (above is None or not constant[id(above)]) and not _is_plain(node):
            found.append(node)
    return found


def _is_constant(node: exp.Expr) -> bool:
    """May it stand in a constant expression?"""
    if isinstance(node, (*_PLAIN, *_ARITHMETIC, exp.Interval)) or type(node) in (exp.Cast, exp.TryCast):
        return True
    return isinstance(node, exp.Func) and not isinstance(node, exp.Connector | exp.AggFunc) and find(node) is not None


def _is_plain(node: exp.Expr) -> bool:
    """A literal already, also a negative or a typed one, or an interval of a whole number of one unit."""
    if isinstance(node, exp.Interval):
        amount = node.this.this if isinstance(node.this, exp.Neg) else node.this
        words = f"{amount.name} {node.text('unit')}".split() if isinstance(amount, exp.Literal) else []
        return len(words) == 2 and words[0].lstrip("-").isdigit()
    if isinstance(node, exp.Neg | exp.Paren) or type(node) in (exp.Cast, exp.TryCast):
        return _is_plain(node.this)
    return isinstance(node, _PLAIN)


def _must_be_literal(node: exp.Expr) -> bool:
    above = node.parent
    while isinstance(above, exp.Paren):
        above = above.parent
    if isinstance(above, _POSITIONS) or above is None:
        return False
    if any(part.meta.get(CLOCK) or isinstance(part, exp.Interval) for part in node.walk()):
        return True
    called = isinstance(above, exp.Func) and not isinstance(above, exp.Connector | exp.Cast | exp.Case | exp.If)
    listed = isinstance(above, exp.In) and node is not above.this
    return called or listed or isinstance(above, exp.Limit | exp.Offset | exp.Interval)


def is_constant(node: exp.Expr) -> bool:
    """A literal, or an expression of literals that the sealed database may compute."""
    return all(map(_is_constant, node.walk())) and _allowed(node)


def _interval(node: exp.Expr, evaluate: Evaluate) -> exp.Expr | None:
    """An interval in months, days and microseconds."""
    [parts] = evaluate([parse_one(_INTERVAL.format(f"({node.sql('duckdb')})"), dialect="duckdb")])
    return None if parts is None else exp.Interval(this=exp.Literal.string(parts[1]))


def literal_of(type_: str, text: str) -> exp.Expr | None:
    """The value as DuckDB would read it; None for what is too long, infinite or of another type."""
    if type_ == "VARCHAR":
        return exp.Literal.string(text) if len(text) <= LONGEST else None
    if type_ in ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"):
        text = text.removesuffix("+00")
        name = "date" if type_ == "DATE" else "timestamp"
        made = exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build(name))
        return made if _MOMENT.fullmatch(text) else None
    if type_ == "DOUBLE" and re.fullmatch(r"-?[\d.]+(?:e[-+]?\d+)?", text):
        return _number(text if "e" in text else f"{text}e0")
    if type_ in _WHOLE:
        natural = "INTEGER" if -(2**31) < int(text) < 2**31 else "BIGINT"
        return _number(text) if type_ == natural else exp.Cast(this=_number(text), to=exp.DataType.build(type_))
    if type_.startswith("DECIMAL"):
        return exp.Cast(this=_number(text), to=exp.DataType.build(type_, dialect="duckdb"))
    return None


def _number(text: str) -> exp.Expr:
    made = exp.Literal(this=text.lstrip("-"), is_string=False)
    return exp.Paren(this=exp.Neg(this=made)) if text.startswith("-") else made


def _allowed(node: exp.Expr) -> bool:
    """May the sealed database compute it?"""
    try:
        check_finishing(node, ())
    except Error:
        return False
    return True
