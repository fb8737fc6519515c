"""Group keys in SQL: a public key becomes its position in the declared list, all of them together one integer `g`.

A listed key is grouped by its raw value first and looked up afterwards, once per group: a lookup for every row would
cost as much as the whole aggregate. Raw values outside the list fall together under NULL; totals are sums, so adding
up twice changes nothing. The lookup has each value once, by construction, so no row is counted twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from math import prod

from dpsql.engines.sql.dialect import Dialect
from dpsql.engines.sql.from_item import From
from dpsql.expressions.expression import Value
from dpsql.expressions.types import DOUBLE, Kind, Type
from dpsql.sensitivity.bound import Bounded
from dpsql.sensitivity.group_keys import Key

INLINE = 4
"""Up to so many values a CASE is cheaper than a lookup."""
LONGEST_KEY = 2**16
"""The most bytes of a text that is a private key."""


@dataclass(frozen=True, slots=True)
class Coded:
    """Key columns `k0, k1, …` of each row, and how they become one code afterwards (None for private keys)."""

    listed: tuple[str, ...]
    names: tuple[str, ...]
    code: str | None
    joins: str
    conditions: tuple[str, ...]
    dialect: Dialect

    def mapped(self, totals: str, sums: Sequence[str], kept: Sequence[str] = ()) -> str:
        """Totals by raw keys (and the columns that are kept) as totals by code."""
        if self.code is None:
            return totals
        where = f" WHERE {' AND '.join(self.conditions)}" if self.conditions else ""
        listed = ", ".join([f"{self._code} AS g", *kept, *(f"sum({name}) AS {name}" for name in sums)])
        return f"SELECT {listed} FROM ({totals}) AS q{self.joins}{where} GROUP BY {', '.join(['g', *kept])}"

    def in_rows(self, rows: str, others: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        """Rows with the code in place of the keys, beside their other columns.

        In pairs of unit and group a raw value is not yet a group.
        """
        if self.code is None:
            return rows, self.names
        where = f" WHERE {' AND '.join(self.conditions)}" if self.conditions else ""
        listed = ", ".join([*others, f"{self._code} AS g"])
        return f"SELECT {listed} FROM ({rows}) AS r{self.joins}{where}", ("g",)

    @property
    def _code(self) -> str:
        assert self.code is not None
        return self.dialect.cast(self.code, "INTEGER")


def code_keys(bounded: Bounded, source: From) -> Coded:
    """The key columns of a release."""
    names = tuple(f"k{i}" for i in range(len(bounded.keys)))
    if not bounded.keys or not bounded.public:
        listed = tuple(f"{_shown(k, source)} AS {n}" for k, n in zip(bounded.keys, names, strict=True))
        return Coded(listed, names, None, "", (), source.dialect)
    listed_, codes, joins, conditions = [], [], "", []
    for index, key in enumerate(bounded.keys):
        row, code, join = _code(index, key, source)
        listed_.append(f"{row} AS k{index}")
        joins += join
        if key.values and key.values[-1] is None:
            code = f"coalesce({code}, {len(key.values) - 1})"
        else:
            conditions.append(f"{code} IS NOT NULL")
        step = prod(len(k.values or ()) for k in bounded.keys[index + 1 :])
        codes.append(f"{code} * {step}" if step != 1 else code)
    return Coded(tuple(listed_), names, " + ".join(codes), joins, tuple(conditions), source.dialect)


def _shown(key: Key, source: From) -> str:
    """A private key as it will be read; dates that a calendar cannot hold are NULL, so that reading never fails.

    So are texts of more than `LONGEST_KEY` bytes, where the engine limits texts: all keys are read at once, before it
    is known which of them are released, and 40 keys of 16 MB, of one person, would take 1.4 GB.
    """
    value, type_ = source.render(key.expression), key.expression.type
    if type_.kind is Kind.TEXT and source.dialect.carried is not None:
        return source.dialect.short(value, LONGEST_KEY)
    if type_ == DOUBLE:
        return source.dialect.one_zero(value)
    if not type_.temporal:
        return value
    low, high = (datetime.min, datetime.max) if type_.kind is Kind.TIMESTAMP else (date.min, date.max)
    first, last = (source.dialect.literal(end, type_) for end in (low, high))
    return f"CASE WHEN {value} BETWEEN {first} AND {last} THEN {value} END"


def _code(index: int, key: Key, source: From) -> tuple[str, str, str]:
    """The key of a row; its position in the list (NULL if it is not there); and the lookup that this may need."""
    value, type_, dialect = source.render(key.expression), key.expression.type, source.dialect
    values = [v for v in key.values or () if v is not None]
    if not values:
        return dialect.cast("NULL", "INTEGER"), f"k{index}", ""
    if key.contiguous:
        low, high = (dialect.literal(v, type_) for v in (values[0], values[-1]))
        above = dialect.days(value, low) if type_.kind is Kind.DATE else f"{value} - {low}"
        return f"CASE WHEN {value} BETWEEN {low} AND {high} THEN {dialect.cast(above, 'INTEGER')} END", f"k{index}", ""
    if len(values) <= INLINE:
        branches = " ".join(f"WHEN {dialect.literal(v, type_)} THEN {i}" for i, v in enumerate(values))
        return f"CASE {value} {branches} END", f"k{index}", ""
    return value, f"d{index}.i", f" LEFT JOIN {lookup(dialect, values, type_)} AS d{index} ON k{index} = d{index}.v"


def lookup(dialect: Dialect, values: Sequence[Value], type_: Type) -> str:
    """A table of values `v`, each once, and their positions `i`."""
    rows = ", ".join(f"({dialect.literal(v, type_)}, {i})" for i, v in enumerate(values))
    return f"(SELECT v, min(i) AS i FROM (VALUES {rows}) AS l(v, i) GROUP BY v)"
