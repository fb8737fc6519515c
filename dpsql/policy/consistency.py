"""Rules between the keys of a policy: what contradicts what.

Each rule speaks only of the parts that are given, so that mistakes elsewhere do not hide those here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

from dpsql.policy.identifiers import Names, fold, nearest
from dpsql.policy.policy_values import WINDOWS, Bound, Mistake, kind, show

if TYPE_CHECKING:
    from dpsql.policy.model import (
        AnalystBudget,
        Budget,
        DeclaredColumn,
        DeclaredTable,
        Defaults,
        ForeignKey,
        PurposeBudget,
        QueryLimits,
    )


_CAP = "the dataset's cap"


def same_names(names: Iterable[str]) -> list[Mistake]:
    """Names that differ only by case."""
    first: dict[str, str] = {}
    return [
        Mistake(
            (name,),
            f"{name} and {first[fold(name)]} are the same name to SQL",
            "keep one of them: SQL does not tell upper from lower case",
        )
        for name in names
        if first.setdefault(fold(name), name) != name
    ]


def column_mistakes(column: DeclaredColumn) -> list[Mistake]:
    """Bounds in the wrong order, of two kinds or of a type that has none; values beside bounds."""
    bounded = [name for name in ("min", "max") if getattr(column, name) is not None]
    if column.bounds is not None and (bounded or column.values is not None or column.values_from is not None):
        return [
            Mistake(
                ("bounds",),
                "`bounds: auto` searches for bounds that are declared here too",
                "delete `bounds: auto`, or else min, max and values",
            )
        ]
    if column.minmax is not None and len(bounded) < 2:
        return [
            Mistake(
                ("minmax",),
                "`minmax: policy` answers MIN and MAX with the declared min and max, and they are not declared",
                "declare both, as in {min: 2020-01-01, max: 2026-12-31, minmax: policy}, or delete `minmax`",
            )
        ]
    if column.type in ("text", "boolean") and bounded:
        fix = "write the type of the bounds, such as integer, double or date, or delete `type`: min and max declare one"
        return [Mistake(("type",), f"a {column.type} column has no {' and '.join(bounded)}", fix)]
    if column.values is not None and bounded:
        return [
            Mistake(
                ("values",),
                f"a column has either values or {' and '.join(bounded)}, not both",
                "keep `values` for a column of few known values, `min` and `max` for numbers and dates",
            )
        ]
    if column.randomized is not None and (bounded or column.bounds or (column.values and len(column.values) < 2)):
        return [
            Mistake(
                ("randomized",),
                "randomised answers need two or more listed values",
                "write {values: [yes, no], randomized: {epsilon: 1}}, and neither min, max nor bounds",
            )
        ]
    if column.min is None or column.max is None:
        return []
    if _kind(column.min) != _kind(column.max):
        reason = f"min is a {_kind(column.min)} and max is a {_kind(column.max)}"
        return [Mistake(("max",), reason, "write min and max in the type of the column")]
    if column.min > column.max:  # type: ignore[operator]
        reason = f"max = {show(column.max)} is below min = {show(column.min)}"
        return [Mistake(("max",), reason, "swap min and max")]
    return []


def table_mistakes(table: DeclaredTable) -> list[Mistake]:
    """Who owns the rows must be said, once, and what depends on it must fit."""
    if table.unit is None and not table.public:
        return [
            Mistake(
                (),
                "the table names neither a unit nor `public: true`",
                "add `unit: <column>` (the person behind each row), `unit: row`, or `public: true` if "
                "everyone may see every row",
            )
        ]
    if table.public:
        return [*_public_mistakes(table), *_key_mistakes(table)]
    return [*(_row_mistakes(table) if table.by_row else ()), *_prepare_mistakes(table), *_key_mistakes(table)]


def _key_mistakes(table: DeclaredTable) -> Iterator[Mistake]:
    """A key of columns that nobody can name is of no use; a public table may leave its columns to the database."""
    if table.public and table.columns is None:
        return
    named = Names(dict.fromkeys([*(table.columns or {}), *([table.unit_column] if table.unit_column else [])]))
    for column in dict.fromkeys(column for key in table.keys for column in key):
        if column not in named:
            guess = nearest(column, named)
            fix = f"did you mean {guess}?" if guess else f"add `{column}: {{}}` to the columns of the table"
            yield Mistake(("unique",), f"the key uses column {column}, which the table does not declare", fix)


def _prepare_mistakes(table: DeclaredTable) -> Iterator[Mistake]:
    """A copy bounds what a declared number of rows bounds."""
    if table.prepare is not None and (table.by_row or table.one_row):
        fix = "delete `prepare`: such a table is fast as it is"
        yield Mistake(("prepare",), "a table with one row per unit has nothing to bound", fix)
    elif table.prepare is not None and not isinstance(table.max_rows_per_unit, int):
        fix = "add `max_rows_per_unit: <number>` to the table"
        yield Mistake(("prepare",), "`prepare` needs max_rows_per_unit, and the table declares none", fix)


def policy_mistakes(
    budget: Budget | None,
    limits: QueryLimits | None,
    defaults: Defaults | None,
    tables: Mapping[str, DeclaredTable | None] | None,
) -> list[Mistake]:
    """Contradictions between sections; a section or table that is None is wrong in itself and left alone."""
    mistakes: list[Mistake] = []
    if budget is not None:
        mistakes += _budget_mistakes(budget)
    if budget is not None and limits is not None:
        mistakes += _limit_mistakes(budget, limits)
    if budget is not None and limits is not None and defaults is not None:
        mistakes += _default_mistakes(budget, limits, defaults)
    if tables is not None:
        named = Names(tables)
        mistakes += _foreign_key_mistakes(named)
        mistakes += _reference_mistakes(named)
        mistakes += [] if budget is None else _grant_mistakes(budget, named)
    return mistakes


def view_mistakes(views: Iterable[str], tables: Iterable[str]) -> list[Mistake]:
    """A view that has the name of a table."""
    taken = {fold(name): name for name in tables}
    return [
        Mistake(("views", name), f"{taken[fold(name)]} is a table already", "give the view another name")
        for name in views
        if fold(name) in taken
    ]


def _kind(bound: Bound) -> str:
    return kind(bound) or "number"


def _public_mistakes(table: DeclaredTable) -> Iterator[Mistake]:
    if table.prepare is not None:
        yield Mistake(("prepare",), "a public table has no units to bound", "delete `prepare`")
    if table.unit is not None:
        yield Mistake(
            ("public",),
            "a public table has no unit: its rows belong to nobody",
            "delete `public: true` if the rows are about people, else delete `unit`",
        )
    for key in ("unique", "max_rows_per_unit", "max_groups_per_unit"):
        if getattr(table, key) and not (key == "unique" and table.keys):
            yield Mistake((key,), f"{key} applies to units, and a public table has none", f"delete `{key}`")


def _row_mistakes(table: DeclaredTable) -> Iterator[Mistake]:
    for key in ("unique", "max_rows_per_unit"):
        if getattr(table, key) and not (key == "unique" and table.keys):
            yield Mistake(
                (key,),
                f"with `unit: row` each row is a unit of its own, so {key} has no effect",
                f"delete `{key}`, or name the unit column",
            )
    if table.columns is not None and "row" in table.columns:
        yield Mistake(
            ("unit",),
            "`unit: row` makes each row a unit of its own, and the table also has a column named row",
            "leave the column row out of `columns`; if it holds the unit, rename it in the database",
        )


def _budget_mistakes(budget: Budget) -> Iterator[Mistake]:
    for name, analyst in budget.analysts.items():
        path = ("budget", "analysts", name)
        for key in ("epsilon", "delta"):
            cap, own = getattr(budget, key), getattr(analyst, key)
            yield from _above((*path, key), own, cap, _CAP)
            for purpose, spec in analyst.purposes.items():
                outer, whose = (cap, _CAP) if own is None or _longer(spec, analyst) else (own, f"the cap of {name}")
                yield from _above((*path, "purposes", purpose, key), getattr(spec, key), outer, whose)


def _longer(purpose: PurposeBudget, analyst: AnalystBudget) -> bool:
    """Whether a purpose's window is longer than the analyst's, so that its cap may be higher too."""
    if analyst.every is None or purpose.every is None:
        return False
    return WINDOWS.index(purpose.every) > WINDOWS.index(analyst.every)


def _limit_mistakes(budget: Budget, limits: QueryLimits) -> Iterator[Mistake]:
    for key in ("epsilon", "delta"):
        if key in limits.model_fields_set:
            yield from _above(("limits", key), getattr(limits, key), getattr(budget, key), _CAP)


def _default_mistakes(budget: Budget, limits: QueryLimits, defaults: Defaults) -> Iterator[Mistake]:
    for key in ("epsilon", "delta"):
        if key in defaults.model_fields_set:
            limit = min(getattr(limits, key), getattr(budget, key))
            yield from _above(("defaults", key), getattr(defaults, key), limit, "the limit of one query")
    if defaults.mechanism == "gaussian" and budget.delta == 0:
        yield Mistake(
            ("defaults", "mechanism"),
            "Gaussian noise needs a delta, and budget.delta is 0",
            "set budget.delta, such as 1e-6, or write `mechanism: auto`",
        )


def _above(path: tuple[str, ...], asked: Decimal | None, cap: Decimal, what: str) -> Iterator[Mistake]:
    if asked is not None and asked > cap:
        yield Mistake(path, f"{show(asked)} is above {what}, {show(cap)}", f"write {show(cap)} or less")


def _grant_mistakes(budget: Budget, tables: Names[DeclaredTable | None]) -> Iterator[Mistake]:
    for name, analyst in budget.analysts.items():
        granted, path = analyst.tables, ("budget", "analysts", name, "tables")
        for position, table in enumerate(granted or ()):
            own = (*path, table if isinstance(granted, Mapping) else position)
            if table not in tables:
                yield Mistake(own, f"there is no table {table} in this policy", _known(table, tables))
            elif isinstance(granted, Mapping):
                yield from _column_grants(own, table, granted[table] or (), tables[table])


def _column_grants(
    path: tuple[str | int, ...], name: str, granted: Iterable[str], table: DeclaredTable | None
) -> Iterator[Mistake]:
    """A column that the policy does not name cannot be granted; a public table may leave that to the database."""
    if table is None or (table.public and table.columns is None):
        return
    named = Names(dict.fromkeys([*(table.columns or {}), *([table.unit_column] if table.unit_column else [])]))
    for position, column in enumerate(granted):
        if column not in named:
            guess = nearest(column, named)
            fix = f"did you mean {guess}?" if guess else f"declare it in tables.{name}.columns, or take it out here"
            yield Mistake((*path, position), f"the policy names no column {column} in {name}", fix)


def _foreign_key_mistakes(tables: Names[DeclaredTable | None]) -> Iterator[Mistake]:
    for name, table in tables.items():
        if table is None or table.unit is None or isinstance(table.unit, str):
            continue
        path = ("tables", name, "unit")
        if table.unit.table not in tables:
            reason = f"there is no table {table.unit.table} in this policy"
            yield Mistake(path, reason, _known(table.unit.table, tables))
        elif _circular(name, tables):
            yield Mistake(
                path,
                f"the path {_route(name, table.unit)} leads back to itself and never to a unit",
                "let one table on the path name its unit column",
            )
        else:
            yield from _parent_mistakes(path, table.unit, tables[table.unit.table])


def _reference_mistakes(tables: Names[DeclaredTable | None]) -> Iterator[Mistake]:
    """Values are taken from a public table that this policy names: those of a private one would be secrets."""
    for name, table in tables.items():
        for column, declared in ((table.columns or {}) if table is not None else {}).items():
            if declared.values_from is None:
                continue
            parent, _, key = declared.values_from.rpartition(".")
            path, source = ("tables", name, "columns", column, "values"), tables.get(parent)
            if parent not in tables:
                yield Mistake(path, f"there is no table {parent} in this policy", _known(parent, tables))
            elif source is not None and not source.public:
                yield Mistake(
                    path, f"{parent} is private: its values are secrets", "refer to a public table, or list values"
                )
            elif source is not None and source.columns is not None and key not in source.columns:
                yield Mistake(path, f"{parent} names no column {key}", f"add `{key}: {{}}` to the columns of {parent}")


def _parent_mistakes(path: tuple[str, ...], link: ForeignKey, parent: DeclaredTable | None) -> Iterator[Mistake]:
    if parent is None:
        return
    if parent.public or parent.by_row:
        what = "public: its rows have no owner" if parent.public else "`unit: row`: its rows are units of their own"
        yield Mistake(path, f"{link.table} is {what}", "refer to a private table that names a unit column")
    elif not _has_key(parent, link.key):
        yield Mistake(
            path,
            f"{link.references} is neither the unit column of {link.table} nor a column it names",
            f"refer to {link.table}.{parent.unit_column}, or add `{link.key}: {{}}` to its columns",
        )


def _has_key(parent: DeclaredTable, key: str) -> bool:
    unit = parent.unit_column
    return (unit is not None and fold(unit) == fold(key)) or key in (parent.columns or {})


def _circular(name: str, tables: Names[DeclaredTable | None]) -> bool:
    seen = set()
    while fold(name) not in seen:
        seen.add(fold(name))
        table = tables.get(name)
        if table is None or table.unit is None or isinstance(table.unit, str):
            return False
        name = table.unit.table
    return True


def _route(name: str, link: ForeignKey) -> str:
    return f"{name}.{link.column} → {link.references}"


def _known(name: str, tables: Names[DeclaredTable | None]) -> str:
    guess = nearest(name, tables)
    return f"did you mean {guess}?" if guess else f"declare it, or name one of: {', '.join(tables)}"
