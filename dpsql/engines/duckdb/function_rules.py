"""The functions whose total form stands in the table: arguments in their types, moments and long texts guarded."""

from __future__ import annotations

from dpsql.engines.duckdb.datetime_rules import calendar
from dpsql.engines.sql.expression_rules import Emit
from dpsql.engines.sql.sql_types import physical
from dpsql.expressions.expression import Call, Expression
from dpsql.expressions.functions.function import TEMPORAL, Elsewhere, Function, Parameter
from dpsql.expressions.functions.table import FUNCTIONS
from dpsql.expressions.types import Kind


def listed(call: Call) -> Function | None:
    """The line of the table for an operation, if the form stands there."""
    function = FUNCTIONS.get(call.op)
    plain = function is not None and (function.takes or function.gives) and not isinstance(function.sql, Elsewhere)
    return function if plain else None


def growth(function: Function, call: Call) -> tuple[int, int]:
    """Bytes of the result for each byte of the longest argument, and bytes beyond."""
    return function.growth if isinstance(function.growth, tuple) else function.growth(call)


def written(function: Function, call: Call, emit: Emit) -> str:
    """The total form, in the type that the call has."""
    parameters = function.takes[: len(call.args)]
    parts = [_handed(p, a, emit) for p, a in zip(parameters, call.args, strict=True)]
    made = f"{function.name}({', '.join(parts)})" if function.sql is None else str(function.sql).format(*parts)
    exact = call.type.kind in (Kind.INTEGER, Kind.DATE, Kind.TIMESTAMP)
    return f"CAST({made} AS {physical(call.type)})" if exact else made


def _handed(parameter: Parameter, argument: Expression, emit: Emit) -> str:
    """An argument in its parameter's type."""
    if argument.type.kind in TEMPORAL:
        made = calendar(argument, emit)
        return f"TRY_CAST({made} AS TIMESTAMP)" if parameter.handed and argument.type.kind is Kind.DATE else made
    made = emit(argument, parameter.handed or physical(argument.type))
    return made if parameter.longest is None else f"CASE WHEN strlen({made}) <= {parameter.longest} THEN {made} END"
