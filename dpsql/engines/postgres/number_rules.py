"""Arithmetic, rounding and casts of PostgreSQL, in types that hold every result.

**Theorem.** No rule here raises, whatever the operands are. **Proof.** Whole numbers and decimals are computed in a
type that holds the hard range of the result: `integer` and `bigint` where it fits, else `numeric`, which has no limit
that could be reached. Divisors are never zero (`nullif`). DOUBLE goes through `dpsql.engines.postgres.server_session`.
A cast to a narrower type stands in a CASE behind the range of that type.
**Requires** operands inside the hard ranges of their types, which `Postgres.read` and the rules below keep, and the
functions of `total` in the session.
**Checked by** `tests/engines/test_postgres_total.py`.
"""

from __future__ import annotations

import math

from dpsql.engines.postgres.syntax import called, cast, decimal_parts, double
from dpsql.engines.sql.expression_rules import Emit, Rule, nonzero, width_of
from dpsql.engines.sql.sql_types import as_decimal, physical, shared
from dpsql.expressions.expression import Call, Expression
from dpsql.expressions.types import Kind

_ENDS = {"TINYINT": 2**7, "SMALLINT": 2**15, "INTEGER": 2**31, "BIGINT": 2**63}


def attempted(value: str, given: str, wanted: str) -> str:
    """A cast that gives NULL where it would fail."""
    if given == wanted:
        return value
    if given == "VARCHAR":
        return _read(value, wanted)
    if given == "DATE" and wanted == "TIMESTAMP":
        return called("date_as_timestamp", value)
    if wanted in _ENDS and given != "BOOLEAN":
        return _fitting(value, given, -_ENDS[wanted], _ENDS[wanted] - 1, wanted)
    if wanted.startswith("DECIMAL"):
        return _into_decimal(value, given, wanted)
    return cast(value, wanted)


def _fitting(value: str, given: str, low: int, high: int, wanted: str) -> str:
    """A whole number in a range, rounded as DuckDB does.

    A DOUBLE goes half to even where the range is that of a whole type; to a decimal without places, and of a decimal,
    half goes away from zero.
    """
    if given == "DOUBLE" and high + 1 not in _ENDS.values():
        value = called("away", value)
    if given == "DOUBLE":
        least, most = (float(end) if abs(end) >= 2**53 else end + half for end, half in ((low, -0.5), (high, 0.5)))
        inside = f"{value} >= {double(least)} AND {value} <= {double(math.nextafter(most, 0))}"
    elif given.startswith("DECIMAL"):
        inside = f"{value} > {low} - 0.5 AND {value} < {high} + 0.5"
    else:
        inside = f"{value} BETWEEN {low} AND {high}"
    made = cast(f"round({value})" if given.startswith("DECIMAL") else value, wanted)
    return f"CASE WHEN {inside} THEN {made} END"


def _into_decimal(value: str, given: str, wanted: str) -> str:
    """What rounds to one digit more than there are does not fit. DOUBLE is scaled before it is made exact."""
    width, scale = decimal_parts(wanted)
    if given == "DOUBLE":
        steps = called("away", called("mul", value, double(10.0**scale)))
        inside = f"abs({value}) < {double(min(10.0 ** (width - scale), 9e18 / 10**scale))}"
        made = f"CAST(CASE WHEN {inside} THEN {steps} END AS bigint)"
        exact = cast(f"{made} / {10**scale}.0", wanted)
        return f"CASE WHEN abs({made}) < {10**width} THEN {exact} END"
    rounded = f"round({cast(value, 'HUGEINT')}, {scale})"
    return f"CASE WHEN abs({rounded}) < {10 ** (width - scale)} THEN {cast(rounded, wanted)} END"


def _read(value: str, wanted: str) -> str:
    if wanted in ("DOUBLE", "DATE", "TIMESTAMP"):
        return called(wanted.lower(), value)
    if wanted == "BOOLEAN":
        true, false = "('true', 't', '1', 'yes', 'y')", "('false', 'f', '0', 'no', 'n')"
        return f"CASE WHEN lower({value}) IN {true} THEN TRUE WHEN lower({value}) IN {false} THEN FALSE END"
    exact = called("numeric", value)
    return exact if wanted == "HUGEINT" else attempted(exact, "DECIMAL(38,19)", wanted)


