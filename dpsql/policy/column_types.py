"""The types of columns that have none of their own: in CSV files, in the names of directories (`year=2024/`), in pandas
columns of Python objects, and in Spark DataFrames that were made of rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING

from dpsql.policy.database_catalog import family
from dpsql.policy.identifiers import fold
from dpsql.policy.model import DeclaredColumn, ForeignKey, Policy
from dpsql.policy.policy_values import Bound, Value, kind, show

if TYPE_CHECKING:
    import duckdb

_NAMES = {
    "text": "VARCHAR", "integer": "BIGINT", "double": "DOUBLE", "boolean": "BOOLEAN", "date": "DATE",
    "timestamp": "TIMESTAMP",
}  # fmt: skip


def column_types(policy: Policy, table: str, partitions: Iterable[str] = ()) -> dict[str, str] | None:
    """The types of columns that are stored as text; a column for which the policy states no type stays text."""
    stated = stated_types(policy, table, partitions)
    return None if stated is None else {name: type_ or "VARCHAR" for name, type_ in stated.items()}


def stated_types(policy: Policy, table: str, partitions: Iterable[str] = ()) -> dict[str, str | None] | None:
    """The types that the policy states, by folded column name (None: it states none); the rows never decide.

    Analysts see a type, so it must not depend on a value in somebody's row. What does not fit is NULL. What leads to
    an owner stays text: a number would be rounded, and two units could become one. None where the policy does
    not say: of a public table, which may show what it has, and of one that it does not name.
    """
    named = next((name for name in policy.tables if fold(name) == fold(table)), None)
    if named is None or policy.tables[named].public:
        return None
    whole, specs = {fold(name) for name in partitions}, policy.tables[named].columns or {}
    types = {fold(name): _type(spec, whole=fold(name) in whole) for name, spec in specs.items()}
    return types | dict.fromkeys(_leading(policy, named), "VARCHAR")


def engine_type(word: str) -> str:
    """DuckDB's name for a type of the policy."""
    return _NAMES.get(word) or word.upper()


def _leading(policy: Policy, table: str) -> set[str]:
    """The columns that lead to the owner: the unit column, and the keys to which other tables refer for theirs."""
    links = [each.unit for each in policy.tables.values() if isinstance(each.unit, ForeignKey)]
    keys = [link.key for link in links if fold(link.table) == fold(table)]
    return {fold(column) for column in (policy.tables[table].unit_column, *keys) if column is not None}


def _type(spec: DeclaredColumn, *, whole: bool) -> str | None:
    if spec.type is not None:
        return engine_type(spec.type)
    ends = [end for end in (spec.min, spec.max) if end is not None]
    values = [value for value in spec.values or () if value is not None]
    if values and all(isinstance(value, bool) for value in values):
        return "BOOLEAN"
    if values and all(isinstance(value, int) for value in values):
        return "BIGINT"
    if any(isinstance(value, datetime) for value in (*values, *ends)):
        return "TIMESTAMP"
    if any(isinstance(value, date) for value in (*values, *ends)):
        return "DATE"
    if values:
        return "VARCHAR"
    if whole and ends and all(isinstance(end, int | Decimal) and end == int(end) for end in ends):
        return "BIGINT"
    return "DOUBLE" if ends or spec.bounds is not None else None


# does a declaration match the type of its column?

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


def misfits(column: DeclaredColumn, data_type: str) -> Iterator[str]:
    """Why the declaration cannot hold for this type, and what to write instead; nothing if it fits."""
    sort = family(data_type)
    if sort is None:
        yield f"its type {data_type} is not supported: leave the column out of the policy"
        return
    for name in ("min", "max"):
        bound = getattr(column, name)
        if bound is not None and (kind(bound) or "number") not in _BOUNDS.get(sort, set()):
            yield f"{name} = {show(bound)} does not match type {data_type}: {_bound_advice(sort)}"
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
