"""Names and constants as DuckDB SQL."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal

from dpsql.engines.duckdb.physical import physical
from dpsql.errors import InternalError
from dpsql.expressions.expression import Value
from dpsql.expressions.types import Kind, Type


def quote(name: str) -> str:
    """A name as SQL, whatever it contains."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A string constant."""
    return "'" + value.replace("'", "''") + "'"


def literal(value: Value, type_: Type) -> str:
    """A constant as SQL, in exactly the type that `physical` names."""
    if value is None:
        return f"CAST(NULL AS {physical(type_)})"
    match type_.kind, value:
        case Kind.BOOLEAN, bool():
            return "TRUE" if value else "FALSE"
        case Kind.TEXT, str():
            return text(value)
        case Kind.TIMESTAMP, datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case Kind.DATE, date():
            return f"DATE '{value.isoformat()}'"
        case Kind.DOUBLE, int() | float() | Decimal():
            return f"CAST('{_double(value)}' AS DOUBLE)"
        case Kind.INTEGER | Kind.DECIMAL, int() | Decimal():
            return _exact(value, type_)
    raise InternalError(f"no literal of type {type_} for a {type(value).__name__}")


def _exact(value: int | Decimal, type_: Type) -> str:
    if type_.kind is Kind.INTEGER and physical(type_) == "INTEGER":
        return str(value) if value >= 0 else f"({value})"
    return (
        f"CAST('{value:f}' AS {physical(type_)})"
        if isinstance(value, Decimal)
        else f"CAST('{value}' AS {physical(type_)})"
    )


def _double(value: float | Decimal) -> str:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    return repr(number)
