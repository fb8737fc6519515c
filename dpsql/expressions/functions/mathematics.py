"""Numbers: arithmetic by name, rounding, roots, logarithms, angles, whole numbers and their bits.

DuckDB's functions of DOUBLE are total (NaN and ±inf instead of errors); those of whole numbers raise on overflow and
outside their domain, so they are computed in a width that holds every result, over guarded arguments.
"""

from __future__ import annotations

import math
from decimal import Decimal

from sqlglot import exp

from dpsql.expressions.expression import Expression, Literal
from dpsql.expressions.functions.function import (
    NUMBER,
    NUMBERS,
    WHOLE,
    Anything,
    Builder,
    Elsewhere,
    Function,
    Image,
    Monotone,
    Parameter,
    count,
)
from dpsql.expressions.types import BOOLEAN, DATE, DOUBLE, INT64, Kind, Type, decimal, integer
from dpsql.expressions.typing import Mismatch, arithmetic, call, case, common, literal, require

ANY_NUMBER = Parameter(NUMBERS)
PLACES = count(-15, 15)


def compute(op: str) -> Builder:
    """`+ - * / // %` over numbers, and a date with a number of days."""

    def build(args: tuple[Expression, ...]) -> Expression:
        if len(args) != 2:
            raise Mismatch(f"{op.upper()} takes 2 arguments, not {len(args)}")
        one, two = args
        if op == "sub" and one.type.temporal and two.type.temporal:
            if one.type == two.type == DATE:
                return call("days", integer(-(2**33), 2**33), one, two)
            raise Mismatch("the difference of two timestamps is an interval; write date_diff('second', a, b)")
        if op in ("add", "sub") and one.type == DATE and two.type.kind is Kind.INTEGER:
            return call("add_days" if op == "add" else "sub_days", DATE, one, two)
        return call(op, arithmetic(op, one, two), one, two)

    return build


def sign_change(op: str) -> Builder:
    """Neg and abs: exact numbers stay exact."""

    def build(args: tuple[Expression, ...]) -> Expression:
        (it,) = args
        require(it, *NUMBERS, what=op)
        if isinstance(it, Literal) and op == "neg" and isinstance(it.value, int | float | Decimal):
            return literal(-it.value)
        if it.type.kind not in (Kind.INTEGER, Kind.DECIMAL):
            return call(op, DOUBLE, it)
        low, high = it.type.lower, it.type.upper
        low, high = (-high, -low) if op == "neg" else (0, max(-low, high))
        return call(op, decimal(low, high, it.type.scale), it)

    return build


def _rounded(op: str) -> Builder:
    """To a number of places: exact numbers stay exact, and with fewer places they need no wider type."""

    def build(args: tuple[Expression, ...]) -> Expression:
        it, digits = args[0], _places(args)
        if it.type.kind not in (Kind.INTEGER, Kind.DECIMAL):
            return call(op, DOUBLE, it, option=digits)
        if digits >= it.type.scale:
            return it
        scale = max(digits, 0)
        low, high = _coarser(it.type, scale)
        slack = 10**-digits if digits < 0 else 0
        return call(op, decimal(low - slack, high + slack, scale), it, option=digits)

    return build


def _places(args: tuple[Expression, ...]) -> int:
    places = args[1] if len(args) > 1 else None
    return places.value if isinstance(places, Literal) and isinstance(places.value, int) else 0


def _coarser(type_: Type, scale: int) -> tuple[int, int]:
    """The range in units of 10**-scale, rounded outwards."""
    unit = 10 ** (type_.scale - scale)
    return type_.lower // unit, -(-type_.upper // unit)


def _whole(op: str) -> Builder:
    def build(args: tuple[Expression, ...]) -> Expression:
        (it,) = args
        if it.type.kind is Kind.DECIMAL:
            return call(op, integer(*_coarser(it.type, 0)), it)
        return it if it.type.kind is Kind.INTEGER else call(op, DOUBLE, it)

    return build


