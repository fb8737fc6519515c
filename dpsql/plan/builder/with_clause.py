"""WITH: the names that it gives to queries, and those that are left of it to finish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from dpsql.plan.builder.from_clause import with_column_names
from dpsql.plan.builder.subplan import OpenQuery, Planner, Subplan
from dpsql.policy.identifiers import fold
from dpsql.sql.span import refuse


def with_names(planner: Planner, node: exp.Expr, ctes: Mapping[str, Subplan]) -> Mapping[str, Subplan]:
    """All names that have a meaning inside a query; of its own WITH, private ones are taken out of the tree."""
    with_ = node.args.get("with_")
    if with_ is None:
        return ctes
    if with_.args.get("recursive"):
        raise refuse("WITH RECURSIVE is not supported", with_, hint="leave out RECURSIVE", reason="clause")
    seen, kept = dict(ctes), []
    for cte in with_.expressions:
        made = with_column_names(planner.query(cte.this, seen), cte.args.get("alias"))
        if fold(cte.alias) in seen:
            planner.shadowed.add(fold(cte.alias))
        if isinstance(made, OpenQuery):
            cte.set("this", made.node)
            kept.append(cte)
            made = replace(made, cte=cte)
        seen[fold(cte.alias)] = made
    if kept:
        with_.set("expressions", kept)
    else:
        node.set("with_", None)
    return seen
