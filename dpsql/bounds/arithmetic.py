"""Interval arithmetic. Unbounded times zero is zero; a divisor that can be zero makes the quotient unbounded.

A NaN can only come from inf − inf, 0 · inf, 0 / 0, inf / inf or a function outside its domain; an infinity only from
an operand without bounds, or from a result beyond the range of floats, which then has no bounds either.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dpsql.bounds.domain import Domain, End, Rule, endless, ends, magnitude, span
from dpsql.bounds.function_bounds import widened
from dpsql.expressions.expression import Call
from dpsql.expressions.types import Kind

SLACK = 1e-12
"""Relative: the last digits of exp, ln and power are the library's own."""


def _infinite(call: Call, index: int, domain: Domain) -> bool:
    """Can the operand be ±infinity? Exact types have none."""
    return call.args[index].type.kind is Kind.DOUBLE and not domain.bounded


def _zero(domain: Domain) -> bool:
    return (domain.lower is None or domain.lower <= 0) and (domain.upper is None or domain.upper >= 0)


def _times(x: End, y: End) -> End:
    return 0 if x == 0 or y == 0 else x * y


def _sum(call: Call, args: tuple[Domain, ...]) -> Domain:
    (al, au), (bl, bu) = (ends(d, call.type) for d in args)
    nan = all(_infinite(call, i, d) for i, d in enumerate(args))
    if call.op == "sub":
        bl, bu = -bu, -bl
    return span(al + bl, au + bu, call.type, args, nan=nan)


def _product(call: Call, args: tuple[Domain, ...]) -> Domain:
    one, two = args
    if call.args[0] == call.args[1]:
        return _square(call, one)
    a, b = ends(one, call.type), ends(two, call.type)
    nan = any(_infinite(call, i, args[i]) and _zero(args[1 - i]) for i in (0, 1))
    corners = [_times(x, y) for x in a for y in b]
    return span(min(corners), max(corners), call.type, args, nan=nan)


def _square(call: Call, domain: Domain) -> Domain:
    low, high = ends(domain, call.type)
    squares = [_times(low, low), _times(high, high)]
    return span(0 if _zero(domain) else min(squares), max(squares), call.type, (domain,))


def _quotient(call: Call, args: tuple[Domain, ...]) -> Domain:
    nan = (_zero(args[0]) and _zero(args[1])) or all(_infinite(call, i, d) for i, d in enumerate(args))
    if _zero(args[1]):
        return endless(args, nan=nan)
    a, b = (ends(d, call.type) for d in args)
    corners = [_over(x, y) for x in a for y in b]
    return span(min(corners), max(corners), call.type, args, nan=nan)


def _over(x: End, y: End) -> End:
    if isinstance(y, float) and math.isinf(y):
        return 0.0 if math.isfinite(x) else x * y
    return float(x) / float(y) if isinstance(x, float) or isinstance(y, float) else Fraction(x) / Fraction(y)


def _whole_quotient(call: Call, args: tuple[Domain, ...]) -> Domain:
    """Rounded toward zero for whole numbers, plain division for others; NULL if the divisor is zero."""
    if call.type.kind is not Kind.INTEGER:
        made = _quotient(call, args)
        return span(*ends(made, call.type), call.type, args, nan=made.nan, null=_zero(args[1]))
    a, (bl, bu) = ends(args[0], call.type), ends(args[1], call.type)
    divisors = {b for b in (bl, bu, -1, 1) if b != 0 and bl <= b <= bu}
    if not divisors:
        return span(0, 0, call.type, args, null=True)
    corners = [_toward_zero(_over(x, y)) for x in a for y in divisors]
    return span(min(corners), max(corners), call.type, args, null=_zero(args[1]))


def _toward_zero(x: End) -> End:
    """An end rounded toward zero; a float is an infinity, which stays as it is."""
    return x if isinstance(x, float) else math.trunc(x)


def _modulo(call: Call, args: tuple[Domain, ...]) -> Domain:
    """The sign of the dividend; smaller than either operand in size."""
    (al, au), (bl, bu) = (ends(d, call.type) for d in args)
    size = magnitude(bl, bu)
    if call.type.kind is Kind.INTEGER:
        size = max(size - 1, 0)
    floating = call.type.kind is Kind.DOUBLE
    nan = floating and (_zero(args[1]) or _infinite(call, 0, args[0]))
    low, high = -min(size, max(-al, 0)), min(size, max(au, 0))
    return span(low, high, call.type, args, nan=nan, null=not floating and _zero(args[1]))


