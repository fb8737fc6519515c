"""The tables that exist for one analyst: the policy joined with the engine's column types, fail closed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from difflib import get_close_matches
from typing import Protocol

from sqlglot import TokenType, exp, tokenize

from dpsql.bounds.domain import Domain, finite, intersect, interval, number, of_type
from dpsql.errors import PolicyError
from dpsql.expressions.expression import Column as Reference
from dpsql.expressions.expression import Expression, Value
from dpsql.expressions.types import Kind, Type, from_engine
from dpsql.mechanisms import RandomizedResponse
from dpsql.plan.nodes.relation import HIDDEN, UNIT, Copy, Field, PublicScan, Relation, Scan
from dpsql.plan.ownership import (
    Facts,
    Schema,
    keys_of,
    labels_of,
    path_to_unit,
    stored_column,
    unverified,
    without_owner,
)
from dpsql.policy import Bound, Policy, fold
from dpsql.policy.column_types import engine_type
from dpsql.policy.model import DeclaredColumn
from dpsql.policy.model import DeclaredTable as Declared

# public tables --------------------------------------------------------------------------------------------------------
# What the planner may ask about public tables. They are public, so keys, bounds and costs may depend on them.


class PublicData(Protocol):
    """Answered by the engine, exactly."""

    def unique(self, table: str, columns: frozenset[str]) -> bool:
        """Do the columns together (NULL apart) name at most one row, now and when the query runs?

        Rules skip enforcement on the strength of it: only a constraint counts where somebody may still write.
        """

    def domains(self, table: str, columns: Collection[str]) -> Mapping[str, Domain]:
        """The values of each column: listed if they are few, else from the least to the largest."""

    def values(self, relation: Relation, expression: Expression, most: int) -> Domain | None:
        """The values that an expression takes over a public relation; None if there are more than `most`."""

    def forget(self) -> None:
        """Ask again: somebody may have written to the tables."""


class NoPublicData:
    """Knows nothing: for plans without public tables."""

    def forget(self) -> None:
        """There is nothing to forget."""

    def unique(self, table: str, columns: frozenset[str]) -> bool:
        """Nothing is known of the values."""
        return False

    def domains(self, table: str, columns: Collection[str]) -> Mapping[str, Domain]:
        """Nothing is known of the values."""
        return {}

    def values(self, relation: Relation, expression: Expression, most: int) -> Domain | None:
        """Nothing is known of the values."""
        return None


@dataclass(frozen=True, slots=True)
class PrivateTable:
    """A private table as the planner sees it."""

    name: str
    scan: Scan
    groups_per_unit: int
    groups_capped: bool = True


@dataclass(frozen=True, slots=True)
class UnavailableTable:
    """A table of the policy that cannot be queried yet; every use is refused with this reason."""

    name: str
    reason: str
    hint: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Why the copy of a table that the policy wants prepared is not read."""

    reason: str


@dataclass(frozen=True, slots=True)
class PublicTable:
    """A public table: its columns may be read exactly. `keys` are verified: more may be found out from its rows."""

    name: str
    columns: tuple[str, ...]
    types: tuple[Type, ...]
    keys: frozenset[frozenset[str]] = frozenset()

    def scan(self, domains: Mapping[str, Domain]) -> PublicScan:
        """The table as a relation below the aggregate."""
        fields = (Field(c, t, domains.get(c, of_type(t))) for c, t in zip(self.columns, self.types, strict=True))
        return PublicScan(tuple(fields), False, 1, False, self.name, self.keys)


