"""The planned forms of a query or subquery, and the planner that clauses call back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

from sqlglot import exp

from dpsql.errors import Error, Span
from dpsql.expressions.expression import Column, Expression, Literal
from dpsql.plan.builder.nested_queries import Nesting
from dpsql.plan.catalog import Catalog, PrivateTable
from dpsql.plan.nodes.relation import Relation, children
from dpsql.plan.nodes.unary import Filter, Project, UnitGroup
from dpsql.plan.plan import Family, Output, Release
from dpsql.sql.span import refuse

# how large a plan becomes ---------------------------------------------------------------------------------------------
# How large a plan becomes once each use of a CTE is replaced by its rows.


MOST_RELATIONS = 500

MOST_USED = 5_000

MOST_WRITTEN = 5_000


def size_of(relation: Relation) -> int:
    """How many relations it is made of, itself among them; no more than one above the limit is counted."""
    waiting, count = [relation], 0
    while waiting and count <= MOST_RELATIONS:
        waiting += children(waiting.pop())
        count += 1
    return count


@dataclass(slots=True)
class CteSize:
    """The expanded size of the CTEs of one query, counting every use: a CTE that reads another twice doubles it.

    **Theorem.** A plan has at most `MOST_USED` relations besides those that the text itself writes out. **Proof.** Only
    a use of a CTE repeats relations, and each use is counted here, as a tree, before it is built upon. **Requires**
    that each use of a CTE is counted (`dpsql.plan.builder.from_clause`), and a text
    whose own length is limited (`dpsql.sql`). **Checked by** `tests/privacy/test_found_by_fuzzing.py`.
    """

    relations: int = 0

    def count(self, relation: Relation, node: exp.Expr | Span | None) -> None:
        """One more use; refused where it is one too many."""
        self.relations += size_of(relation)
        if self.relations > MOST_USED:
            raise too_large(node)


def widest(relation: Relation, read: Sequence[Expression]) -> int:
    """The size of the largest expression over or in a relation after its columns are replaced by their definitions.

    An engine that moves a condition below a projection writes it out so, and a chain of projections that each name a
    column twice would keep it busy without end. No limit of time stops an engine that still plans.
    """
    found: list[int] = []
    sizes = _sizes(relation, {}, found)
    return max([*found, *(_size(each, sizes) for each in read)], default=0)


def _sizes(relation: Relation, known: dict[int, Mapping[str, int]], found: list[int]) -> Mapping[str, int]:
    """The parts of each column; `found` gets those of conditions."""
    if id(relation) not in known:
        under = [_sizes(each, known, found) for each in children(relation)]
        together = {name: size for sizes in under for name, size in sizes.items()}
        most = max(together.values(), default=1)
        own = {field.name: together.get(field.name, most) for field in relation.fields}
        match relation:
            case Project():
                own = {item.name: _size(item.expression, together) for item in relation.items}
            case UnitGroup():
                own |= {item.name: _size(item.expression, together) for item in relation.keys}
                own |= {name: 1 for name, _ in relation.aggregates}
            case Filter(condition=Expression() as condition):
                found.append(_size(condition, together))
        known[id(relation)] = own
    return known[id(relation)]


def _size(expression: Expression, sizes: Mapping[str, int]) -> int:
    """Constants are free: a list of a thousand is a list."""
    parts = (part for part in expression.walk() if not isinstance(part, Literal))
    return sum(sizes.get(part.name, 1) if isinstance(part, Column) else 1 for part in parts)


def too_large(node: exp.Expr | Span | None) -> Error:
    """The refusal of a query whose CTEs multiply."""
    return refuse(
        "the query is too large once its CTEs are expanded",
        node,
        hint="each use of a CTE is computed again: use it fewer times",
        reason="size",
    )


@dataclass(frozen=True, slots=True)
class PrivateRows:
    """A unit-local query, and the private tables that it reads."""

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
class OpenQuery:
    """A query over released and public tables only: its rewritten tree and its columns.

    `below` returns its rows as a relation below an aggregate if it only filters and projects public tables, otherwise
    None. `around` are the CTEs in scope, `cte` is its own. `key`: the positions of columns that identify one row at
    most.
    """

    node: exp.Expr
    outputs: tuple[Output, ...]
    row: str | None = None
    below: Callable[[], Relation | None] | None = None
    around: Mapping[str, Subplan] = field(default_factory=dict)
    cte: exp.CTE | None = None
    key: tuple[int, ...] | None = None

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return [output.name for output in self.outputs]


Subplan = PrivateRows | OpenQuery

FromItem = tuple[Span | None, str, Subplan]
"""An item of FROM: its span, its name and its subplan."""


class Planner(Protocol):
    """One pass over a query: the catalogue, the names used, what was collected, and how to plan a subquery."""

    catalog: Catalog
    names: Collection[str] | None
    releases: list[Release]
    public: set[str]
    families: list[Family]
    nesting: Nesting
    shadowed: set[str]
    notes: list[str]
    used: CteSize

    def query(self, node: exp.Expr, ctes: Mapping[str, Subplan]) -> Subplan:
        """Any query."""

    def aside(self) -> Self:
        """A copy that knows the releases so far, and does not add its own to them."""
