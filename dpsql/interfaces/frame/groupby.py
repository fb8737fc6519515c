"""`groupby`: keys, selected columns, and the aggregations of each group."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack, cast

from sqlglot import exp

from dpsql.errors import InterfaceError
from dpsql.interfaces.frame.frame_view import ColumnExpression, FrameView, Mode
from dpsql.interfaces.frame.private_column import PrivateColumn
from dpsql.interfaces.frame.row_guard import PrivateRowsError, RowGuard, hint_for
from dpsql.interfaces.frame.sql_expressions import aggregate, in_order, inside, named, quantile
from dpsql.options import QueryKeywords


class ColumnwiseVerbs:
    """Verbs over several columns. Subclasses say where the columns come from and how they are asked for."""

    __slots__ = ()

    @abstractmethod
    def _chosen(self) -> Mapping[str, ColumnExpression]:
        """The columns that the verb applies to."""

    @abstractmethod
    def _numbers(self) -> Mapping[str, ColumnExpression]:
        """Those of these columns that have bounds."""

    @abstractmethod
    def _ask(self, items: Sequence[exp.Expr], price: QueryKeywords) -> Any:
        """Ask for these expressions."""

    def count(self, **price: Unpack[QueryKeywords]) -> Any:
        """How many values of each column are not missing."""
        return self._each("count", price)

    def mean(self, **price: Unpack[QueryKeywords]) -> Any:
        """The average of each column that has bounds."""
        return self._each("mean", price)

    def sum(self, **price: Unpack[QueryKeywords]) -> Any:
        """The sum of each column that has bounds."""
        return self._each("sum", price)

    def std(self, ddof: int = 1, **price: Unpack[QueryKeywords]) -> Any:
        """The standard deviation of each column that has bounds."""
        return self._each("std", price, ddof)

    def var(self, ddof: int = 1, **price: Unpack[QueryKeywords]) -> Any:
        """The variance of each column that has bounds."""
        return self._each("var", price, ddof)

    def median(self, **price: Unpack[QueryKeywords]) -> Any:
        """The middle value of each column that has bounds."""
        return self._each("median", price)

    def min(self, **price: Unpack[QueryKeywords]) -> Any:
        """The smallest value of each column that has bounds."""
        return self._each("min", price)

    def max(self, **price: Unpack[QueryKeywords]) -> Any:
        """The largest value of each column that has bounds."""
        return self._each("max", price)

    def nunique(self, **price: Unpack[QueryKeywords]) -> Any:
        """How many different values each column has."""
        return self._each("nunique", price)

    def _each(self, name: str, price: QueryKeywords, ddof: int = 1) -> Any:
        chosen = self._chosen() if name in ("count", "nunique") else self._numbers()
        items = [named(aggregate(name, f.expression, f.kind, ddof), title) for title, f in chosen.items()]
        return self._ask(items, price)


# groups --------------------------------------------------------------------------------------------------------------

Keys = Mapping[str, exp.Expr]


def read_keys(view: FrameView, by: Any) -> dict[str, exp.Expr]:
    """The keys by name: names of columns, or expressions over them."""
    keys: dict[str, exp.Expr] = {}
    for each in by if isinstance(by, list | tuple) else [by]:
        if isinstance(each, PrivateColumn):
            if not view.same_rows(each._view):
                raise InterfaceError(
                    "this key belongs to other rows", hint="take the key from the frame that is grouped"
                )
            keys[each.name if each.name not in keys else f"{each.name}_{len(keys)}"] = each._field.expression
        elif isinstance(each, str):
            keys[each] = view.field(each).expression
        else:
            raise InterfaceError(
                f"a {type(each).__name__} cannot be a key",
                hint='name a column, groupby("region"), or compute one: groupby(frame.age // 10 * 10)',
            )
    if not keys:
        raise InterfaceError("the keys are missing", hint='name a column: groupby("region")')
    return keys


class PrivateGroups(ColumnwiseVerbs, RowGuard):
    """Private rows in groups."""

    __slots__ = ("_alone", "_dropna", "_fields", "_keys", "_sort", "_view")
    _view: FrameView
    _keys: Keys
    _fields: Mapping[str, ColumnExpression] | None
    _alone: bool
    _sort: bool
    _dropna: bool

    def __init__(
        self,
        view: FrameView,
        keys: Keys,
        fields: Mapping[str, ColumnExpression] | None,
        *,
        alone: bool = False,
        sort: bool = True,
        dropna: bool = True,
        as_index: bool = True,
        observed: bool = True,
    ) -> None:
        for slot, value in (("_view", view), ("_keys", keys), ("_fields", fields), ("_alone", alone), ("_sort", sort),
                            ("_dropna", dropna)):  # fmt: skip
            object.__setattr__(self, slot, value)

    def __repr__(self) -> str:
        mode = "" if self._view.mode is Mode.ASK else f" (a verb only {self._view.mode.value}, and spends nothing)"
        return f"<private rows grouped by {', '.join(self._keys)}{mode}: ask .size(), .mean(), .agg([…])>"

    def __dir__(self) -> list[str]:
        return [*(name for name in dir(type(self)) if not name.startswith("_")), *self._view.fields]

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._view.fields)

    def __getitem__(self, key: Any) -> PrivateGroups:
        chosen = {name: self._view.field(name) for name in ([key] if isinstance(key, str) else key)}
        return self._with(_fields=chosen, _alone=isinstance(key, str))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._view.fields:
            return self[name]
        if name == "describe":
            raise PrivateRowsError(
                "groups have no .describe", hint=".agg(['count', 'mean', 'std', 'min', 'median', 'max'])"
            )
        hint = hint_for(name) or ("ask for an aggregate: .agg(…)" if name in ("filter", "nth", "ngroup") else None)
        if hint is not None or name in ("groups", "indices", "get_group"):
            raise PrivateRowsError(f".{name} of groups would show private rows", hint=hint or "ask .size()")
        raise self._view.unknown(name)

    def _with(self, **changes: Any) -> PrivateGroups:
        made = PrivateGroups(
            self._view, self._keys, self._fields, alone=self._alone, sort=self._sort, dropna=self._dropna
        )
        for slot, value in changes.items():
            object.__setattr__(made, slot, value)
        return made

    def explain(self) -> PrivateGroups:
        """The same groups, but a verb only says what it would do and cost."""
        return self._with(_view=replace(self._view, mode=Mode.EXPLAIN))

    def to_sql(self) -> PrivateGroups:
        """The same groups, but a verb only writes the SQL that it stands for."""
        return self._with(_view=replace(self._view, mode=Mode.WRITE))

    # verbs --------------------------------------------------------------------------------------------------------

    def size(self, **price: Unpack[QueryKeywords]) -> Any:
        """How many rows each group has."""
        return self._ask([named(exp.Count(this=exp.Star()), "size")], price)

    def quantile(self, q: float | Sequence[float] = 0.5, **price: Unpack[QueryKeywords]) -> Any:
        """One quantile or several of each group."""
        shares = [q] if isinstance(q, int | float) else list(q)
        items = [
            named(quantile(field.expression, share), f"{share:g}" if self._alone else f"{name}_{share:g}")
            for name, field in self._numbers().items()
            for share in shares
        ]
        return self._ask(items, price)

    def agg(self, func: Any = None, **named_or_price: Any) -> Any:
        """`agg(["count", "mean"])`, `agg({"amount": ["mean", "sum"], "age": "max"})`, `agg(n=("amount", "count"))`."""
        price = cast(
            "QueryKeywords", {k: named_or_price.pop(k) for k in QueryKeywords.__annotations__ if k in named_or_price}
        )
        if func is None and named_or_price:
            items = [self._named(title, pair) for title, pair in named_or_price.items()]
        elif isinstance(func, Mapping):
            items = [each for name, asked in func.items() for each in self._several(name, _listed(asked), asked)]
        elif func is not None and self._alone:
            [(_, field)] = self._chosen().items()
            items = [named(aggregate(each, field.expression, field.kind), _title(each)) for each in _listed(func)]
        elif func is not None:
            items = [each for name in self._numbers() for each in self._several(name, _listed(func), func)]
        else:
            raise InterfaceError(
                "the aggregates are missing", hint='write agg(["count", "mean"]) or agg(n=("amount", "count"))'
            )
        return self._ask(items, price)

    aggregate = agg

    def _named(self, title: str, pair: Any) -> exp.Expr:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InterfaceError(f"{title} is not a column and an aggregate", hint=f'write {title}=("amount", "mean")')
        field = self._view.field(pair[0])
        return named(aggregate(pair[1], field.expression, field.kind), title)

    def _several(self, name: str, asked: list[Any], given: Any) -> list[exp.Expr]:
        field = self._view.field(name)
        single = not isinstance(given, list | tuple)
        return [
            named(aggregate(each, field.expression, field.kind), name if single else f"{name}_{_title(each)}")
            for each in asked
        ]

    def _chosen(self) -> Mapping[str, ColumnExpression]:
        if self._fields is not None:
            return self._fields
        return {name: field for name, field in self._view.fields.items() if name not in self._keys}

    def _numbers(self) -> Mapping[str, ColumnExpression]:
        if self._fields is not None:
            return self._fields
        chosen = {name: field for name, field in self._chosen().items() if field.countable}
        if not chosen:
            raise InterfaceError(
                "no column has bounds", hint="name one and bound it: frame.assign(x=frame.x.clip(0, 9))"
            )
        return chosen

    def _ask(self, items: Iterable[exp.Expr], price: QueryKeywords) -> Any:
        keys = [named(key, title) for title, key in self._keys.items()]
        query = self._view.select([*keys, *items], list(self._keys.values()))
        for key in self._keys.values() if self._dropna else ():
            query = query.having(exp.Not(this=exp.Is(this=inside(key), expression=exp.Null())), copy=False)
        if self._sort:
            query = query.order_by(*in_order(list(self._keys)), copy=False)
        return self._view.ask(query, price)


def _listed(asked: Any) -> list[Any]:
    return list(asked) if isinstance(asked, list | tuple) else [asked]


def _title(asked: Any) -> str:
    return asked if isinstance(asked, str) else str(getattr(asked, "__name__", "value"))