FOUND = "found for"
SEARCHABLE = (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE, Kind.DATE, Kind.TIMESTAMP)
Table = PrivateTable | PublicTable | UnavailableTable
Copies = Mapping[str, Copy | Refused]
LISTED = 10_000
"""Up to so many values are taken from the public table that a column refers to."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """Tables by folded name; what is not here does not exist. `searches`: the policy allows private searches.

    `nulls` are the columns of which the policy declares that they may be NULL.
    """

    tables: Mapping[str, Table]
    max_public_keys: int
    public: PublicData
    views: Mapping[str, exp.Query] = field(default_factory=dict)
    searches: bool = False
    nulls: frozenset[tuple[str, str]] = frozenset()

    def find(self, name: str) -> Table | None:
        """The table of that name, in any case."""
        return self.tables.get(fold(name))

    def veiled(self, sql: str) -> str:
        """SQL for the analyst's eyes: names on the way to the owner that they may not see are left out."""
        hidden = self._hidden()
        if not hidden:
            return sql
        shown, end = "", 0
        for token in tokenize(sql, dialect="duckdb"):
            if token.token_type is TokenType.IDENTIFIER and token.text in hidden:
                shown, end = f'{shown}{sql[end : token.start]}"<unit>"', token.end + 1
        return shown + sql[end:]

    def _hidden(self) -> set[str]:
        private = [table.scan for table in self.tables.values() if isinstance(table, PrivateTable)]
        seen = {f.name for scan in private for f in scan.fields} | {table.name for table in self.tables.values()}
        hidden = {scan.hidden.name for scan in private if scan.hidden is not None}
        paths = {name for scan in private for step in scan.path for name in (step.table, step.key)}
        return hidden | ((paths | {scan.unit or "" for scan in private}) - seen - {""})

    def nearest(self, name: str) -> str:
        """A hint that lists what exists."""
        return suggest(name, [*(table.name for table in self.tables.values()), *self.views], "tables")


def suggest(name: str, existing: list[str], what: str) -> str:
    """«did you mean …» and the list of what there is."""
    folded = {fold(e): e for e in existing}
    close = get_close_matches(fold(name), list(folded), n=1)
    listed = ", ".join(existing[:20]) + (", …" if len(existing) > 20 else "")
    return (f"did you mean {folded[close[0]]}? " if close else "") + f"{what}: {listed or 'none'}"


def make_catalog(
    policy: Policy,
    schema: Schema,
    facts: Facts = frozenset(),
    analyst: str | None = None,
    public: PublicData | None = None,
    copies: Copies | None = None,
) -> Catalog:
    """The catalogue of an analyst (None: the steward): columns that they may not see are not in it.

    Where the policy does not fit the database, an analyst learns what the policy says, as far as they may see it, and
    never what is stored: only the steward sees the hints that list stored tables and columns.

    `schema` gives the engine's columns and type names by folded table name; `facts` are the *verified* facts, the
    only ones that let a rule skip enforcement, or an owner be found through another table. `copies` are the tables that
    are bounded at rest: a copy that is refused takes its table with it.
    """
    tables: dict[str, Table] = {}
    known: PublicData = public or NoPublicData()
    for name in policy.tables_for(analyst):
        copy = (copies or {}).get(fold(name))
        try:
            table = _table(name, policy, schema, facts, policy.columns_for(analyst, name), known)
            tables[fold(name)] = table if copy is None else _copied(table, copy)
        except PolicyError as mistake:
            if analyst is None:
                raise
            said = (
                mistake.message if policy.sees_all(analyst) else f"the policy does not fit the database: table {name}"
            )
            raise PolicyError(said, hint="ask the steward to run `dpsql check`") from None
    nulls = frozenset(
        (n, c) for n, t in policy.tables.items() for c, spec in (t.columns or {}).items() if spec.nullable
    )
    return Catalog(_unnamed(tables), policy.limits.max_public_keys, known, searches=policy.searches, nulls=nulls)


def _unnamed(tables: Mapping[str, Table]) -> Mapping[str, Table]:
    """The tables, where labels that name a key which this analyst may not see are numbers: a hint could repeat them.

    **Theorem.** Two labels are equal afterwards if and only if they were before. **Proof.** Each name has one number.
    **Requires** that of labels nothing decides but whether two are equal (`dpsql.plan.nodes.joins`).
    **Checked by** `tests/unit/plan/test_catalog.py`.
    """
    private = [table for table in tables.values() if isinstance(table, PrivateTable)]
    seen = {fold(f"{table.name}.{field.name}") for table in private for field in table.scan.fields}
    numbers: dict[str, str] = {}

    def told(field: Field) -> Field:
        if field.owner is None or field.owner == UNIT or field.owner in seen:
            return field
        return replace(field, owner=numbers.setdefault(field.owner, f"{HIDDEN}{len(numbers)}"))

    def veiled(table: Table) -> Table:
        if not isinstance(table, PrivateTable):
            return table
        return replace(table, scan=replace(table.scan, fields=tuple(map(told, table.scan.fields))))

    return {name: veiled(table) for name, table in tables.items()}