def _trunc(args: tuple[Expression, ...]) -> Expression:
    return _whole("trunc")(args) if len(args) == 1 else _rounded("trunc_to")(args)


def _log(args: tuple[Expression, ...]) -> Expression:
    """One argument means base 10; DuckDB puts the base first."""
    base = args[0].value if len(args) == 2 and isinstance(args[0], Literal) else None
    if len(args) == 1 or base == 10:
        return call("log10", DOUBLE, args[-1])
    return call("log2", DOUBLE, args[1]) if base == 2 else call("log", DOUBLE, *args)


def _width_bucket(args: tuple[Expression, ...]) -> Expression:
    """0 below the first bound, n + 1 from the second on, 1 … n between: a CASE, whose bounds follow by themselves."""
    x, *ends = args
    values = [e.value for e in ends if isinstance(e, Literal) and isinstance(e.value, int | float | Decimal)]
    if len(values) < 3 or not values[0] < values[1] or not isinstance(values[2], int) or not 1 <= values[2] <= 100_000:
        raise Mismatch("WIDTH_BUCKET takes constants: width_bucket(x, 0, 100, 10)")
    least, most, buckets = literal(float(values[0])), literal(float(values[1])), values[2]
    width = literal((float(values[1]) - float(values[0])) / buckets)
    place = call("floor", DOUBLE, compute("div")((compute("sub")((x, least)), width)))
    whole = call("cast", integer(-(2**31), 2**31 - 1), place)
    type_, sides = common((whole, literal(buckets - 1)))
    inside = compute("add")((call("least", type_, *sides), literal(1)))
    conditions = [
        call("lt", BOOLEAN, x, least), call("ge", BOOLEAN, x, most), call("not", BOOLEAN, call("isnan", BOOLEAN, x)),
    ]  # fmt: skip
    return case(conditions, [literal(0), literal(buckets + 1), inside, literal(None)])


def _bits(*args: Expression) -> Type:
    """A range of whole powers of two that holds all operands holds every combination of their bits."""
    ends = [end for a in args for end in (a.type.lower, a.type.upper)]
    most = 2 ** max((end if end >= 0 else ~end).bit_length() for end in ends)
    return integer(0 if min(ends) >= 0 else -most, most - 1)


_SIGNED = {(-(2**n), 2**n - 1) for n in (7, 15, 31, 63)}
_UNSIGNED = {(0, 2**n - 1) for n in (8, 16, 32, 64)}


def _signed(args: tuple[Expression, ...], what: str) -> None:
    """DuckDB's answer depends on the width of the type; refuse where the width is not known."""
    it = args[0].type
    if (it.lower, it.upper) in _UNSIGNED or (it.lower < 0 and (it.lower, it.upper) not in _SIGNED):
        raise Mismatch(f"{what} depends on the width of the number; cast it: CAST({args[0]} AS BIGINT)")


def _bit_not(args: tuple[Expression, ...]) -> Expression:
    it = args[0].type
    if (it.lower, it.upper) in _UNSIGNED:
        _signed(args, "~")
    return call("bit_not", integer(~it.upper, ~it.lower), *args)


def _bit_count(args: tuple[Expression, ...]) -> Expression:
    if args[0].type.lower < 0:
        _signed(args, "BIT_COUNT")
    return call("bit_count", integer(0, 64), *args)


def _shift(op: str) -> Builder:
    def build(args: tuple[Expression, ...]) -> Expression:
        it, places = args[0].type, _places(args)
        if op == "shift_left":
            return call(op, integer(0, min(max(it.upper, 0) << places, INT64[1])), *args)
        if it.lower < 0:
            _signed(args, ">>")
        return call(op, integer(min(it.lower, 0), max(it.upper, 0)), *args)

    return build


def _reach(*args: Expression) -> int:
    return max(max(-a.type.lower, a.type.upper) for a in args)


def _real(
    name: str, bounds: Image | Monotone | Anything | Elsewhere, node: type[exp.Expr] | None = None, *, nan: bool = False
) -> Function:
    """A total function of one DOUBLE."""
    return Function(name, (NUMBER,), DOUBLE, bounds, nan=nan, node=node or ())


