"""EXISTS and IN below an aggregate: as filters of the rows, and as columns where they stand in an expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.errors import ParseError
from dpsql.expressions.convert import Resolver, convert
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.types import BOOLEAN
from dpsql.expressions.typing import Mismatch, common
from dpsql.parse.span import refuse
from dpsql.plan.clauses import expanded, unaliased
from dpsql.plan.from_clause import apart, distinct
from dpsql.plan.group import has_aggregate
from dpsql.plan.join import Part
from dpsql.plan.join_refusals import SUBQUERY, check_exists
from dpsql.plan.made import Made
from dpsql.plan.marks import instead, marked, memberships
from dpsql.plan.membership import Membership, conjuncts_of, in_conditions, split_where
from dpsql.plan.normal import conjunction, normal
from dpsql.plan.planner import Planner
from dpsql.plan.relate_joins import existing
from dpsql.plan.relation import Relation
from dpsql.plan.rows import rows_of
from dpsql.plan.scope import Correlated, Named, Scope, named
from dpsql.plan.sources import join_of, read_sources
from dpsql.plan.values import find_values, looked_up
from dpsql.plan.with_clause import with_names
from dpsql.policy.identifiers import fold


def kept_by(planner: Planner, member: Membership, scope: Scope, ctes: Mapping[str, Made]) -> Relation:
    """[NOT] EXISTS and [NOT] IN as a filter of the rows."""
    inner, conditions, element, tables = _inner(planner, member, scope, ctes)
    relation = scope.relation
    for test in _tests(member, scope, inner, element):
        every = list(map(normal, [*conditions, *test]))
        check_exists(relation, inner, every, (*scope.tables, *tables), member.node)
        relation = existing(relation, inner, conjunction(every), negated=member.negated)
    return relation


def marked_scope(planner: Planner, roots: Sequence[exp.Expr], scope: Scope, ctes: Mapping[str, Made]) -> Scope:
    """EXISTS and IN inside expressions become columns, which take their places in the tree."""
    made: dict[str, exp.Expr] = {}
    for member in (member for root in roots for member in memberships(root)):
        text = member.node.sql("duckdb")
        if text not in made:
            scope, made[text] = _mark(planner, member, text, scope, ctes)
        member.node.replace(made[text].copy())
    return scope


def _mark(
    planner: Planner, member: Membership, text: str, scope: Scope, ctes: Mapping[str, Made]
) -> tuple[Scope, exp.Expr]:
    inner, conditions, element, tables = _inner(planner, member, scope, ctes)
    relation, names = scope.relation, []
    for test in _tests(replace(member, negated=True), scope, inner, element):
        every = list(map(normal, [*conditions, *test]))
        check_exists(relation, inner, every, (*scope.tables, *tables), member.node)
        taken = {*(fold(f.name) for f in relation.fields), *map(fold, inner.names)}
        names.append(distinct(text, taken))
        relation = marked(relation, inner, conjunction(every), names[-1])
    return replace(scope, relation=relation), instead(names, member)


def _tests(member: Membership, scope: Scope, inner: Part, element: Expression) -> list[list[Expression]]:
    """What EXISTS has to find besides; NOT IN is a NOT EXISTS for each thing that speaks against it."""
    if member.operand is None:
        return [[]]
    try:
        _, (one, two) = common((convert(member.operand, scope), element))
    except Mismatch as problem:
        raise refuse(
            str(problem), member.node, kind=ParseError, hint="compare values of one kind", reason="types"
        ) from None
    fields = {f.name: f for f in (*scope.relation.fields, *inner.fields)}
    return [[test] for test in in_conditions(one, two, fields, negated=member.negated)]


def _inner(
    planner: Planner, member: Membership, outer: Scope, ctes: Mapping[str, Made]
) -> tuple[Part, list[Expression], Expression, tuple[Named, ...]]:
    """The subquery's rows under names that differ from those around it, what correlates them, and its column."""
    query = member.query
    while isinstance(query, exp.Subquery) and not query.args.get("with_"):
        query = query.this
    if isinstance(query, exp.Select) and _is_plain(query):
        return _correlated(planner, query, member, outer, with_names(planner, query, ctes))
    made = planner.query(query, ctes)
    relation = rows_of(planner, made, member.node)
    part = apart(relation, outer)
    if member.operand is not None and len(relation.fields) != 1:
        raise refuse(
            "a subquery of IN has one column",
            member.node,
            kind=ParseError,
            hint="select one column",
            reason="subquery",
        )
    column = Column(relation.fields[0].type, name=part.names[0])
    return part, [], column, (named(SUBQUERY, relation),)


def _correlated(
    planner: Planner, query: exp.Select, member: Membership, outer: Scope, ctes: Mapping[str, Made]
) -> tuple[Part, list[Expression], Expression, tuple[Named, ...]]:
    sources = read_sources(planner, query, ctes)
    if not sources:
        raise refuse(
            "this subquery has no FROM", member.node, hint="list the constants: x IN (1, 2)", reason="subquery"
        )
    joined, values = join_of(planner, query, sources), find_values(planner, query, sources, ctes)
    where = query.args.get("where")
    plain, members = ([], []) if where is None else split_where(where.this)
    plain = [part for c in plain for part in conjuncts_of(c)]
    inside = joined.scope()
    own = [c for c in plain if all(inside.find(n) is not None for n in c.find_all(exp.Column))]
    scope = Scope(joined.relation([condition_of(c, inside) for c in own], planner.catalog.public.unique), joined.tables)
    for value in values:
        scope = looked_up(scope, value, planner.catalog.public.unique)
    for each in members:
        scope = replace(scope, relation=kept_by(planner, each, scope, ctes))
    relation = scope.relation
    part = apart(relation, outer)
    names = {f.name: n for f, n in zip(relation.fields, part.names, strict=True)}
    both = Correlated(scope, outer, names)
    conditions = [condition_of(c, both) for c in plain if c not in own]
    element: Expression = Column(relation.fields[0].type, name=part.names[0])
    if member.operand is not None:
        items = expanded(query, both.inner)
        if len(items) != 1:
            raise refuse(
                "a subquery of IN has one column",
                member.node,
                kind=ParseError,
                hint="select one column",
                reason="subquery",
            )
        element = convert(unaliased(items[0]), both)
    shown = tuple(replace(t, columns=tuple(replace(e, field=names[e.field]) for e in t.columns)) for t in scope.tables)
    return part, conditions, element, shown


def condition_of(node: exp.Expr, scope: Resolver) -> Expression:
    """What a row has to fulfil."""
    made = convert(node, scope)
    if made.type != BOOLEAN:
        raise refuse("WHERE takes a condition", node, kind=ParseError, hint="compare: WHERE x > 0", reason="types")
    return made


def _is_plain(query: exp.Select) -> bool:
    """Rows as they are found: neither grouped nor cut off. (DISTINCT changes nothing for EXISTS and IN.)"""
    distinct_on = query.args.get("distinct") is not None and query.args["distinct"].args.get("on") is not None
    parts = ("group", "having", "limit", "offset", "qualify", "windows")
    computed = any(has_aggregate(e) or e.find(exp.Window) is not None for e in query.expressions)
    return not (distinct_on or computed or any(query.args.get(p) for p in parts))
