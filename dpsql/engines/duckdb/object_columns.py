"""Columns of Python objects in private frames: their types come from the policy, and never from their rows.

DuckDB looks at some of the objects of such a column and chooses a type, so that one text or one decimal among numbers
would change what analysts see of the table. The categories of a categorical column come from the rows in the same way.

**Theorem.** Whether a private frame is taken, the types of its columns, and each of its values depend on the dtypes of
the frame, on the policy and on that row's own object. **Proof.** A column whose dtype is neither `object` nor
`category` has the type that DuckDB has for the dtype. Of the others, those that the policy does not name are left out,
and one for which it states no type is refused. Each object of the rest is converted to text by itself (`written`),
which never fails, in an array whose dtype is `string`; TRY_CAST then gives it the policy's type, or NULL. **Requires**
that the caller chose the dtypes: pandas may choose them by the rows when a frame is made. **Checked by**
`tests/privacy/test_types_of_rows.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from dpsql.errors import InterfaceError
from dpsql.policy.identifiers import fold

_UNTYPED = ("object", "category")
_LARGEST = 10**40
"""No type holds larger numbers, and Python does not write those that are much larger."""


def is_pandas(table: Any) -> bool:
    """Whether it is a data frame of pandas, which is not imported for that."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(table, pandas.DataFrame)


def object_columns(frame: Any) -> list[str]:
    """The names of the columns whose dtype does not say what they hold."""
    return [str(name) for name, dtype in zip(frame.columns, frame.dtypes, strict=True) if str(dtype) in _UNTYPED]


def require_types(name: str, table: Any, types: Mapping[str, str | None]) -> None:
    """Refuse a private table whose columns have no types, where the policy gives them none either."""
    if not is_pandas(table):
        if not hasattr(table, "__arrow_c_stream__") and type(table).__module__.partition(".")[0] != "pyarrow":
            raise InterfaceError(
                f"the table {name} is a {type(table).__name__}, whose columns have no types of their own",
                hint="give a pandas or Polars frame, or an Arrow table",
            )
        return
    untyped = object_columns(table)
    if untyped and not table.columns.is_unique:
        raise InterfaceError(f"two columns of the frame {name} have the same name", hint="rename one of them")
    for column in untyped:
        if fold(column) in types and types[fold(column)] is None:
            raise InterfaceError(
                f"the column {column} of the frame {name} has dtype {table[column].dtype}, which does not determine "
                "its SQL type, and the policy declares none; a type inferred from the rows would reveal something of "
                "them",
                hint=f"write `{column}: {{type: text}}` in the policy (or integer, double, decimal(18, 2), boolean, "
                "date, timestamp; `values`, or `min` and `max`, also declare it), or convert the column before "
                f'connecting: df.astype({{"{column}": "string"}})',
            )


def as_text_columns(frame: Any, types: Mapping[str, str | None]) -> Any:
    """The frame with its columns of objects as text, without those that the policy does not name."""
    pandas, untyped = sys.modules["pandas"], set(object_columns(frame))
    columns = {
        str(name): pandas.array([written(each) for each in frame[name]], dtype="string")
        if str(name) in untyped
        else frame[name].array
        for name in frame.columns
        if str(name) not in untyped or fold(str(name)) in types
    }
    return pandas.DataFrame(columns, copy=False)


def written(value: Any) -> str | None:
    """An object as text, by itself; None for what no type of a column holds."""
    if isinstance(value, str):
        return value if value.isascii() or _is_unicode(value) else None
    match _plain(value):
        case bool() as flag:
            return str(flag).lower()
        case int() as number:
            return str(number) if -_LARGEST < number < _LARGEST else None
        case float() as number:
            return None if number != number else repr(number)
        case Decimal() as number:
            return str(number) if number.is_finite() and abs(number.adjusted()) < 400 else None
        case datetime() as moment:
            return None if moment != moment else moment.isoformat(sep=" ")
        case date() as day:
            return day.isoformat()
    return None


def _plain(value: Any) -> object:
    """The Python object of a NumPy scalar; None for a duration, and for a date that Python does not have.

    A timestamp in nanoseconds is cut to microseconds: NumPy itself would hand over a number.
    """
    if not isinstance(value, np.generic):
        return value
    if isinstance(value, np.datetime64):
        fine = np.datetime_data(value.dtype)[0] in ("ns", "ps", "fs", "as")
        moment = (value.astype("datetime64[us]") if fine else value).item()
        return None if isinstance(moment, int) else moment
    return None if isinstance(value, np.timedelta64) else value.item()


def _is_unicode(value: str) -> bool:
    """Whether it is free of lone surrogates, which no database stores."""
    return not any("\ud800" <= letter <= "\udfff" for letter in value)
