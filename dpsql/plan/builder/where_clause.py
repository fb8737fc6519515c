"""WHERE below an aggregate: the rows that it leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.plan.builder.clauses import conjuncts_of
from dpsql.plan.builder.exists import condition_of, filtered_by, scope_with_exists, split_where, with_memberships
from dpsql.plan.builder.from_clause import JoinedFrom
from dpsql.plan.builder.name_scope import Scope
from dpsql.plan.builder.scalar_lookups import ScalarLookup, looked_up, reads_values
from dpsql.plan.builder.subplan import Planner, Subplan
from dpsql.plan.nodes.relation import Relation
from dpsql.plan.nodes.unary import filtered
from dpsql.plan.normal_form import conjunction, normal


def chosen_rows(
    planner: Planner,
    node: exp.Select,
    joined: JoinedFrom,
    aliases: Mapping[str, exp.Expr],
    ctes: Mapping[str, Subplan],
    values: Sequence[ScalarLookup] = (),
) -> tuple[Relation, Scope]:
    """The rows that satisfy WHERE, and their scope; conditions on looked-up values come last."""
    where = node.args.get("where")
    plain, members = ([], []) if where is None else split_where(where.this)
    plain = [part for c in plain for part in conjuncts_of(c)] if values else plain
    plain, with_marks = with_memberships(plain)
    later = [c for c in plain if reads_values(c, values)]
    own = [condition_of(c, joined.scope(aliases)) for c in plain if c not in later]
    scope = Scope(joined.relation(own, planner.catalog.public.unique), joined.tables, aliases)
    for value in values:
        scope = looked_up(scope, value, planner.catalog.public.unique)
    if later:
        condition = conjunction(normal(condition_of(c, scope)) for c in later)
        scope = replace(scope, relation=filtered(scope.relation, condition))
    for member in members:
        scope = replace(scope, relation=filtered_by(planner, member, scope, ctes))
    if with_marks:
        whole = exp.Where(this=exp.and_(*with_marks))
        scope = scope_with_exists(planner, [whole], scope, ctes)
        scope = replace(scope, relation=filtered(scope.relation, condition_of(whole.this, scope)))
    return scope.relation, scope
