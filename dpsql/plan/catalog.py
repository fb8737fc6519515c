"""The tables that exist for one analyst: the policy joined with the engine's column types, fail closed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from difflib import get_close_matches

from dpsql.bounds.domain import Domain, finite, intersect, interval, number, of_type
from dpsql.errors import PolicyError
from dpsql.expressions.expression import Column as Reference
from dpsql.expressions.expression import Value
from dpsql.expressions.types import DOUBLE, Kind, Type, from_engine
from dpsql.plan.public import NoPublicData, PublicData
from dpsql.plan.relation import UNIT, Field, PublicScan, Scan, Step
from dpsql.policy import Bound, Policy
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
    hint: str


@dataclass(frozen=True, slots=True)
class PublicTable:
    """A public table: its columns may be read exactly."""

    name: str
    columns: tuple[str, ...]
    types: tuple[Type, ...]

    def scan(self, domains: Mapping[str, Domain]) -> PublicScan:
        """The table as a relation below the aggregate."""
        fields = (Field(c, t, domains.get(c, of_type(t))) for c, t in zip(self.columns, self.types, strict=True))
        return PublicScan(tuple(fields), False, 1, False, self.name)


Table = PrivateTable | PublicTable | UnavailableTable
Schema = Mapping[str, Mapping[str, str]]
Facts = frozenset[tuple[str, str]]
LISTED = 10_000
"""Up to so many values are taken from the public table that a column refers to."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """Tables by folded name; what is not here does not exist."""

    tables: Mapping[str, Table]
    max_public_keys: int
    public: PublicData

    def find(self, name: str) -> Table | None:
        """The table of that name, in any case."""
        return self.tables.get(name.lower())

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
    schema: Schema,
    facts: Facts = frozenset(),
    analyst: str | None = None,
    public: PublicData | None = None,
) -> Catalog:
    """The catalogue of an analyst (None: the steward).

    `schema` gives the engine's columns and type names by folded table name; `facts` are the *verified* facts, the
    only ones that let a rule skip enforcement, or an owner be found through another table.
    """
    tables: dict[str, Table] = {}
    known: PublicData = public or NoPublicData()
    for name in policy.tables_for(analyst):
        declared = policy.tables[name]
        stored = schema.get(name.lower())
        if stored is None:
            raise PolicyError(
                f"tables.{name}: the database has no such table",
                hint=suggest(name, sorted(schema), "tables in the database"),
            )
        if declared.public:
            tables[name.lower()] = _public(name, declared, stored)
        else:
            tables[name.lower()] = _unverified(name, policy, facts) or _private(name, policy, schema, facts, known)
    return Catalog(tables, policy.limits.max_public_keys, known)


def _unverified(name: str, policy: Policy, facts: Facts) -> UnavailableTable | None:
    """The table, if its owner is found through rows of another table and that is not verified."""
    table = policy.tables[name]
    while _indirect(table, policy):
        link = table.unit
        assert isinstance(link, ForeignKey)
        if (name.lower(), link.fact) not in facts:
            return UnavailableTable(
                name,
                f"its owner is found through another table, and it is not verified that each {link.column} has one "
                f"{link.references}",
                "for a database file, let the steward run `dpsql check`; elsewhere the database needs a PRIMARY KEY on "
                f"{link.references} and a FOREIGN KEY to it",
            )
        name, table = link.table, policy.tables[link.table]
    return None


def _path(name: str, policy: Policy, schema: Schema) -> tuple[tuple[Step, ...], str]:
    """The steps to the row that names the owner, and its unit column; each key is read one to one."""
    steps: list[Step] = []
    table = policy.tables[name]
    while _indirect(table, policy):
        link = table.unit
        assert isinstance(link, ForeignKey)
        column, key = _key(name, link.column, schema), _key(link.table, link.key, schema)
        if column[1] != key[1]:
            raise PolicyError(
                f"tables.{name}.unit: {link.column} and {link.references} have different types",
                hint="give both columns the same type",
            )
        steps.append(Step(column[0], link.table, key[0]))
        name, table = link.table, policy.tables[link.table]
    return tuple(steps), _key(name, table.unit_column or "", schema)[0]


def _key(table: str, column: str, schema: Schema) -> tuple[str, Type]:
    """A column that leads to an owner: two of its values must never be read as one."""
    stored = schema.get(table.lower(), {})
    name, type_ = _stored(table, column, stored)
    if not _one_to_one(stored[name]):
        raise PolicyError(
            f"tables.{table}.unit: a column of type {stored[name]} is no unit: reading it could merge two units",
            hint="give the table a unit column of a whole number, text or date type",
        )
    return name, type_


def _label(link: ForeignKey, policy: Policy) -> str:
    """How a foreign key's values determine the owner: as those of the key it points to."""
    parent = policy.tables[link.table]
    if not isinstance(parent.unit, ForeignKey) or parent.unit.column.lower() != link.key.lower():
        return link.references.lower()
    return _label(parent.unit, policy)


