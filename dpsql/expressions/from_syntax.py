"""Syntax tree to expression: the allow-list of what may be computed below an aggregate.

What has no entry here is refused, so every expression is deterministic, has bounds rules and a total form.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol

from sqlglot import exp

from dpsql.errors import Error, ParseError, UnsupportedQuery
from dpsql.expressions.expression import Call, Column, Expression, Literal
from dpsql.expressions.functions.function import TEMPORAL, Function
from dpsql.expressions.functions.mathematics import compute
from dpsql.expressions.functions.table import FUNCTIONS, find
from dpsql.expressions.types import BOOLEAN, INTERVAL, TIMESTAMP, Kind
from dpsql.expressions.typing import Mismatch, call, case, cast, common, literal, read_date, require, target
from dpsql.sql.span import name_of, refuse, span_of

__all__ = ["Resolver", "case", "convert", "one_query", "written_out", "written_too_large"]


class Resolver(Protocol):
    """Finds the column that a name means here."""

    def column(self, node: exp.Column) -> Expression:
        """The expression that the name refers to; raises ParseError if there is none."""


MOST_PARTS = 20_000
MOST_NESTED = 2_000
DEEPEST = 100
_EXACT = (Kind.INTEGER, Kind.DECIMAL)
_size: ContextVar[Size | None] = ContextVar("size", default=None)


@dataclass(slots=True)
class Size:
    """How much one query is converted to: aliases, CASE and BETWEEN repeat what they name, and that multiplies."""

    parts: int = 0
    calls: dict[int, tuple[Expression, int, int]] = field(default_factory=dict)

    def nested(self, made: Expression) -> tuple[int, int]:
        """The calls in an expression as a tree, and how deep it is; each part is kept, so that its identity stays."""
        if id(made) not in self.calls:
            below = [self.nested(child) for child in made.children]
            deep = max((depth for _, depth in below), default=0)
            self.calls[id(made)] = made, isinstance(made, Call) + sum(calls for calls, _ in below), deep + 1
        return self.calls[id(made)][1:]


@contextmanager
def one_query() -> Iterator[None]:
    """Limit what is converted inside, so that a short text cannot occupy the planner for long."""
    before = _size.set(Size())
    try:
        yield
    finally:
        _size.reset(before)


def _limited(node: exp.Expr, made: Expression) -> Expression:
    size = _size.get()
    if size is not None:
        size.parts += 1
        calls, deep = size.nested(made)
        if deep > DEEPEST:
            raise refuse(
                f"an expression may be nested {DEEPEST} levels deep",
                node,
                hint="a long chain of + or OR is nested, too: write IN (…) or a CASE, or compute parts in a subquery",
                reason="size",
            )
        if size.parts > MOST_PARTS or calls > MOST_NESTED:
            raise written_too_large(node)
    return made


def written_out(node: exp.Expr, meant: exp.Expr) -> None:
    """Count an alias above the aggregate for what is written in its place: aliases of aliases multiply there, too."""
    size = _size.get()
    if size is not None:
        size.parts += sum(1 for _ in meant.walk())
        if size.parts > MOST_PARTS:
            raise written_too_large(node)


def written_too_large(node: exp.Expr | None) -> Error:
    """The refusal of a query that is too large after its names are expanded."""
    return refuse(
        "the query is too large once its aliases, CASEs and BETWEENs are expanded",
        node,
        hint="compute repeated parts once, in a subquery, and ask for fewer values and aggregates at a time",
        reason="size",
    )


def convert(node: exp.Expr, scope: Resolver) -> Expression:
    """The typed expression of a scalar syntax tree."""
    rule = _RULES.get(type(node), _function)
    if not _read(node):
        raise _unknown(node)
    try:
        made = rule(node, lambda child: convert(child, scope), scope)
    except (KeyError, AttributeError):
        raise refuse(
            "this call has too few arguments", node, kind=ParseError, hint="see `dpsql functions`", reason="function"
        ) from None
    except Mismatch as problem:
        raise refuse(
            str(problem), node, hint="cast one side, or compare values of one kind", kind=ParseError, reason="types"
        ) from None
    return _limited(node, made if made.span is not None else _with_span(made, node))


def _with_span(made: Expression, node: exp.Expr) -> Expression:
    span = span_of(node)
    match made:
        case Call():
            return Call(made.type, op=made.op, args=made.args, option=made.option, span=span)
        case Literal():
            return Literal(made.type, value=made.value, span=span)
        case Column():
            return Column(made.type, name=made.name, span=span)
    return made


_READ: dict[type[exp.Expr], set[str]] = {
    exp.Literal: {"this", "is_string"}, exp.Boolean: {"this"}, exp.Null: set(), exp.Paren: {"this"},
    exp.Add: {"this", "expression"}, exp.Sub: {"this", "expression"}, exp.DateAdd: {"this", "expression"},
    exp.DateSub: {"this", "expression"}, exp.In: {"this", "expressions", "query"}, exp.Is: {"this", "expression"},
    exp.Like: {"this", "expression", "negate"}, exp.ILike: {"this", "expression", "negate"},
    exp.Escape: {"this", "expression"}, exp.Case: {"this", "ifs", "default"}, exp.Cast: {"this", "to"},
    exp.TryCast: {"this", "to", "safe"}, exp.Div: {"this", "expression", "typed", "safe"},
}  # fmt: skip


def _read(node: exp.Expr) -> bool:
    """Does the rule read all that the parser found? An argument that it would overlook changes the meaning."""
    read = _READ.get(type(node))
    return read is None or {k for k, v in node.args.items() if v} <= read


_VOLATILE = (
    exp.Rand,
    exp.Uuid,
    exp.CurrentTimestamp,
    exp.CurrentTime,
    exp.CurrentDate,
    exp.Localtimestamp,
    exp.Localtime,
)


_INSTEAD = {
    "age": "date_diff('year', x, DATE '2026-01-01')",
    "to_char": "strftime(x, '%Y-%m'), or parse in the other dialect: dialect='postgres'",
    "initcap": "upper(left(x, 1)) || lower(substring(x, 2))",
    "octet_length": "strlen(x)",
    "iff": "if(a, b, c)",
}


def _unknown(node: exp.Expr) -> UnsupportedQuery | ParseError:
    name = f"the function {name_of(node)}" if isinstance(node, exp.Func) else name_of(node)
    if isinstance(node, exp.Placeholder | exp.Parameter):
        return refuse(  # type: ignore[return-value]
            "a parameter is not allowed here", node, hint="write the value itself: WHERE amount > 100", reason="clause"
        )
    if isinstance(node, exp.Subquery | exp.Select | exp.Exists):
        return refuse(  # type: ignore[return-value]
            "a subquery is not supported inside an expression over private rows",
            node,
            hint="use EXISTS, IN and scalar subqueries in WHERE, SELECT, GROUP BY or an aggregate",
            reason="subquery",
        )
    if isinstance(node, exp.Window):
        return refuse(  # type: ignore[return-value]
            "a window function below the aggregate is not supported: it could mix rows of different people",
            node,
            hint="use it above the aggregate: SELECT key, sum(count(*)) OVER () FROM … GROUP BY key",
            reason="window",
        )
    if isinstance(node, exp.AggFunc):
        return refuse(
            f"the aggregate {name_of(node)} is not allowed here",
            node,  # type: ignore[return-value]
            hint="use aggregates in SELECT, HAVING or ORDER BY; filter groups with HAVING",
            reason="aggregate",
        )
    if isinstance(node, _VOLATILE) or (isinstance(node, exp.Anonymous) and node.name.lower() in ("now", "random")):
        return refuse(
            f"{name} returns a different value each time", node, hint="write the value as a constant", reason="volatile"
        )  # type: ignore[return-value]
    instead = _INSTEAD.get(name_of(node).lower())
    return refuse(  # type: ignore[return-value]
        f"{name} cannot be used on private rows",
        node,
        hint=f"write {instead}"
        if instead is not None
        else "`dpsql functions` lists what is allowed below an aggregate; above it nearly all functions of DuckDB are",
        reason="function",
    )


Convert = Callable[[exp.Expr], Expression]
Rule = Callable[[exp.Expr, Convert, Resolver], Expression]


def _function(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    """A function or an operator of the table."""
    found = find(node)
    if found is None:
        raise _unknown(node)
    function, parts = found
    return function.made([_argument(part, convert, function, place) for place, part in enumerate(parts)])


def _argument(part: exp.Expr, convert: Convert, function: Function, place: int) -> Expression:
    """An operand; a keyword such as MONTH becomes its text, and an interval its three numbers."""
    if isinstance(part, exp.Var):
        return literal(part.name)
    if isinstance(part, exp.Interval) and place < len(function.takes) and Kind.INTERVAL in function.takes[place].kinds:
        return Literal(INTERVAL, value=" ".join(map(str, _interval(part))))
    return convert(part)


def _column(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    assert isinstance(node, exp.Column)
    return scope.column(node)


def _literal(node: exp.Expr, _: Convert, __: Resolver) -> Expression:
    text = node.name
    if node.args.get("is_string"):
        return literal(text)
    try:
        value = float(text) if "e" in text.lower() else Decimal(text) if "." in text else int(text)
    except (ValueError, ArithmeticError):
        raise Mismatch(f"{text} is not a number") from None
    if isinstance(value, float) and math.isinf(value):
        raise Mismatch(f"{text} is beyond the largest number, which is about 1.8e308")
    return literal(value)


def _sum(sign: int) -> Rule:
    """`+` and `-`, also of an interval."""

    def rule(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
        if isinstance(node.expression, exp.Interval):
            return _shift(node, convert, sign)
        return compute("add" if sign > 0 else "sub")((convert(node.this), convert(node.expression)))

    return rule


_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12, "DECADE": 120}
_MICROS = {"MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6}


def _interval(node: exp.Interval) -> tuple[int, int, int]:
    """Months, days and microseconds of an INTERVAL constant, such as '1 month 2 days'."""
    amount = node.this
    sign = -1 if isinstance(amount, exp.Neg) else 1
    amount = amount.this if isinstance(amount, exp.Neg) else amount
    unit = node.args.get("unit")
    words = f"{amount.name if isinstance(amount, exp.Literal) else '?'} {unit.name if unit is not None else ''}".split()
    if not words or len(words) % 2 or not all(re.fullmatch("-?[0-9]+", number) for number in words[::2]):
        raise Mismatch("an interval is a whole number and a unit, such as INTERVAL 3 MONTH")
    months = days = micros = 0
    for number, word in zip(words[::2], words[1::2], strict=True):
        count, name = sign * int(number), word.upper().rstrip("S")
        if abs(count) > (10**16 if name == "MICROSECOND" else 10**6):
            raise Mismatch("an interval of more than a thousand years")
        months += count * _MONTHS.get(name, 0)
        days += count * {"DAY": 1, "WEEK": 7}.get(name, 0)
        micros += count * _MICROS.get(name, 0)
        if name not in ("DAY", "WEEK", *_MONTHS, *_MICROS):
            raise Mismatch(f"the unit {name} is not known; use year, month, week, day, hour, minute or second")
    return months, days, micros


def _shift(node: exp.Expr, convert: Convert, sign: int) -> Expression:
    if not isinstance(node.expression, exp.Interval):
        raise Mismatch("this takes a date and an interval, such as date_add(x, INTERVAL 3 DAY)")
    moment = require(read_date(convert(node.this)), *TEMPORAL, what="interval arithmetic")
    months, days, micros = (sign * part for part in _interval(node.expression))
    if abs(months) > 12_000 or abs(days) > 400_000 or abs(micros) > 10**16:
        raise Mismatch("an interval of more than a thousand years")
    return call("shift", TIMESTAMP, moment, option=(months, days, micros))


def _division(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    """PostgreSQL's `/` (the parser marks it) of two whole numbers is whole."""
    one, two = convert(node.this), convert(node.expression)
    whole = node.args.get("typed") and one.type.kind is two.type.kind is Kind.INTEGER
    return compute("idiv" if whole else "div")((one, two))