def _check(name: str, node: type[exp.Expr] | None = None, bounds: Anything | Elsewhere | None = None) -> Function:
    return Function(name, (NUMBER,), BOOLEAN, bounds or Anything(), node=node or ())


_E = Elsewhere()
_ALL = Anything()
FUNCTIONS: tuple[Function, ...] = (
    Function("add", build=compute("add"), forms=("a + b", "add(a, b)", "a + 9223372036854775807"), node=exp.Add),
    Function("subtract", build=compute("sub"), forms=("a - b", "subtract(a, b)"), node=exp.Sub),
    Function("multiply", build=compute("mul"), forms=("a * b", "multiply(a, b)", "a * 0.5"), node=exp.Mul),
    Function("divided", build=compute("div"), forms=("a / b", "a / 3"), node=exp.Div),
    Function("divide", build=compute("idiv"), forms=("a // b", "divide(a, b)", "7 // a"), node=exp.IntDiv),
    Function("mod", build=compute("mod"), forms=("a % b", "mod(a, b)", "a % -1"), node=exp.Mod),
    Function("negative", build=sign_change("neg"), forms=("-a",), node=exp.Neg),
    Function("fdiv", (NUMBER, NUMBER), DOUBLE, _ALL, nan=True),
    Function("fmod", (NUMBER, NUMBER), DOUBLE, _ALL, nan=True),
    Function("abs", (ANY_NUMBER,), build=sign_change("abs"), node=exp.Abs),
    Function("sign", (ANY_NUMBER,), integer(-1, 1), sql=_E, node=exp.Sign),
    Function("round", (ANY_NUMBER, PLACES), optional=1, build=_rounded("round"), node=exp.Round,
             forms=("round(a)", "round(a, 2)", "round(a, -1)", "round(a, -15)"), reads=("this", "decimals")),
    Function("round_even", (ANY_NUMBER, PLACES), aliases=("roundbankers",), build=_rounded("round_even"),
             forms=("round_even(a, 0)", "round_even(a, 1)", "round_even(a, -2)")),
    Function("trunc", (ANY_NUMBER, PLACES), optional=1, build=_trunc, node=exp.Trunc, reads=("this", "decimals"),
             forms=("trunc(a)", "trunc(a, 1)", "trunc(a, -2)")),
    Function("floor", (ANY_NUMBER,), build=_whole("floor"), node=exp.Floor, reads=("this",)),
    Function("ceil", (ANY_NUMBER,), build=_whole("ceil"), node=exp.Ceil, reads=("this",), aliases=("ceiling",)),
    _real("even", _E),
    _real("sqrt", Monotone(math.sqrt, least=0.0, slack=0.0), exp.Sqrt),
    _real("cbrt", Monotone(math.cbrt), exp.Cbrt),
    _real("exp", Monotone(math.exp), exp.Exp),
    _real("ln", Monotone(math.log, least=0.0), exp.Ln),
    Function("log", (NUMBER, NUMBER), DOUBLE, _ALL, nan=True, optional=1, build=_log, node=exp.Log,
             reads=("this", "expression"), forms=("log(a)", "log(a, b)", "log(3, a)")),
    _real("log10", Monotone(math.log10, least=0.0)),
    _real("log2", Monotone(math.log2, least=0.0)),
    Function("power", (NUMBER, NUMBER), DOUBLE, sql="pow({0}, {1})", aliases=("pow",), node=exp.Pow,
             forms=("power(a, b)", "pow(a, 2)", "a ** 0.5", "a ^ -1", "power(2, a)")),
    _real("gamma", _ALL, nan=True),
    _real("lgamma", _ALL, nan=True),
    _real("sin", Image(-1, 1), exp.Sin, nan=True),
    _real("cos", Image(-1, 1), exp.Cos, nan=True),
    _real("tan", _ALL, exp.Tan, nan=True),
    _real("cot", _ALL, exp.Cot, nan=True),
    _real("asin", Monotone(math.asin, -1.0, 1.0), exp.Asin),
    _real("acos", Monotone(math.acos, -1.0, 1.0, falling=True), exp.Acos),
    _real("atan", Monotone(math.atan), exp.Atan),
    Function("atan2", (NUMBER, NUMBER), DOUBLE, Image(-math.pi, math.pi), node=exp.Atan2),
    _real("sinh", Monotone(math.sinh), exp.Sinh),
    _real("cosh", Image(low=1), exp.Cosh),
    _real("tanh", Monotone(math.tanh), exp.Tanh),
    _real("asinh", Monotone(math.asinh), exp.Asinh),
    _real("acosh", Monotone(math.acosh, least=1.0), exp.Acosh),
    _real("atanh", Monotone(math.atanh, -1.0, 1.0), exp.Atanh),
    _real("degrees", Monotone(math.degrees), exp.Degrees),
    _real("radians", Monotone(math.radians), exp.Radians),
    Function("pi", (), DOUBLE, Image(math.pi, math.pi), node=exp.Pi, forms=("a * pi()",)),
    Function("nextafter", (NUMBER, NUMBER), DOUBLE, _ALL, nan=True),
    _check("isnan", exp.IsNan, _E),
    _check("isinf", exp.IsInf),
    _check("isfinite"),
    _check("signbit"),
    Function("gcd", (WHOLE, WHOLE), lambda a, b: integer(0, _reach(a, b)), Anything(),
             sql="gcd(CAST({0} AS HUGEINT), CAST({1} AS HUGEINT))", aliases=("greatest_common_divisor",)),
    Function("lcm", (WHOLE, WHOLE), lambda a, b: integer(0, _reach(a) * _reach(b)), Anything(),
             sql="lcm(CAST({0} AS HUGEINT), CAST({1} AS HUGEINT))", aliases=("least_common_multiple",)),
    Function("factorial", (WHOLE,), integer(0, math.factorial(33)), Anything(), null=True, node=exp.Factorial,
             sql="factorial(CASE WHEN {0} BETWEEN 0 AND 33 THEN TRY_CAST({0} AS INTEGER) END)"),
    Function("bit_and", (WHOLE, WHOLE), _bits, Anything(), sql="({0} & {1})", node=exp.BitwiseAnd,
             reads=("this", "expression"), forms=("a & b", "a & 7")),
    Function("bit_or", (WHOLE, WHOLE), _bits, Anything(), sql="({0} | {1})", node=exp.BitwiseOr,
             reads=("this", "expression"), forms=("a | b", "a | 8")),
    Function("xor", (WHOLE, WHOLE), _bits, Anything(), node=exp.BitwiseXor, reads=("this", "expression")),
    Function("bit_not", (WHOLE,), build=_bit_not, sql="(~{0})", bounds=Anything(), node=exp.BitwiseNot, forms=("~a",)),
    Function("shift_left", (WHOLE, count(0, 62)), build=_shift("shift_left"), bounds=Anything(), null=True,
             sql="(CASE WHEN {0} BETWEEN 0 AND (9223372036854775807 >> {1}) THEN {0} END << {1})",
             node=exp.BitwiseLeftShift, forms=("a << 3", "a << 0", "a << 62"), reads=("this", "expression")),
    Function("shift_right", (WHOLE, count(0, 62)), build=_shift("shift_right"), bounds=Anything(), sql=_E,
             node=exp.BitwiseRightShift, forms=("a >> 3", "a >> 0", "a >> 40"), reads=("this", "expression")),
    Function("bit_count", (WHOLE,), build=_bit_count, bounds=Anything(), sql=_E),
    Function("width_bucket", (NUMBER, NUMBER, NUMBER, NUMBER), build=_width_bucket, node=exp.WidthBucket,
             forms=("width_bucket(a, 0, 100, 10)",), reads=("this", "min_value", "max_value", "num_buckets")),
)  # fmt: skip
