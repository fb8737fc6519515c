"""Views of the policy: each is put in its place as a subquery before anything is planned, so it is planned like one.

**Theorem.** A view tells an analyst nothing that they could not ask by themselves. **Proof.** It exists for them only
if its query can be planned over the tables and columns that exist for them; then they could have written it. A view
that cannot be planned does not exist, and the refusal is that of any unknown name.
**Requires** that an error while a view is planned is swallowed whole, and a catalogue that holds only what this analyst
may see (`dpsql.plan.catalog`).
**Checked by** `tests/unit/plan/test_views.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from dpsql.errors import Error
from dpsql.expressions.from_syntax import one_query
from dpsql.plan.builder.query import columns_of_query
from dpsql.plan.catalog import Catalog
from dpsql.plan.clock import bind_clock, now
from dpsql.policy import fold
from dpsql.sql import parse_query

HOME = "main"


def with_visible_views(catalog: Catalog, declared: Mapping[str, str]) -> Catalog:
    """The catalogue with those views that can be planned over it; a view may read others, but not itself."""
    waiting, known = dict(declared), catalog
    while True:
        made = {name: tree for name, sql in waiting.items() if not isinstance(tree := planned(sql, known), Error)}
        if not made:
            return known
        known = replace(known, views={**known.views, **made})
        waiting = {name: sql for name, sql in waiting.items() if name not in made}


def planned(sql: str, catalog: Catalog) -> exp.Query | Error:
    """The self-contained query of a view: its tables are those of the policy, not names of an outer query."""
    try:
        tree = put_views(parse_query(sql), catalog)
        view_columns(tree, catalog)
    except Error as problem:
        return problem
    for node in tree.walk():
        node.meta.clear()
    for table in _stored(tree):
        table.set("db", exp.to_identifier(HOME))
    return tree


def view_columns(tree: exp.Query, catalog: Catalog) -> list[tuple[str, str | None]]:
    """The columns of a view, with their types where planning determines them."""
    with one_query():
        return columns_of_query(bind_clock(tree.copy(), now()), catalog)


def put_views(query: exp.Query, catalog: Catalog) -> exp.Query:
    """The query with each view in its place."""
    if not catalog.views:
        return query
    views = {fold(name): tree for name, tree in catalog.views.items()}
    query = query.copy()
    for table in _stored(query):
        tree = views.get(fold(table.name))
        if tree is not None:
            _put(table, tree.copy())
    return query


def _put(table: exp.Table, tree: exp.Query) -> None:
    alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name, quoted=True))
    kept = {name: part for name, part in table.args.items() if part and name not in ("this", "db", "alias")}
    made = exp.Subquery(this=tree, alias=alias, **kept)
    marks = [part.meta for part in table.walk() if "start" in part.meta]
    if marks:
        made.meta.update(start=min(m["start"] for m in marks), end=max(m["end"] for m in marks))
    table.replace(made)


def _stored(query: exp.Expr) -> list[exp.Table]:
    """The tables in FROM that are not CTEs of an outer query."""
    found = []
    for table in query.find_all(exp.Table):
        home = fold(table.db) in ("", HOME, "public") and not table.catalog
        if home and isinstance(table.this, exp.Identifier) and (table.db or not _is_cte(table)):
            found.append(table)
    return found


def _is_cte(table: exp.Table) -> bool:
    """Does a CTE that is in sight have this name? A CTE sees those before it, and not itself."""
    node: exp.Expr = table
    inside: exp.Expr | None = None
    while node.parent is not None:
        inside = node if isinstance(node, exp.CTE) else inside
        node = node.parent
        with_ = node.args.get("with_")
        if with_ is None:
            continue
        seen = with_.expressions
        if inside is not None and any(cte is inside for cte in seen):
            seen = seen[: next(i for i, cte in enumerate(seen) if cte is inside)]
        if any(fold(cte.alias) == fold(table.name) for cte in seen):
            return True
    return False