def _negate(call: Call, args: tuple[Domain, ...]) -> Domain:
    low, high = ends(args[0], call.type)
    return span(-high, -low, call.type, args)


def _absolute(call: Call, args: tuple[Domain, ...]) -> Domain:
    low, high = ends(args[0], call.type)
    least = 0 if _zero(args[0]) else min(magnitude(low), magnitude(high))
    return span(least, magnitude(low, high), call.type, args)


def _rounded(call: Call, args: tuple[Domain, ...]) -> Domain:
    """floor, ceil, trunc and round are monotone."""
    low, high = (rounded(call, end) for end in ends(args[0], call.args[0].type))
    return span(low, high, call.type, args)


def rounded(call: Call, end: End) -> End:
    """One number, rounded as DuckDB does: round goes half away from zero, and over DOUBLE it scales a float."""
    if isinstance(end, float) and math.isinf(end):
        return end
    if call.op in _WHOLE:
        return _WHOLE[call.op](end)
    places, whole = call.option, _PLACED[call.op]
    assert isinstance(places, int)
    if not isinstance(end, float):
        return Fraction(whole(end * Fraction(10) ** places)) / Fraction(10) ** places
    scale = 10.0 ** abs(places)
    scaled = end * scale if places >= 0 else end / scale
    if math.isinf(scaled):
        return end
    return whole(scaled) / scale if places >= 0 else whole(scaled) * scale


def _half_away(x: float | Fraction) -> int:
    return math.floor(abs(Fraction(x)) + Fraction(1, 2)) * (1 if x >= 0 else -1)


_WHOLE: dict[str, Callable[[End], int]] = {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc}
_PLACED: dict[str, Callable[[float | Fraction], int]] = {
    "round": _half_away,
    "round_even": round,
    "trunc_to": math.trunc,
}


def _even(call: Call, args: tuple[Domain, ...]) -> Domain:
    """Away from zero to the next even number, which is monotone."""
    low, high = (_next_even(float(end)) for end in ends(args[0], call.type))
    return span(low, high, call.type, args)


def _next_even(x: float) -> float:
    return math.copysign(math.ceil(abs(x) / 2) * 2, x) if math.isfinite(x) else x


def _sign(call: Call, args: tuple[Domain, ...]) -> Domain:
    """Of NaN it is 0."""
    low, high = (_signum(end) for end in ends(args[0], call.args[0].type))
    return span(min(0, low), max(0, high), call.type, args) if args[0].nan else span(low, high, call.type, args)


def _signum(end: End) -> int:
    return (end > 0) - (end < 0)


def _power(call: Call, args: tuple[Domain, ...]) -> Domain:
    """A constant exponent, over a base where the function is defined and monotone on each side of zero."""
    (low, high), (exponent, other) = (ends(d, call.type) for d in args)
    unknown = endless(args, nan=True)
    if exponent != other or math.isinf(exponent):
        return unknown
    if (
        (low < 0 and exponent != int(exponent))
        or (_zero(args[0]) and exponent < 0)
        or (math.isinf(low) and exponent < 0)
    ):
        return unknown
    corners = [widened(lambda x: x**exponent, end, side) for end in (low, high) for side in (-SLACK, SLACK)]
    if low < 0 and (math.inf in corners or (exponent % 2 == 0 and -math.inf in corners)):
        return unknown
    if exponent % 2 == 0 and low < 0 and _zero(args[0]):
        corners.append(0.0)
    return span(min(corners), max(corners), call.type, args)


RULES: dict[str, Rule] = {
    "add": _sum, "sub": _sum, "mul": _product, "div": _quotient, "idiv": _whole_quotient, "mod": _modulo,
    "neg": _negate, "abs": _absolute, "sign": _sign, "power": _power,
    **dict.fromkeys(("round", "round_even", "floor", "ceil", "trunc", "trunc_to"), _rounded),
    "even": _even,
}  # fmt: skip
