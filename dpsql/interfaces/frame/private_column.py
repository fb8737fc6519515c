"""A private column: an expression over private rows that can be computed with, asked about, and never looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from sqlglot import exp

from dpsql.errors import InterfaceError
from dpsql.interfaces.frame import column_operations
from dpsql.interfaces.frame import sql_expressions as sql
from dpsql.interfaces.frame.column_operations import DateAccessor, TextAccessor, arithmetic, comparison, of
from dpsql.interfaces.frame.frame_view import ColumnExpression, FrameView, Mode
from dpsql.interfaces.frame.row_guard import PrivateRowsError, RowGuard, hint_for
from dpsql.interfaces.frame.sql_expressions import (
    DESCRIBED,
    ColumnKind,
    aggregate,
    histogram,
    in_order,
    named,
    quantile,
)
from dpsql.options import QueryKeywords

_UFUNCS = {
    "sqrt": "sqrt", "log": "ln", "log10": "log10", "log2": "log2", "exp": "exp", "absolute": "abs", "floor": "floor",
    "ceil": "ceil", "sign": "sign",
}  # fmt: skip
_OPERATORS = {
    "add": "__add__", "subtract": "__sub__", "multiply": "__mul__", "divide": "__truediv__", "greater": "__gt__",
    "greater_equal": "__ge__", "less": "__lt__", "less_equal": "__le__", "equal": "__eq__", "not_equal": "__ne__",
    "logical_and": "__and__", "logical_or": "__or__", "bitwise_and": "__and__", "bitwise_or": "__or__",
}  # fmt: skip
_TYPES = {"int": "BIGINT", "int64": "BIGINT", "float": "DOUBLE", "float64": "DOUBLE", "str": "VARCHAR",
          "string": "VARCHAR", "bool": "BOOLEAN"}  # fmt: skip
_CAST_KINDS = {
    "BIGINT": ColumnKind.NUMBER,
    "DOUBLE": ColumnKind.NUMBER,
    "VARCHAR": ColumnKind.TEXT,
    "BOOLEAN": ColumnKind.BOOLEAN,
}


class PrivateColumn(RowGuard):
    """One column, or an expression over columns; verbs ask, everything else stays an expression."""

    __slots__ = ("_field", "_name", "_view")
    _view: FrameView
    _field: ColumnExpression
    _name: str

    def __init__(self, view: FrameView, field: ColumnExpression, name: str) -> None:
        for slot, value in (("_view", view), ("_field", field), ("_name", name)):
            object.__setattr__(self, slot, value)

    @property
    def name(self) -> str:
        """What the column is called."""
        return self._name

    def rename(self, name: str) -> PrivateColumn:
        """The same under another name."""
        return PrivateColumn(self._view, self._field, name)

    def __repr__(self) -> str:
        from dpsql.interfaces.frame.display import column_text

        return column_text(self)

    def _repr_html_(self) -> str:
        from dpsql.interfaces.frame.display import column_html

        return column_html(self)

    def __dir__(self) -> list[str]:
        return [name for name in dir(type(self)) if not name.startswith("_")]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        hint = hint_for(name)
        if hint is not None:
            raise PrivateRowsError(f".{name} of a private column would show private rows", hint=hint)
        known = [each for each in dir(self) if not each.startswith("_")]
        raise PrivateRowsError(f"a private column has no .{name}", hint=f"it has {', '.join(known)}")

    def __getitem__(self, key: object) -> PrivateColumn:
        """The rows where a mask holds."""
        if isinstance(key, PrivateColumn):
            return PrivateColumn(self._view.filtered(key._mask_for(self._view)), self._field, self._name)
        return self._refuse("a single row", "filter with a mask, then ask: frame[frame.age > 30].amount.mean()")

    def __contains__(self, value: object) -> bool:
        self._refuse("whether a value occurs", "count it: (frame.age == 30).sum()")

    # looking ------------------------------------------------------------------------------------------------------

    def explain(self) -> PrivateColumn:
        """The same column, but its verbs only say what they would do and cost."""
        return PrivateColumn(replace(self._view, mode=Mode.EXPLAIN), self._field, self._name)

    def to_sql(self) -> PrivateColumn:
        """The same column, but its verbs only write the SQL that they stand for."""
        return PrivateColumn(replace(self._view, mode=Mode.WRITE), self._field, self._name)

    # verbs --------------------------------------------------------------------------------------------------------

    def _ask(self, name: str, price: QueryKeywords, ddof: int = 1) -> Any:
        made = aggregate(name, self._field.expression, self._field.kind, ddof)
        return self._view.ask(self._view.select([named(made, name)]), price)

    def mean(self, **price: Unpack[QueryKeywords]) -> Any:
        """The average of what is not missing."""
        return self._ask("mean", price)

    def sum(self, **price: Unpack[QueryKeywords]) -> Any:
        """The sum; of a mask, how many rows it holds for."""
        return self._ask("sum", price)

    def count(self, **price: Unpack[QueryKeywords]) -> Any:
        """How many are not missing."""
        return self._ask("count", price)

    def size(self, **price: Unpack[QueryKeywords]) -> Any:
        """How many rows there are."""
        return self._ask("size", price)

    def std(self, ddof: int = 1, **price: Unpack[QueryKeywords]) -> Any:
        """The standard deviation."""
        return self._ask("std", price, ddof)

    def var(self, ddof: int = 1, **price: Unpack[QueryKeywords]) -> Any:
        """The variance."""
        return self._ask("var", price, ddof)

    def median(self, **price: Unpack[QueryKeywords]) -> Any:
        """The middle value."""
        return self._ask("median", price)

    def min(self, **price: Unpack[QueryKeywords]) -> Any:
        """The smallest value, as far as it can be told privately."""
        return self._ask("min", price)

    def max(self, **price: Unpack[QueryKeywords]) -> Any:
        """The largest value, as far as it can be told privately."""
        return self._ask("max", price)

    def nunique(self, **price: Unpack[QueryKeywords]) -> Any:
        """How many different values there are."""
        return self._ask("nunique", price)

    def agg(self, names: Any, **price: Unpack[QueryKeywords]) -> Any:
        """Several aggregates in one query: `agg(["count", "mean"])`."""
        listed = [names] if isinstance(names, str) or callable(names) else list(names)
        made = [aggregate(each, self._field.expression, self._field.kind) for each in listed]
        titles = [each if isinstance(each, str) else each.__name__ for each in listed]
        return self._view.ask(self._view.select([named(m, t) for m, t in zip(made, titles, strict=True)]), price)

    aggregate = agg

    def quantile(self, q: float | Sequence[float] = 0.5, **price: Unpack[QueryKeywords]) -> Any:
        """One quantile or several, in one query: `quantile([0.25, 0.5, 0.75])`."""
        shares = [q] if isinstance(q, int | float) else list(q)
        made = [named(quantile(self._field.expression, share), f"{share:g}") for share in shares]
        return self._view.ask(self._view.select(made), price)

    def describe(self, **price: Unpack[QueryKeywords]) -> Any:
        """Count, mean, standard deviation, ends and quartiles, in one query."""
        if self._field.kind is not ColumnKind.NUMBER:
            raise InterfaceError(f"describe needs a number, and {self._name} is not one", hint="use .value_counts()")
        made = [named(aggregate(each, self._field.expression, self._field.kind), each) for each in DESCRIBED]
        return self._view.ask(self._view.select(made), price)

    def value_counts(self, normalize: bool = False, dropna: bool = True, **price: Unpack[QueryKeywords]) -> Any:
        """How often each value occurs, the most frequent first; with `normalize`, as shares."""
        key, count, title = self._field.expression, exp.Count(this=exp.Star()), "proportion" if normalize else "count"
        shown: exp.Expr = count
        if normalize:
            shown = exp.Div(this=count, expression=exp.Window(this=exp.Sum(this=count.copy())))
        query = self._view.select([named(key, self._name), named(shown, title)], [key])
        if dropna:
            query = query.having(exp.Not(this=exp.Is(this=sql.inside(key), expression=exp.Null())), copy=False)
        order = exp.Ordered(this=exp.Column(this=sql.identifier(title)), desc=True)
        return self._view.ask(query.order_by(order, copy=False), price)

    def hist(self, bins: int = 10, range: tuple[float, float] | None = None, **price: Unpack[QueryKeywords]) -> Any:  # noqa: A002 - NumPy's name
        """How many values lie in each of equally wide bins, between the declared bounds unless `range` is given.

        The answer has the ends of each bin, for `age` as `age` and `age_to`, and its `count`.
        """
        if isinstance(bins, bool) or not isinstance(bins, int) or not 1 <= bins <= 10_000:
            raise InterfaceError(f"bins = {bins!r} is not a valid number of bins", hint="write .hist(bins=20)")
        ends = range or self._ends()
        if not ends[0] < ends[1]:
            raise InterfaceError(
                "the range of a histogram must be a lower and a higher value", hint="write .hist(range=(0, 100))"
            )
        low, high = float(ends[0]), float(ends[1])
        number, edges = histogram(self._field.expression, (low, high), bins)
        within = exp.Between(this=sql.inside(self._field.expression), low=sql.constant(low), high=sql.constant(high))
        counted = self._view.filtered(within).select(
            [named(number, "bin"), named(exp.Count(this=exp.Star()), "count")], [number]
        )
        items = [named(edges[0], self._name), named(edges[1], f"{self._name}_to"), exp.column("count")]
        query = exp.Select(expressions=items).from_(counted.subquery("bins", copy=False), copy=False)
        return self._view.ask(query.order_by(*in_order([self._name]), copy=False), price)

    def _ends(self) -> tuple[Any, Any]:
        domain = self._field.domain
        if self._field.kind is not ColumnKind.NUMBER or domain.lower is None or domain.upper is None:
            raise InterfaceError(
                f"{self._name} has no declared bounds, so the range of the histogram is missing",
                hint="write .hist(range=(0, 100)), or declare bounds={…} in protect",
            )
        return domain.lower, domain.upper

    def corr(self, other: PrivateColumn, **price: Unpack[QueryKeywords]) -> Any:
        """The correlation with another column."""
        view, one, two = self._beside(other)
        return view.ask(view.select([named(sql.call("corr", one, two), "corr")]), price)

    def groupby(self, by: Any, **options: Any) -> Any:
        """Groups of this column by others of the same frame."""
        from dpsql.interfaces.frame.groupby import PrivateGroups, read_keys

        return PrivateGroups(self._view, read_keys(self._view, by), {self._name: self._field}, alone=True, **options)

    # expressions ----------------------------------------------------------------------------------------------------

    @property
    def str(self) -> TextAccessor:
        """Functions of text: `.str.lower()`, `.str.contains("x")`."""
        return TextAccessor(self._made, self._field.expression, self._field.kind, self._name)

    @property
    def dt(self) -> DateAccessor:
        """Parts of dates: `.dt.year`, `.dt.month`."""
        return DateAccessor(self._made, self._field.expression, self._field.kind, self._name)

    def isin(self, values: Iterable[Any]) -> PrivateColumn:
        """Where the value is one of these."""
        if isinstance(values, RowGuard):
            raise InterfaceError("isin takes a list of constants", hint="to keep the units of another frame: .merge(…)")
        listed = [sql.constant(value) for value in values if value is not None and value == value]
        if not listed:
            return self._made(exp.Boolean(this=False), ColumnKind.MASK)
        return self._made(exp.In(this=sql.inside(self._field.expression), expressions=listed), ColumnKind.MASK)

    def between(self, left: Any, right: Any, inclusive: str_ = "both") -> PrivateColumn:
        """Where the value lies in a range."""
        if inclusive == "both":
            low, high = self._operand(left)[1], self._operand(right)[1]
            return self._made(exp.Between(this=sql.inside(self._field.expression), low=low, high=high), ColumnKind.MASK)
        if inclusive not in ("left", "right", "neither"):
            raise InterfaceError(f"inclusive = {inclusive!r} is not known", hint="write both, neither, left or right")
        above = self >= left if inclusive == "left" else self > left
        made: PrivateColumn = above & (self <= right if inclusive == "right" else self < right)
        return made

    def isna(self) -> PrivateColumn:
        """Where the value is missing."""
        return self._made(exp.Is(this=sql.inside(self._field.expression), expression=exp.Null()), ColumnKind.MASK)

    def notna(self) -> PrivateColumn:
        """Where the value is there."""
        missing = exp.Is(this=sql.inside(self._field.expression), expression=exp.Null())
        return self._made(exp.Not(this=missing), ColumnKind.MASK)

    isnull, notnull = isna, notna

    def fillna(self, value: Any) -> PrivateColumn:
        """The value, or this one where it is missing."""
        return self._made(sql.call("coalesce", self._field.expression, self._operand(value)[1]), self._field.kind)

    def dropna(self) -> PrivateColumn:
        """The rows where the value is there."""
        return self[self.notna()]

    def clip(self, lower: Any = None, upper: Any = None) -> PrivateColumn:
        """The value, moved to the ends of a range where it lies outside: this bounds a column."""
        inner = self._field.expression
        inner = inner if lower is None else sql.call("greatest", inner, self._operand(lower)[1])
        inner = inner if upper is None else sql.call("least", inner, self._operand(upper)[1])
        made = self._made(sql.unless_missing(self._field.expression, inner), self._field.kind)
        if lower is None or upper is None:
            return made
        return PrivateColumn(made._view, replace(made._field, countable=True), self._name)

    def abs(self) -> PrivateColumn:
        """Without its sign."""
        return self._made(sql.call("abs", self._field.expression))

    def round(self, decimals: int = 0) -> PrivateColumn:
        """Rounded; halves go away from zero, as in SQL."""
        return self._made(sql.call("round", self._field.expression, sql.constant(decimals)))

    def astype(self, dtype: Any) -> PrivateColumn:
        """As int, float, str or bool."""
        name = dtype if isinstance(dtype, str_) else getattr(dtype, "__name__", str_(dtype))
        target = _TYPES.get(name.lower())
        if target is None:
            raise InterfaceError(f"a private column cannot be cast to {name}", hint="use int, float, str or bool")
        number = sql.as_number(self._field.expression, self._field.kind) if target != "BOOLEAN" else None
        return self._made(exp.cast((number or self._field.expression).copy(), target), _CAST_KINDS[target])

    def map(self, arg: Any, na_action: Any = None) -> PrivateColumn:
        """Other values by a mapping; what it does not name becomes missing."""
        if not isinstance(arg, Mapping) or not arg:
            raise InterfaceError(
                "map takes a mapping of constants",
                hint='write .map({"n": "north"}); a formula is written with columns: frame.age * 2',
            )
        ifs = [exp.If(this=sql.binary(exp.EQ, self._field.expression, sql.constant(old)), true=sql.constant(new))
               for old, new in arg.items()]  # fmt: skip
        kind = ColumnKind.TEXT if all(isinstance(new, str_) for new in arg.values()) else ColumnKind.NUMBER
        return self._made(exp.Case(ifs=ifs), kind)

    def where(self, cond: PrivateColumn, other: Any = None) -> PrivateColumn:
        """The value where a mask holds, else the other one (missing if there is none)."""
        view, _, mask = self._beside(cond)
        default = None if other is None else self._operand(other)[1]
        made = exp.Case(ifs=[exp.If(this=mask.copy(), true=self._field.expression.copy())], default=default)
        return PrivateColumn(view, ColumnExpression(made, self._field.kind), self._name)

    def mask(self, cond: PrivateColumn, other: Any = None) -> PrivateColumn:
        """The value where a mask does not hold, else the other one."""
        return self.where(~cond, other)

    def _made(self, expression: exp.Expr, kind: ColumnKind = ColumnKind.NUMBER) -> PrivateColumn:
        return PrivateColumn(self._view, ColumnExpression(expression, kind), self._name)

    def _beside(self, other: PrivateColumn) -> tuple[FrameView, exp.Expr, exp.Expr]:
        """Both expressions over the rows that both have."""
        if not isinstance(other, PrivateColumn):
            raise InterfaceError("this takes another column of the same frame", hint="write frame.age")
        if self._view.same_rows(other._view):
            return self._view, self._field.expression, other._field.expression
        if other._view.same_rows(self._view):
            return replace(other._view, mode=self._view.mode), self._field.expression, other._field.expression
        raise InterfaceError(
            "these columns belong to different rows",
            hint="filter once, then compute: adults = frame[frame.age > 17]; adults.price * adults.pieces",
        )

    def _operand(self, other: Any) -> tuple[FrameView, exp.Expr, ColumnKind]:
        if isinstance(other, PrivateColumn):
            view, _, expression = self._beside(other)
            return view, expression, other._field.kind
        if isinstance(other, RowGuard):
            raise InterfaceError("a whole frame cannot be an operand", hint="name a column of it: frame.age")
        if not isinstance(other, str_) and hasattr(other, "__len__"):
            raise InterfaceError(
                "a list of values cannot be combined with a private column", hint="use .isin([…]), or a single number"
            )
        made = sql.constant(other)
        kind = (
            ColumnKind.MASK
            if isinstance(other, bool)
            else ColumnKind.TEXT
            if isinstance(other, str_)
            else ColumnKind.NUMBER
        )
        return self._view, made, kind

    def _mask_for(self, view: FrameView) -> exp.Expr:
        """This column as a condition on the rows of that view."""
        if self._field.kind not in (ColumnKind.MASK, ColumnKind.BOOLEAN):
            raise InterfaceError(
                f"{self._name} is not a condition", hint="compare it: frame[frame.age > 30]; choose columns by name"
            )
        if not view.same_rows(self._view):
            raise InterfaceError(
                "this mask belongs to other rows",
                hint="make the mask from the frame that it filters: frame[frame.x > 1]",
            )
        return self._field.expression

    # operators ------------------------------------------------------------------------------------------------------

    __add__, __radd__ = column_operations.addition(), column_operations.addition(swapped=True)
    __sub__, __rsub__ = arithmetic(of(exp.Sub)), arithmetic(of(exp.Sub), swapped=True)
    __mul__, __rmul__ = arithmetic(of(exp.Mul)), arithmetic(of(exp.Mul), swapped=True)
    __truediv__, __rtruediv__ = arithmetic(of(exp.Div)), arithmetic(of(exp.Div), swapped=True)
    __floordiv__, __rfloordiv__ = arithmetic(sql.floor_divide), arithmetic(sql.floor_divide, swapped=True)
    __mod__ = arithmetic(sql.modulo)
    __pow__, __rpow__ = arithmetic(column_operations.power), arithmetic(column_operations.power, swapped=True)
    __eq__, __ne__ = comparison(exp.EQ), comparison(exp.NullSafeNEQ)
    __lt__, __le__ = comparison(exp.LT), comparison(exp.LTE)
    __gt__, __ge__ = comparison(exp.GT), comparison(exp.GTE)
    __and__ = __rand__ = column_operations.logic(exp.And)
    __or__ = __ror__ = column_operations.logic(exp.Or)
    __invert__, __neg__ = column_operations.inverted, column_operations.negative
    __hash__ = None

    def __pos__(self) -> PrivateColumn:
        return self

    def __abs__(self) -> PrivateColumn:
        return self.abs()

    def __round__(self, places: int = 0) -> PrivateColumn:
        return self.round(places)

    def __floor__(self) -> PrivateColumn:
        return self._made(sql.call("floor", self._field.expression))

    def __ceil__(self) -> PrivateColumn:
        return self._made(sql.call("ceil", self._field.expression))

    def __array_ufunc__(self, ufunc: Any, method: str_, *inputs: Any, **options: Any) -> Any:
        """`np.log(frame.amount)` and its like are expressions, too."""
        name = ufunc.__name__
        if method == "__call__" and not options:
            if name in _UFUNCS and len(inputs) == 1:
                return self._made(sql.call(_UFUNCS[name], self._field.expression))
            if name in _OPERATORS and len(inputs) == 2:
                return _reflected(_OPERATORS[name], *inputs)
        return self._refuse(f"np.{name}", f"of NumPy's functions {', '.join(_UFUNCS)} may be used")

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = func.__name__
        verb = {"mean": "mean", "sum": "sum", "std": "std", "var": "var", "median": "median", "average": "mean",
                "min": "min", "max": "max", "amin": "min", "amax": "max"}.get(name)  # fmt: skip
        self._refuse(f"np.{name}", f"ask the column itself: .{verb}()" if verb else "ask: .mean(), .hist()")


str_ = str  # inside the class, `str` is the accessor of text functions


def _reflected(operator: str, one: Any, two: Any) -> Any:
    """The operator of whichever side is a private column."""
    if isinstance(one, PrivateColumn):
        return getattr(one, operator)(two)
    swapped = {"__sub__": "__rsub__", "__truediv__": "__rtruediv__", "__gt__": "__lt__", "__lt__": "__gt__",
               "__ge__": "__le__", "__le__": "__ge__"}  # fmt: skip
    return getattr(two, swapped.get(operator, operator))(one)
