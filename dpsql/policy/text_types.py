"""The types of columns that come as text: in CSV files, and in the names of directories (`year=2024/`)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal

from dpsql.policy.model import Column, ForeignKey, Policy
from dpsql.policy.names import fold


def column_types(policy: Policy, table: str, partitions: Iterable[str] = ()) -> dict[str, str] | None:
    """The types of such columns, by folded name and by what the policy says of them, never by the rows.

    A type is seen by analysts, so it must not hang on a value that somebody's row has. What does not fit is NULL. What
    leads to an owner stays text: a number would be rounded, and two units could become one. None where the policy does
    not say: of a public table, which may show what it has, and of one that it does not name.
    """
    named = next((name for name in policy.tables if fold(name) == fold(table)), None)
    if named is None or policy.tables[named].public:
        return None
    whole, specs = {fold(name) for name in partitions}, policy.tables[named].columns or {}
    types = {fold(name): _type(spec, whole=fold(name) in whole) for name, spec in specs.items()}
    return types | dict.fromkeys(_leading(policy, named), "VARCHAR")


def _leading(policy: Policy, table: str) -> set[str]:
    """The columns that lead to the owner: the unit column, and the keys to which other tables refer for theirs."""
    links = [each.unit for each in policy.tables.values() if isinstance(each.unit, ForeignKey)]
    keys = [link.key for link in links if fold(link.table) == fold(table)]
    return {fold(column) for column in (policy.tables[table].unit_column, *keys) if column is not None}


def _type(spec: Column, *, whole: bool) -> str:
    ends = [end for end in (spec.min, spec.max) if end is not None]
    values = [value for value in spec.values or () if value is not None]
    if values and all(isinstance(value, bool) for value in values):
        return "BOOLEAN"
    if values:
        return "BIGINT" if all(isinstance(value, int) for value in values) else "VARCHAR"
    if any(isinstance(end, datetime) for end in ends):
        return "TIMESTAMP"
    if any(isinstance(end, date) for end in ends):
        return "DATE"
    if whole and ends and all(isinstance(end, int | Decimal) and end == int(end) for end in ends):
        return "BIGINT"
    return "DOUBLE" if ends or spec.bounds is not None else "VARCHAR"
