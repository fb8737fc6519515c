"""Values that a row looks up: scalar subqueries as joins that keep every row, and give it one value.

**Theorem.** A lookup is a LEFT JOIN to rows that are unique by what they are looked up by (or are one row), so it
neither adds nor drops a row; what it reads is public, released before, or has the row's own owner. **Proof.** The
subquery, grouped by the inner sides of its equalities, has one row for each of their values; where the unit is among
them it is a relation of that unit, and the join demands equal owners (`dpsql.plan.nodes.joins.Outer`). Without
correlation it is one row. **Requires** a nested release that is made, and charged, before the row that reads it
(`dpsql.answers.execute`), and uniqueness by grouping, which no data can break. **Checked by** the neighbour test of
nested queries, and their equality with DuckDB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from dpsql.errors import ParseError, Span
from dpsql.expressions.from_syntax import convert
from dpsql.plan.builder.clauses import conjuncts_of, from_items
from dpsql.plan.builder.from_clause import columns_in, rows_of, with_unique_names
from dpsql.plan.builder.group_by import has_aggregate
from dpsql.plan.builder.join_refusals import check_outer
from dpsql.plan.builder.name_scope import FromColumn, FromTable, Scope
from dpsql.plan.builder.scalar_subqueries import (
    VALUE,
    correlation_of,
    grouped,
    is_scalar,
    scalars_below,
    select_of,
    value_of,
)
from dpsql.plan.builder.subplan import FromItem, OpenQuery, Planner, PrivateRows, Subplan
from dpsql.plan.catalog import Catalog, PrivateTable, PublicTable
from dpsql.plan.nodes.joins import Unique, inner_join, is_key, outer_join
from dpsql.plan.nodes.relation import Relation, side_of
from dpsql.plan.normal_form import conjunction, normal
from dpsql.policy.identifiers import fold
from dpsql.sql.span import refuse, span_of


@dataclass(frozen=True, slots=True)
class ScalarLookup:
    """A subquery that is looked up as `table`; `on` are the outer sides of its `k0, k1, …` (none: it is one row).

    `text` is its name in messages and explanations.
    """

    table: str
    relation: Relation
    on: tuple[exp.Expr, ...]
    span: Span | None
    text: str


def find_values(
    planner: Planner, node: exp.Select, sources: Sequence[FromItem], ctes: Mapping[str, Subplan], taken: int = 0
) -> list[ScalarLookup]:
    """The scalar subqueries that rows of a SELECT look up; a column replaces each in the tree, equal texts once."""
    found: dict[str, tuple[ScalarLookup, exp.Expr]] = {}
    for scalar in scalars_below(node):
        text = scalar.sql("duckdb")
        if text not in found:
            found[text] = _value(planner, scalar, f"_v{taken + len(found)}", node, sources, ctes)
        scalar.replace(found[text][1].copy())
    return [value for value, _ in found.values()]


def _value(
    planner: Planner,
    scalar: exp.Expr,
    table: str,
    around: exp.Select,
    sources: Sequence[FromItem],
    ctes: Mapping[str, Subplan],
) -> tuple[ScalarLookup, exp.Expr]:
    query, span, text = select_of(scalar), span_of(scalar), exp.Paren(this=select_of(scalar).copy()).sql("duckdb")
    if isinstance(query, exp.Select) and (made := correlated(planner, query, around, sources, ctes)) is not None:
        rows, outer = made
        relation = rows_of(planner, rows, span)
        unique = frozenset(f"k{i}" for i in range(len(outer)))
        if not has_aggregate(query.expressions[0]) and not is_key(relation, unique, planner.catalog.public.unique):
            raise refuse(
                "this correlated subquery may return several rows for one outer row",
                span,
                hint="aggregate in it, for example max(…), or compare with a column that is unique in its table",
                reason="subquery",
            )
        return ScalarLookup(table, relation, outer, span, text), value_of(table, query)
    one = _one_value(planner.query(query.copy(), ctes), query)
    return ScalarLookup(table, rows_of(planner, one, span), (), span, text), exp.column(VALUE, table=table, quoted=True)


def _one_value(made: Subplan, query: exp.Expr) -> OpenQuery:
    """A scalar subquery as a query of exactly one row: NULL where it has none."""
    if isinstance(made, PrivateRows):
        raise refuse(
            f"this subquery would list rows of {made.name}, which are private",
            query,
            hint="aggregate inside the subquery: (SELECT avg(x) FROM …)",
            reason="rows",
        )
    if len(made.columns) != 1:
        raise refuse(
            "a scalar subquery must have one column",
            query,
            kind=ParseError,
            hint="select one",
            reason="subquery",
        )
    if made.key != ():
        raise refuse(
            "a scalar subquery must return one row, but this one may return several",
            query,
            hint="aggregate without GROUP BY: (SELECT avg(x) FROM …), or take one row: ORDER BY … LIMIT 1",
            reason="subquery",
        )
    value = exp.Alias(this=exp.Subquery(this=made.node.copy()), alias=exp.to_identifier(VALUE, quoted=True))
    return OpenQuery(
        exp.Select(expressions=[value]), (replace(made.outputs[0], name=VALUE),), around=made.around, key=()
    )


def correlated(
    planner: Planner, query: exp.Select, around: exp.Select, sources: Sequence[FromItem], ctes: Mapping[str, Subplan]
) -> tuple[Subplan, tuple[exp.Expr, ...]] | None:
    """A subquery by the inner sides of its equalities, and their outer sides; None if it has none."""
    items = columns_in(planner, query, ctes)
    found = correlation_of(query, lambda column: _owner(column, items) is not None)
    if not found.inner:
        return None
    listed = [
        exp.In(this=inner.copy(), query=exp.Subquery(this=rows))
        for inner, outer in zip(found.inner, found.outer, strict=True)
        if (rows := _public_side(planner.catalog, outer, around, sources, ctes)) is not None
    ]
    made = planner.query(grouped(query, found, listed), ctes)
    if isinstance(made, PrivateRows) and not has_aggregate(query.expressions[0]):
        raise refuse(
            f"this subquery would take a value from one row of {made.name}, which is private",
            query,
            hint="aggregate in it, for example max(…)",
            reason="rows",
        )
    return made, found.outer


def _owner(column: exp.Column, items: Sequence[tuple[str, frozenset[str]]]) -> int | None:
    """The FROM item that a column belongs to; the first if it is ambiguous."""
    table, name = fold(column.table), fold(column.name)
    return next((i for i, (alias, columns) in enumerate(items) if name in columns and table in ("", fold(alias))), None)


def _public_side(
    catalog: Catalog, outer: exp.Expr, around: exp.Select, sources: Sequence[FromItem], ctes: Mapping[str, Subplan]
) -> exp.Select | None:
    """The values that an outer side can have, as a query over the one public table that it reads, if it does.

    Only these are looked up, so only these need be released: they are public keys then, and few.
    """
    items = [(name, frozenset(fold(c) for c in made.columns)) for _, name, made in sources]
    owners = {_owner(column, items) for column in outer.find_all(exp.Column)}
    place = owners.pop() if len(owners) == 1 else None
    if place is None:
        return None
    table = from_items(around)[place]
    if not _is_public(table, catalog, ctes):
        return None
    where = around.args.get("where")
    kept = [
        c.copy()
        for c in ([] if where is None else conjuncts_of(where.this))
        if all(_is_public(t, catalog, ctes) for t in c.find_all(exp.Table))
        and {_owner(n, items) for n in _own_columns(c)} == {place}
        and all(isinstance(q.parent, exp.In) for q in _queries(c))
    ]
    made = exp.Select(expressions=[outer.copy()], from_=exp.From(this=table.copy()))
    made.find(exp.Table).set("joins", None)  # type: ignore[union-attr]
    if kept:
        made.set("where", exp.Where(this=exp.and_(*kept)))
    return made


def _is_public(table: exp.Expr, catalog: Catalog, ctes: Mapping[str, Subplan]) -> bool:
    named = isinstance(table, exp.Table) and fold(table.name) not in ctes
    return named and isinstance(catalog.find(table.name), PublicTable)


def _own_columns(node: exp.Expr) -> list[exp.Column]:
    return [n for n in node.walk(prune=lambda n: isinstance(n, exp.Query)) if isinstance(n, exp.Column)]


def _queries(node: exp.Expr) -> list[exp.Expr]:
    return [n for n in node.walk(prune=lambda n: isinstance(n, exp.Query)) if isinstance(n, exp.Query)]


def reads_values(node: exp.Expr, values: Sequence[ScalarLookup]) -> bool:
    """Does a condition read a value that is looked up?"""
    names = {value.table for value in values}
    return any(column.table in names for column in node.find_all(exp.Column))


def looked_up(scope: Scope, value: ScalarLookup, unique: Unique) -> Scope:
    """The scope with one more value for each row."""
    fields = [f.name for f in value.relation.fields]
    part = with_unique_names(
        value.relation, scope, [value.text if name == VALUE else f"{name} of {value.text}" for name in fields]
    )
    named = FromTable(value.table, tuple(FromColumn(f, n, None) for f, n in zip(fields, part.names, strict=True)))
    tables, left = (*scope.tables, named), side_of(scope.relation)
    if not value.on:
        return Scope(inner_join([left, part], [], unique), tables, scope.aliases)
    both = Scope(Relation((*left.fields, *part.fields), False, 1, False), tables)
    sides = [(exp.column(f"k{i}", table=value.table, quoted=True), outer) for i, outer in enumerate(value.on)]
    condition = conjunction(normal(convert(exp.EQ(this=k, expression=o.copy()), both)) for k, o in sides)
    check_outer(left, part, "LEFT", [condition], tables, value.span, unique)
    return Scope(outer_join(left, part, False, condition, (), unique), tables, scope.aliases)


def join_above(
    planner: Planner,
    node: exp.Select,
    scalar: exp.Expr,
    table: str,
    sources: Sequence[FromItem],
    ctes: Mapping[str, Subplan],
) -> bool:
    """A correlated value of private rows in a SELECT over public tables: released by group, and joined.

    A join of its own is what is fast; where it would change what `*`, a comma or GROUP BY mean, it stays a subquery.
    """
    query = select_of(scalar)
    if not is_scalar(scalar) or not isinstance(query, exp.Select) or not _reads_private(query, planner.catalog, ctes):
        return False
    made = correlated(planner, query, node, sources, ctes)
    if made is None:
        return False
    rows, outer = made
    if isinstance(rows, PrivateRows):
        raise refuse(
            f"this subquery has a value for each owner of rows of {rows.name}, which are private",
            scalar,
            hint="correlate it by another column, or aggregate once more",
            reason="subquery",
        )
    prefix = f"{table}."
    columns = [exp.to_identifier(f"{prefix}{name}", quoted=True) for name in rows.columns]
    released = exp.Subquery(this=rows.node, alias=exp.TableAlias(this=exp.to_identifier(table), columns=columns))
    on = exp.and_(*(
        exp.EQ(this=exp.column(f"{prefix}k{i}", table=table, quoted=True), expression=side.copy())
        for i, side in enumerate(outer)
    ))  # fmt: skip
    value = value_of(table, query, prefix)
    if _may_join(node, scalar):
        for join in node.args.get("joins") or ():
            if not any(join.args.get(part) for part in ("on", "using", "kind", "side", "method")):
                join.set("kind", "CROSS")
        scalar.replace(value)
        node.append("joins", exp.Join(this=released, side="LEFT", on=on))
        return True
    if isinstance(value, exp.Paren):
        raise refuse(
            "a correlated subquery with COUNT is not supported here",
            scalar,
            hint="list the columns of SELECT, and write JOIN in place of a comma",
            reason="subquery",
        )
    scalar.replace(
        exp.Subquery(this=exp.Select(expressions=[value], from_=exp.From(this=released), where=exp.Where(this=on)))
    )
    return True


def _may_join(node: exp.Select, scalar: exp.Expr) -> bool:
    joins = node.args.get("joins") or []
    commas = any(not any(j.args.get(part) for part in ("on", "using", "kind", "side", "method")) for j in joins)
    stars = any(isinstance(e, exp.Star) or isinstance(e.this, exp.Star) for e in node.expressions)
    where = node.args.get("where")
    chosen = where is not None and any(n is scalar for n in where.walk())
    grouped_ = node.args.get("group") is not None or any(map(has_aggregate, node.expressions))
    return not stars and not (commas and any(j.args.get("side") for j in joins)) and (chosen or not grouped_)


def _reads_private(query: exp.Expr, catalog: Catalog, ctes: Mapping[str, Subplan]) -> bool:
    for table in query.find_all(exp.Table):
        meant = ctes.get(fold(table.name)) or catalog.find(table.name)
        if isinstance(meant, PrivateRows | PrivateTable):
            return True
    return False
