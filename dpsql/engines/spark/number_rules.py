"""Arithmetic, numeric functions and casts, each in a width that its hard range cannot leave.

Without ANSI mode Spark's arithmetic never raises: what does not fit is NULL (decimals) or wraps (integers), and a
division by zero is NULL. The widths keep both from happening, and divisions of DOUBLE are put back to IEEE's.
"""

from __future__ import annotations

from dpsql.engines.spark.type_names import MOST, spark_type
from dpsql.engines.sql.datetime_range import FIRST, LAST
from dpsql.engines.sql.expression_rules import Emit, Rule, width_of
from dpsql.engines.sql.sql_types import as_decimal, physical, shared
from dpsql.expressions.expression import Call, Expression, Literal
from dpsql.expressions.types import Kind, Type

NAN = "CAST('NaN' AS DOUBLE)"
INFINITY = "CAST('Infinity' AS DOUBLE)"


def guarded(made: str, wanted: str) -> str:
    """A moment of the years 1 to 9999, or NULL."""
    last = LAST if wanted == "TIMESTAMP" else LAST[:10]
    return f"CASE WHEN {made} BETWEEN {moment(FIRST, wanted)} AND {moment(last, wanted)} THEN {made} END"


def moment(written: str, wanted: str) -> str:
    """A constant date or timestamp."""
    return f"{spark_type(wanted)} '{written}'"


def cast(made: str, wanted: str) -> str:
    """A cast to a type of `physical`."""
    return f"CAST({made} AS {spark_type(wanted)})"


def is_nan(value: str) -> str:
    """Whether a DOUBLE is NaN, NULL where it is NULL (Spark's own isnan says FALSE there)."""
    return f"({value} = {NAN})"


def fits(type_: Type) -> bool:
    """Does a type of Spark hold every whole number of the range?"""
    return type_.kind is not Kind.INTEGER or (type_.lower > -MOST and type_.upper < MOST)


def _ring(sign: str) -> Rule:
    """Addition, subtraction, multiplication.

    Decimals have at most 18 digits, so Spark's own result type (at most 37) is exact, and the cast cannot fail.
    """

    def rule(call: Call, emit: Emit) -> str:
        if call.type.kind is Kind.INTEGER:
            width = width_of(call)
            made = f"({f' {sign} '.join(emit(a, width) for a in call.args)})"
            return made if width == physical(call.type) != "HUGEINT" else cast(made, physical(call.type))
        types = [as_decimal(a.type) if call.type.kind is Kind.DECIMAL else "DOUBLE" for a in call.args]
        made = f"({f' {sign} '.join(emit(a, t) for a, t in zip(call.args, types, strict=True))})"
        return made if call.type.kind is Kind.DOUBLE else cast(made, physical(call.type))

    return rule


def divided(one: str, two: str) -> str:
    """A quotient of DOUBLEs as IEEE has it; the sign of a zero divisor shows in its power -1."""
    return f"(CASE WHEN {two} = 0 THEN {one} * power({two}, -1D) ELSE {one} / {two} END)"


def _constant(node: Expression) -> bool:
    return isinstance(node, Literal) and bool(node.value)


def _divide(call: Call, emit: Emit) -> str:
    one, two = (emit(a, "DOUBLE") for a in call.args)
    return f"({one} / {two})" if _constant(call.args[1]) else divided(one, two)


def _whole_divide(call: Call, emit: Emit) -> str:
    """Toward zero for whole numbers, by a division that leaves nothing; over other numbers plain. By zero: NULL."""
    one, two = call.args
    if call.type.kind is not Kind.INTEGER:
        made = f"({emit(one, 'DOUBLE')} / {emit(two, 'DOUBLE')})"
        return truncated(made) if one.type.kind is two.type.kind is Kind.INTEGER else made
    if width_of(call) in ("INTEGER", "BIGINT"):
        return cast(f"({emit(one, 'BIGINT')} div {emit(two, 'BIGINT')})", physical(call.type))
    a, b = (cast(emit(x, "HUGEINT"), as_decimal(x.type)) for x in (one, two))
    return cast(f"(({a} - {a} % {b}) / {b})", physical(call.type))


def _modulo(call: Call, emit: Emit) -> str:
    """The sign follows the dividend. By zero: NULL for exact numbers, NaN for DOUBLE."""
    one, two = call.args
    if call.type.kind is Kind.DOUBLE:
        a, b = (emit(x, "DOUBLE") for x in (one, two))
        return f"(CASE WHEN {b} = 0 THEN {a} * {NAN} ELSE {a} % {b} END)"
    width = shared([one.type, two.type])
    return cast(f"({emit(one, width)} % {emit(two, width)})", physical(call.type))


