"""The clauses of one SELECT, read from the syntax tree."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.errors import ParseError
from dpsql.expressions.expression import Expression
from dpsql.expressions.from_syntax import convert
from dpsql.plan.builder.group_by import has_aggregate
from dpsql.plan.builder.grouping_sets import GroupKeys, group_by, plain_keys
from dpsql.plan.builder.name_scope import Scope
from dpsql.plan.nodes.relation import Item
from dpsql.policy.identifiers import fold
from dpsql.sql.span import refuse


def from_items(node: exp.Select) -> list[exp.Expr]:
    """The items of FROM from left to right: joined ones included, brackets around joins opened."""
    if node.args.get("laterals"):
        raise refuse(
            "LATERAL is not supported", node.args["laterals"][0], hint="use a subquery in FROM", reason="clause"
        )
    from_ = node.args.get("from_")
    return [leaf for part in ([] if from_ is None else [from_.this, *joins_of(node)]) for leaf in _leaves(part)]


def joins_of(node: exp.Expr) -> list[exp.Expr]:
    """The joins attached to an item, or after the first item of a SELECT."""
    return list(node.args.get("joins") or ())


def bracketed(item: exp.Expr) -> exp.Expr | None:
    """The content of brackets around a join (not a query); None if there are none."""
    inner = item
    while isinstance(inner, exp.Subquery) and not inner.args.get("alias"):
        inner = inner.this
    return inner if inner is not item and isinstance(inner, exp.Table) else None


def _leaves(part: exp.Expr) -> list[exp.Expr]:
    item = part.this if isinstance(part, exp.Join) else part
    inner = bracketed(item)
    own = _leaves(inner) if inner is not None else [item]
    return own + [leaf for join in joins_of(item) for leaf in _leaves(join)]


def only(node: exp.Expr, known: set[str]) -> None:
    """Refuse any part of a FROM item that is not known."""
    for name, part in node.args.items():
        if part and (name not in known or name == "pivots"):
            raise refuse(
                f"{name.strip('_').upper()} in FROM is not supported", node, hint="leave it out", reason="clause"
            )


def subqueries(node: exp.Select) -> list[exp.Expr]:
    """The outermost subqueries in expressions (not in FROM, not in WITH)."""
    found = []
    for name in ("expressions", "where", "group", "having", "order", "qualify"):
        parts = node.args.get(name)
        for part in parts if isinstance(parts, list) else [parts]:
            if isinstance(part, exp.Expr):
                found += _outermost(part)
    from_ = node.args.get("from_")
    for join in _all_joins([*([] if from_ is None else [from_.this]), *joins_of(node)]):
        if isinstance(join.args.get("on"), exp.Expr):
            found += _outermost(join.args["on"])
    return found


def _all_joins(parts: Sequence[exp.Expr]) -> list[exp.Expr]:
    """The joins of FROM, those in brackets too."""
    found: list[exp.Expr] = []
    for part in parts:
        item = part.this if isinstance(part, exp.Join) else part
        inner = bracketed(item)
        found += ([part] if isinstance(part, exp.Join) else []) + _all_joins([inner] if inner is not None else [])
        found += _all_joins(joins_of(item))
    return found


def _outermost(root: exp.Expr) -> list[exp.Expr]:
    return [
        n
        for n in root.walk(prune=lambda n: isinstance(n, exp.Query | exp.Subquery))
        if isinstance(n, exp.Query | exp.Subquery)
    ]


def no_more(node: exp.Subquery) -> None:
    """Refuse clauses after the closing bracket of a query, which would be ignored."""
    for name, part in node.args.items():
        if part and name not in ("this", "alias", "with_"):
            word = name.strip("_").upper()
            raise refuse(
                f"{word} after the closing bracket is not supported",
                node,
                hint="move it inside the brackets",
                reason="clause",
            )


def no_limit(node: exp.Select, *parts: str) -> None:
    """Refuse what chooses rows of a private relation by other rows."""
    for part in parts or ("limit", "offset", "qualify", "windows"):
        if node.args.get(part) is not None:
            clause = node.args[part]
            raise refuse(
                f"{part.upper()} on private rows would select some people's rows depending on those of others",
                clause if isinstance(clause, exp.Expr) else node,
                hint=f"put {part.upper()} on the outermost query, above the aggregate",
                reason="choice-of-rows",
            )
    distinct = node.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        raise refuse(
            "DISTINCT ON private rows is not supported",
            distinct,
            hint="use GROUP BY with the unit",
            reason="choice-of-rows",
        )


def no_histogram(node: exp.Select) -> None:
    """Refuse HISTOGRAM, whose result has private values as map keys, and suggest a GROUP BY."""
    for call in node.find_all(exp.Anonymous):
        if call.name.lower() == "histogram" and call.expressions:
            it = call.expressions[0].sql("duckdb")
            raise refuse(
                "HISTOGRAM of private rows is not supported",
                call,
                hint=f"count by value: SELECT {it}, count(*) … GROUP BY {it}; a number with many values by ranges: "
                f"GROUP BY width_bucket({it}, 0, 100, 10)",
                reason="clause",
            )


def title_of(item: exp.Expr) -> str:
    """The name of an output column: its alias, the column's own name, or the text of the expression."""
    if isinstance(item, exp.Alias | exp.Column):
        return item.alias_or_name
    return item.sql("duckdb", normalize_functions="lower")


