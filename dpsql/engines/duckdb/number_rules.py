"""Arithmetic, numeric functions and casts, each in a width that its hard range cannot leave."""

from __future__ import annotations

from dpsql.engines.sql.expression_rules import Emit, Rule, nonzero, width_of
from dpsql.engines.sql.sql_types import as_decimal, physical, shared
from dpsql.expressions.expression import Call, Expression
from dpsql.expressions.types import INT64, INT128, Kind, Type


def _cast(made: str, given: str, wanted: str) -> str:
    return made if given == wanted else f"CAST({made} AS {wanted})"


def _ring(sign: str) -> Rule:
    """Addition, subtraction, multiplication.

    Decimals get the result type that DuckDB derives from the operands' own digits; its overflow check cannot strike,
    since the hard range of the result has at most 18 digits, and the cast to that range cannot fail.
    """

    def rule(call: Call, emit: Emit) -> str:
        if call.type.kind is Kind.INTEGER:
            width = width_of(call)
            made = f"({f' {sign} '.join(emit(a, width) for a in call.args)})"
            return _cast(made, width, physical(call.type))
        types = [as_decimal(a.type) if call.type.kind is Kind.DECIMAL else "DOUBLE" for a in call.args]
        made = f"({f' {sign} '.join(emit(a, t) for a, t in zip(call.args, types, strict=True))})"
        return made if call.type.kind is Kind.DOUBLE else f"CAST({made} AS {physical(call.type)})"

    return rule


def _divide(call: Call, emit: Emit) -> str:
    return f"({emit(call.args[0], 'DOUBLE')} / {emit(call.args[1], 'DOUBLE')})"


def _whole_divide(call: Call, emit: Emit) -> str:
    """Toward zero for whole numbers; over other numbers DuckDB's // is plain division. By zero: NULL."""
    one, two = call.args
    if call.type.kind is Kind.INTEGER:
        width = width_of(call)
        return _cast(f"({emit(one, width)} // {nonzero(two, emit, width)})", width, physical(call.type))
    made = f"({emit(one, 'DOUBLE')} / {nonzero(two, emit, 'DOUBLE')})"
    return f"trunc{made}" if one.type.kind is two.type.kind is Kind.INTEGER else made


def _modulo(call: Call, emit: Emit) -> str:
    """The sign follows the dividend. By zero: NULL for exact numbers, NaN for DOUBLE."""
    one, two = call.args
    if call.type.kind is Kind.DOUBLE:
        return f"({emit(one, 'DOUBLE')} % {emit(two, 'DOUBLE')})"
    width = shared([one.type, two.type])
    return f"CAST(({emit(one, width)} % {_divisor(two, emit, width)}) AS {physical(call.type)})"


def _divisor(two: Expression, emit: Emit, width: str) -> str:
    """X % -1 overflows on the least number of a width; x % 1 is the same."""
    divisor = nonzero(two, emit, width)
    if two.type.kind is Kind.INTEGER and two.type.lower <= -1 <= two.type.upper:
        return f"CASE WHEN {emit(two, width)} = -1 THEN 1 ELSE {divisor} END"
    return divisor


def _sign_change(call: Call, emit: Emit) -> str:
    """Neg and abs: the least integer has no opposite in its own width."""
    it = call.args[0]
    width = width_of(call) if call.type.kind is Kind.INTEGER else physical(it.type)
    width = "DOUBLE" if call.type.kind is Kind.DOUBLE else width
    made = f"{'-' if call.op == 'neg' else 'abs'}({emit(it, width)})"
    made = f"({made})" if call.op == "neg" else made
    return made if call.type.kind is Kind.DOUBLE else f"CAST({made} AS {physical(call.type)})"


def _placed(name: str) -> Rule:
    """Rounded or cut to places, in the operand's own exact type.

    Where no digit of a decimal is left DuckDB says 0 of NULL too.
    """

    def rule(call: Call, emit: Emit) -> str:
        it = call.args[0]
        if call.type.kind is Kind.DOUBLE:
            return f"{name}({emit(it, 'DOUBLE')}, {call.option})"
        width = width_of(call) if it.type.kind is Kind.INTEGER else physical(it.type)
        value, places = emit(it, width), call.option
        made = f"{name}({value}, {places})"
        if it.type.kind is Kind.DECIMAL and isinstance(places, int) and places < 0:
            made = f"CASE WHEN {value} IS NOT NULL THEN {made} END"
        return f"CAST({made} AS {physical(call.type)})"

    return rule


_OWN = {(-(2**7), 2**7 - 1): "TINYINT", (-(2**15), 2**15 - 1): "SMALLINT"}


def _own_width(form: str) -> Rule:
    """Bits in the very type that the number has, since DuckDB's answer depends on its width."""

    def rule(call: Call, emit: Emit) -> str:
        it = call.args[0]
        width = physical(it.type) if it.type.kind is Kind.INTEGER else "BIGINT"
        made = emit(it, width)
        if own := _OWN.get((it.type.lower, it.type.upper)):
            made = f"CAST({made} AS {own})"
        rest = [emit(a, "TINYINT" if own else width) for a in call.args[1:]]
        return f"CAST({form.format(made, *rest)} AS {physical(call.type)})"

    return rule


def _own_type(call: Call, emit: Emit) -> str:
    """floor, ceil, trunc, sign: computed in the operand's own type."""
    it = call.args[0]
    given = "DOUBLE" if it.type.kind is Kind.NULL else physical(it.type)
    made = f"{call.op}({emit(it, given)})"
    return made if call.type.kind is Kind.DOUBLE else f"CAST({made} AS {physical(call.type)})"


def _convert(call: Call, emit: Emit) -> str:
    """CAST with DuckDB's own rounding; what does not fit is NULL."""
    it, target = call.args[0], _declared(call.type)
    if it.type.kind is Kind.NULL:
        return f"CAST(NULL AS {physical(call.type)})"
    made = emit(it, physical(it.type))
    if it.type.kind is Kind.BOOLEAN and call.type.kind is Kind.DECIMAL:
        made = f"CAST({made} AS INTEGER)"
    sure = call.type.kind in (Kind.TEXT, Kind.DOUBLE) and it.type.kind is not Kind.TEXT
    return _cast(f"{'CAST' if sure else 'TRY_CAST'}({made} AS {target})", target, physical(call.type))


_DECLARED = {(-(2**7), 2**7 - 1): "TINYINT", (-(2**15), 2**15 - 1): "SMALLINT", INT64: "BIGINT", INT128: "HUGEINT"}


def _declared(type_: Type) -> str:
    """The type that the analyst wrote: its range is what a TRY_CAST must keep to."""
    if type_.kind is not Kind.INTEGER or (physical(type_) == "INTEGER" and type_.upper == 2**31 - 1):
        return physical(type_)
    return _DECLARED.get((type_.lower, type_.upper)) or as_decimal(type_)


RULES: dict[str, Rule] = {
    "add": _ring("+"), "sub": _ring("-"), "mul": _ring("*"), "div": _divide, "idiv": _whole_divide, "mod": _modulo,
    "neg": _sign_change, "abs": _sign_change, "cast": _convert,
    "round": _placed("round"), "round_even": _placed("round_even"), "trunc_to": _placed("trunc"),
    "bit_count": _own_width("bit_count({0})"), "shift_right": _own_width("({0} >> {1})"),
    **dict.fromkeys(("floor", "ceil", "trunc", "sign"), _own_type),
}  # fmt: skip