def _sign_change(call: Call, emit: Emit) -> str:
    """Neg and abs: the least integer has no opposite in its own width. Spark rounds both to 34 digits."""
    it = call.args[0]
    width = width_of(call) if call.type.kind is Kind.INTEGER else physical(it.type)
    width = "DOUBLE" if call.type.kind is Kind.DOUBLE else width
    value = emit(it, width)
    if call.type.kind is Kind.DOUBLE:
        return f"(-({value}))" if call.op == "neg" else f"abs({value})"
    less = f"(0 - {value})"
    made = less if call.op == "neg" else f"(CASE WHEN {value} < 0 THEN {less} ELSE {value} END)"
    return cast(made, physical(call.type))


def floored(value: str) -> str:
    """⌊x⌋ of a DOUBLE as a DOUBLE; Spark's own floor gives a BIGINT, which most DOUBLEs do not fit."""
    return f"(CASE WHEN rint({value}) > {value} THEN rint({value}) - 1D ELSE rint({value}) END)"


def _ceiled(value: str) -> str:
    return f"(CASE WHEN rint({value}) < {value} THEN rint({value}) + 1D ELSE rint({value}) END)"


def truncated(value: str) -> str:
    """A DOUBLE without its fraction."""
    return f"(CASE WHEN {value} < 0 THEN {_ceiled(value)} ELSE {floored(value)} END)"


_WHOLE = {"floor": floored, "ceil": _ceiled, "trunc": truncated}


def _own_type(call: Call, emit: Emit) -> str:
    """floor, ceil, trunc: of a DOUBLE, or of a decimal, whose whole part fits its own digits and one more."""
    it = call.args[0]
    if call.type.kind is Kind.DOUBLE:
        return _WHOLE[call.op](emit(it, "DOUBLE"))
    value = emit(it, physical(it.type))
    if call.op != "trunc":
        return cast(f"{call.op}({value})", physical(call.type))
    return cast(f"(CASE WHEN {value} < 0 THEN ceil({value}) ELSE floor({value}) END)", physical(call.type))


def _sign(call: Call, emit: Emit) -> str:
    """NaN has the sign 0."""
    it = call.args[0]
    value = emit(it, "DOUBLE" if it.type.kind is Kind.NULL else physical(it.type))
    nan = f"WHEN {is_nan(value)} THEN 0 " if it.type.kind is Kind.DOUBLE else ""
    return f"(CASE {nan}WHEN {value} > 0 THEN 1 WHEN {value} < 0 THEN -1 WHEN {value} = 0 THEN 0 END)"


def _placed(name: str) -> Rule:
    """Rounded or cut to places: exact numbers in their own type, DOUBLEs by a power of ten, as DuckDB does."""

    def rule(call: Call, emit: Emit) -> str:
        it, places = call.args[0], call.option
        assert isinstance(places, int)
        if call.type.kind is Kind.DOUBLE:
            return _placed_double(name, emit(it, "DOUBLE"), places)
        width = width_of(call) if it.type.kind is Kind.INTEGER else physical(it.type)
        value = emit(it, width)
        if name != "trunc":
            return cast(f"{name}({value}, {places})", physical(call.type))
        unit = spark_decimal(places)
        return cast(f"({value} - {value} % {unit})", physical(call.type))

    return rule


def spark_decimal(places: int) -> str:
    """10**-places as an exact number."""
    return f"CAST('{10**-places}' AS DECIMAL(38,0))" if places <= 0 else f"0.{'1'.rjust(places, '0')}"


def _placed_double(name: str, value: str, places: int) -> str:
    step = {"round": "round({0})", "bround": "rint({0})", "trunc": truncated("{0}")}[name]
    unit = f"{10 ** abs(places)}D"
    if places < 0:
        made = f"({step.format(f'({value} / {unit})')} * {unit})"
        return f"(CASE WHEN abs({made}) < {INFINITY} THEN {made} ELSE {value} END)"
    made = f"({step.format(f'({value} * {unit})')} / {unit})" if places else step.format(value)
    return f"(CASE WHEN abs({value} * {unit}) < {INFINITY} THEN {made} ELSE {value} END)"