def entitled(node: exp.Select) -> None:
    """A column without a name is called by its text, also where that is about to change."""
    for item in node.expressions:
        if not isinstance(item, exp.Alias | exp.Column | exp.Star) and item.find(exp.Window, exp.Query) is not None:
            item.replace(exp.alias_(item.copy(), title_of(item), quoted=True))


def keep_title(node: exp.Expr) -> None:
    """If a SELECT's column is called by the text around this node, which is about to change, keep its name."""
    item = node
    while item.parent is not None and not (isinstance(item.parent, exp.Select) and item.arg_key == "expressions"):
        if isinstance(item.parent, exp.Query):
            return
        item = item.parent
    if item.parent is not None and not isinstance(item, exp.Alias | exp.Column | exp.Star):
        holder = exp.Alias(this=exp.null(), alias=exp.to_identifier(title_of(item), quoted=True))
        item.replace(holder)
        holder.set("this", item)


def expanded(node: exp.Select, scope: Scope) -> list[exp.Expr]:
    """The SELECT list with `*` and `t.*` replaced by the fields."""
    items: list[exp.Expr] = []
    for item in node.expressions:
        star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
        if not isinstance(star, exp.Star):
            items.append(item)
        elif any(star.args.get(part) for part in ("except_", "replace", "rename", "except")):
            raise refuse(
                "* with EXCLUDE, REPLACE or RENAME is not supported", item, hint="list the columns", reason="clause"
            )
        else:
            items += scope.listed(item.table if isinstance(item, exp.Column) else "")
    return items


def items_of(expressions: Sequence[exp.Expr], scope: Scope) -> list[Item]:
    """The named expressions of a SELECT list; a name that occurs twice gets a number."""
    items: list[Item] = []
    for node in expressions:
        name, number = title_of(node), 1
        while any(fold(i.name) == fold(name) for i in items):
            name, number = f"{title_of(node)}:{number}", number + 1
        items.append(Item(name, convert(node.this if isinstance(node, exp.Alias) else node, scope)))
    return items


def is_grouped(node: exp.Select) -> bool:
    """Does the SELECT aggregate, over groups or over all rows?"""
    clauses = [
        *node.expressions,
        *(node.args[p] for p in ("having", "order", "qualify") if node.args.get(p) is not None),
    ]
    return node.args.get("group") is not None or any(has_aggregate(clause) for clause in clauses)


def group_keys(node: exp.Select, scope: Scope) -> GroupKeys | None:
    """The keys of a grouped SELECT (SELECT DISTINCT groups by everything); None if it is not grouped."""
    group, distinct = node.args.get("group"), node.args.get("distinct")
    if not is_grouped(node):
        if distinct is None or distinct.args.get("on") is not None:
            return None
        return plain_keys([convert(unaliased(e), scope) for e in node.expressions])
    if group is None:
        return plain_keys([])
    if group.args.get("all"):
        return plain_keys([convert(unaliased(e), scope) for e in node.expressions if not has_aggregate(e)])
    return group_by(group, lambda key: _group_key(key, node, scope))


def _group_key(key: exp.Expr, node: exp.Select, scope: Scope) -> Expression:
    if isinstance(key, exp.Literal) and not key.args.get("is_string"):
        position = int(key.name) if key.name.isdigit() else 0
        if not 1 <= position <= len(node.expressions):
            raise refuse(
                f"GROUP BY {key.name}: there are {len(node.expressions)} columns in SELECT",
                key,
                kind=ParseError,
                reason="group-key",
            )
        chosen = unaliased(node.expressions[position - 1])
        if has_aggregate(chosen):
            raise refuse(
                f"GROUP BY {key.name}: that column is an aggregate",
                key,
                kind=ParseError,
                hint="group by a column that is not an aggregate",
                reason="group-key",
            )
        return convert(chosen, scope)
    return convert(key, scope)


def unaliased(node: exp.Expr) -> exp.Expr:
    """The expression under an alias."""
    return node.this if isinstance(node, exp.Alias) else node


def conjuncts_of(node: exp.Expr) -> list[exp.Expr]:
    """The conditions that AND holds together at the top, brackets taken off."""
    if isinstance(node, exp.And):
        return [*conjuncts_of(node.this), *conjuncts_of(node.expression)]
    return (
        conjuncts_of(node.this)
        if isinstance(node, exp.Paren) and isinstance(node.this, exp.And | exp.Paren)
        else [node]
    )
