"""[NOT] EXISTS and [NOT] IN with a subquery below an aggregate: as filters, and as columns inside expressions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from dpsql.errors import ParseError
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.from_syntax import Resolver, convert
from dpsql.expressions.types import BOOLEAN
from dpsql.expressions.typing import Mismatch, call, common
from dpsql.plan.builder.clauses import conjuncts_of, expanded, is_grouped, unaliased
from dpsql.plan.builder.from_clause import join_of, read_sources, rows_of, with_unique_names
from dpsql.plan.builder.group_by import has_aggregate, is_aggregate
from dpsql.plan.builder.join_refusals import SUBQUERY, check_exists
from dpsql.plan.builder.name_scope import Correlated, FromTable, Scope, computed, named
from dpsql.plan.builder.scalar_lookups import find_values, looked_up
from dpsql.plan.builder.subplan import Planner, Subplan
from dpsql.plan.builder.with_clause import with_names
from dpsql.plan.nodes.relation import Field, JoinSide, Relation, unused_name
from dpsql.plan.nodes.semi_joins import exists_column, exists_filter
from dpsql.plan.normal_form import conjunction, normal
from dpsql.policy.identifiers import fold
from dpsql.sql.span import refuse


def filtered_by(planner: Planner, member: Membership, scope: Scope, ctes: Mapping[str, Subplan]) -> Relation:
    """[NOT] EXISTS and [NOT] IN as a filter of the rows."""
    inner, conditions, element, tables = _inner(planner, member, scope, ctes)
    relation = scope.relation
    for test in _tests(member, scope, inner, element):
        every = list(map(normal, [*conditions, *test]))
        check_exists(relation, inner, every, (*scope.tables, *tables), member.node)
        relation = exists_filter(relation, inner, conjunction(every), negated=member.negated)
    return relation


def scope_with_exists(planner: Planner, roots: Sequence[exp.Expr], scope: Scope, ctes: Mapping[str, Subplan]) -> Scope:
    """EXISTS and IN inside expressions become columns, which take their places in the tree."""
    made: dict[str, exp.Expr] = {}
    for member in (member for root in roots for member in memberships(root)):
        text = member.node.sql("duckdb")
        if text not in made:
            scope, made[text] = _mark(planner, member, text, scope, ctes)
        member.node.replace(made[text].copy())
    return scope


def _mark(
    planner: Planner, member: Membership, text: str, scope: Scope, ctes: Mapping[str, Subplan]
) -> tuple[Scope, exp.Expr]:
    inner, conditions, element, tables = _inner(planner, member, scope, ctes)
    relation, names = scope.relation, []
    for test in _tests(replace(member, negated=True), scope, inner, element):
        every = list(map(normal, [*conditions, *test]))
        check_exists(relation, inner, every, (*scope.tables, *tables), member.node)
        taken = {*(fold(f.name) for f in relation.fields), *map(fold, inner.names)}
        names.append(unused_name(text, taken))
        relation = exists_column(relation, inner, conjunction(every), names[-1])
    return replace(scope, relation=relation), instead(names, member)


def _tests(member: Membership, scope: Scope, inner: JoinSide, element: Expression) -> list[list[Expression]]:
    """The further conditions of EXISTS; NOT IN is one NOT EXISTS for each way in which IN is not FALSE."""
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
    planner: Planner, member: Membership, outer: Scope, ctes: Mapping[str, Subplan]
) -> tuple[JoinSide, list[Expression], Expression, tuple[FromTable, ...]]:
    """The subquery's rows under names that differ from those around it, what correlates them, and its column."""
    query = member.query
    while isinstance(query, exp.Subquery) and not query.args.get("with_"):
        query = query.this
    if isinstance(query, exp.Select) and _is_plain(query):
        return _correlated(planner, query, member, outer, with_names(planner, query, ctes))
    made = planner.query(query, ctes)
    relation = rows_of(planner, made, member.node)
    part = with_unique_names(relation, outer)
    if member.operand is not None and len(relation.fields) != 1:
        raise refuse(
            "a subquery of IN must have one column",
            member.node,
            kind=ParseError,
            hint="select one column",
            reason="subquery",
        )
    column = Column(relation.fields[0].type, name=part.names[0])
    return part, [], column, (named(SUBQUERY, relation),)


def _correlated(
    planner: Planner, query: exp.Select, member: Membership, outer: Scope, ctes: Mapping[str, Subplan]
) -> tuple[JoinSide, list[Expression], Expression, tuple[FromTable, ...]]:
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
        scope = replace(scope, relation=filtered_by(planner, each, scope, ctes))
    relation = scope.relation
    part = with_unique_names(relation, outer)
    names = {f.name: n for f, n in zip(relation.fields, part.names, strict=True)}
    both = Correlated(scope, outer, names)
    conditions = [condition_of(c, both) for c in plain if c not in own]
    element: Expression = Column(relation.fields[0].type, name=part.names[0])
    if member.operand is not None:
        items = expanded(query, both.inner)
        if len(items) != 1:
            raise refuse(
                "a subquery of IN must have one column",
                member.node,
                kind=ParseError,
                hint="select one column",
                reason="subquery",
            )
        element = convert(unaliased(items[0]), both)
    shown = tuple(replace(t, columns=tuple(replace(e, field=names[e.field]) for e in t.columns)) for t in scope.tables)
    return part, conditions, element, shown


def condition_of(node: exp.Expr, scope: Resolver) -> Expression:
    """A condition on a row."""
    made = convert(node, scope)
    if made.type != BOOLEAN:
        raise refuse("WHERE must be a condition", node, kind=ParseError, hint="compare: WHERE x > 0", reason="types")
    return made