def _convert(call: Call, emit: Emit) -> str:
    """CAST with DuckDB's own rounding; what does not fit is NULL."""
    it, to = call.args[0], call.type
    if it.type.kind is Kind.NULL:
        return cast("NULL", physical(to))
    if (known := _spelled_out(it)) is not None:
        return f"CAST('{known!r}' AS DOUBLE)"
    made, kind = emit(it, physical(it.type)), it.type.kind
    if it.type.temporal:
        return cast(guarded(made, physical(it.type)), physical(to))
    if to.kind is Kind.TEXT or to.kind is Kind.DOUBLE:
        return cast(made, physical(to))
    if to.kind is Kind.BOOLEAN:
        return f"({made} <> 0)" if kind in (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE) else made
    if kind is Kind.BOOLEAN:
        return _within(cast(made, "INTEGER"), to)
    if kind is Kind.DOUBLE and (to.lower, to.upper) in _INTEGERS:
        return _whole_number(f"rint({made})", to)
    if kind is Kind.DOUBLE:
        made = f"TRY_CAST(round({made} * {10**to.scale}D) AS DECIMAL(38,0))"
        return _within(made, Type(to.kind, to.lower, to.upper), to.scale)
    return _within(made if kind is Kind.INTEGER else f"round({made}, {to.scale})", to)


def _whole_number(rounded: str, to: Type) -> str:
    """A whole DOUBLE in a type of whole numbers. A decimal on the way would have 17 digits of its own."""
    inside = f"{rounded} >= {float(to.lower)!r}D AND {rounded} < {float(to.upper + 1)!r}D"
    return f"CASE WHEN {inside} THEN CAST({rounded} AS {spark_type(physical(to))}) END"


_INTEGERS = {(-(2**n), 2**n - 1) for n in (7, 15, 31, 63)}
"""To these a DOUBLE is rounded to the even neighbour, to decimals away from zero."""


def _within(exact: str, to: Type, scale: int = 0) -> str:
    """An exact number in a type, NULL where it does not fit; `scale`: it counts units of 10**-scale."""
    low, high = (f"CAST('{_spelled(end, to.scale)}' AS DECIMAL(38,{to.scale}))" for end in (to.lower, to.upper))
    inside = f"CASE WHEN {exact} BETWEEN {low} AND {high} THEN {exact} END"
    if not scale:
        return cast(inside, physical(to))
    digits = len(str(max(abs(to.lower), abs(to.upper))))
    made = f"CAST({inside} AS DECIMAL({digits},0)) * {spark_decimal(scale)}"
    return cast(made, as_decimal(Type(to.kind, to.lower, to.upper, scale)))


def _spelled(unscaled: int, scale: int) -> str:
    sign, digits = "-" if unscaled < 0 else "", str(abs(unscaled)).rjust(scale + 1, "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"


def _bits(call: Call, emit: Emit) -> str:
    it, *rest = (emit(a, "BIGINT") for a in call.args)
    made = f"bit_count({it})" if call.op == "bit_count" else f"shiftright({it}, {cast(rest[0], 'INTEGER')})"
    return cast(made, physical(call.type))


RULES: dict[str, Rule] = {
    "add": _ring("+"), "sub": _ring("-"), "mul": _ring("*"), "div": _divide, "idiv": _whole_divide, "mod": _modulo,
    "neg": _sign_change, "abs": _sign_change, "cast": _convert, "sign": _sign,
    "round": _placed("round"), "round_even": _placed("bround"), "trunc_to": _placed("trunc"),
    "bit_count": _bits, "shift_right": _bits, **dict.fromkeys(_WHOLE, _own_type),
}  # fmt: skip


def computed(node: Call) -> bool:
    """Is there a total form of this very operation over these types?"""
    it = node.args[0].type if node.args else node.type
    if not all(fits(t) for t in (node.type, *(a.type for a in node.args))):
        return False
    if node.op in ("bit_count", "shift_right"):
        return it.lower >= 0
    if node.op == "idiv" and node.type.kind is Kind.INTEGER:
        return all(max(-a.type.lower, a.type.upper) < 10**32 for a in node.args)
    if node.op == "cast":
        return _castable(node.type, it) or (node.type.kind is Kind.DOUBLE and _spelled_out(node.args[0]) is not None)
    return True


def _spelled_out(it: Expression) -> float | None:
    """The number that a constant text spells: 'nan', 'inf', '1e5'."""
    if not isinstance(it, Literal) or not isinstance(it.value, str):
        return None
    try:
        return float(it.value)
    except ValueError:
        return None


def _castable(to: Type, it: Type) -> bool:
    """Texts of numbers and dates are spelled in too many ways that engines read differently.

    A DOUBLE above 64 bits is a decimal of 17 digits to Spark, and exact to others.
    """
    if it.kind is Kind.TEXT:
        return to.kind is Kind.TEXT
    if it.kind is Kind.DOUBLE and to.kind is Kind.INTEGER and to.upper >= 10**18:
        return to.sums_whole
    return not (to.kind is Kind.TEXT and (it.kind is Kind.DOUBLE or it.scale > 6))
