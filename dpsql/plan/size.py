"""How large a plan becomes once each use of a CTE stands for its rows: a short text must not occupy us for long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from sqlglot import exp

from dpsql.errors import Error, Span
from dpsql.parse.span import refuse
from dpsql.plan.join import Part
from dpsql.plan.relation import Relation

MOST_RELATIONS = 500
MOST_USED = 5_000


def below(relation: Relation) -> Iterator[Relation]:
    """The relations that a relation is made of."""
    for each in fields(relation):
        held = getattr(relation, each.name)
        for part in held if isinstance(held, tuple) else (held,):
            inner = part.relation if isinstance(part, Part) else part
            if isinstance(inner, Relation):
                yield inner


def size_of(relation: Relation) -> int:
    """How many relations it is made of, itself among them; no more than one above the limit is counted."""
    waiting, count = [relation], 0
    while waiting and count <= MOST_RELATIONS:
        waiting += below(waiting.pop())
        count += 1
    return count


@dataclass(slots=True)
class Used:
    """What the CTEs of one query stand for, every use counted: a CTE that reads another twice doubles it.

    **Theorem.** A plan has at most `MOST_USED` relations besides those that the text itself writes out.
    **Proof.** Only a use of a CTE repeats relations, and each use is counted here, as a tree, before it is built upon.
    **Checked by** `tests/privacy/test_found_by_fuzzing.py`.
    """

    relations: int = 0

    def count(self, relation: Relation, node: exp.Expr | Span | None) -> None:
        """One more use; refused where it is one too many."""
        self.relations += size_of(relation)
        if self.relations > MOST_USED:
            raise too_large(node)


def too_large(node: exp.Expr | Span | None) -> Error:
    """The refusal of a query whose CTEs multiply."""
    return refuse(
        "the query is too large once its CTEs are written out",
        node,
        hint="each use of a CTE is computed anew: use it fewer times",
        reason="size",
    )
