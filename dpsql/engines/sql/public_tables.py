"""The contents of public tables, for the planner: queried once and cached."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Set
from datetime import date, datetime
from typing import Any

from dpsql.bounds.domain import Domain, finite, interval, number, of_type
from dpsql.engines.sql.dialect import Site
from dpsql.engines.sql.relations import relation_sql
from dpsql.expressions.expression import Expression, Value, columns_of
from dpsql.expressions.types import Kind, Type, from_engine
from dpsql.plan.nodes.relation import Field, PublicScan, Relation
from dpsql.policy.identifiers import fold

LISTED = 64
"""Up to so many texts of a column are listed; numbers and dates have their ends, which conditions narrow faster."""

Ask = Callable[[str], "list[Any] | None"]
"""Gives the rows of a query; None where the engine or Python cannot read them. They are public, so that may show."""
Keys = Set[tuple[str, frozenset[str]]]
"""Tables, and sets of their columns that a constraint makes unique; all names folded."""


class PublicReader:
    """Answers the planner's questions; `lasting` if nobody can write to the tables while they are open here.

    `keys` gives what the engine guarantees of columns that are compared as stored.
    """

    def __init__(self, rows: Ask, keys: Callable[[], Keys], site: Site, *, lasting: bool) -> None:
        self._rows, self._constraints, self._site, self._lasting = rows, keys, site, lasting
        self.forget()

    def forget(self) -> None:
        """Drop the cache: others may have written to the tables."""
        self._unique: dict[tuple[str, frozenset[str]], bool] = {}
        self._domains: dict[tuple[str, str], Domain] = {}
        self._values: dict[tuple[str, int], Domain | None] = {}
        self._keys: Keys | None = None

    def unique(self, table: str, columns: frozenset[str]) -> bool:
        """Do the columns name at most one row? By a constraint, or by the rows of a file that is read only."""
        asked = (fold(table), columns)
        if asked not in self._unique:
            self._keys = self._constraints() if self._keys is None else self._keys
            keys = [key for owner, key in self._keys if owner == fold(table)]
            found = any(key <= {fold(c) for c in columns} for key in keys)
            self._unique[asked] = found or (self._lasting and bool(columns) and self._counted(table, columns))
        return self._unique[asked]

    def domains(self, table: str, columns: Collection[str]) -> Mapping[str, Domain]:
        """The values of each column."""
        for column in columns:
            if (fold(table), column) not in self._domains:
                self._domains[fold(table), column] = self._domain(table, column)
        return {column: self._domains[fold(table), column] for column in columns}

    def values(self, relation: Relation, expression: Expression, most: int) -> Domain | None:
        """The values of an expression over a public relation."""
        source = relation_sql(relation, columns_of(expression), self._site)
        text = f"SELECT DISTINCT {source.render(expression)} AS v FROM {source.source}{source.conditions}"
        asked = (text, most)
        if asked not in self._values:
            self._values[asked] = self._listed(text, expression.type, most, "public tables")
        return self._values[asked]

    def _counted(self, table: str, columns: frozenset[str]) -> bool:
        scan = self._scan(table, columns)
        source = relation_sql(scan, columns, self._site)
        read = [source.columns[column] for column in sorted(columns)]
        text = (
            f"SELECT 1 FROM {source.source} WHERE {' AND '.join(f'{r} IS NOT NULL' for r in read)} "
            f"GROUP BY {', '.join(read)} HAVING count(*) > 1 LIMIT 1"
        )
        return self._rows(text) == []

    def _domain(self, table: str, column: str) -> Domain:
        scan, origin = self._scan(table, {column}), f"public table {table}"
        type_, source = scan.fields[0].type, relation_sql(scan, frozenset({column}), self._site)
        value = source.columns[column]
        if type_.kind in (Kind.TEXT, Kind.BOOLEAN):
            distinct = f"SELECT DISTINCT {value} AS v FROM {source.source}"
            return self._listed(distinct, type_, LISTED, origin) or of_type(type_)
        nan = f"bool_or({self._site.dialect.is_nan(value)})" if type_.kind is Kind.DOUBLE else "false"
        rows = self._rows(f"SELECT min({value}), max({value}), bool_or({value} IS NULL), {nan} FROM {source.source}")
        if rows is None or not all(_readable(end, type_) for end in rows[0][:2]):
            return of_type(type_)
        low, high, null, odd = rows[0]
        ends = [None if e is None else number(e) for e in (low, high)]
        return interval(*ends, nullable=bool(null), nan=bool(odd), origin=(origin,))

    def _listed(self, text: str, type_: Type, most: int, origin: str) -> Domain | None:
        rows = self._rows(f"SELECT v FROM ({text} LIMIT {most + 1}) AS t ORDER BY v NULLS LAST")
        if rows is None or len(rows) > most or not all(_readable(value, type_) for (value,) in rows):
            return None
        values: list[Value] = [value for (value,) in rows if value is not None]
        return finite(values, type_, nullable=len(values) < len(rows), origin=(origin,))

    def _scan(self, table: str, columns: Collection[str]) -> PublicScan:
        stored = self._site.columns[fold(table)]
        types = {column: from_engine(stored[column]) for column in columns}
        fields = [Field(column, t, of_type(t)) for column, t in types.items() if t is not None]
        return PublicScan(tuple(fields), False, 1, False, table)


_ENDLESS = frozenset({date.min, date.max, datetime.min, datetime.max})


def _readable(value: Any, type_: Type) -> bool:
    """Can the value stand in a domain? NaN and infinity cannot, nor a moment beyond the calendar that Python has.

    DuckDB gives such a moment as text, and an infinite one as the first or the last of the calendar.
    """
    if type_.temporal:
        return value is None or (isinstance(value, date) and value not in _ENDLESS)
    return not isinstance(value, float) or math.isfinite(value)
