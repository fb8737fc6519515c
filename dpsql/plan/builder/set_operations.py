"""Set operations of private relations: UNION ALL as it is, the others by grouping, EXISTS and numbering.

**Theorem.** UNION is the union's rows grouped by all columns. INTERSECT and EXCEPT are the left rows, grouped, for
which the right side has an equal row, or none; their ALL forms number equal rows on both sides and compare the numbers
too, so that min(m, n) and max(m - n, 0) of m and n equal rows are left. Each is unit-local. **Proof.** A column that
determines the owner stands in the same place on both sides (`same_owner`), so equal rows have one owner, and everything
is made of unit-local nodes. **Requires** that grouping, EXISTS and numbering are unit-local
(`dpsql.plan.nodes.joins`, `dpsql.plan.nodes.unary`), and that equal means the same on both sides: one type for each
column. **Checked by** the neighbour test of set operations, and the planted bug "INTERSECT without the unit". (A key
that is NULL in rows that have an owner equals nothing here.)
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.errors import Error, ParseError
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.types import BOOLEAN, Type
from dpsql.expressions.typing import Mismatch, call, common, literal
from dpsql.plan.nodes.relation import Field, Item, JoinSide, Relation, same_owner, unused_name
from dpsql.plan.nodes.semi_joins import exists_filter
from dpsql.plan.nodes.unary import projected, unit_grouped
from dpsql.plan.nodes.union import one_id_space, shared_rows, union_all
from dpsql.plan.nodes.windows import WindowCall, windowed
from dpsql.plan.normal_form import conjunction, normal
from dpsql.policy.identifiers import fold
from dpsql.sql.span import refuse

_KNOWN = {"this", "expression", "distinct", "by_name", "order", "with_"}

_AGGREGATE = "aggregate each side first: SELECT … count(*) … UNION ALL SELECT … count(*) …"


def set_operation(node: exp.SetOperation, left: Relation, right: Relation) -> Relation:
    """The set operation of two private relations."""
    _check(node)
    if node.args.get("by_name"):
        left, right = _by_name(left, right)
    if len(left.fields) != len(right.fields):
        raise refuse(
            f"{_name(node)}: one side has {len(left.fields)} columns, the other {len(right.fields)}",
            node,
            kind=ParseError,
            hint="select the same number of columns on both sides",
            reason="set-operation",
        )
    pairs = tuple(zip(left.fields, right.fields, strict=True))
    types = [_type(one, two, node) for one, two in pairs]
    if isinstance(node, exp.Union):
        _check_union((left, right), node)
    whole = not node.args.get("distinct")
    if not whole or not isinstance(node, exp.Union):
        _check_owner(node, pairs)
    if isinstance(node, exp.Union):
        made = union_all((left, right))
        return made if whole else distinct_rows(made)
    sides = [_numbered(side) if whole else side for side in (left, right)]
    found = _matching(sides[0], sides[1], negated=isinstance(node, exp.Except))
    shown = [f.name for f in left.fields]
    if whole:
        return _typed(found, shown, types)
    return distinct_rows(_typed(found, shown, types))


def distinct_rows(source: Relation) -> Relation:
    """Each row once for its owner."""
    return unit_grouped(source, [Item(f.name, Column(f.type, name=f.name)) for f in source.fields], [])


def _numbered(source: Relation) -> Relation:
    """Equal rows of one owner, distinguished by a number."""
    columns: tuple[Expression, ...] = tuple(Column(f.type, name=f.name) for f in source.fields)
    name = unused_name("_number", {fold(f.name) for f in source.fields})
    return windowed(source, [(name, WindowCall("row_number", partition=columns))])


def _matching(left: Relation, right: Relation, *, negated: bool) -> Relation:
    """The left rows that have an equal right row, or none; the owner is compared as such, the rest with NULLs."""
    taken = {fold(f.name) for f in left.fields}
    part = JoinSide(right, tuple(unused_name(f.name, taken) for f in right.fields))
    conditions = []
    for one, two in zip(left.fields, part.fields, strict=True):
        _, sides = common([Column(f.type, name=f.name) for f in (one, two)])
        conditions.append(call("eq" if owns(one, two) else "is_not_distinct", BOOLEAN, *sides))
    return exists_filter(left, part, conjunction(map(normal, conditions)), negated=negated)


def owns(one: Field, two: Field) -> bool:
    """Do equal values in these columns prove that two rows have one owner?"""
    return same_owner(one, two) and not (one.padded or two.padded)


def _typed(source: Relation, names: Sequence[str], types: Sequence[Type]) -> Relation:
    """The named columns; a column whose common type is another kind is read in it."""
    items = []
    for field, name, type_ in zip(source.fields, names, types, strict=False):
        column: Expression = Column(field.type, name=field.name)
        kinds = field.type.kind is type_.kind and field.type.scale == type_.scale
        items.append(Item(name, column if kinds else call("coalesce", type_, column)))
    return projected(source, items)


# refusals -------------------------------------------------------------------------------------------------------------


def _name(node: exp.SetOperation) -> str:
    return f"{node.key.upper()}{'' if node.args.get('distinct') else ' ALL'}"


def _check(node: exp.SetOperation) -> None:
    for part, value in node.args.items():
        if value and part in ("limit", "offset"):
            raise refuse(
                f"{part.upper()} on private rows would select some people's rows depending on those of others",
                value if isinstance(value, exp.Expr) else node,
                hint=f"put {part.upper()} on the outermost query, above the aggregate",
                reason="choice-of-rows",
            )
        if value and part not in _KNOWN:
            raise refuse(
                f"{part.strip('_').upper()} with {_name(node)} is not supported",
                node,
                hint="leave it out",
                reason="clause",
            )


def _type(one: Field, two: Field, node: exp.SetOperation) -> Type:
    try:
        return common([Column(f.type, name=f.name) for f in (one, two)])[0]
    except Mismatch as problem:
        hint = f"cast one side, so that {one.name} and {two.name} are of one kind"
        raise refuse(f"{_name(node)}: {problem}", node, kind=ParseError, hint=hint, reason="set-operation") from None


def _check_union(parts: tuple[Relation, Relation], node: exp.SetOperation) -> None:
    if parts[0].by_row != parts[1].by_row:
        raise refuse(
            f"{_name(node)} of rows that are units of their own with rows that belong to units is not supported",
            node,
            hint=_AGGREGATE,
            reason="clause",
        )
    if shared_rows(parts):
        raise refuse(
            f"{_name(node)} would read the same rows twice, and each of them is a unit of its own",
            node,
            hint="read the table once: WHERE … OR …, or CASE WHEN … for what differs between the sides",
            reason="set-operation",
        )
    if not one_id_space(parts):
        raise refuse(
            f"the units on both sides of {_name(node)} have different types",
            node,
            hint="ask the steward to give both unit columns the same type",
            reason="set-operation",
        )


def _check_owner(node: exp.SetOperation, pairs: Sequence[tuple[Field, Field]]) -> None:
    if any(owns(one, two) for one, two in pairs):
        return
    raise without_owner(node, _name(node))


def without_owner(node: exp.Expr, what: str, unit: str | None = None) -> Error:
    """The refusal of what compares whole rows of different people."""
    return refuse(
        f"{what} of private rows needs the unit among the columns: "
        "otherwise rows of different people would count as one",
        node,
        hint=f"select {unit} too"
        if unit is not None
        else "select the unit column too, in the same place on both sides; or SELECT DISTINCT on each side, which is "
        "answered with noise",
        reason="set-operation",
    )


def without_people(node: exp.SetOperation, tree: exp.Expr, *, public: bool) -> Error:
    """The refusal of a side whose rows have no owner."""
    if not public:
        return refuse(
            f"{_name(node)} of a result with noise and private rows is not supported",
            tree,
            hint=_AGGREGATE,
            reason="clause",
        )
    return refuse(
        f"{_name(node)} of private rows with public ones is not supported: public rows have no owner",
        tree,
        hint=f"{_AGGREGATE}; or join the public table",
        reason="clause",
    )


def _by_name(left: Relation, right: Relation) -> tuple[Relation, Relation]:
    """Both sides with the columns of either, the left side's first; a missing column is NULL."""
    names = {fold(f.name): f.name for f in (*right.fields, *left.fields)}
    order = list(dict.fromkeys(fold(f.name) for f in (*left.fields, *right.fields)))
    made = []
    for side in (left, right):
        own = {fold(f.name): f for f in side.fields}
        found: list[Expression] = [Column(own[n].type, name=own[n].name) if n in own else literal(None) for n in order]
        made.append(projected(side, [Item(names[n], e) for n, e in zip(order, found, strict=True)]))
    return made[0], made[1]
