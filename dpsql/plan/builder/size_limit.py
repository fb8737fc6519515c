"""How large a plan becomes once each use of a CTE is replaced by its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dpsql.errors import Error, Span
from dpsql.expressions.expression import Column, Expression, Literal
from dpsql.plan.nodes.relation import Relation, children
from dpsql.plan.nodes.unary import Filter, Project, UnitGroup
from dpsql.sql.span import refuse

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
