"""A PEP 249 cursor over a connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from dpsql.errors import InterfaceError

if TYPE_CHECKING:
    from dpsql.release.result import Result
    from dpsql.session import Connection


class Cursor:
    """One query at a time; the rows of its answer, fetched as often as PEP 249 allows: once."""

    arraysize = 1

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.result: Result | None = None
        self._rows: Iterator[tuple[Any, ...]] = iter(())

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """Name and type of each column."""
        if self.result is None:
            return None
        named = zip(self.result.columns, self.result.types, strict=True)
        return [(name, type_, None, None, None, None, None) for name, type_ in named]

    @property
    def rowcount(self) -> int:
        """How many rows the answer has."""
        return -1 if self.result is None else len(self.result)

    def execute(self, operation: str, parameters: object = None) -> Self:
        """Run a query at the policy's default price, or that of a hint or of `SET dpsql.epsilon = 0.2` before it."""
        if parameters:
            raise InterfaceError("parameters are not supported", hint="write the values into the SQL")
        self.close()
        if self.connection.settle(operation):
            return self
        self.result = self.connection.query(operation)
        self._rows = iter(self.result.fetchall())
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row."""
        self._ran()
        return next(self._rows, None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next `size` rows."""
        self._ran()
        return [row for _, row in zip(range(size or self.arraysize), self._rows, strict=False)]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        self._ran()
        return list(self._rows)

    def close(self) -> None:
        """Forget the answer."""
        self.result, self._rows = None, iter(())

    def _ran(self) -> None:
        if self.result is None:
            raise InterfaceError("there is no answer to fetch", hint="call execute first")
