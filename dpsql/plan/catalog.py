"""The tables that exist for one analyst: the policy joined with the engine's column types, fail closed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from difflib import get_close_matches

from dpsql.bounds.domain import Domain, finite, intersect, interval, number, of_type
from dpsql.errors import PolicyError
from dpsql.expressions.expression import Value
from dpsql.expressions.types import DOUBLE, Kind, Type, from_engine
from dpsql.plan.relation import Field, Scan
from dpsql.policy import Bound, Policy, fold
from dpsql.policy.catalog import quote
from dpsql.policy.model import Column, ForeignKey
from dpsql.policy.model import Table as Declared


@dataclass(frozen=True, slots=True)
class PrivateTable:
    """A private table as the planner sees it."""

    name: str
    scan: Scan
    groups_per_unit: int


@dataclass(frozen=True, slots=True)
class UnavailableTable:
    """A table of the policy that cannot be queried yet; every use is refused with this reason."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class PublicTable:
    """A public table: its columns may be read exactly."""

    name: str
    columns: tuple[str, ...]


Table = PrivateTable | PublicTable | UnavailableTable


@dataclass(frozen=True, slots=True)
class Catalog:
    """Tables by folded name; what is not here does not exist."""

    tables: Mapping[str, Table]
    max_public_keys: int

    def find(self, name: str) -> Table | None:
        """The table of that name, in any case."""
        return self.tables.get(name.lower())

    def veiled(self, sql: str) -> str:
        """SQL for the analyst's eyes: the names of unit columns that they may not see are left out."""
        for table in self.tables.values():
            if isinstance(table, PrivateTable) and table.scan.hidden is not None:
                sql = sql.replace(quote(table.scan.hidden.name), '"<unit>"')
        return sql

    def nearest(self, name: str) -> str:
        """A hint that lists what exists."""
        return suggest(name, [table.name for table in self.tables.values()], "tables")


def suggest(name: str, existing: list[str], what: str) -> str:
    """«did you mean …» and the list of what there is."""
    folded = {e.lower(): e for e in existing}
    close = get_close_matches(name.lower(), list(folded), n=1)
    listed = ", ".join(existing[:20]) + (", …" if len(existing) > 20 else "")
    return (f"did you mean {folded[close[0]]}? " if close else "") + f"{what}: {listed or 'none'}"


def make_catalog(
    policy: Policy,
    schema: Mapping[str, Mapping[str, str]],
    facts: frozenset[tuple[str, str]] = frozenset(),
    analyst: str | None = None,
) -> Catalog:
    """The catalogue of an analyst (None: the steward): columns that they may not see are not in it.

    `schema` gives the engine's columns and type names by folded table name; `facts` are the *verified* facts, the
    only ones that let a rule skip enforcement.
    """
    tables: dict[str, Table] = {}
    for name in policy.tables_for(analyst):
        try:
            tables[name.lower()] = _table(name, policy, schema, facts, policy.columns_for(analyst, name))
        except PolicyError:
            if policy.sees_all(analyst):
                raise
            raise PolicyError(
                f"the policy does not fit the database: table {name}", hint="ask the steward to run `dpsql check`"
            ) from None
    return Catalog(tables, policy.limits.max_public_keys)


def _table(
    name: str,
    policy: Policy,
    schema: Mapping[str, Mapping[str, str]],
    facts: frozenset[tuple[str, str]],
    allowed: frozenset[str] | None,
) -> Table:
    declared, stored = policy.tables[name], schema.get(name.lower())
    if stored is None:
        raise PolicyError(
            f"tables.{name}: the database has no such table",
            hint=suggest(name, sorted(schema), "tables in the database"),
        )
    if declared.public:
        return _public(name, declared, stored, allowed)
    if _indirect(declared, policy):
        return UnavailableTable(name, "its owner is found through another table, which needs a join")
    return _seen(_private(name, declared, stored, policy, facts), allowed)


def _indirect(declared: Declared, policy: Policy) -> bool:
    """Does the path lead through a row anywhere, rather than name the unit itself at every step?

    **Theorem.** If not, the column's value is the owner. **Proof.** By induction along the path: the key it points to
    is the parent's own unit column, whose value is the owner, and equal values name equal units.
    **Checked by** `tests/unit/plan/test_catalog.py`.
    """
    unit = declared.unit
    if not isinstance(unit, ForeignKey):
        return False
    parent = policy.tables[unit.table]
    return (parent.unit_column or "").lower() != unit.key.lower() or _indirect(parent, policy)


