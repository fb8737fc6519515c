"""What becomes of a query inside the planner: rows that have owners, or a query over released and public tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from dpsql.errors import Span
from dpsql.plan.catalog import PrivateTable
from dpsql.plan.plan import Output
from dpsql.plan.relation import Relation


@dataclass(frozen=True, slots=True)
class Private:
    """A unit-local query and the policy's private tables it reads."""

    relation: Relation
    tables: tuple[PrivateTable, ...]

    @property
    def name(self) -> str:
        """The tables, for messages."""
        *most, last = dict.fromkeys(table.name for table in self.tables)
        return f"{', '.join(most)} and {last}" if most else last

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return [f.name for f in self.relation.fields]


@dataclass(frozen=True, slots=True)
class Open:
    """A query over released and public tables only: its rewritten tree and its columns.

    `below` gives its rows as a relation below an aggregate, if they are rows of public tables, filtered and computed,
    else None. `around` are the names that WITH gave a meaning to where it stands, `cte` the clause that gave its own.
    `key` are the places of columns that name at most one row.
    """

    node: exp.Expr
    outputs: tuple[Output, ...]
    row: str | None = None
    below: Callable[[], Relation | None] | None = None
    around: Mapping[str, Made] = field(default_factory=dict)
    cte: exp.CTE | None = None
    key: tuple[int, ...] | None = None

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return [output.name for output in self.outputs]


Made = Private | Open
FromItem = tuple[Span | None, str, Made]
"""An item of FROM: where it stands, what it is called, and what it is."""
