"""The private frame: the methods of a pandas data frame, over rows that nobody sees."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from sqlglot import exp

from dpsql.budget.status import BudgetStatus
from dpsql.errors import Error, InterfaceError
from dpsql.interfaces.frame.frame_view import ColumnExpression, FrameView, Mode, ask
from dpsql.interfaces.frame.groupby import ColumnwiseVerbs, PrivateGroups, read_keys
from dpsql.interfaces.frame.private_column import PrivateColumn
from dpsql.interfaces.frame.row_guard import PrivateRowsError, RowGuard, hint_for, of_a_column
from dpsql.interfaces.frame.sql_expressions import (
    DESCRIBED,
    ColumnKind,
    aggregate,
    column,
    constant,
    identifier,
    inside,
    named,
)
from dpsql.options import QueryKeywords
from dpsql.sql import parse_query

_SIDES = {"inner": None, "left": "LEFT"}


def merged(
    left: FrameView, other: Any, left_on: str | None, right_on: str | None, how: str, suffixes: tuple[str, str]
) -> FrameView:
    """One view over both; whether the condition is a safe one is the planner's to say."""
    if left_on is None or right_on is None:
        raise InterfaceError("the column to merge on is missing", hint='write on="user_id"')
    if how not in _SIDES:
        raise InterfaceError(f"merge how={how!r} is not supported", hint="use inner or left")
    right = _right(left, other, left_on, right_on)
    if set(left.tables) & set(right.tables):
        raise InterfaceError(
            "a frame cannot be merged with itself",
            hint="compute with its columns, or protect the other table beside it",
        )
    left, right = _qualified(left), _qualified(right)
    keys = left.field(left_on).expression, right.field(right_on).expression
    conditions: list[exp.Expr] = [exp.EQ(this=inside(keys[0]), expression=inside(keys[1]))]
    where = (*left.where, *right.where)
    if how == "left":
        conditions, where = [*conditions, *map(inside, right.where)], left.where
    join = exp.Join(this=exp.Table(this=identifier(right.tables[0])), side=_SIDES[how], on=exp.and_(*conditions))
    fields = _together(left.fields, right.fields, right_on if left_on == right_on else None, suffixes)
    return replace(left, tables=(*left.tables, *right.tables), joins=(*left.joins, join, *right.joins), fields=fields,
                   where=where)  # fmt: skip


def _right(left: FrameView, other: Any, left_on: str, right_on: str) -> FrameView:
    view = getattr(other, "_view", None)
    if not isinstance(view, FrameView):
        key = _qualified(left).field(left_on).expression
        on_the_unit = isinstance(key, exp.Column) and left.protection.unit(key.table) == key.name
        if on_the_unit and not left.protection.protects(other):
            raise InterfaceError(
                f"a plain table that is merged on the unit {left_on} has rows about the same people, and they would "
                "count as public",
                hint=f"protect it beside: other = other.dp.protect(unit='{right_on}', called='other', beside=frame); "
                "then merge that",
            )
        name = left.protection.public(other)
        return FrameView(left.protection, (name,), (), left.protection.fields(name))
    if view.protection is not left.protection:
        raise InterfaceError(
            "these frames have different ledgers, so nobody adds up what they reveal together",
            hint="protect the second one beside the first: other_df.dp.protect(unit=…, called='orders', beside=frame)",
        )
    if view.joins:
        raise InterfaceError("merge one table at a time", hint="frame.merge(first, …).merge(second, …)")
    return view


def _qualified(view: FrameView) -> FrameView:
    """With the table's name before each column, as soon as there are two tables."""
    if view.joins:
        return view
    name = view.tables[0]

    def qualify(expression: exp.Expr) -> exp.Expr:
        return expression.copy().transform(
            lambda node: column(node.name, name) if isinstance(node, exp.Column) and not node.table else node
        )

    fields = {title: replace(field, expression=qualify(field.expression)) for title, field in view.fields.items()}
    return replace(view, fields=fields, where=tuple(map(qualify, view.where)))


def _together(
    left: Mapping[str, ColumnExpression],
    right: Mapping[str, ColumnExpression],
    shared: str | None,
    suffixes: tuple[str, str],
) -> dict[str, ColumnExpression]:
    """Columns of both; the key once, other names that occur twice with a suffix, as in pandas."""
    twice = {name for name in left if name in right and name != shared}
    fields = {name + suffixes[0] if name in twice else name: field for name, field in left.items()}
    return fields | {
        name + suffixes[1] if name in twice else name: field for name, field in right.items() if name != shared
    }


# the frame -----------------------------------------------------------------------------------------------------------