def _as(made: str, given: str, call: Call) -> str:
    wanted = physical(call.type)
    return made if given == wanted else cast(made, wanted)


def _ring(sign: str, function: str) -> Rule:
    def rule(call: Call, emit: Emit) -> str:
        if call.type.kind is Kind.DOUBLE:
            one, two = (emit(a, "DOUBLE") for a in call.args)
            return called(function, one, f"(-({two}))" if sign == "-" else two)
        if call.type.kind is Kind.INTEGER:
            width = width_of(call)
            return _as(f"({f' {sign} '.join(emit(a, width) for a in call.args)})", width, call)
        parts = [emit(a, as_decimal(a.type)) for a in call.args]
        return cast(f"({f' {sign} '.join(parts)})", physical(call.type))

    return rule


def _divide(call: Call, emit: Emit) -> str:
    return called("div", emit(call.args[0], "DOUBLE"), emit(call.args[1], "DOUBLE"))


def _whole_divide(call: Call, emit: Emit) -> str:
    """Toward zero for whole numbers; over others DuckDB's // is plain division. By zero: NULL."""
    one, two = call.args
    if call.type.kind is Kind.INTEGER:
        return cast(f"div({emit(one, 'HUGEINT')}, {nonzero(two, emit, 'HUGEINT')})", physical(call.type))
    made = called("div", emit(one, "DOUBLE"), nonzero(two, emit, "DOUBLE"))
    return f"trunc({made})" if one.type.kind is two.type.kind is Kind.INTEGER else made


def _modulo(call: Call, emit: Emit) -> str:
    """Of exact numbers; the sign follows the dividend. By zero: NULL."""
    one, two = call.args
    exact = "HUGEINT" if one.type.kind is two.type.kind is Kind.INTEGER else shared([one.type, two.type])
    return cast(f"mod({emit(one, exact)}, {nonzero(two, emit, exact)})", physical(call.type))


def _sign_change(call: Call, emit: Emit) -> str:
    """The least whole number has no opposite in its own width."""
    it = call.args[0]
    width = width_of(call) if call.type.kind is Kind.INTEGER else physical(it.type)
    width = "DOUBLE" if call.type.kind is Kind.DOUBLE else width
    made = f"(-({emit(it, width)}))" if call.op == "neg" else f"abs({emit(it, width)})"
    return made if call.type.kind is Kind.DOUBLE else cast(made, physical(call.type))


def _own_type(call: Call, emit: Emit) -> str:
    """floor, ceil, trunc, sign; of NaN the sign is 0."""
    it = call.args[0]
    given = "DOUBLE" if it.type.kind is Kind.NULL else physical(it.type)
    value = emit(it, given)
    if call.op == "sign" and given == "DOUBLE":
        return cast(f"CASE WHEN {value} = 'NaN' THEN 0 ELSE sign({value}) END", physical(call.type))
    made = f"{call.op}({value})"
    return made if call.type.kind is Kind.DOUBLE else cast(made, physical(call.type))


def _round(call: Call, emit: Emit) -> str:
    """Half away from zero."""
    it, places = call.args[0], call.option
    assert isinstance(places, int)
    if call.type.kind is Kind.DOUBLE:
        value = emit(it, "DOUBLE")
        if places == 0:
            return called("away", value)
        return called("round_up" if places > 0 else "round_down", value, double(10.0 ** abs(places)))
    return cast(f"round({_exact(it, emit)}, {places})", physical(call.type))


def _cut(call: Call, emit: Emit) -> str:
    return cast(f"trunc({_exact(call.args[0], emit)}, {call.option})", physical(call.type))


def _exact(it: Expression, emit: Emit) -> str:
    return emit(it, "HUGEINT" if it.type.kind is Kind.INTEGER else physical(it.type))


