"""PEP 249: the cursor, the type objects and the constructors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from dpsql.errors import InterfaceError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from dpsql.answers.result import Result
    from dpsql.interfaces.connect import QueryConnection
    from dpsql.options import QueryKeywords
    from dpsql.sql import Parameters


@dataclass(frozen=True)
class TypeObject:
    """A family of column types: equal to the type code of every column of the family."""

    name: str
    types: frozenset[str] | None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self.name == other.name
        return isinstance(other, str) and family(other) is self

    def __hash__(self) -> int:
        return hash(self.name)


NUMBER = TypeObject("NUMBER", frozenset({
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
    "FLOAT", "DOUBLE", "DECIMAL", "BIGNUM", "BOOLEAN",
}))  # fmt: skip
DATETIME = TypeObject("DATETIME", frozenset({
    "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE",
    "TIME WITH TIME ZONE", "INTERVAL",
}))  # fmt: skip
BINARY = TypeObject("BINARY", frozenset({"BLOB", "BIT"}))
ROWID = TypeObject("ROWID", frozenset())
STRING = TypeObject("STRING", None)
"""Text, and whatever else is shown as text."""


def family(code: str) -> TypeObject:
    """The type object of a type code, which is DuckDB's name of the type."""
    name = code.partition("(")[0].upper()
    if not name.endswith("]"):
        for each in (NUMBER, DATETIME, BINARY):
            if each.types is not None and name in each.types:
                return each
    return STRING


def digits(code: str) -> tuple[int | None, int | None]:
    """Precision and scale of a DECIMAL."""
    name, _, rest = code.partition("(")
    if name != "DECIMAL" or not rest.endswith(")"):
        return None, None
    width, _, scale = rest[:-1].partition(",")
    return int(width), int(scale)


Date, Time, Timestamp, Binary = date, time, datetime, bytes
"""`Binary` exists since PEP 249 asks for it; there are no columns of bytes, and as a parameter it is refused."""


def DateFromTicks(ticks: float) -> date:  # noqa: N802 - the name is PEP 249's
    """The local date of a number of seconds since 1970."""
    return date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> time:  # noqa: N802
    """The local time of day of a number of seconds since 1970."""
    return datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> datetime:  # noqa: N802
    """The local date and time of a number of seconds since 1970."""
    return datetime.fromtimestamp(ticks)


# the cursor ----------------------------------------------------------------------------------------------------------

Row = tuple[Any, ...]


class Cursor:
    """One query at a time; the rows of its answer, fetched as often as PEP 249 allows: once.

    `result` is the whole answer, with its error bars and cost. A cursor belongs to one thread; its connection does not.
    """

    arraysize = 1

    def __init__(self, connection: QueryConnection) -> None:
        self.connection = connection
        self.result: Result | None = None
        self._rows: Iterator[Row] = iter(())
        self._next: list[Result] = []
        self._closed = False

    @property
    def description(self) -> list[Row] | None:
        """Name, type (DuckDB's name, equal to one of PEP 249's type objects), precision and scale of each column."""
        if self.result is None:
            return None
        named = zip(self.result.columns, self.result.types, strict=True)
        return [(name, type_, None, None, *digits(type_), None) for name, type_ in named]

    @property
    def rowcount(self) -> int:
        """How many rows the answer has."""
        return -1 if self.result is None else len(self.result)

    def execute(self, operation: str, parameters: Parameters | None = None, **options: Unpack[QueryKeywords]) -> Self:
        """Run a query.

        Its price is given by the keywords (an extension of PEP 249), by a hint in the SQL, by an earlier
        `SET dpsql.price = '2%'`, or by the policy's default, in this order.
        """
        self._forget()
        if not self.connection.settle(operation):
            self._show(self.connection.query(operation, parameters or None, **options))
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Parameters]) -> Self:
        """Run a query once for each set of parameters; `nextset` goes from one answer to the next.

        All are planned before the first is charged, so that a refusal costs nothing.
        """
        self._forget()
        asked = list(seq_of_parameters)
        for parameters in asked:
            self.connection.explain(operation, parameters)
        self._next = [self.connection.query(operation, parameters) for parameters in asked]
        self.nextset()
        return self

    def nextset(self) -> bool | None:
        """Go on to the next answer of `executemany`; None if there is none."""
        self._open()
        if not self._next:
            return None
        self._show(self._next.pop(0))
        return True

    def fetchone(self) -> Row | None:
        """The next row."""
        self._answer()
        return next(self._rows, None)

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next `size` rows; without it, `arraysize` rows."""
        self._answer()
        return list(islice(self._rows, self.arraysize if size is None else max(size, 0)))

    def fetchall(self) -> list[Row]:
        """All rows that are left."""
        self._answer()
        return list(self._rows)

    def df(self) -> pd.DataFrame:
        """The whole answer as a pandas DataFrame."""
        return self._answer().df()

    def arrow(self) -> pa.Table:
        """The whole answer as an Arrow table (needs pyarrow)."""
        return self._answer().arrow()

    def pl(self) -> pl.DataFrame:
        """The whole answer as a polars DataFrame (needs polars)."""
        return self._answer().pl()

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Nothing to prepare: values are bound as they are."""
        self._open()

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Nothing to prepare: no value is cut."""
        self._open()

    def close(self) -> None:
        """Forget the answer; the cursor cannot be used after this."""
        self.result, self._rows, self._next = None, iter(()), []
        self._closed = True

    def __iter__(self) -> Iterator[Row]:
        self._answer()
        return self._rows

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> None:
        if self._closed:
            raise InterfaceError("this cursor is closed", hint="take a new one: connection.cursor()")
        if self.connection.closed:
            raise InterfaceError("this connection is closed", hint="open one with dpsql.connect(…)")

    def _forget(self) -> None:
        self._open()
        self.result, self._rows, self._next = None, iter(()), []

    def _show(self, result: Result) -> None:
        self.result, self._rows = result, iter(result.fetchall())

    def _answer(self) -> Result:
        self._open()
        if self.result is None:
            raise InterfaceError("there is no answer to fetch", hint="call execute first, with a query")
        return self.result