class PrivateFrame(ColumnwiseVerbs, RowGuard):
    """Rows that belong to people, behind a budget. Made by `df.dp.protect(…)` or `dpsql.protect(table, …)`."""

    __slots__ = ("_view",)
    _view: FrameView

    def __init__(self, view: FrameView) -> None:
        object.__setattr__(self, "_view", view)

    # what may be seen -----------------------------------------------------------------------------------------------

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._view.fields)

    @property
    def dtypes(self) -> dict[str, str]:
        """What each column holds."""
        return {name: field.kind.value for name, field in self._view.fields.items()}

    def info(self) -> None:
        """Print the columns, what was declared of them, and the budget; nothing here comes from rows."""
        print(repr(self))

    def budget(self) -> BudgetStatus:
        """What may be spent, was spent and is left."""
        return self._view.protection.connection(self._view.tables).budget()

    def keys(self) -> list[str]:
        """The names of the columns."""
        return self.columns

    def __repr__(self) -> str:
        from dpsql.interfaces.frame.display import frame_text

        return frame_text(self)

    def _repr_html_(self) -> str:
        from dpsql.interfaces.frame.display import frame_html

        return frame_html(self)

    def __dir__(self) -> list[str]:
        own = [name for name in dir(type(self)) if not name.startswith("_")]
        return [*own, *(name for name in self._view.fields if name.isidentifier())]

    def _ipython_key_completions_(self) -> list[str]:
        return self.columns

    def __contains__(self, name: object) -> bool:
        """Whether there is a column of that name."""
        return name in self._view.fields

    def __eq__(self, other: object) -> Any:
        self._refuse("comparing whole frames", "compare a column: frame[frame.age > 30]")

    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__
    __hash__ = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._view.fields:
            return PrivateColumn(self._view, self._view.fields[name], name)
        hint = hint_for(name)
        if hint is not None:
            raise PrivateRowsError(f".{name} would show private rows", hint=hint)
        raise of_a_column(name, "a private frame") or self._view.unknown(name)

    def __getitem__(self, key: Any) -> Any:
        """A column by name, some columns by a list of names, or the rows where a mask holds."""
        if isinstance(key, str):
            return PrivateColumn(self._view, self._view.field(key), key)
        if isinstance(key, PrivateColumn):
            return PrivateFrame(self._view.filtered(key._mask_for(self._view)))
        if isinstance(key, list | tuple) and all(isinstance(name, str) for name in key):
            return PrivateFrame(replace(self._view, fields={name: self._view.field(name) for name in key}))
        if callable(key):
            return self[key(self)]
        return self._refuse("choosing rows by number", "filter with a mask: frame[frame.age > 30]")

    # looking ------------------------------------------------------------------------------------------------------

    def explain(self) -> PrivateFrame:
        """The same frame, but its verbs only say what they would do and cost: `frame.explain().age.mean()`."""
        return PrivateFrame(replace(self._view, mode=Mode.EXPLAIN))

    def to_sql(self) -> PrivateFrame:
        """The same frame, but its verbs only write the SQL that they stand for: `frame.to_sql().age.mean()`."""
        return PrivateFrame(replace(self._view, mode=Mode.WRITE))

    # frames from frames ---------------------------------------------------------------------------------------------

    def assign(self, **columns: Any) -> PrivateFrame:
        """With more columns, each an expression over the others, a constant, or a function of the frame."""
        made = self
        for name, value in columns.items():
            given = value(made) if callable(value) and not isinstance(value, RowGuard) else value
            field = made._field_of(given)
            made = PrivateFrame(replace(made._view, fields={**made._view.fields, name: field}))
        return made

    def _field_of(self, value: Any) -> ColumnExpression:
        if isinstance(value, PrivateColumn):
            if not self._view.same_rows(value._view):
                raise InterfaceError("this column belongs to other rows", hint="compute it from the frame itself")
            return value._field
        kind = (
            ColumnKind.BOOLEAN
            if isinstance(value, bool)
            else ColumnKind.TEXT
            if isinstance(value, str)
            else ColumnKind.NUMBER
        )
        return ColumnExpression(constant(value), kind)

    def query(self, expr: str) -> PrivateFrame:
        """The rows where a condition holds: `query("age > 30 and region == 'north'")`; `@name` is a variable."""
        from dpsql.interfaces.frame.query_condition import evaluate

        caller = sys._getframe(1)
        mask = evaluate(expr, self, {**caller.f_globals, **caller.f_locals})
        return PrivateFrame(self._view.filtered(mask._mask_for(self._view)))

    def filter(self, items: Iterable[str]) -> PrivateFrame:
        """Only these columns."""
        made: PrivateFrame = self[list(items)]
        return made

    def drop(self, columns: str | Iterable[str]) -> PrivateFrame:
        """The frame without these columns."""
        gone = {columns} if isinstance(columns, str) else set(columns)
        for name in gone:
            self._view.field(name)
        kept = {name: field for name, field in self._view.fields.items() if name not in gone}
        return PrivateFrame(replace(self._view, fields=kept))

    def rename(self, columns: dict[str, str]) -> PrivateFrame:
        """With other names for columns."""
        for name in columns:
            self._view.field(name)
        renamed = {columns.get(name, name): field for name, field in self._view.fields.items()}
        return PrivateFrame(replace(self._view, fields=renamed))

    def dropna(self, subset: str | Iterable[str] | None = None) -> PrivateFrame:
        """The rows where these columns (all, if none is named) are there."""
        names = self.columns if subset is None else [subset] if isinstance(subset, str) else list(subset)
        made = self
        for name in names:
            made = made[made[name].notna()]
        return made

    def merge(
        self, right: Any, on: str | None = None, how: str = "inner", suffixes: tuple[str, str] = ("_x", "_y"),
        left_on: str | None = None, right_on: str | None = None,
    ) -> PrivateFrame:  # fmt: skip
        """With the rows of another private frame of the same protection (on the unit), or of a public table."""
        left, other = left_on or on, right_on or on
        return PrivateFrame(merged(self._view, right, left, other, how, suffixes))

    def groupby(
        self, by: Any, sort: bool = True, dropna: bool = True, as_index: bool = True, observed: bool = True
    ) -> PrivateGroups:
        """The rows in groups of equal keys: names of columns, or expressions such as `frame.age // 10 * 10`."""
        return PrivateGroups(self._view, read_keys(self._view, by), None, sort=sort, dropna=dropna)

    # verbs ----------------------------------------------------------------------------------------------------------

    def sql(self, query: str, **price: Unpack[QueryKeywords]) -> Any:
        """Any SQL over the table, which is called df (or as `called=` said): the filters of this frame do not apply."""
        view = self._view
        if view.where:
            raise InterfaceError(
                "sql asks the whole table, and this frame is a part of it",
                hint="call it on the frame that protect gave, and write the condition into WHERE",
            )
        return ask(view.protection.connection(_tables_in(query, view)), query, view.mode, price)

    def size(self, **price: Unpack[QueryKeywords]) -> Any:
        """How many rows there are."""
        return self._view.ask(self._view.select([named(exp.Count(this=exp.Star()), "size")]), price)

    def describe(self, **price: Unpack[QueryKeywords]) -> Any:
        """Count, mean, standard deviation, ends and quartiles of each column that has bounds: one row for each."""
        numbers = [(n, f) for n, f in self._numbers().items() if f.kind is ColumnKind.NUMBER]
        parts: list[exp.Query] = [
            self._view.select([
                named(exp.Literal.string(name), "column"),
                *(named(aggregate(each, field.expression, field.kind), each) for each in DESCRIBED),
            ])
            for name, field in numbers
        ]  # fmt: skip
        query = parts[0]
        for part in parts[1:]:
            query = exp.Union(this=query, expression=part, distinct=False)
        return self._view.ask(query, price)

    def agg(self, func: Any, **price: Unpack[QueryKeywords]) -> Any:
        """`agg({"age": "mean", "amount": ["sum", "count"]})`, or one aggregate of all columns that have bounds."""
        if not isinstance(func, dict):
            func = dict.fromkeys(self._numbers(), func)
        items = []
        for name, asked in func.items():
            field, several = self._view.field(name), isinstance(asked, list | tuple)
            for each in asked if several else [asked]:
                title = f"{name}_{each if isinstance(each, str) else each.__name__}" if several else name
                items.append(named(aggregate(each, field.expression, field.kind), title))
        return self._view.ask(self._view.select(items), price)

    aggregate = agg

    def value_counts(self, subset: str | list[str], **price: Unpack[QueryKeywords]) -> Any:
        """How often each combination of values occurs."""
        return self.groupby(subset).size(**price)

    def hist(self, column: str, bins: int = 10, **price: Unpack[QueryKeywords]) -> Any:
        """How many values of a column lie in each bin."""
        return self[column].hist(bins, **price)

    def _chosen(self) -> Mapping[str, ColumnExpression]:
        return self._view.fields

    def _ask(self, items: Sequence[exp.Expr], price: QueryKeywords) -> Any:
        return self._view.ask(self._view.select(list(items)), price)

    def _numbers(self) -> dict[str, ColumnExpression]:
        chosen = {name: field for name, field in self._view.fields.items() if field.countable}
        if not chosen:
            raise InterfaceError(
                "none of these columns has bounds",
                hint="declare bounds={…: (low, high)} in protect, or bound one: frame.x.clip(0, 100).mean()",
            )
        return chosen


def _tables_in(query: str, view: FrameView) -> tuple[str, ...]:
    """The tables of the protection that a query names."""
    try:
        names = [table.name for table in parse_query(query).find_all(exp.Table)]
    except Error as error:
        error.sql = query
        raise
    return view.protection.named_in(names) or view.tables