def _convert(call: Call, emit: Emit) -> str:
    """CAST; what does not fit is NULL."""
    it = call.args[0]
    given, wanted = physical(it.type), physical(call.type)
    if it.type.kind is Kind.NULL:
        return cast("NULL", wanted)
    value = emit(it, given)
    match it.type.kind, call.type.kind:
        case Kind.BOOLEAN, Kind.INTEGER | Kind.DECIMAL | Kind.DOUBLE:
            return attempted(f"CAST({value} AS integer)", "INTEGER", wanted)
        case Kind.INTEGER | Kind.DECIMAL | Kind.DOUBLE, Kind.BOOLEAN:
            return f"({value} <> 0)"
        case _, Kind.TEXT:
            return value if given == "VARCHAR" else f'({cast(value, "VARCHAR")} COLLATE "C")'
        case Kind.TIMESTAMP, Kind.DATE:
            return cast(value, "DATE")
        case Kind.TEXT, Kind.INTEGER:
            return _fitting(called("numeric", value), "DECIMAL(38,19)", call.type.lower, call.type.upper, wanted)
        case _, Kind.INTEGER:
            return _fitting(value, given, call.type.lower, call.type.upper, wanted)
        case Kind.INTEGER | Kind.DECIMAL, Kind.DOUBLE:
            return cast(value, wanted)
    return attempted(value, given, wanted)


def _function(name: str) -> Rule:
    """A function of this session over numbers."""

    def rule(call: Call, emit: Emit) -> str:
        return called(name, *(emit(a, "DOUBLE") for a in call.args))

    return rule


def _plain(form: str, handed: str = "DOUBLE") -> Rule:
    """A function of PostgreSQL that is total."""

    def rule(call: Call, emit: Emit) -> str:
        made = form.format(*(emit(a, handed) for a in call.args))
        return cast(made, physical(call.type)) if call.type.kind is Kind.INTEGER else made

    return rule


def has_form(call: Call) -> bool:
    """Whether the types of a call are among those that are computed here as DuckDB computes them."""
    kinds = [a.type.kind for a in call.args]
    match call.op:
        case "mod" | "trunc_to":
            return call.type.kind is not Kind.DOUBLE
        case "cast":
            return not (kinds[0] is Kind.DOUBLE and (call.type.kind is Kind.TEXT or physical(call.type) == "HUGEINT"))
    return True


RULES: dict[str, Rule] = {
    "add": _ring("+", "add"), "sub": _ring("-", "add"), "mul": _ring("*", "mul"), "div": _divide,
    "idiv": _whole_divide, "mod": _modulo, "neg": _sign_change, "abs": _sign_change, "cast": _convert,
    "round": _round, "trunc_to": _cut, **dict.fromkeys(("floor", "ceil", "trunc", "sign"), _own_type),
    **{name: _function(name) for name in
       ("sqrt", "exp", "ln", "log2", "log10", "power", "sin", "cos", "tan", "cot", "asin", "acos", "acosh", "atanh")},
    **{name: _plain(f"{name}({{0}})") for name in ("atan", "sinh", "cosh", "tanh", "asinh", "cbrt")},
    "atan2": _plain("atan2({0}, {1})"), "pi": _plain("pi()"),
    "degrees": _plain(called("mul", "{0}", double(180 / math.pi))),
    "radians": _plain(called("mul", "{0}", double(math.pi / 180))),
    "isnan": _plain("({0} = 'NaN')"), "isinf": _plain("(abs({0}) = 'Infinity')"),
    "isfinite": _plain("(abs({0}) < 'Infinity')"),
    "gcd": _plain("gcd({0}, {1})", "HUGEINT"), "lcm": _plain("lcm({0}, {1})", "HUGEINT"),
    "factorial": _plain("factorial(CASE WHEN {0} BETWEEN 0 AND 33 THEN {0} END)", "BIGINT"),
    "bit_and": _plain("({0} & {1})", "BIGINT"), "bit_or": _plain("({0} | {1})", "BIGINT"),
    "xor": _plain("({0} # {1})", "BIGINT"), "bit_not": _plain("(~({0}))", "BIGINT"),
}  # fmt: skip