def _labels(name: str, policy: Policy, facts: Facts) -> tuple[dict[str, str], set[str]]:
    """The columns of a table that determine the owner, by label; and those that are verified to be unique."""
    declared, labels, keys = policy.tables[name], {}, set()
    for child, table in policy.tables.items():
        link = table.unit
        if isinstance(link, ForeignKey) and link.table.lower() == name.lower() and (child.lower(), link.fact) in facts:
            keys.add(link.key.lower())
            labels[link.key.lower()] = _label(link, policy)
    if isinstance(declared.unit, ForeignKey) and _indirect(declared, policy):
        labels[declared.unit.column.lower()] = _label(declared.unit, policy)
    elif declared.unit_column is not None:
        labels[declared.unit_column.lower()] = UNIT
    return labels, keys


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


def _public(name: str, declared: Declared, stored: Mapping[str, str]) -> PublicTable:
    wanted = list(declared.columns) if declared.columns is not None else list(stored)
    columns = [_stored(name, column, stored) for column in wanted]
    return PublicTable(name, tuple(column for column, _ in columns), tuple(type_ for _, type_ in columns))


def _private(name: str, policy: Policy, schema: Schema, facts: Facts, public: PublicData) -> PrivateTable:
    declared, stored = policy.tables[name], schema[name.lower()]
    fields = []
    single = declared.by_row or (declared.unique and (name.lower(), declared.unique_fact) in facts)
    path, unit = ((), None) if declared.by_row else _path(name, policy, schema)
    labels, keys = _labels(name, policy, facts)
    columns = dict(declared.columns or {})
    if declared.unit_column is not None and declared.unit_column.lower() not in {column.lower() for column in columns}:
        columns[_stored(name, declared.unit_column, stored)[0]] = Column()
    for column, spec in columns.items():
        stored_name, type_ = _stored(name, column, stored)
        owner = labels.get(stored_name.lower())
        domain = _domain(f"{name}.{stored_name}", spec, type_)
        if spec.values_from is not None:
            domain = intersect(domain, _referred(f"{name}.{stored_name}", spec, type_, policy, schema, public))
        fields.append(Field(stored_name, type_, domain, attribute=owner == UNIT or single, owner=owner))
    rows = 1 if declared.by_row else policy.rows_per_unit(name)
    unique = tuple(f.name for f in fields if f.name.lower() in keys)
    scan = Scan(tuple(fields), declared.by_row, rows, single, name, unit, path, unique)
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


def _referred(where: str, spec: Column, type_: Type, policy: Policy, schema: Schema, public: PublicData) -> Domain:
    """What a public table says of a column that refers to it: its values, or only their ends if they are many."""
    parent, _, key = (spec.values_from or "").rpartition(".")
    table = _public(parent, policy.tables[parent], schema.get(parent.lower(), {}))
    field = next((f for f in table.scan({}).fields if f.name.lower() == key.lower()), None)
    if field is None or field.type.kind is not type_.kind:
        raise PolicyError(
            f"tables.{where}: its values are those of {spec.values_from}, which is not a column of its type",
            hint="refer to a column of the same type, or list the values",
        )
    listed = public.values(table.scan({}), Reference(field.type, name=field.name), LISTED)
    said = listed if listed is not None else public.domains(table.name, [field.name]).get(field.name, Domain())
    return replace(said, nullable=spec.nulls, origin=(f"declared for {where}: values of {spec.values_from}",))


def _as_kind(bound: Bound, type_: Type) -> Value:
    """A date for a timestamp column means its midnight."""
    if type_.kind is Kind.TIMESTAMP and isinstance(bound, date) and not isinstance(bound, datetime):
        return datetime.combine(bound, time())
    if type_.kind is Kind.DATE and isinstance(bound, datetime):
        return bound.date()
    return bound
