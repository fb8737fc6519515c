"""Whether what a policy declares of a column fits the column's type in the database."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING

from dpsql.policy.catalog import family
from dpsql.policy.model import Column
from dpsql.policy.scalars import Bound, Value, kind, show

if TYPE_CHECKING:
    import duckdb

_BOUNDS = {
    "integer": {"number"},
    "decimal": {"number"},
    "float": {"number"},
    "date": {"date"},
    "timestamp": {"date", "timestamp"},
    "timestamptz": {"date", "timestamp"},
}
_VALUES = {
    "integer": "number",
    "decimal": "number",
    "float": "number",
    "boolean": "boolean",
    "text": "text",
    "enum": "text",
    "uuid": "text",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamp",
}


def misfits(column: Column, data_type: str) -> Iterator[str]:
    """Why the declaration cannot hold for this type, and what to write instead; nothing if it fits."""
    sort = family(data_type)
    if sort is None:
        yield f"its type {data_type} is not supported: leave the column out of the policy"
        return
    for name in ("min", "max"):
        bound = getattr(column, name)
        if bound is not None and (kind(bound) or "number") not in _BOUNDS.get(sort, set()):
            yield f"{name} = {show(bound)} does not suit {data_type}: {_bound_advice(sort)}"
        elif bound is not None and not _fits(bound, data_type):
            yield f"{name} = {show(bound)} is not a value of {data_type}: declare one that is"
    for value in column.values or ():
        if kind(value) != _VALUES[sort]:
            yield f"the value {show(value)} is a {kind(value)}, not a {data_type}{_yes_no(value, sort)}"
        elif not _fits(value, data_type):
            yield f"{show(value)} is not a value of {data_type}: take it out of `values`"


def literal(value: Bound | Value, data_type: str) -> str:
    """A declared value as text that the engine casts to the column's type; time zones are read in UTC."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, date):
        zoned = family(data_type) == "timestamptz"
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
        return f"{moment.isoformat(' ')}+00:00" if zoned else str(value)
    return format(value, "f") if isinstance(value, Decimal) else str(value)


@cache
def _scratch() -> duckdb.DuckDBPyConnection:
    """A database without tables, to cast declared values in."""
    import duckdb

    return duckdb.connect(config={"threads": 1})


def _fits(value: Bound | Value, data_type: str) -> bool:
    """Whether the type holds exactly this value (a float: nearly, and a decimal of more than 38 digits)."""
    wide = re.fullmatch(r"DECIMAL\((\d+),.*\)", data_type)
    if wide and int(wide[1]) > 38:
        return isinstance(value, int | float | Decimal)
    with _scratch().cursor() as cursor:
        cursor.execute("SET SESSION TimeZone = 'UTC'")
        tried = f"SELECT TRY_CAST(TRY_CAST(? AS {data_type}) AS VARCHAR)"
        [(cast,)] = cursor.execute(tried, [literal(value, data_type)]).fetchall()
    if cast is None:
        return False
    if family(data_type) == "float":
        return math.isfinite(float(cast))
    return family(data_type) not in {"integer", "decimal"} or Decimal(cast) == value


def _bound_advice(sort: str) -> str:
    if sort not in _BOUNDS:
        return "only numbers, dates and time stamps have min and max; list `values` instead"
    return f"write a {' or a '.join(sorted(_BOUNDS[sort]))}"


def _yes_no(value: Value, sort: str) -> str:
    if isinstance(value, bool) and sort in {"text", "enum"}:
        return ": YAML reads yes, no, on and off as booleans, so put texts in quotes"
    return ": write values of its type (texts in quotes)"
