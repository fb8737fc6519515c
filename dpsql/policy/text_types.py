"""The types of columns that have none of their own: in CSV files, in the names of directories (`year=2024/`), in pandas
columns of Python objects, and in Spark DataFrames that were made of rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal

from dpsql.policy.model import Column, ForeignKey, Policy
from dpsql.policy.names import fold

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


def _type(spec: Column, *, whole: bool) -> str | None:
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