def _seen(table: PrivateTable, allowed: frozenset[str] | None) -> PrivateTable:
    """The table with the columns that an analyst may see; its rows keep their owner."""
    if allowed is None:
        return table
    fields = tuple(field for field in table.scan.fields if fold(field.name) in allowed)
    hidden = next((f for f in table.scan.fields if f.unit and f not in fields), None)
    return replace(table, scan=replace(table.scan, fields=fields, hidden=hidden))


def _public(name: str, declared: Declared, stored: Mapping[str, str], allowed: frozenset[str] | None) -> PublicTable:
    wanted = list(declared.columns) if declared.columns is not None else list(stored)
    wanted = [column for column in wanted if allowed is None or fold(column) in allowed]
    return PublicTable(name, tuple(_stored(name, column, stored)[0] for column in wanted))


def _private(
    name: str, declared: Declared, stored: Mapping[str, str], policy: Policy, facts: frozenset[tuple[str, str]]
) -> PrivateTable:
    fields = []
    single = declared.by_row or (declared.unique and (name.lower(), declared.unique_fact) in facts)
    unit = None
    columns = dict(declared.columns or {})
    if declared.unit_column is not None:
        unit, _ = _stored(name, declared.unit_column, stored)
        if not _one_to_one(stored[unit]):
            raise PolicyError(
                f"tables.{name}.unit: a column of type {stored[unit]} is no unit: reading it could merge two units",
                hint="give the table a unit column of a whole number, text or date type",
            )
        if unit.lower() not in {column.lower() for column in columns}:
            columns[unit] = Column()
    for column, spec in columns.items():
        stored_name, type_ = _stored(name, column, stored)
        is_unit = unit is not None and stored_name == unit
        domain = _domain(f"{name}.{stored_name}", spec, type_)
        fields.append(Field(stored_name, type_, domain, attribute=is_unit or single, unit=is_unit))
    scan = Scan(
        tuple(fields), declared.by_row, 1 if declared.by_row else policy.rows_per_unit(name), single, name, unit
    )
    return PrivateTable(name, scan, 1 if declared.by_row else policy.groups_per_unit(name))


def _one_to_one(engine_type: str) -> bool:
    """Can every two stored values still be told apart after they are read?"""
    kind = from_engine(engine_type)
    wide = engine_type.upper().startswith("DECIMAL") and kind == DOUBLE
    return not wide and engine_type.upper() not in ("TIMESTAMP_NS", "TIMESTAMP_S", "TIMESTAMP_MS")


def _stored(table: str, column: str, stored: Mapping[str, str]) -> tuple[str, Type]:
    for name, engine_type in stored.items():
        if name.lower() == column.lower():
            type_ = from_engine(engine_type)
            if type_ is None:
                raise PolicyError(
                    f"tables.{table}.columns.{name}: a column of type {engine_type} cannot be queried privately",
                    hint="leave the column out of the policy, or give the table a column of a plain type",
                )
            return name, type_
    raise PolicyError(
        f"tables.{table}.columns.{column}: the table has no such column", hint=suggest(column, list(stored), "columns")
    )


def _domain(where: str, spec: Column, type_: Type) -> Domain:
    declared = f"declared for {where}"
    known = of_type(type_)
    if type_.kind is not Kind.BOOLEAN:
        known = Domain(known.lower, known.upper, None, True, known.nan, known.origin)
    if spec.values is not None:
        return finite(spec.values, type_, nullable=spec.nulls, origin=(declared,))
    low = None if spec.min is None else number(_as_kind(spec.min, type_))
    high = None if spec.max is None else number(_as_kind(spec.max, type_))
    origin = (declared,) if low is not None or high is not None else ()
    mine = interval(low, high, nullable=spec.nulls, nan=known.nan and spec.nulls, origin=origin)
    return intersect(known, mine)


def _as_kind(bound: Bound, type_: Type) -> Value:
    """A date for a timestamp column means its midnight."""
    if type_.kind is Kind.TIMESTAMP and isinstance(bound, date) and not isinstance(bound, datetime):
        return datetime.combine(bound, time())
    if type_.kind is Kind.DATE and isinstance(bound, datetime):
        return bound.date()
    return bound
