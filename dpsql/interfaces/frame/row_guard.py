"""What pandas would show and a private frame does not: each a short message with the way out. Nothing is charged."""

from __future__ import annotations

from typing import Any, NoReturn, Self

from dpsql.errors import InterfaceError


class PrivateRowsError(InterfaceError, AttributeError, TypeError):
    """Something would show rows. As an AttributeError and a TypeError it is what libraries that probe expect."""

    __str__ = InterfaceError.__str__


ASK = "ask for an aggregate instead: .describe(), .mean(), .groupby(…).size()"
SAVE = "save an answer instead: .describe().df().to_csv(…), .groupby(…).mean().df()"
GROUP = "group and aggregate: .groupby(…)[…].mean()"
WRITE = "write the expression with columns: .assign(total=frame.price * frame.pieces)"
_WAYS_OUT: dict[str, tuple[str, ...]] = {
    ASK: (
        "head", "tail", "sample", "iloc", "iat", "at", "values", "array", "to_numpy", "iterrows", "itertuples", "items",
        "iteritems", "to_dict", "to_list", "tolist", "to_string", "to_records", "to_arrow", "to_polars", "to_pandas",
        "to_xarray", "T", "transpose", "take", "xs", "squeeze", "item", "first", "last", "get", "fetchall", "rows",
        "row", "to_dicts", "select_dtypes", "collect",
    ),
    SAVE: (
        "to_csv", "to_parquet", "to_excel", "to_json", "to_feather", "to_pickle", "to_html", "to_markdown", "to_hdf",
        "to_clipboard", "to_latex", "to_stata", "to_orc", "to_gbq", "to_xml", "write_csv", "write_parquet",
    ),
    "sort an answer: .groupby(…).size().df().sort_values(…); ends are .quantile([0.05, 0.95])": (
        "sort_values", "sort_index", "nlargest", "nsmallest", "rank", "idxmax", "idxmin", "argmax", "argmin", "argsort",
        "top_k",
    ),
    WRITE: (
        "apply", "applymap", "transform", "pipe", "eval", "combine", "update", "replace", "interpolate", "ffill",
        "bfill", "insert",
    ),
    "group by time and go on with the answer: .groupby(frame.when.dt.to_period('M')).size().df().rolling(3)": (
        "rolling", "expanding", "ewm", "cumsum", "cumprod", "cummax", "cummin", "diff", "pct_change", "shift",
        "resample",
    ),
    GROUP: ("pivot", "pivot_table", "melt", "stack", "unstack", "explode", "crosstab", "set_index"),
    "use .merge(other, on=…)": ("join", "append", "concat", "combine_first"),
    "use .value_counts() or .nunique()": ("unique", "mode", "drop_duplicates", "duplicated"),
    "the number of rows is a question: .size()": ("shape", "empty", "memory_usage", "ndim", "nbytes"),
    "plot an answer: .hist().plot(), .groupby(…).mean().plot()": ("plot", "boxplot"),
    "filter with a mask: frame[frame.age > 30]": ("loc",),
    "rows have no labels here; .columns names the columns, .size() asks for the number of rows": ("index",),
    "nothing to do: a private frame has no index": ("reset_index",),
    "use .drop(columns=[…])": ("pop",),
    "use .dropna()": ("drop_nulls",),
    "ask one pair: frame.age.corr(frame.amount)": ("corr", "cov", "corrwith"),
}  # fmt: skip
_PER_COLUMN = {
    "ask a column: frame.age.isna().sum(), frame.age.count()": ("isna", "isnull", "notna", "notnull", "any", "all"),
    "one column at a time: .assign(age=frame.age.clip(18, 99)), and so with .astype and .round": (
        "astype", "convert_dtypes", "round", "clip", "abs", "fillna", "map", "where", "mask", "isin", "between",
    ),
}  # fmt: skip
_OF_COLUMNS = {name: hint for hint, names in _PER_COLUMN.items() for name in names}
_HINTS = {name: hint for hint, names in _WAYS_OUT.items() for name in names}


