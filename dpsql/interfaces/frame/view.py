"""What a private frame stands for: rows of some tables under some conditions, with named expressions over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from dpsql.bounds.domain import Domain
from dpsql.errors import InterfaceError
from dpsql.interfaces.frame.asking import Mode, Price, ask
from dpsql.interfaces.frame.expressions import Kind, identifier, inside

if TYPE_CHECKING:
    from dpsql.interfaces.frame.protection import Protection


UNKNOWN = Domain()


class UnknownColumn(InterfaceError, AttributeError, KeyError):
    """There is no such column; as an AttributeError and a KeyError it is what Python expects of a missing name."""

    __str__ = InterfaceError.__str__


@dataclass(frozen=True, slots=True)
class Field:
    """A named expression; `note` and `domain` are what was declared, `countable` whether it can be summed as it is."""

    expression: exp.Expr
    kind: Kind
    note: str = ""
    countable: bool = False
    domain: Domain = UNKNOWN


@dataclass(frozen=True, slots=True)
class View:
    """Immutable, and without a single row: the rows are in the engine, behind the protection."""

    protection: Protection
    tables: tuple[str, ...]
    joins: tuple[exp.Join, ...]
    fields: Mapping[str, Field]
    where: tuple[exp.Expr, ...] = ()
    mode: Mode = Mode.ASK

    def field(self, name: str) -> Field:
        """The column of that name."""
        if name in self.fields:
            return self.fields[name]
        raise self.unknown(name)

    def unknown(self, name: object) -> UnknownColumn:
        """There is no such column: what there is."""
        listed = ", ".join(self.fields)
        folded = {each.lower(): each for each in self.fields}
        close = get_close_matches(str(name).lower(), list(folded), n=1)
        guess = f"did you mean {folded[close[0]]}? " if close else ""
        return UnknownColumn(f"there is no column {name!r}", hint=f"{guess}columns: {listed}")

    def same_rows(self, other: View) -> bool:
        """Whether the other stands for the same rows or more of them."""
        return self.within_source(other) and all(condition in self.where for condition in other.where)

    def within_source(self, other: View) -> bool:
        """Whether both come from the same tables, joined in the same way."""
        return (self.protection is other.protection) and (self.tables, self.joins) == (other.tables, other.joins)

    def filtered(self, condition: exp.Expr) -> View:
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

    def ask(self, query: exp.Query, price: Price) -> Any:
        """Ask, explain or write, as the mode says."""
        return ask(self.protection.connection(self.tables), query.sql("duckdb"), self.mode, price)
