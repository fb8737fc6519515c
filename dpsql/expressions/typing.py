"""Types of expressions: constants, arithmetic, common types and casts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal

from sqlglot import exp

from dpsql.expressions.expression import Call, Expression, Literal, Value
from dpsql.expressions.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INT64,
    INT128,
    NULL,
    TEXT,
    TIMESTAMP,
    Kind,
    Type,
    decimal,
    integer,
)


class Mismatch(Exception):
    """Operands of the wrong types; the message says why, in the analyst's terms."""


def literal(value: Value) -> Literal:
    """A constant with its type."""
    match value:
        case None:
            return Literal(NULL, value=None)
        case bool():
            return Literal(BOOLEAN, value=value)
        case int():
            return Literal(integer(value, value), value=value)
        case Decimal():
            scale = max(0, -int(value.as_tuple().exponent))
            unscaled = int(value.scaleb(scale))
            return Literal(decimal(unscaled, unscaled, scale), value=value if scale else int(value))
        case float():
            return Literal(DOUBLE, value=value)
        case str():
            return Literal(TEXT, value=value)
        case datetime():
            return Literal(TIMESTAMP, value=value)
        case date():
            return Literal(DATE, value=value)
    raise Mismatch(f"a constant of type {type(value).__name__} cannot be used")


def arithmetic(op: str, one: Expression, two: Expression) -> Type:
    """The type of `+ - * / // %` over numbers, in a width that no data can leave."""
    for operand in (one, two):
        if not operand.type.numeric and operand.type.kind is not Kind.NULL:
            raise Mismatch(f"{operand} is {operand.type}, not a number")
    a, b = one.type, two.type
    if NULL in (a, b):
        return DOUBLE
    if op == "div" or DOUBLE in (a, b):
        return DOUBLE
    scale = max(a.scale, b.scale)
    if op == "mul":
        corners = [x * y for x in (a.lower, a.upper) for y in (b.lower, b.upper)]
        return decimal(min(corners), max(corners), a.scale + b.scale)
    al, au = (x * 10 ** (scale - a.scale) for x in (a.lower, a.upper))
    bl, bu = (x * 10 ** (scale - b.scale) for x in (b.lower, b.upper))
    if op == "add":
        return decimal(al + bl, au + bu, scale)
    if op == "sub":
        return decimal(al - bu, au - bl, scale)
    if op == "mod":
        reach = min(max(-al, au, 0), max(-bl, bu, 0))
        if scale and max(-al, au, -bl, bu) >= 10**38:
            return DOUBLE
        return decimal(-reach if al < 0 else 0, reach, scale)
    return DOUBLE if scale else integer(*quotients((al, au), (bl, bu)))


def quotients(dividend: tuple[int, int], divisor: tuple[int, int]) -> tuple[int, int]:
    """The ends of a // b (toward zero) over two ranges; b = 0 gives NULL and does not count."""
    corners = {b for b in (*divisor, -1, 1) if b and divisor[0] <= b <= divisor[1]}
    ends = [0] + [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a in dividend for b in corners]
    return min(ends), max(ends)


def common(expressions: Sequence[Expression]) -> tuple[Type, tuple[Expression, ...]]:
    """One type for branches or sides of a comparison; text constants compared with dates are read as dates."""
    types = [e.type for e in expressions if e.type != NULL]
    if not types:
        return NULL, tuple(expressions)
    temporal = next((t for t in types if t.temporal), None)
    if temporal is not None:
        expressions = tuple(read_date(e) for e in expressions)
        types = [e.type for e in expressions if e.type != NULL]
        if all(t.temporal for t in types):
            return (TIMESTAMP if TIMESTAMP in types else DATE), tuple(expressions)
    if all(t.numeric for t in types):
        return _widest(types), tuple(expressions)
    if len({t.kind for t in types}) == 1:
        return types[0], tuple(expressions)
    names = " and ".join(dict.fromkeys(str(t) for t in types))
    raise Mismatch(f"{names} cannot be compared or mixed")


def _widest(types: Sequence[Type]) -> Type:
    if DOUBLE in types:
        return DOUBLE
    scale = max(t.scale for t in types)
    lower = min(t.lower * 10 ** (scale - t.scale) for t in types)
    upper = max(t.upper * 10 ** (scale - t.scale) for t in types)
    return decimal(lower, upper, scale)