def _in(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    if node.args.get("query") is not None or not node.expressions:
        hint = "IN with a subquery stands in WHERE, alone or joined by AND: WHERE … AND x IN (SELECT …)"
        raise refuse(
            "IN with a subquery is not supported inside an expression over private rows",
            node,
            hint=hint,
            reason="subquery",
        )
    _, sides = common([convert(node.this), *(_listed(convert(each)) for each in node.expressions)])
    if not all(isinstance(side, Literal) for side in sides[1:]):
        raise Mismatch("IN takes a list of constants")
    return call("in", BOOLEAN, *sides)


def _listed(it: Expression) -> Expression:
    """A number that is cast to an exact type which holds it is a constant."""
    match it:
        case Call(op="cast", type=to, args=(Literal(value=int() | Decimal() as value, type=was),)) if (
            to.kind in _EXACT and was.numeric
        ):
            steps = Decimal(value).scaleb(to.scale)
            if steps == steps.to_integral_value() and to.lower <= steps <= to.upper:
                return Literal(to, value=value, span=it.span)
    return it


def _is(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    it, other = convert(node.this), node.expression
    if isinstance(other, exp.Null):
        return call("is_null", BOOLEAN, it)
    if isinstance(other, exp.Boolean):
        return call("is_not_distinct", BOOLEAN, require(it, Kind.BOOLEAN, what="IS TRUE"), literal(bool(other.this)))
    raise Mismatch("IS takes NULL, TRUE or FALSE")


def _like(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    made = FUNCTIONS[node.key].made((convert(node.this), convert(node.expression)))
    return call("not", BOOLEAN, made) if node.args.get("negate") else made


def _escape(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    """… LIKE … ESCAPE …"""
    inner = node.this
    if not isinstance(inner, exp.Like | exp.ILike) or not _read(inner):
        raise Mismatch("ESCAPE must follow LIKE or ILIKE")
    name = f"{'not_' if inner.args.get('negate') else ''}{inner.key}_escape"
    return FUNCTIONS[name].made([convert(part) for part in (inner.this, inner.expression, node.expression)])


def _case(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    conditions, results = [], []
    for branch in node.args["ifs"]:
        test = branch.this if node.this is None else exp.EQ(this=node.this.copy(), expression=branch.this.copy())
        conditions.append(require(convert(test), Kind.BOOLEAN, what="CASE WHEN"))
        results.append(convert(branch.args["true"]))
    default = node.args.get("default")
    results.append(convert(default) if default is not None else literal(None))
    return case(conditions, results)


def _cast(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    return cast(convert(node.this), target(node.args["to"]))


def _paren(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    return convert(node.this)


_RULES: dict[type[exp.Expr], Rule] = {
    exp.Column: _column, exp.Literal: _literal, exp.Boolean: lambda node, *_: literal(bool(node.this)),
    exp.Null: lambda *_: literal(None), exp.Paren: _paren, exp.Add: _sum(1), exp.Sub: _sum(-1), exp.Div: _division,
    exp.DateAdd: lambda node, convert, _: _shift(node, convert, 1),
    exp.DateSub: lambda node, convert, _: _shift(node, convert, -1),
    exp.In: _in, exp.Is: _is, exp.Like: _like, exp.ILike: _like, exp.Escape: _escape, exp.Case: _case,
    exp.Cast: _cast, exp.TryCast: _cast,
}  # fmt: skip
"""What only the grammar has; all else is looked up in the table."""
