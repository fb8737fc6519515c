"""Syntax tree to expression: the allow-list of what may stand below an aggregate.

What has no entry here is refused, so every expression is deterministic, has bounds rules and a total form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol

from sqlglot import exp, parse_one

from dpsql.errors import ParseError, UnsupportedQuery
from dpsql.expressions.expression import Call, Column, Expression, Literal
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
from dpsql.expressions.typing import Mismatch, arithmetic, call, common, literal, read_date, require
from dpsql.parse.span import name_of, refuse, span_of

LENGTH = integer(0, 2**32)
NUMBERS = (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE)
TEMPORAL = (Kind.DATE, Kind.TIMESTAMP)


class Resolver(Protocol):
    """Finds the column that a name means here."""

    def column(self, node: exp.Column) -> Expression:
        """The expression that the name stands for; raises ParseError if there is none."""


MOST_PARTS = 20_000
MOST_NESTED = 2_000
_size: ContextVar[Size | None] = ContextVar("size", default=None)


@dataclass(slots=True)
class Size:
    """How much one query is converted to: aliases, CASE and BETWEEN repeat what they name, and that multiplies."""

    parts: int = 0
    calls: dict[int, tuple[Expression, int]] = field(default_factory=dict)

    def nested(self, made: Expression) -> int:
        """The calls in an expression as a tree; each part is kept, so that its identity stays its own."""
        if id(made) not in self.calls:
            self.calls[id(made)] = made, isinstance(made, Call) + sum(map(self.nested, made.children))
        return self.calls[id(made)][1]


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
        if size.parts > MOST_PARTS or size.nested(made) > MOST_NESTED:
            raise refuse(
                "the query is too large once its aliases, CASEs and BETWEENs are written out",
                node,
                hint="compute repeated parts once, in a subquery, and ask for fewer values and aggregates at a time",
            )
    return made


def convert(node: exp.Expr, scope: Resolver) -> Expression:
    """The typed expression of a scalar syntax tree."""
    rule = _RULES.get(type(node))
    if rule is None or not _read(node):
        raise _unknown(node)
    try:
        made = rule(node, lambda child: convert(child, scope), scope)
    except (KeyError, AttributeError):
        raise refuse("this call has too few arguments", node, kind=ParseError, hint="see `dpsql functions`") from None
    except Mismatch as problem:
        raise refuse(str(problem), node, hint="cast one side, or compare values of one kind", kind=ParseError) from None
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


_OPERANDS = {"this", "expression", "expressions", "safe", "coalesce", "typed", "ignore_case"}
_FURTHER: dict[type[exp.Expr], set[str]] = {
    exp.Literal: {"is_string"}, exp.Between: {"low", "high"}, exp.In: {"query"}, exp.Like: {"negate"},
    exp.ILike: {"negate"}, exp.Case: {"ifs", "default"}, exp.If: {"true", "false"}, exp.Round: {"decimals"},
    exp.Trim: {"position"}, exp.Substring: {"start", "length"}, exp.Replace: {"replacement"},
    exp.StrPosition: {"substr"}, exp.TimestampTrunc: {"unit"}, exp.DateTrunc: {"unit"},
    exp.DateDiff: {"unit", "date_part_boundary"}, exp.Cast: {"to"}, exp.TryCast: {"to"},
    exp.WidthBucket: {"min_value", "max_value", "num_buckets"}, exp.Greatest: {"ignore_nulls"},
    exp.Least: {"ignore_nulls"},
}  # fmt: skip


def _read(node: exp.Expr) -> bool:
    """Does the rule read all that the parser found? An argument that it would overlook changes the meaning."""
    if isinstance(node, exp.Column):
        return True
    return {k for k, v in node.args.items() if v} <= _OPERANDS | _FURTHER.get(type(node), set())


_VOLATILE = (exp.Rand, exp.CurrentTimestamp, exp.CurrentTime, exp.Uuid, exp.CurrentDate)


_INSTEAD = {
    "strftime": "date_trunc('month', x), year(x), month(x) or day(x)",
    "age": "date_diff('year', x, DATE '2026-01-01')",
    "regexp_matches": "x LIKE '%…%', starts_with(x, '…'), ends_with(x, '…') or contains(x, '…')",
    "regexp_full_match": "x LIKE '…'",
    "to_char": "date_trunc('month', x), year(x), month(x) or day(x)",
}


def _unknown(node: exp.Expr) -> UnsupportedQuery | ParseError:
    name = f"the function {name_of(node)}" if isinstance(node, exp.Func) else name_of(node)
    if isinstance(node, exp.Placeholder | exp.Parameter):
        return refuse(  # type: ignore[return-value]
            "a parameter has no place here", node, hint="write the value itself: WHERE amount > 100"
        )
    if isinstance(node, exp.Subquery | exp.Select | exp.Exists):
        return refuse(  # type: ignore[return-value]
            "a subquery cannot stand inside an expression over private rows",
            node,
            hint="EXISTS and IN stand in WHERE, alone or joined by AND: WHERE … AND EXISTS (SELECT …); compute a value "
            "in a query of its own, then write it as a constant",
        )
    if isinstance(node, exp.Window):
        return refuse(  # type: ignore[return-value]
            "a window function below the aggregate is not supported: it could mix rows of different people",
            node,
            hint="use it above the aggregate: SELECT key, sum(count(*)) OVER () FROM … GROUP BY key",
        )
    if isinstance(node, exp.AggFunc):
        return refuse(
            f"the aggregate {name_of(node)} cannot stand here",
            node,  # type: ignore[return-value]
            hint="aggregates belong into SELECT, HAVING or ORDER BY; filter groups with HAVING",
        )
    if isinstance(node, _VOLATILE) or (isinstance(node, exp.Anonymous) and node.name.lower() in ("now", "random")):
        return refuse(f"{name} gives another value each time", node, hint="write the value as a constant")  # type: ignore[return-value]
    instead = _INSTEAD.get(name_of(node).lower())
    return refuse(  # type: ignore[return-value]
        f"{name} cannot be used on private rows",
        node,
        hint=f"write {instead}"
        if instead is not None
        else "`dpsql functions` lists what may stand below an aggregate; above it nearly all of DuckDB's may",
    )


Convert = Callable[[exp.Expr], Expression]
Rule = Callable[[exp.Expr, Convert, Resolver], Expression]


def _column(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    assert isinstance(node, exp.Column)
    return scope.column(node)


def _literal(node: exp.Expr, _: Convert, __: Resolver) -> Expression:
    text = node.name
    if node.args.get("is_string"):
        return literal(text)
    if "e" in text.lower():
        return literal(float(text))
    value = Decimal(text) if "." in text else int(text)
    return literal(value)


def _arithmetic(op: str) -> Rule:
    def rule(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
        if isinstance(node.expression, exp.Interval):
            return _shift(node, convert, -1 if op == "sub" else 1)
        one, two = convert(node.this), convert(node.expression)
        if op == "sub" and one.type.temporal and two.type.temporal:
            if one.type == two.type == DATE:
                return call("days", integer(-(2**33), 2**33), one, two)
            raise Mismatch("the difference of two timestamps is an interval; write date_diff('second', a, b)")
        if op in ("add", "sub") and one.type == DATE and two.type.kind is Kind.INTEGER:
            return call("add_days" if op == "add" else "sub_days", DATE, one, two)
        return call(op, arithmetic(op, one, two), one, two)

    return rule


_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12, "DECADE": 120}
_MICROS = {"MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6}


def _interval(node: exp.Expr) -> tuple[int, int, int]:
    """Months, days and microseconds of an INTERVAL constant."""
    amount = node.this
    sign = -1 if isinstance(amount, exp.Neg) else 1
    amount = amount.this if isinstance(amount, exp.Neg) else amount
    unit = node.args.get("unit")
    words = f"{amount.name if isinstance(amount, exp.Literal) else '?'} {unit.name if unit is not None else ''}".split()
    if len(words) != 2 or not words[0].lstrip("-").isdigit() or abs(int(words[0])) > 10**6:
        raise Mismatch("an interval is a whole number and a unit, such as INTERVAL 3 MONTH")
    count, name = sign * int(words[0]), words[1].upper().rstrip("S")
    if name in _MONTHS:
        return count * _MONTHS[name], 0, 0
    if name in ("DAY", "WEEK"):
        return 0, count * (7 if name == "WEEK" else 1), 0
    if name in _MICROS:
        return 0, 0, count * _MICROS[name]
    raise Mismatch(f"the unit {name} is not known; use year, month, week, day, hour, minute or second")


def _shift(node: exp.Expr, convert: Convert, sign: int) -> Expression:
    moment = require(read_date(convert(node.this)), *TEMPORAL, what="interval arithmetic")
    months, days, micros = (sign * part for part in _interval(node.expression))
    if abs(months) > 12_000 or abs(days) > 400_000 or abs(micros) > 10**16:
        raise Mismatch("an interval of more than a thousand years")
    return call("shift", TIMESTAMP, moment, option=(months, days, micros))


def _compare(op: str) -> Rule:
    def rule(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
        _, sides = common((convert(node.this), convert(node.expression)))
        return call(op, BOOLEAN, *sides)

    return rule


def _between(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    _, (it, low, high) = common((convert(node.this), convert(node.args["low"]), convert(node.args["high"])))
    return call("and", BOOLEAN, call("ge", BOOLEAN, it, low), call("le", BOOLEAN, it, high))


def _in(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    if node.args.get("query") is not None or not node.expressions:
        hint = "IN with a subquery stands in WHERE, alone or joined by AND: WHERE … AND x IN (SELECT …)"
        raise refuse("IN with a subquery cannot stand inside an expression over private rows", node, hint=hint)
    _, sides = common([convert(node.this), *map(convert, node.expressions)])
    if not all(isinstance(side, Literal) for side in sides[1:]):
        raise Mismatch("IN takes a list of constants")
    return call("in", BOOLEAN, *sides)


def _is(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    it, other = convert(node.this), node.expression
    if isinstance(other, exp.Null):
        return call("is_null", BOOLEAN, it)
    if isinstance(other, exp.Boolean):
        return call("is_not_distinct", BOOLEAN, require(it, Kind.BOOLEAN, what="IS TRUE"), literal(bool(other.this)))
    raise Mismatch("IS takes NULL, TRUE or FALSE")


def _logic(op: str) -> Rule:
    def rule(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
        operands = [node.this] if op == "not" else [node.this, node.expression]
        return call(op, BOOLEAN, *(require(convert(o), Kind.BOOLEAN, what=op.upper()) for o in operands))

    return rule


def _like(op: str) -> Rule:
    def rule(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
        it, pattern = require(convert(node.this), Kind.TEXT, what="LIKE"), convert(node.expression)
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            raise Mismatch("LIKE takes a constant pattern")
        made = call(op, BOOLEAN, it, pattern)
        return call("not", BOOLEAN, made) if node.args.get("negate") else made

    return rule


def _case(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    conditions, results = [], []
    for branch in node.args["ifs"]:
        test = branch.this if node.this is None else exp.EQ(this=node.this.copy(), expression=branch.this.copy())
        conditions.append(require(convert(test), Kind.BOOLEAN, what="CASE WHEN"))
        results.append(convert(branch.args["true"]))
    default = node.args.get("default")
    results.append(convert(default) if default is not None else literal(None))
    return case(conditions, results)


def case(conditions: list[Expression], results: list[Expression]) -> Expression:
    """CASE as one node: condition, result, …, default. A condition is a boolean, and nothing is cast to one."""
    for condition in conditions:
        require(condition, Kind.BOOLEAN, what="a condition")
    type_, results_ = common(results)
    pairs = [part for pair in zip(conditions, results_, strict=False) for part in pair]
    return call("case", type_, *pairs, results_[-1])


def _if(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    other = node.args.get("false")
    condition = require(convert(node.this), Kind.BOOLEAN, what="IF")
    return case([condition], [convert(node.args["true"]), convert(other) if other is not None else literal(None)])


def _variadic(op: str) -> Rule:
    def rule(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
        type_, operands = common([convert(node.this), *map(convert, node.expressions)])
        if op in ("greatest", "least") and type_.kind in (Kind.TEXT, Kind.BOOLEAN):
            raise Mismatch(f"{op.upper()} takes numbers or dates")
        return call(op, type_, *operands)

    return rule


def _nullif(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    _, (one, two) = common((convert(node.this), convert(node.expression)))
    return call("nullif", one.type, one, two)


def _number(op: str, type_: Type = DOUBLE) -> Rule:
    """A function of one number."""

    def rule(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
        return call(op, type_, require(convert(node.this), *NUMBERS, what=op))

    return rule


def _same(op: str) -> Rule:
    """Neg and abs: exact numbers stay exact."""

    def rule(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
        it = require(convert(node.this), *NUMBERS, what=op)
        if isinstance(it, Literal) and op == "neg" and isinstance(it.value, int | float | Decimal):
            return literal(-it.value)
        if it.type.kind not in (Kind.INTEGER, Kind.DECIMAL):
            return call(op, DOUBLE, it)
        low, high = it.type.lower, it.type.upper
        low, high = (-high, -low) if op == "neg" else (0, max(-low, high))
        return call(op, decimal(low, high, it.type.scale), it)

    return rule


def _round(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    it, places = require(convert(node.this), *NUMBERS, what="ROUND"), node.args.get("decimals")
    digits = convert(places) if places is not None else literal(0)
    if not isinstance(digits, Literal) or not isinstance(digits.value, int) or not -15 <= digits.value <= 15:
        raise Mismatch("ROUND takes a constant number of places")
    return _rounded(it, digits.value)


def _rounded(it: Expression, digits: int) -> Expression:
    """Exact numbers stay exact, and with fewer places they need no wider type."""
    if it.type.kind not in (Kind.INTEGER, Kind.DECIMAL):
        return call("round", DOUBLE, it, option=digits)
    if digits >= it.type.scale:
        return it
    scale = max(digits, 0)
    low, high = _coarser(it.type, scale)
    slack = 10**-digits if digits < 0 else 0
    return call("round", decimal(low - slack, high + slack, scale), it, option=digits)


def _coarser(type_: Type, scale: int) -> tuple[int, int]:
    """The range in units of 10**-scale, rounded outwards."""
    unit = 10 ** (type_.scale - scale)
    return type_.lower // unit, -(-type_.upper // unit)


def _whole(op: str) -> Rule:
    def rule(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
        it = require(convert(node.this), *NUMBERS, what=op.upper())
        if it.type.kind is Kind.DECIMAL:
            return call(op, integer(*_coarser(it.type, 0)), it)
        return it if it.type.kind is Kind.INTEGER else call(op, DOUBLE, it)

    return rule


def _log(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    base, of = (node.this, node.expression) if node.expression is not None else (None, node.this)
    it = require(convert(of), *NUMBERS, what="LOG")
    if base is None or base.name == "10":
        return call("log10", DOUBLE, it)
    if base.name == "2":
        return call("log2", DOUBLE, it)
    raise Mismatch("LOG takes base 2 or 10; write ln(x) / ln(base)")


def _width_bucket(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    """0 below the first bound, n + 1 from the second on, 1 … n between: a CASE, whose bounds follow by themselves."""
    low, high, count = (convert(node.args[name]) for name in ("min_value", "max_value", "num_buckets"))
    ends = [
        e.value for e in (low, high, count) if isinstance(e, Literal) and isinstance(e.value, int | float | Decimal)
    ]
    if len(ends) < 3 or not ends[0] < ends[1] or not isinstance(ends[2], int) or not 1 <= ends[2] <= 100_000:
        raise Mismatch("WIDTH_BUCKET takes constants: width_bucket(x, 0, 100, 10)")
    least, most, buckets = float(ends[0]), float(ends[1]), ends[2]
    x, width = node.this.sql("duckdb"), (most - least) / buckets
    text = (
        f"CASE WHEN {x} < {least:.17e} THEN 0 WHEN {x} >= {most:.17e} THEN {buckets + 1} WHEN NOT isnan({x}) "
        f"THEN least(CAST(floor(({x} - ({least:.17e})) / {width:.17e}) AS INTEGER), {buckets - 1}) + 1 END"
    )
    return convert(parse_one(text, dialect="duckdb"))


def _power(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    operands = (require(convert(n), *NUMBERS, what="POWER") for n in (node.this, node.expression))
    return call("power", DOUBLE, *operands)


def _text(op: str, type_: Type = TEXT, *, operands: tuple[str, ...] = ("this",)) -> Rule:
    def rule(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
        args = (require(convert(node.args[name]), Kind.TEXT, what=op.upper()) for name in operands)
        return call(op, type_, *args)

    return rule


def _trim(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    side = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""), "trim")
    parts = [node.this, *([node.expression] if node.expression is not None else [])]
    return call(side, TEXT, *(require(convert(p), Kind.TEXT, what="TRIM") for p in parts))


def _place(expression: Expression, what: str) -> int:
    if not isinstance(expression, Literal) or not isinstance(expression.value, int) or abs(expression.value) > 10**6:
        raise Mismatch(f"{what} takes constant positions")
    return expression.value


def _substring(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    places = [node.args[name] for name in ("start", "length") if node.args.get(name) is not None]
    option = tuple(_place(convert(p), "SUBSTRING") for p in places)
    return call("substring", TEXT, require(convert(node.this), Kind.TEXT, what="SUBSTRING"), option=option)


def _side(op: str) -> Rule:
    def rule(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
        option = _place(convert(node.expression), op.upper())
        return call(op, TEXT, require(convert(node.this), Kind.TEXT, what=op.upper()), option=option)

    return rule


def _concat(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    parts = [node.this, node.expression] if isinstance(node, exp.DPipe) else node.expressions
    op = "join" if isinstance(node, exp.DPipe) else "concat"
    return call(op, TEXT, *(require(convert(p), Kind.TEXT, what="text concatenation") for p in parts))


PARTS = {
    "YEAR": (-(10**7), 10**7), "MONTH": (1, 12), "DAY": (1, 31), "HOUR": (0, 23), "MINUTE": (0, 59), "SECOND": (0, 59),
    "QUARTER": (1, 4), "WEEK": (1, 53), "DAYOFWEEK": (0, 6), "DOW": (0, 6), "ISODOW": (1, 7), "DOY": (1, 366),
    "DECADE": (-(10**6), 10**6), "CENTURY": (-(10**5), 10**5),
}  # fmt: skip
_ALIASES = {"DAYOFWEEK": "DOW", "WEEKDAY": "DOW", "DAYOFYEAR": "DOY", "DAYOFMONTH": "DAY", "WEEKOFYEAR": "WEEK",
            "DAYOFWEEKISO": "ISODOW", "YEARS": "YEAR", "MONTHS": "MONTH", "DAYS": "DAY"}  # fmt: skip


def _part(name: str, moment: Expression) -> Expression:
    name = _ALIASES.get(name.upper(), name.upper())
    if name not in PARTS:
        raise Mismatch(f"the date part {name.lower()} is not known; use {', '.join(sorted(PARTS)).lower()}")
    clock = name in ("HOUR", "MINUTE", "SECOND")
    require(moment, *((Kind.TIMESTAMP,) if clock and moment.type != DATE else TEMPORAL), what=f"EXTRACT({name} …)")
    return call("part", integer(*PARTS[name]), moment, option=name.lower())


def _extract(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    return _part(node.this.name, read_date(convert(node.expression)))


def _named_part(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    return _part(type(node).__name__, read_date(convert(node.this)))


UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")


def _trunc(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    unit = node.args["unit"].name.upper()
    if unit not in UNITS:
        raise Mismatch(f"DATE_TRUNC takes one of {', '.join(UNITS).lower()}")
    moment = require(read_date(convert(node.this)), *TEMPORAL, what="DATE_TRUNC")
    return call("date_trunc", TIMESTAMP, moment, option=unit.lower())


def _diff(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    unit = node.args["unit"].name.upper() if node.args.get("unit") is not None else "DAY"
    if unit not in UNITS:
        raise Mismatch(f"DATE_DIFF takes one of {', '.join(UNITS).lower()}")
    ends = (require(read_date(convert(n)), *TEMPORAL, what="DATE_DIFF") for n in (node.this, node.expression))
    return call("date_diff", integer(-(2**50), 2**50), *ends, option=unit.lower())


_CASTS: dict[str, Type] = {
    "BOOLEAN": BOOLEAN, "TINYINT": integer(-(2**7), 2**7 - 1), "SMALLINT": integer(-(2**15), 2**15 - 1),
    "INT": integer(-(2**31), 2**31 - 1), "BIGINT": integer(*INT64), "INT128": integer(*INT128),
    "FLOAT": DOUBLE, "DOUBLE": DOUBLE, "TEXT": TEXT,
    "VARCHAR": TEXT, "DATE": DATE, "TIMESTAMP": TIMESTAMP, "DATETIME": TIMESTAMP, "TIMESTAMPNTZ": TIMESTAMP,
    "TIMESTAMPTZ": TIMESTAMP,
}  # fmt: skip


def _target(to: exp.DataType) -> Type:
    name = to.this.name if hasattr(to.this, "name") else str(to.this)
    if name == "DECIMAL":
        sizes = [int(p.name) for p in to.expressions] or [18, 3]
        width, scale = sizes[0], sizes[1] if len(sizes) > 1 else 0
        if not 0 <= scale <= width or not 1 <= width <= (18 if scale else 38):
            raise Mismatch("a decimal has at most 18 digits here; write DECIMAL(18, 2), or cast to double")
        return decimal(-(10**width) + 1, 10**width - 1, scale)
    if name not in _CASTS:
        raise Mismatch(
            f"a cast to {to.sql('duckdb')} is not supported; use integer, double, decimal, text, date or timestamp"
        )
    return _CASTS[name]


def _cast(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    it, to = convert(node.this), _target(node.args["to"])
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


def _paren(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    return convert(node.this)


def _escape(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    raise Mismatch("LIKE with ESCAPE is not supported; use starts_with, ends_with or contains")


def _anonymous(node: exp.Expr, convert: Convert, scope: Resolver) -> Expression:
    name, args = node.name.lower(), node.expressions
    if name in ("date_part", "datepart") and len(args) == 2:
        return _part(args[0].name, read_date(convert(args[1])))
    if name == "weekday" and len(args) == 1:
        return _part("DOW", read_date(convert(args[0])))
    if name in ("prefix", "suffix") and len(args) == 2:
        op = "starts_with" if name == "prefix" else "ends_with"
        return call(op, BOOLEAN, *(require(convert(a), Kind.TEXT, what=op.upper()) for a in args))
    raise _unknown(node)


_RULES: dict[type[exp.Expr], Rule] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: lambda node, *_: literal(bool(node.this)),
    exp.Null: lambda *_: literal(None),
    exp.Paren: _paren,
    exp.Add: _arithmetic("add"), exp.Sub: _arithmetic("sub"), exp.Mul: _arithmetic("mul"),
    exp.Div: _arithmetic("div"), exp.IntDiv: _arithmetic("idiv"), exp.Mod: _arithmetic("mod"),
    exp.DateAdd: lambda node, convert, _: _shift(node, convert, 1),
    exp.DateSub: lambda node, convert, _: _shift(node, convert, -1),
    exp.Neg: _same("neg"), exp.Abs: _same("abs"),
    exp.EQ: _compare("eq"), exp.NEQ: _compare("ne"), exp.LT: _compare("lt"), exp.LTE: _compare("le"),
    exp.GT: _compare("gt"), exp.GTE: _compare("ge"),
    exp.NullSafeEQ: _compare("is_not_distinct"), exp.NullSafeNEQ: _compare("is_distinct"),
    exp.Between: _between, exp.In: _in, exp.Is: _is,
    exp.And: _logic("and"), exp.Or: _logic("or"), exp.Not: _logic("not"),
    exp.Like: _like("like"), exp.ILike: _like("ilike"), exp.Escape: _escape,
    exp.Case: _case, exp.If: _if, exp.Coalesce: _variadic("coalesce"), exp.Nullif: _nullif,
    exp.Greatest: _variadic("greatest"), exp.Least: _variadic("least"),
    exp.Round: _round, exp.Floor: _whole("floor"), exp.Ceil: _whole("ceil"), exp.Trunc: _whole("trunc"),
    exp.Sqrt: _number("sqrt"), exp.Ln: _number("ln"), exp.Exp: _number("exp"),
    exp.Sign: _number("sign", integer(-1, 1)),
    exp.IsNan: _number("isnan", BOOLEAN),
    exp.Log: _log, exp.Pow: _power, exp.WidthBucket: _width_bucket,
    exp.Lower: _text("lower"), exp.Upper: _text("upper"), exp.Length: _text("length", LENGTH), exp.Trim: _trim,
    exp.Substring: _substring, exp.Left: _side("left"), exp.Right: _side("right"),
    exp.Concat: _concat, exp.DPipe: _concat,
    exp.Replace: _text("replace", operands=("this", "expression", "replacement")),
    exp.StrPosition: _text("strpos", LENGTH, operands=("this", "substr")),
    exp.StartsWith: _text("starts_with", BOOLEAN, operands=("this", "expression")),
    exp.EndsWith: _text("ends_with", BOOLEAN, operands=("this", "expression")),
    exp.Contains: _text("contains", BOOLEAN, operands=("this", "expression")),
    exp.Extract: _extract, exp.TimestampTrunc: _trunc, exp.DateTrunc: _trunc, exp.DateDiff: _diff,
    exp.Year: _named_part, exp.Month: _named_part, exp.Day: _named_part, exp.Quarter: _named_part,
    exp.Week: _named_part, exp.WeekOfYear: _named_part, exp.DayOfWeek: _named_part, exp.DayOfWeekIso: _named_part,
    exp.DayOfYear: _named_part, exp.DayOfMonth: _named_part, exp.Hour: _named_part, exp.Minute: _named_part,
    exp.Second: _named_part,
    exp.Cast: _cast, exp.TryCast: _cast, exp.Anonymous: _anonymous,
}  # fmt: skip