def read_date(expression: Expression) -> Expression:
    """A text constant as the date or timestamp it spells; anything else unchanged."""
    if not isinstance(expression, Literal) or not isinstance(expression.value, str):
        return expression
    text = expression.value.strip()
    try:
        parsed: date = date.fromisoformat(text) if len(text) <= 10 else datetime.fromisoformat(text)
    except ValueError:
        raise Mismatch(f"'{text}' is not a date: write it as '2024-12-31' or '2024-12-31 23:59:59'") from None
    if isinstance(parsed, datetime) and parsed.tzinfo is not None:
        from datetime import UTC

        parsed = parsed.astimezone(UTC).replace(tzinfo=None)
    made = literal(parsed)
    return Literal(made.type, value=made.value, span=expression.span)


def require(expression: Expression, *kinds: Kind, what: str) -> Expression:
    """The expression, if its kind is one of those (a bare NULL passes everywhere)."""
    if expression.type.kind in kinds or expression.type.kind is Kind.NULL:
        return expression
    raise Mismatch(f"{what} takes {' or '.join(k.value for k in kinds)}, but {expression} is {expression.type}")


def case(conditions: Sequence[Expression], results: Sequence[Expression]) -> Expression:
    """CASE as one node: condition, result, …, default. A condition is a boolean, and nothing is cast to one."""
    for condition in conditions:
        require(condition, Kind.BOOLEAN, what="a condition")
    type_, results_ = common(results)
    pairs = [part for pair in zip(conditions, results_, strict=False) for part in pair]
    return call("case", type_, *pairs, results_[-1])


def call(op: str, type_: Type, *args: Expression, option: Value | tuple[Value, ...] = None) -> Call:
    """A node, with the span of its operands left to the converter."""
    return Call(type_, op=op, args=args, option=option)


# Casts ---------------------------------------------------------------------------------------------------------------

CASTS: dict[str, Type] = {
    "BOOLEAN": BOOLEAN, "TINYINT": integer(-(2**7), 2**7 - 1), "SMALLINT": integer(-(2**15), 2**15 - 1),
    "INT": integer(-(2**31), 2**31 - 1), "BIGINT": integer(*INT64), "INT128": integer(*INT128),
    "FLOAT": DOUBLE, "DOUBLE": DOUBLE, "TEXT": TEXT,
    "VARCHAR": TEXT, "DATE": DATE, "TIMESTAMP": TIMESTAMP, "DATETIME": TIMESTAMP, "TIMESTAMPNTZ": TIMESTAMP,
    "TIMESTAMPTZ": TIMESTAMP,
}  # fmt: skip


def target(to: exp.DataType) -> Type:
    """The type that a cast names."""
    name = to.this.name if hasattr(to.this, "name") else str(to.this)
    if name == "DECIMAL":
        sizes = [int(p.name) for p in to.expressions] or [18, 3]
        width, scale = sizes[0], sizes[1] if len(sizes) > 1 else 0
        if not 0 <= scale <= width or not 1 <= width <= (18 if scale else 38):
            raise Mismatch("a decimal has at most 18 digits here; write DECIMAL(18, 2), or cast to double")
        return decimal(-(10**width) + 1, 10**width - 1, scale)
    if name not in CASTS:
        raise Mismatch(
            f"a cast to {to.sql('duckdb')} is not supported; use integer, double, decimal, text, date or timestamp"
        )
    return CASTS[name]


def cast(it: Expression, to: Type) -> Expression:
    """The value in another type; constants are read as dates at once."""
    if it.type in (to, NULL):
        return it if it.type == to else call("cast", to, it)
    if to.temporal and isinstance(it, Literal):
        it = read_date(it)
        return it if it.type == to else call("cast", to, it)
    if ((to.temporal and it.type.kind is not Kind.TEXT) or (it.type.temporal and to.kind is not Kind.TEXT)) and not (
        to.temporal and it.type.temporal
    ):
        raise Mismatch(f"{it.type} cannot be cast to {to}")
    if it.type.kind is Kind.BOOLEAN and to.kind is Kind.INTEGER:
        to = integer(0, 1)
    return call("cast", to, it)