def _table(
    name: str,
    policy: Policy,
    schema: Schema,
    facts: Facts,
    allowed: frozenset[str] | None,
    public: PublicData,
) -> Table:
    declared, stored = policy.tables[name], schema.get(fold(name))
    if stored is None:
        listed = suggest(name, sorted(schema), "tables in the database")
        raise PolicyError(
            f"tables.{name}: the database has no such table",
            hint=f"{listed}; a view does not count: name the tables behind it",
        )
    if declared.public:
        table = _public(name, declared, stored, allowed)
        return replace(table, keys=_spelt(keys_of(name, policy, facts, stored), table.columns))
    if unverified(name, policy, facts):
        return UnavailableTable(
            name,
            "its owner is found through another table, and that foreign key is not verified",
            "for a database file, let the steward run `dpsql check`; elsewhere the database needs the constraints "
            "PRIMARY KEY and FOREIGN KEY",
        )
    return _seen(_private(name, policy, schema, facts, public), declared, allowed)


def _copied(table: Table, copy: Copy | Refused) -> Table:
    if isinstance(copy, Refused):
        return UnavailableTable(
            table.name,
            f"its prepared copy is not used: {copy.reason}",
            "let the steward run `dpsql prepare DB --policy FILE`, with this database and policy",
        )
    return replace(table, scan=replace(table.scan, copy=copy)) if isinstance(table, PrivateTable) else table


def _seen(table: PrivateTable, declared: Declared, allowed: frozenset[str] | None) -> PrivateTable:
    """The table with the columns that an analyst may see; its rows keep their owner."""
    if allowed is None:
        return table
    fields = tuple(field for field in table.scan.fields if fold(field.name) in allowed)
    unit = fold(declared.unit_column or "")
    hidden = next((f for f in table.scan.fields if fold(f.name) == unit and f not in fields), None)
    unowned = "" if table.scan.unowned is not None and hidden is not None else table.scan.unowned
    return replace(table, scan=replace(table.scan, fields=fields, hidden=hidden, unowned=unowned))


def _public(name: str, declared: Declared, stored: Mapping[str, str], allowed: frozenset[str] | None) -> PublicTable:
    """What it names, or else every column of a type that dpsql knows: the others do not exist for analysts."""
    known = [column for column, type_ in stored.items() if from_engine(type_) is not None]
    wanted = list(declared.columns) if declared.columns is not None else known
    if not wanted:
        raise PolicyError(
            f"tables.{name}: it has no column of a type that can be shown", hint="leave the table out of the policy"
        )
    columns = [stored_column(name, each, stored) for each in wanted if allowed is None or fold(each) in allowed]
    return PublicTable(name, tuple(column for column, _ in columns), tuple(type_ for _, type_ in columns))


def _private(name: str, policy: Policy, schema: Schema, facts: Facts, public: PublicData) -> PrivateTable:
    declared, stored = policy.tables[name], schema[fold(name)]
    fields = []
    single = declared.by_row or (declared.one_row and (fold(name), policy.unique_fact(name)) in facts)
    path, unit = ((), None) if declared.by_row else path_to_unit(name, policy, schema)
    labels, keys = labels_of(name, policy, facts, stored)
    columns = dict(declared.columns or {})
    if declared.unit_column is not None and fold(declared.unit_column) not in {fold(column) for column in columns}:
        columns[stored_column(name, declared.unit_column, stored, unit=True)[0]] = DeclaredColumn()
    for column, spec in columns.items():
        stored_name, type_ = stored_column(name, column, stored)
        _require_stated(f"{name}.{stored_name}", spec, type_)
        owner = labels.get(fold(stored_name))
        domain = _domain(f"{name}.{stored_name}", spec, type_)
        if spec.values_from is not None:
            domain = intersect(domain, _referred(f"{name}.{stored_name}", spec, type_, policy, schema, public))
        attribute = owner == UNIT or single
        response = _response(f"{name}.{stored_name}", spec, type_)
        made = Field(stored_name, type_, domain, attribute, owner, ends=_ends(spec, type_), response=response)
        fields.append(replace(made, stored=(name, column), behind=((name, column),), usual=spec.usual))
    rows = 1 if declared.by_row else policy.rows_per_unit(name)
    unique = _spelt(keys, [f.name for f in fields])
    owners = path[-1].table if path else name
    of_unit = None if unit is None else stored_column(owners, unit, schema[fold(owners)])[1]
    scan = Scan(tuple(fields), declared.by_row, rows, single, name, unit, path, unique, unit_type=of_unit)
    scan = replace(scan, capped=policy.capped(name), unowned=without_owner(name, policy, facts))
    return PrivateTable(name, scan, 1 if declared.by_row else policy.groups_per_unit(name), policy.groups_capped(name))


