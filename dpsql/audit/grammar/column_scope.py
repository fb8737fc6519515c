"""The columns that can be named at a place in a query, by what can be done with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dpsql.audit.column_values import values_of
from dpsql.audit.world import StoredTable, World, text_of
from dpsql.errors import Error
from dpsql.expressions.types import Kind, Type, from_engine
from dpsql.plan.view_expansion import planned, view_columns
from dpsql.policy.model import DeclaredColumn, ForeignKey

KINDS = ("numbers", "finite", "texts", "flags", "moments", "free", "levels")


@dataclass(frozen=True, slots=True)
class ColumnScope:
    """Names by kind. `finite` texts have declared values, `free` numbers no bounds, `levels` are few whole numbers.

    `unit` names the owner, or the key that leads to it; `literals` are constants to compare a name with.
    """

    unit: str | None = None
    numbers: tuple[str, ...] = ()
    finite: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    moments: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    literals: Mapping[str, tuple[str, ...]] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, each once."""
        every = (*self.numbers, *self.finite, *self.texts, *self.flags, *self.moments, *self.free, *self.levels)
        return tuple(dict.fromkeys(every))

    def each(self, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> ColumnScope:
        """The same kinds, with other names."""
        names: dict[str, Any] = {kind: change(getattr(self, kind)) for kind in KINDS}
        return replace(self, **names)

    def under(self, alias: str) -> ColumnScope:
        """The same columns as a table's alias names them."""
        literals = {f"{alias}.{name}": each for name, each in (self.literals or {}).items()}
        unit = None if self.unit is None else f"{alias}.{self.unit}"
        named = self.each(lambda names: tuple(f"{alias}.{name}" for name in names))
        return replace(named, unit=unit, literals=literals)

    def plus(self, other: ColumnScope) -> ColumnScope:
        """The columns of two relations side by side."""
        both = {kind: getattr(self, kind) + getattr(other, kind) for kind in KINDS}
        literals = {**(self.literals or {}), **(other.literals or {})}
        return ColumnScope(unit=self.unit or other.unit, literals=literals, **both)

    def only(self, names: tuple[str, ...]) -> ColumnScope:
        """These columns of it."""
        kept = self.each(lambda each: tuple(name for name in each if name in names))
        return replace(kept, unit=self.unit if self.unit in names else None)

    def renamed(self, name: str, new: str) -> ColumnScope:
        """One column under another name, and nothing else."""
        literals = {new: (self.literals or {}).get(name, ())}
        return replace(self.only((name,)).each(lambda each: (new,) * len(each)), unit=None, literals=literals)

    def kind_of(self, name: str) -> str:
        """In which of the kinds a column is, widest first: columns of one kind can be compared."""
        kinds = {"text": self.texts, "flag": self.flags, "moment": self.moments}
        return next((kind for kind, names in kinds.items() if name in names), "number")


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table of the policy, as a query may use it. `link` is the column that leads to its owner, and to what key."""

    name: str
    scope: ColumnScope
    public: bool = False
    by_row: bool = False
    link: tuple[str, str, str] | None = None

    @property
    def owned(self) -> bool:
        """Whether its rows have owners that can be named."""
        return not (self.public or self.by_row)


def tables_of(world: World) -> tuple[KnownTable, ...]:
    """All tables of a world."""
    return tuple(_known(world, name, stored) for name, stored in world.tables.items() if name in world.policy.tables)


def quoted(name: str) -> str:
    """A name as a person writes it, in quotes only if it needs them."""
    plain = name.isascii() and name.isidentifier() and name.lower() == name
    return name if plain and name not in RESERVED else '"' + name.replace('"', '""') + '"'


RESERVED = {
    "order",
    "group",
    "select",
    "from",
    "where",
    "table",
    "user",
    "all",
    "desc",
    "asc",
    "end",
    "case",
    "to",
    "in",
}


def _known(world: World, name: str, stored: StoredTable) -> KnownTable:
    declared = world.policy.tables[name]
    listed = declared.columns
    columns = {c: t for c, t in stored.columns.items() if listed is None or c in listed}
    specs = {c: (listed[c] if listed is not None else DeclaredColumn()) for c in columns}
    scope = ColumnScope(literals={})
    unit = None if declared.unit_column is None else quoted(list(stored.columns)[stored.place(declared.unit_column)])
    if declared.private:
        columns = {c: t for c, t in columns.items() if quoted(c) != unit}
    for column, type_ in columns.items():
        scope = scope.plus(_column(quoted(column), type_, specs[column], stored, column, public=declared.public))
    scope = replace(scope, unit=unit)
    link = None
    if isinstance(declared.unit, ForeignKey):
        link = (unit or "", quoted(declared.unit.table), quoted(declared.unit.key))
    return KnownTable(quoted(name), scope, declared.public, declared.by_row, link)


def _column(
    name: str, type_: str, spec: DeclaredColumn, stored: StoredTable, column: str, *, public: bool
) -> ColumnScope:
    known = from_engine(type_)
    if known is None:
        return ColumnScope()
    seen = [row[stored.place(column)] for row in stored.rows[:6]] if public else []
    literals = {name: tuple(_literal(each, known) for each in _some(type_, spec, [s for s in seen if s is not None]))}
    bounded = (spec.min is not None and spec.max is not None) or public or bool(spec.values and known.numeric)
    if known.kind is Kind.BOOLEAN:
        return ColumnScope(flags=(name,), literals=literals)
    if known.kind is Kind.TEXT:
        return ColumnScope(texts=(name,), finite=(name, name) if spec.values or public else (), literals=literals)
    if known.temporal:
        return ColumnScope(moments=(name,), literals=literals)
    if not bounded:
        return ColumnScope(free=(name,), literals=literals)
    few = known.kind is Kind.INTEGER and (public or spec.max is None or spec.min is None or _span(spec) <= 40)
    return ColumnScope(numbers=(name, name), levels=(name,) if few else (), literals=literals)


def _span(spec: DeclaredColumn) -> float:
    return float(spec.max) - float(spec.min)  # type: ignore[arg-type]


def _some(type_: str, spec: DeclaredColumn, seen: list[object]) -> list[object]:
    made = values_of(type_, spec)
    inside = list(made.inside)
    return [*seen, *inside[:: max(1, len(inside) // 5)], *made.edges]


def _literal(value: object, type_: Type) -> str:
    said = text_of(value) or ""
    if type_.kind is Kind.TEXT:
        return "'" + said.replace("'", "''").replace("\0", "") + "'"
    if type_.kind is Kind.DATE:
        return f"DATE '{said}'"
    if type_.kind is Kind.TIMESTAMP:
        return f"TIMESTAMP '{said}'"
    return said.lower() if type_.kind is Kind.BOOLEAN else f"({said})" if said.startswith("-") else said


# views ----------------------------------------------------------------------------------------------------------------


def scopes_of_views(world: World) -> list[tuple[str, ColumnScope]]:
    """Views that can be planned; their columns are taken for what their types are, without bounds."""
    with world.open(steward=True) as db:
        catalog, found = db.dataset.whole_catalog, []
        for name, sql in world.policy.view_queries.items():
            made = planned(sql, catalog)
            if not isinstance(made, Error):
                found.append((quoted(name), _scope(dict(view_columns(made, catalog)))))
    return found


def _scope(columns: dict[str, object]) -> ColumnScope:
    scope = ColumnScope(literals={})
    for column, type_ in columns.items():
        said, name = str(type_).lower(), quoted(column)
        if "text" in said or "varchar" in said:
            scope = scope.plus(ColumnScope(texts=(name,), finite=(name,)))
        elif "date" in said or "timestamp" in said:
            scope = scope.plus(ColumnScope(moments=(name,)))
        elif "bool" in said:
            scope = scope.plus(ColumnScope(flags=(name,)))
        else:
            scope = scope.plus(ColumnScope(numbers=(name,), levels=(name,)))
    return scope