def hint_for(name: str) -> str | None:
    """The way out of an attribute of pandas that would show rows; None if it is not one."""
    return _HINTS.get(name)


def of_a_column(name: str, what: str) -> PrivateRowsError | None:
    """The way out of a verb of pandas that is here one of columns only; None if it is not one."""
    hint = _OF_COLUMNS.get(name)
    return None if hint is None else PrivateRowsError(f"{what} has no .{name}", hint=hint)


class RowGuard:
    """No protocol by which Python or a library would read rows works here, and each says so."""

    __slots__ = ()

    def _refuse(self, what: str, hint: str = ASK) -> NoReturn:
        raise PrivateRowsError(f"{what} would show private rows", hint=hint)

    def __len__(self) -> int:
        raise PrivateRowsError("the number of rows is private", hint="it is a question like others: ask .size()")

    def __iter__(self) -> Any:
        self._refuse("iterating", "the names of the columns are in .columns; " + ASK)

    def __reversed__(self) -> Any:
        self._refuse("iterating")

    def __next__(self) -> Any:
        self._refuse("iterating")

    def __bool__(self) -> bool:
        raise PrivateRowsError(
            "whether private rows are true is not shown",
            hint="join conditions with & | ~, each in brackets: frame[(frame.age > 30) & (frame.age < 60)]; a range "
            "is .between(30, 60)",
        )

    def __float__(self) -> float:
        self._refuse("a number", "ask for one: .mean(), .sum()")

    def __int__(self) -> int:
        self._refuse("a number", "ask for one: .mean(), .sum()")

    def __complex__(self) -> complex:
        self._refuse("a number", "ask for one: .mean(), .sum()")

    def __index__(self) -> int:  # noqa: PLE0305 - it raises
        self._refuse("a number", "ask for one: .size()")

    def __array__(self, dtype: object = None, copy: object = None) -> Any:
        self._refuse("an array")

    @property
    def __array_interface__(self) -> Any:
        raise AttributeError("private rows are not an array")

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        self._refuse("the dataframe protocol", "give a library an answer: .groupby(…).mean().df()")

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        self._refuse("the Arrow stream", "give a library an answer: .groupby(…).mean().arrow()")

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        self._refuse("the Arrow array", "give a library an answer: .groupby(…).mean().arrow()")

    def __reduce_ex__(self, protocol: object) -> Any:
        raise PrivateRowsError(
            "a private frame cannot be pickled: its rows and its ledger stay where they are",
            hint="pickle an answer, .describe().df(); protect with ledger=<file> to go on in another process",
        )

    def __getstate__(self) -> Any:
        self.__reduce_ex__(2)

    def __copy__(self) -> Self:
        """Itself: nothing can be changed in it, and there is one account."""
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def copy(self, deep: bool = True) -> Self:
        """Itself: nothing can be changed in it, and there is one account."""
        return self

    def __format__(self, spec: str) -> str:
        if spec:
            self._refuse("a number", "format an answer: f'{float(frame.age.mean()):.1f}'")
        return repr(self)

    def __setitem__(self, key: object, value: object) -> None:
        raise PrivateRowsError("a private frame does not change", hint=f"make another: {_assign(key)}")

    def __delitem__(self, key: object) -> None:
        raise PrivateRowsError("a private frame does not change", hint="make another: .drop(columns=[…])")

    def __setattr__(self, name: str, value: object) -> None:
        raise PrivateRowsError("a private frame does not change", hint=f"make another: {_assign(name)}")

    def __delattr__(self, name: str) -> None:
        raise PrivateRowsError("a private frame does not change", hint="make another: .drop(columns=[…])")

    __hash__ = None  # type: ignore[assignment]

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        return {}


def _assign(key: object) -> str:
    word = key if isinstance(key, str) and key.isidentifier() else "total"
    return f"frame = frame.assign({word}=…)"
