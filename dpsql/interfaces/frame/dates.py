"""`.dt` of a private column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from dpsql.errors import InterfaceError
from dpsql.interfaces.frame.expressions import Kind, call
from dpsql.interfaces.frame.hidden import PrivateRows

Make = Callable[[exp.Expr, Kind], Any]
PARTS = ("year", "quarter", "month", "day", "hour", "minute", "second", "dayofyear")
_UNITS = {"Y": "year", "YE": "year", "YS": "year", "Q": "quarter", "QE": "quarter", "QS": "quarter", "M": "month",
          "ME": "month", "MS": "month", "W": "week", "D": "day", "H": "hour", "MIN": "minute", "T": "minute",
          "S": "second"}  # fmt: skip


class Dates:
    """Parts of dates; each gives another private column."""

    __slots__ = ("__make", "__of")

    def __init__(self, make: Make, of: exp.Expr, kind: Kind, name: str) -> None:
        if kind is not Kind.TIME:
            raise InterfaceError(f".dt is for dates, and {name} is none", hint="use pd.to_datetime before protect")
        self.__make, self.__of = make, of

    def __getattr__(self, name: str) -> Any:
        if name in PARTS:
            return self.__make(call(name, self.__of), Kind.NUMBER)
        listed = ", ".join((*PARTS, "dayofweek", "to_period", "floor", "normalize"))
        raise PrivateRows(f".dt.{name} is not among the parts of private dates", hint=f"there are {listed}")

    def __dir__(self) -> list[str]:
        return [*PARTS, *(name for name in dir(type(self)) if not name.startswith("_"))]

    @property
    def dayofweek(self) -> Any:
        """Monday is 0, as in pandas."""
        return self.__make(exp.Sub(this=call("isodow", self.__of), expression=exp.Literal.number(1)), Kind.NUMBER)

    weekday = day_of_week = dayofweek

    def to_period(self, freq: str) -> Any:
        """The beginning of the year, quarter, month, week or day: `.dt.to_period("M")`."""
        unit = _UNITS.get(freq.upper() if isinstance(freq, str) else "")
        if unit is None:
            raise InterfaceError(f"there is no period {freq!r}", hint='write "Y", "Q", "M", "W", "D" or "h"')
        return self.__make(call("date_trunc", exp.Literal.string(unit), self.__of), Kind.TIME)

    def floor(self, freq: str) -> Any:
        """The beginning of the day, hour, minute or second."""
        return self.to_period(freq)

    def normalize(self) -> Any:
        """Midnight of the day."""
        return self.to_period("D")
