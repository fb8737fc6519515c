"""What a private frame stands for: rows of some tables, some conditions, and named expressions over them.

A method asks a query at once, or, after `explain()` and `to_sql()`, only explains it or returns its SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import Enum
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from dpsql.bounds.domain import Domain
from dpsql.errors import Error, InterfaceError, UnboundedColumn
from dpsql.interfaces.frame.sql_expressions import ColumnKind, identifier, inside
from dpsql.options import QueryKeywords

if TYPE_CHECKING:
    from dpsql.interfaces.frame.protection import Protection


class Mode(Enum):
    """What a verb does."""

    ASK = "asks"
    EXPLAIN = "explains"
    WRITE = "writes SQL"


def ask(connection: Any, sql: str, mode: Mode, price: QueryKeywords) -> Any:
    """The answer, or in the looking modes the explanation or the SQL: those spend nothing."""
    if mode is Mode.WRITE:
        return sql
    with in_frame_terms():
        return connection.explain(sql, **price) if mode is Mode.EXPLAIN else connection.query(sql, **price)


@contextmanager
def in_frame_terms() -> Iterator[None]:
    """Refusals say what to write in Python, where SQL's way out is another."""
    try:
        yield
    except UnboundedColumn as refusal:
        refusal.hint = "bound it: .clip(low, high) before the verb, or bounds={…: (low, high)} in protect"
        raise
    except Error as refusal:
        if "needs delta" in refusal.message:
            refusal.hint = (
                "list the values of a text, values={…: […]} in protect, or the ends of a number or date, "
                "bounds={…: (first, last)}; or protect with a delta, such as delta=1e-6"
            )
        elif "takes a number, but this is" in refusal.message:
            refusal.hint = (
                "count it instead. A column of dtype object or category is text unless protect knows better: declare "
                "bounds={…: (low, high)} for numbers, or convert the column before"
            )
        raise


# views ---------------------------------------------------------------------------------------------------------------

UNKNOWN = Domain()


class UnknownColumn(InterfaceError, AttributeError, KeyError):
    """There is no such column; as an AttributeError and a KeyError it is what Python expects of a missing name."""

    __str__ = InterfaceError.__str__


@dataclass(frozen=True, slots=True)
class ColumnExpression:
    """A named expression; `note` and `domain` are what was declared, `countable` whether it can be summed as it is."""

    expression: exp.Expr
    kind: ColumnKind
    note: str = ""
    countable: bool = False
    domain: Domain = UNKNOWN


@dataclass(frozen=True, slots=True)
class FrameView:
    """Immutable, and without a single row: the rows are in the engine, behind the protection."""

    protection: Protection
    tables: tuple[str, ...]
    joins: tuple[exp.Join, ...]
    fields: Mapping[str, ColumnExpression]
    where: tuple[exp.Expr, ...] = ()
    mode: Mode = Mode.ASK

    def field(self, name: str) -> ColumnExpression:
        """The column of that name."""
        if name in self.fields:
            return self.fields[name]
        raise self.unknown(name)

    def unknown(self, name: object) -> UnknownColumn:
        """The error for a missing column, with the columns that exist."""
        listed = ", ".join(self.fields)
        folded = {each.lower(): each for each in self.fields}
        close = get_close_matches(str(name).lower(), list(folded), n=1)
        guess = f"did you mean {folded[close[0]]}? " if close else ""
        return UnknownColumn(f"there is no column {name!r}", hint=f"{guess}columns: {listed}")

    def same_rows(self, other: FrameView) -> bool:
        """Whether the other stands for the same rows or more of them."""
        return self.within_source(other) and all(condition in self.where for condition in other.where)

    def within_source(self, other: FrameView) -> bool:
        """Whether both come from the same tables, joined in the same way."""
        return (self.protection is other.protection) and (self.tables, self.joins) == (other.tables, other.joins)

    def filtered(self, condition: exp.Expr) -> FrameView:
        """Fewer rows."""
        return self if condition in self.where else replace(self, where=(*self.where, condition))

    def select(self, items: Sequence[exp.Expr], keys: Sequence[exp.Expr] = ()) -> exp.Select:
        """One SELECT over these rows."""
        query = exp.Select(expressions=[item.copy() for item in items])
        query = query.from_(exp.Table(this=identifier(self.tables[0])), copy=False)
        for join in self.joins:
            query.append("joins", join.copy())
        for condition in self.where:
            query = query.where(inside(condition) if isinstance(condition, exp.Or) else condition.copy(), copy=False)
        return query.group_by(*(key.copy() for key in keys), copy=False) if keys else query

    def ask(self, query: exp.Query, price: QueryKeywords) -> Any:
        """Ask, explain or write SQL, according to the mode."""
        return ask(self.protection.connection(self.tables), query.sql("duckdb"), self.mode, price)
