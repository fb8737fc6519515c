"""SELECT below an aggregate whose rows keep their owners: each row by itself, or grouped by the unit."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dpsql.expressions.convert import convert
from dpsql.plan.clauses import items_of, no_limit, title_of, unaliased
from dpsql.plan.exists import condition_of
from dpsql.plan.group import Grouping
from dpsql.plan.open_select import subquery_above
from dpsql.plan.planner import Planner
from dpsql.plan.read_windows import with_windows
from dpsql.plan.relate import filtered, projected, unit_grouped
from dpsql.plan.relate_sets import distinct_rows, without_owner
from dpsql.plan.relation import Item, Relation
from dpsql.plan.scope import Scope, scope_of
from dpsql.plan.sets import Keys
from dpsql.policy.identifiers import fold


def plain_rows(node: exp.Select, scope: Scope) -> Relation:
    """A SELECT without aggregate: a projection."""
    no_limit(node)
    return projected(scope.relation, items_of(node.expressions, scope))


def rows_per_unit(planner: Planner, node: exp.Select, scope: Scope, keys: Keys) -> Relation:
    """GROUP BY with the unit among the keys: one row (or a few) per unit, still unit-local."""
    no_limit(node, "limit", "offset")
    group = Grouping(
        scope, keys, lambda c: exp.column(c, quoted=True), lambda q: subquery_above(planner, q, {}), per_unit=True
    )
    above = exp.Select(
        expressions=[exp.alias_(group.rewrite(unaliased(e).copy()), title_of(e), quoted=True) for e in node.expressions]
    )
    for part in ("qualify", "windows"):
        clause = node.args.get(part)
        rewritten = [group.rewrite(c) for c in clause] if isinstance(clause, list) else clause
        above.set(part, group.rewrite(clause, aliases=True) if isinstance(clause, exp.Expr) else rewritten)
    having = node.args.get("having")
    condition = None if having is None else group.rewrite(having.this)
    grouped = unit_grouped(
        scope.relation,
        [Item(f"_k{i}", k) for i, k in enumerate(keys.expressions)],
        [(f"_a{i}", a) for i, a in enumerate(group.aggregates)],
    )
    if condition is not None:
        grouped = filtered(grouped, convert(condition, scope_of(grouped, "")))
    shown = after_windows(above, scope_of(grouped, ""))
    made = projected(shown.relation, items_of(above.expressions, shown))
    if node.args.get("distinct") is None or node.args.get("group") is None:
        return made
    if not any(f.owner is not None and not f.padded for f in made.fields):
        owner = next(str(key) for key in keys.expressions if scope.relation.owner_of(key) is not None)
        raise without_owner(node.args["distinct"], "DISTINCT over groups", owner)
    return distinct_rows(made)


def after_windows(node: exp.Select, scope: Scope) -> Scope:
    """The scope after window functions and QUALIFY, which are taken out of the tree."""
    relation = with_windows(node, scope)
    scope = replace(scope, relation=relation, aliases=aliases_of(node))
    qualify = node.args.get("qualify")
    if qualify is not None:
        scope = replace(scope, relation=filtered(relation, condition_of(qualify.this, scope)))
    node.set("qualify", None)
    node.set("windows", None)
    return scope


def aliases_of(node: exp.Select) -> dict[str, exp.Expr]:
    """The names that the list of a SELECT gives, and what they stand for."""
    return {fold(e.alias): e.this for e in node.expressions if isinstance(e, exp.Alias)}
