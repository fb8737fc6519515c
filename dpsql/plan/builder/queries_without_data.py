"""Queries that have no rows on any data: clients send them to learn the columns, and they cost nothing.

**Theorem.** The answer to a probe is a function of the query's text, the policy and the stored types. **Proof.** `LIMIT
0` and a WHERE that is false by its constants leave no row on any data (a SELECT that aggregates without GROUP BY has
one row all the same, and is none of these); the plan that answers it has no release and reads no table, public or
private, so there is nothing that data could change, and nothing to charge. Names and types are those of the plan of
the same query with rows, which is made and thrown away.
**Requires** names and types that rows do not decide: the plan of the query with rows is a function of text, policy,
stored types and public data.
**Checked by** `tests/unit/session/test_dashboards.py`.

MIN and MAX that the policy answers: the declared bounds of a column with `minmax: policy`, for date pickers.

**Theorem.** Such an answer is a function of the query's text and the policy. **Proof.** The call is replaced, while the
plan is made, by the declared bound as a literal; no row is read for it. **Requires** a column of a private table, all
of whose rows are asked (no WHERE, GROUP BY or join, which would call for other bounds).
**Checked by** `tests/unit/session/test_dashboards.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from dpsql.expressions.expression import Column
from dpsql.expressions.types import sql_type
from dpsql.plan.builder.clauses import is_grouped, title_of
from dpsql.plan.builder.name_scope import Scope, scope_of
from dpsql.plan.builder.subplan import FromItem, OpenQuery, PrivateRows
from dpsql.plan.nodes.relation import Field, Relation, Scan
from dpsql.plan.nodes.unary import Project
from dpsql.plan.plan import Output, Plan

PROBE = "no rows were requested: the answer shows the columns and their types, and is free"


def is_probe(query: exp.Expr) -> bool:
    """Has the query no rows on any data?"""
    while isinstance(query, exp.Subquery) and not any(v for k, v in query.args.items() if k != "this"):
        query = query.this
    limit = query.args.get("limit")
    if (
        isinstance(limit, exp.Limit | exp.Fetch)
        and _number(limit.args.get("expression") or limit.args.get("count")) == 0
    ):
        return True
    where = query.args.get("where")
    return isinstance(query, exp.Select) and where is not None and _false(where.this) and not _one_row(query)


def with_rows(query: exp.Query) -> exp.Query:
    """The query without its `LIMIT 0`, which is not allowed on private rows."""
    copied = query.copy()
    inner: exp.Expr = copied
    while isinstance(inner, exp.Subquery):
        inner = inner.this
    for part in ("limit", "offset"):
        inner.set(part, None)
    return copied


def columns_of(made: PrivateRows) -> tuple[list[str], list[str]]:
    """The names and types of rows that could not be listed."""
    return made.columns, [sql_type(field.type) for field in made.relation.fields]


def no_rows(names: Sequence[str], types: Sequence[str]) -> Plan:
    """A plan without releases: these columns, and not a row."""
    items = [
        exp.alias_(exp.Cast(this=exp.null(), to=exp.DataType.build(type_, dialect="duckdb")), name, quoted=True)
        for name, type_ in zip(names, types, strict=True)
    ]
    finishing = exp.Select(expressions=items, where=exp.Where(this=exp.false()))
    return Plan((), finishing, (), tuple(Output(name, noisy=False) for name in names), None, notes=(PROBE,))


def _one_row(query: exp.Select) -> bool:
    """Whether it aggregates over all rows, so that its answer has one row even without any rows."""
    group = query.args.get("group")
    if group is None:
        return is_grouped(query) or query.args.get("having") is not None
    several = any(isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple) for node in group.walk())
    return several or not (group.expressions or group.args.get("all"))


def _false(node: exp.Expr) -> bool:
    """False by its constants alone."""
    match node:
        case exp.Paren():
            return _false(node.this)
        case exp.And():
            return _false(node.left) or _false(node.right)
        case exp.Boolean():
            return not node.this
        case exp.EQ() | exp.NEQ():
            one, two = _constant(node.left), _constant(node.right)
            known = one is not None and two is not None and type(one) is type(two)
            return known and (one == two) is isinstance(node, exp.NEQ)
        case _:
            return False


def _constant(node: exp.Expr) -> Decimal | str | None:
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    return _number(node)


def _number(node: exp.Expr | None) -> Decimal | None:
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    try:
        return Decimal(node.this)
    except InvalidOperation:
        return None


# MIN and MAX that the policy answers ----------------------------------------------------------------------------------


DECLARED = "MIN and MAX of {} are the bounds that the policy declares, not values of the data; this is free"
_OTHER_ROWS = ("where", "group", "having", "qualify", "windows", "joins", "distinct")


def answered_by_policy(node: exp.Select, sources: list[FromItem]) -> tuple[str, ...]:
    """Replace MIN and MAX by declared bounds; returns a note for each column."""
    if len(sources) != 1 or any(node.args.get(part) for part in _OTHER_ROWS):
        return ()
    [(_, name, made)] = sources
    if not isinstance(made, PrivateRows):
        return ()
    scope, noted = scope_of(made.relation, name), dict[str, None]()
    titles = [title_of(item) for item in node.expressions]
    for root in [*node.expressions, *([node.args["order"]] if node.args.get("order") else [])]:
        for call in list(_calls(root)):
            field = _declared(call, scope)
            if field is not None and field.ends is not None:
                call.replace(_literal(field, largest=isinstance(call, exp.Max)))
                noted[DECLARED.format(field.name)] = None
    if noted:
        node.set("expressions", [_titled(item, title) for item, title in zip(node.expressions, titles, strict=True)])
    return tuple(noted)


def constants(node: exp.Select) -> OpenQuery | None:
    """The SELECT without its FROM, if nothing in it reads a row any more."""
    if is_grouped(node) or any(root.find(exp.Column, exp.Star, exp.Query) for root in node.expressions):
        return None
    kept = {part: node.args[part] for part in ("limit", "offset", "with_") if node.args.get(part)}
    outputs = tuple(Output(title_of(item), noisy=False) for item in node.expressions)
    return OpenQuery(exp.Select(expressions=node.expressions, **kept), outputs, key=())


def _calls(root: exp.Expr) -> list[exp.Expr]:
    """MIN and MAX of all rows: not of a subquery's, not of a window's, not of those that FILTER leaves."""
    inside = (exp.Query, exp.Subquery, exp.Window, exp.Filter)
    found = root.walk(prune=lambda n: isinstance(n, inside))
    return [n for n in found if isinstance(n, exp.Min | exp.Max) and not n.expressions]


def _declared(call: exp.Expr, scope: Scope) -> Field | None:
    if not isinstance(call.this, exp.Column) or isinstance(call.this.this, exp.Star):
        return None
    found = scope.find(call.this)
    return _stored(scope.relation, found.name) if isinstance(found, Column) else None


def _stored(relation: Relation, name: str) -> Field | None:
    """The column of the policy that a field is, unchanged, where every row of its table is there."""
    if isinstance(relation, Scan):
        return relation.field(name)
    if isinstance(relation, Project) and relation.source is not None:
        item = next(i.expression for i in relation.items if i.name == name)
        return _stored(relation.source, item.name) if isinstance(item, Column) else None
    return None


def _literal(field: Field, *, largest: bool) -> exp.Expr:
    assert field.ends is not None
    value = exp.Literal.string(str(field.ends[largest]))
    return exp.Cast(this=value, to=exp.DataType.build(sql_type(field.type), dialect="duckdb"))


def _titled(item: exp.Expr, title: str) -> exp.Expr:
    return item if isinstance(item, exp.Alias) else exp.alias_(item, title, quoted=True)
