"""Window functions over one unit's rows as SQL, in an order that no engine can choose."""

from __future__ import annotations

from dpsql.engines.sql.dialect import Dialect
from dpsql.engines.sql.from_item import From
from dpsql.engines.sql.sql_types import physical
from dpsql.engines.sql.unit_aggregates import unit_aggregate
from dpsql.errors import UnsupportedQuery
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.types import Type
from dpsql.expressions.typing import call
from dpsql.plan.nodes.windows import CHOSEN, Ordering, WindowCall, Windowed


def window_sql(over: WindowCall, type_: Type, relation: Windowed, below: From) -> str:
    """The value of one window function, over rows whose columns are settled.

    **Theorem.** The SQL computes what the node says (`dpsql.plan.nodes.windows`): over rows of one owner, in an order
    that the rows decide and not the engine. **Proof.** The owner's column is the first key of PARTITION BY, whatever
    else is written there. Where the function tells rows apart that are equal in ORDER BY, all columns by which rows of
    an owner can differ (`ties`) follow in the order, so rows that are still equal are interchangeable. What is compared
    has one spelling of zero and NaN (`settled`), NULLS FIRST or LAST is written out, since engines differ, and so is
    the frame, which is that of the query and not the default of an order that ties have joined. Sums are exact integers
    (`unit_aggregate`). **Requires** `below.unit` to be the owner of each row (`dpsql.engines.sql.relations`), and an
    engine that computes a window as SQL defines it; what it has no words for is refused. **Checked by**
    `tests/unit/engines/test_window_forms.py`, the neighbour and order tests of
    `tests/properties/test_relation_neighbours.py`, and the planted bugs "a window without the owner in its partition",
    "ties of a window are left to the engine" and "zeros of a window have two spellings".
    """
    assert relation.source is not None
    _check(over, below.dialect)
    window = f" OVER ({_window(over, relation, below)})"
    if over.aggregate is not None:
        return unit_aggregate(over.aggregate, type_, relation.source, below, window)
    operands = [_operand(arg, type_, below) for arg in over.args[:1]]
    operands += [str(over.number)] if over.number is not None else []
    operands += [_operand(arg, type_, below) for arg in over.args[1:]]
    nulls = " IGNORE NULLS" if over.ignore_nulls else ""
    behind = below.dialect.ignores_nulls_behind
    inside = f"{', '.join(operands)}{'' if behind else nulls}"
    return f"{over.function}({inside}){nulls if behind else ''}{window}"


def _check(over: WindowCall, dialect: Dialect) -> None:
    """Refuse what the engine has no words for."""
    different = over.aggregate is not None and over.aggregate.distinct
    if (over.ignore_nulls and not dialect.ignores_nulls) or (different and not dialect.windows_of_different):
        what = "IGNORE NULLS" if over.ignore_nulls else "DISTINCT"
        raise UnsupportedQuery(
            f"{what} in a window function is not computed by this database",
            hint="filter or group the rows in a subquery first",
        )


def _operand(expression: Expression, type_: Type, below: From) -> str:
    """An operand in the type of the result."""
    wide = expression if physical(expression.type) == physical(type_) else call("coalesce", type_, expression)
    return below.dialect.settled(below.render(wide), type_)


def _window(over: WindowCall, relation: Windowed, below: From) -> str:
    source = relation.source
    keys = [below.unit or "", *(_ordered(e, below) for e in over.partition if source is None or not source.is_unit(e))]
    order = (*over.order, *(map(Ordering, relation.ties) if over.total else ()))
    listed = [f"{_ordered(o.expression, below)}{_way(o)}" for o in order]
    order_by = f" ORDER BY {', '.join(dict.fromkeys(listed))}" if listed else ""
    return f"PARTITION BY {', '.join(dict.fromkeys(keys))}{order_by}{_frame(over)}"


def _way(ordering: Ordering) -> str:
    return f" {'DESC' if ordering.descending else 'ASC'} NULLS {'FIRST' if ordering.nulls_first else 'LAST'}"


def _ordered(expression: Expression, below: From) -> str:
    """What is compared; columns are settled already."""
    value = below.render(expression)
    return value if isinstance(expression, Column) else below.dialect.settled(value, expression.type)


def _frame(over: WindowCall) -> str:
    """The frame, where the function has one; written out, since ties have joined the order."""
    if over.aggregate is None and over.function not in CHOSEN:
        return ""
    frame = over.frame
    return f" {frame.kind} BETWEEN {_end(frame.start, 'PRECEDING')} AND {_end(frame.end, 'FOLLOWING')}"


def _end(end: int | None, unbounded: str) -> str:
    if end is None:
        return f"UNBOUNDED {unbounded}"
    return "CURRENT ROW" if end == 0 else f"{abs(end)} {'PRECEDING' if end < 0 else 'FOLLOWING'}"
