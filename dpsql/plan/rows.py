"""The rows of a query below an aggregate, where those of a result are read as it will have been released."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.errors import ParseError, Span
from dpsql.expressions.expression import Column
from dpsql.parse.span import refuse
from dpsql.plan.made import Made, Open, Private
from dpsql.plan.nested import closed
from dpsql.plan.planner import Planner
from dpsql.plan.relate import projected
from dpsql.plan.relation import Item, Relation
from dpsql.policy.identifiers import fold


def rows_of(planner: Planner, made: Made, node: exp.Expr | Span | None) -> Relation:
    """The rows of a query below an aggregate: private, public, or those that it will have released."""
    if isinstance(made, Private):
        return made.relation
    known = None if made.below is None else made.below()
    if known is not None:
        planner.used.count(known, node)
    return titled(_nested(planner, made, node) if known is None else known, made.columns)


def _nested(planner: Planner, made: Open, node: exp.Expr | Span | None) -> Relation:
    """The query as one that is answered first."""
    around = {name: each.cte for name, each in made.around.items() if isinstance(each, Open) and each.cte is not None}
    query = closed(made.node, around)
    for name in planner.shadowed & {fold(table.name) for table in query.find_all(exp.Table)}:
        raise refuse(
            f"two results are called {name}, and one is read below an aggregate",
            node,
            hint="rename one",
            reason="name",
        )
    if len({fold(name) for name in made.columns}) < len(made.columns):
        raise refuse(
            "two columns of this subquery have one name",
            node,
            kind=ParseError,
            hint="name them with AS",
            reason="subquery",
        )
    return planner.nesting.scan(
        query, made.outputs, (planner.releases, planner.families), planner.public, made.key, node
    )


def titled(relation: Relation, names: Sequence[str]) -> Relation:
    """The relation with its columns called so."""
    if [f.name for f in relation.fields] == list(names):
        return relation
    columns = [Column(f.type, name=f.name) for f in relation.fields]
    return projected(relation, [Item(n, c) for n, c in zip(names, columns, strict=True)])
