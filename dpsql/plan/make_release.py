"""An aggregate SELECT over private rows: its releases, and what is left to finish over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.expressions.convert import written_too_large
from dpsql.plan.canonical import canonical
from dpsql.plan.clauses import title_of
from dpsql.plan.group import Grouping
from dpsql.plan.linear import several_forms
from dpsql.plan.made import Made, Open, Private
from dpsql.plan.open_select import subquery_above
from dpsql.plan.outputs import key_places, release_output
from dpsql.plan.plan import Bar, Release
from dpsql.plan.planner import Planner
from dpsql.plan.public_keys import public_values
from dpsql.plan.relation import Aggregate, Item
from dpsql.plan.scope import Scope
from dpsql.plan.sets import Keys, made_family, union_of
from dpsql.plan.size import MOST_WRITTEN, widest

ROW = "_row"


def release_of(
    planner: Planner,
    node: exp.Select,
    source: Private,
    scope: Scope,
    keys: Keys,
    ctes: Mapping[str, Made],
    *,
    top: bool,
) -> Open:
    """One release for each grouping set, and the SELECT that finishes them."""
    slot, sets = len(planner.releases), list(dict.fromkeys(keys.sets))
    releases = [f"_r{slot + i}" for i in range(len(sets))]
    name = releases[0] if keys.plain else f"_s{slot}"
    group = Grouping(scope, keys, lambda c: exp.column(c, table=name), lambda q: subquery_above(planner, q, ctes))
    group.bases = several_forms(node, scope)
    planner.releases += [None] * len(sets)  # type: ignore[list-item]
    outputs, items = [], []
    for item in node.expressions:
        title = title_of(item)
        inner = item.this if isinstance(item, exp.Alias) else item
        made = group.rewrite(inner.copy())
        outputs.append(release_output(title, made, name, group.aggregates))
        items.append(exp.alias_(made, title, quoted=True))
    finishing = exp.Select(expressions=items)
    if node.args.get("having") is not None:
        finishing.set("where", exp.Where(this=group.rewrite(node.args["having"].this)))
    for part in ("qualify", "windows", "order", "limit", "offset", "distinct", "with_"):
        clause = node.args.get(part)
        if isinstance(clause, exp.Expr) and part not in ("with_", "limit", "offset"):
            clause = group.rewrite(clause, aliases=True)
        finishing.set(part, clause)
    row = name if top and node.args.get("distinct") is None else None
    if row is not None:
        finishing.append("expressions", exp.alias_(exp.column(ROW, table=name), "_row", quoted=True))
    planner.notes += group.notes
    family = made_family(name, releases, keys)
    for number, (release, chosen) in enumerate(zip(releases, sets, strict=True)):
        place = keys.sets.index(chosen)
        bars = [replace(bar, expression=family.over(place, bar.expression)) for bar in group.bars]
        items_ = [Item(f"_k{i}", keys.expressions[i]) for i in chosen]
        planner.releases[slot + number] = _asked(planner, release, source, items_, group.aggregates, bars)
    parts = (("_k", len(keys.expressions)), ("_a", len(group.aggregates)), ("_b", len(group.bars)))
    columns = [f"{kind}{i}" for kind, many in parts for i in range(many)]
    finishing.set("from_", exp.From(this=exp.to_table(name) if keys.plain else union_of(family, columns)))
    if not keys.plain:
        planner.families.append(family)
        outputs = [replace(output, direct=None) for output in outputs]
    places = key_places(items, len(keys.expressions)) if keys.plain else None
    return Open(finishing, tuple(outputs), row, key=places)


def _asked(
    planner: Planner,
    name: str,
    source: Private,
    keys: Sequence[Item],
    aggregates: Sequence[Aggregate],
    bars: Sequence[Bar],
) -> Release:
    """A release in its canonical form, with the values of keys that read public tables only."""
    most, public = planner.catalog.max_public_keys, planner.catalog.public
    read = [*(key.expression for key in keys), *(a.argument for a in aggregates if a.argument is not None)]
    if widest(source.relation, read) > MOST_WRITTEN:
        raise written_too_large(None)
    listed = {item.name: public_values(source.relation, item.expression, public, most) for item in keys}
    asked = Release(
        name,
        source.name,
        source.relation,
        tuple(keys),
        tuple(aggregates),
        max(table.groups_per_unit for table in source.tables),
        tuple(bars),
        tuple((key, domain) for key, domain in listed.items() if domain is not None),
        groups_capped=all(table.groups_capped for table in source.tables),
    )
    return canonical(asked)