def _spelt(keys: Collection[frozenset[str]], columns: Collection[str]) -> frozenset[frozenset[str]]:
    """The keys in the spelling of a table's columns; a key with a missing column is dropped."""
    names = {fold(column): column for column in columns}
    return frozenset(frozenset(names[c] for c in key) for key in keys if key <= names.keys())


def _require_stated(where: str, spec: DeclaredColumn, type_: Type) -> None:
    """Refuse a declared type that differs from the stored one: it is for columns without a type of their own."""
    stated = None if spec.type is None else from_engine(engine_type(spec.type))
    if stated is not None and stated.kind is not type_.kind:
        raise PolicyError(
            f"tables.{where}: the policy says `type: {spec.type}`, but the type of the column is {type_}",
            hint="delete `type`: it is for columns that have no type of their own, as in CSV files and object columns",
        )


def _domain(where: str, spec: DeclaredColumn, type_: Type) -> Domain:
    declared = f"declared for {where}" if spec.bounds is None else f"{FOUND} {where} by a private search"
    known = of_type(type_)
    if spec.bounds is not None and type_.kind not in SEARCHABLE:
        raise PolicyError(
            f"tables.{where}: bounds are searched for numbers and dates only", hint="delete `bounds: auto`"
        )
    if type_.kind is not Kind.BOOLEAN:
        known = Domain(known.lower, known.upper, None, True, known.nan, known.origin)
    if spec.values is not None:
        return finite(spec.values, type_, nullable=spec.nulls, origin=(declared,))
    low = None if spec.min is None else number(_as_kind(spec.min, type_))
    high = None if spec.max is None else number(_as_kind(spec.max, type_))
    origin = (declared,) if low is not None or high is not None else ()
    mine = interval(low, high, nullable=spec.nulls, nan=known.nan and spec.nulls, origin=origin)
    return intersect(known, mine)


def _ends(spec: DeclaredColumn, type_: Type) -> tuple[Value, Value] | None:
    """What the policy answers to MIN and MAX of a column, if it does."""
    if spec.minmax is None or spec.min is None or spec.max is None:
        return None
    return _as_kind(spec.min, type_), _as_kind(spec.max, type_)


def _response(where: str, spec: DeclaredColumn, type_: Type) -> RandomizedResponse | None:
    """How the answers in a column were randomised at the source, if they were."""
    if spec.randomized is None:
        return None
    if spec.values is None and type_.kind is not Kind.BOOLEAN:
        raise PolicyError(
            f"tables.{where}: randomised answers need listed values", hint="add `values: [yes, no]` to the column"
        )
    return RandomizedResponse(spec.randomized.epsilon, spec.values or (True, False))


def _referred(
    where: str, spec: DeclaredColumn, type_: Type, policy: Policy, schema: Schema, public: PublicData
) -> Domain:
    """The domain of a column that refers to a public table: its values, or only their bounds if there are many."""
    parent, _, key = (spec.values_from or "").rpartition(".")
    table = _public(parent, policy.tables[parent], schema.get(fold(parent), {}), None)
    field = next((f for f in table.scan({}).fields if fold(f.name) == fold(key)), None)
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