def _is_plain(query: exp.Select) -> bool:
    """Whether the query neither groups nor limits its rows. (DISTINCT changes nothing for EXISTS and IN.)"""
    distinct_on = query.args.get("distinct") is not None and query.args["distinct"].args.get("on") is not None
    parts = ("group", "having", "limit", "offset", "qualify", "windows")
    computed = any(has_aggregate(e) or e.find(exp.Window) is not None for e in query.expressions)
    return not (distinct_on or computed or any(query.args.get(p) for p in parts))


# Syntax --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Membership:
    """[NOT] EXISTS (query), or operand [NOT] IN (query)."""

    node: exp.Expr
    query: exp.Expr
    operand: exp.Expr | None
    negated: bool


def split_where(condition: exp.Expr) -> tuple[list[exp.Expr], list[Membership]]:
    """The top-level conjuncts: plain ones, and those with a subquery. Without one, the condition stays whole."""
    parts = conjuncts_of(condition)
    found = [(part, membership(part)) for part in parts]
    members = [member for _, member in found if member is not None]
    return ([part for part, member in found if member is None], members) if members else ([condition], [])


def membership(node: exp.Expr) -> Membership | None:
    """The EXISTS or IN that a condition is, in brackets or under NOT; None if it is something else."""
    negated, inner = False, node
    while isinstance(inner, exp.Not | exp.Paren):
        negated ^= isinstance(inner, exp.Not)
        inner = inner.this
    if isinstance(inner, exp.Exists) and isinstance(inner.this, exp.Query):
        return Membership(node, inner.this, None, negated)
    if isinstance(inner, exp.In) and isinstance(inner.args.get("query"), exp.Query):
        return Membership(node, inner.args["query"], inner.this, negated)
    if isinstance(inner, exp.EQ) and isinstance(inner.expression, exp.Any) and not negated:
        listed = inner.expression.this
        return Membership(node, listed, inner.this, negated) if isinstance(listed, exp.Query) else None
    return None


def in_conditions(
    operand: Expression, element: Expression, fields: Mapping[str, Field], *, negated: bool
) -> list[Expression]:
    """The conditions under which a row of the subquery makes IN true or, for NOT IN, TRUE or NULL.

    Columns that determine the owner are never NULL in rows that have one; a declared or inferred domain tells of
    others. (A wrong declaration changes the answer as a wrong bound does, and never whose rows are read.)
    """
    equal = call("eq", BOOLEAN, operand, element)
    loose = [e for e in (operand, element) if not isinstance(e, Column) or _nullable(fields[e.name])]
    return [equal, *(call("is_null", BOOLEAN, e) for e in loose if negated)]


def _nullable(field: Field) -> bool:
    return field.domain.nullable and (field.owner is None or field.padded)


# Inside expressions --------------------------------------------------------------------------------------------------


def memberships(root: exp.Expr) -> list[Membership]:
    """All EXISTS and IN with a subquery in an expression, without their NOT."""
    found = [membership(node) for node in root.walk(prune=_is_membership) if _is_membership(node)]
    return [member for member in found if member is not None]


def with_memberships(conditions: Sequence[exp.Expr]) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """The conditions of WHERE without, and those with EXISTS or IN inside them; without any, they stay whole."""
    if not any(map(memberships, conditions)):
        return list(conditions), []
    parts = [part for condition in conditions for part in conjuncts_of(condition)]
    return [part for part in parts if not memberships(part)], [part for part in parts if memberships(part)]


def _is_membership(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query) or (not isinstance(node, exp.Not | exp.Paren) and membership(node) is not None)


def computed_by_row(node: exp.Select) -> list[exp.Expr]:
    """The parts of a SELECT besides WHERE that are computed for each row, below the aggregate if it has one.

    All of its list without an aggregate; else the keys, and what aggregates are taken of.
    """
    if not is_grouped(node):
        return list(node.expressions)
    group = node.args.get("group")
    above = [*node.expressions, *(node.args[p] for p in ("having", "qualify", "order") if node.args.get(p) is not None)]
    keys = list(_keys(node, group)) if group is not None else []
    arguments = [a for e in above for a in e.walk(prune=_ends) if is_aggregate(a)]
    return [*keys, *([group] if group is not None else []), *arguments]


def _ends(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query) or is_aggregate(node)


def _keys(node: exp.Select, group: exp.Expr) -> Iterator[exp.Expr]:
    """The items of the SELECT list that GROUP BY means: by place, name or text, or ALL."""
    texts = {e.sql("duckdb") for e in group.expressions}
    names = {fold(e.name) for e in group.expressions if isinstance(e, exp.Column) and not e.table}
    for place, item in enumerate(node.expressions, 1):
        meant = str(place) in texts or fold(item.alias) in names or unaliased(item).sql("duckdb") in texts
        if meant or (group.args.get("all") and not has_aggregate(item)):
            yield item


def instead(names: Sequence[str], member: Membership) -> exp.Expr:
    """The replacement of EXISTS or IN: IN is NULL if nothing matches and there is a NULL on either side."""
    found, *unknown = (computed(name, member.node) for name in names)
    if not unknown:
        return found
    either: exp.Expr = unknown[0]
    for other in unknown[1:]:
        either = exp.Or(this=either, expression=other)
    branches = [exp.If(this=found, true=exp.true()), exp.If(this=either, true=exp.null())]
    return exp.Paren(this=exp.Case(ifs=branches, default=exp.false()))
