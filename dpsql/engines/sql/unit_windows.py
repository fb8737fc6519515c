"""Windows and aggregates over one unit's rows as SQL, in an order that no engine can choose."""

from __future__ import annotations

from dpsql.bounds import infer
from dpsql.engines.sql.clamp import clamped
from dpsql.engines.sql.dialect import Dialect
from dpsql.engines.sql.from_item import From
from dpsql.engines.sql.sql_types import physical
from dpsql.errors import UnsupportedQuery
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.types import DOUBLE, INT64, Kind, Type
from dpsql.expressions.typing import call
from dpsql.plan.nodes.relation import Aggregate, Relation
from dpsql.plan.nodes.windows import CHOSEN, Ordering, WindowCall, Windowed
from dpsql.sensitivity.argument import Argument, summed


def unit_aggregate(aggregate: Aggregate, type_: Type, source: Relation, below: From, over: str = "") -> str:
    """An aggregate over one unit's rows: exact, so that neither order nor threads matter, and clamped to its type.

    With `over`, a window's clause, it reads the rows of its frame.
    """
    if aggregate.argument is None:
        return f"count(*){over}"
    value, dialect = below.render(aggregate.argument), below.dialect
    if aggregate.function in ("count", "min", "max"):
        if aggregate.function != "count":
            value = dialect.settled(value, aggregate.argument.type)
            return f"{dialect.extreme(aggregate.function, value, aggregate.argument.type)}{over}"
        value = dialect.one_zero(value) if aggregate.argument.type == DOUBLE else value
        return f"count({'DISTINCT ' if aggregate.distinct else ''}{value}){over}"
    argument = (
        summed(aggregate.argument, infer(aggregate.argument, source.row_domains())) if _on_grid(aggregate) else None
    )
    added = _addend(dialect, value, aggregate.argument.type) if argument is None else clamped(dialect, argument, value)
    total = dialect.total(added, over, distinct=aggregate.distinct, bits=_bits(aggregate.argument.type, argument))
    scaled = "" if argument is None or argument.grid == 1 else f" * {dialect.double(float(argument.grid))}"
    if aggregate.function == "avg":
        number = f"count({'DISTINCT ' if aggregate.distinct else ''}{added}){over}"
        return f"({dialect.cast(total, 'DOUBLE')} / {number}{scaled})"
    if type_ == DOUBLE:
        return f"({dialect.cast(total, 'DOUBLE')}{scaled})"
    return _into(dialect, total, type_)


def _addend(dialect: Dialect, value: str, type_: Type) -> str:
    return dialect.addend(value, type_) if type_.kind is Kind.DECIMAL else value


def _on_grid(aggregate: Aggregate) -> bool:
    """Doubles, and integers whose sum might not fit, are added on a grid."""
    type_ = aggregate.argument.type if aggregate.argument is not None else DOUBLE
    return type_ == DOUBLE or (type_.kind is Kind.INTEGER and not (INT64[0] <= type_.lower and type_.upper <= INT64[1]))


def _bits(type_: Type, argument: Argument | None) -> int | None:
    """The bits of a whole number that is added up, without its sign; None for decimals, which fit as they are."""
    if argument is not None:
        return argument.magnitude.bit_length()
    return max(-type_.lower, type_.upper).bit_length() if type_.kind is Kind.INTEGER else None


def _into(dialect: Dialect, total: str, type_: Type) -> str:
    """The total within its type's range; NULL stays NULL (least and greatest would make it a bound)."""
    if type_.kind is Kind.DECIMAL:
        low, high = (
            dialect.cast(_decimal(x, type_.scale), f"DECIMAL(38,{type_.scale})") for x in (type_.lower, type_.upper)
        )
        stored = f"DECIMAL(18,{type_.scale})"
    else:
        low, high = str(type_.lower), str(type_.upper)
        stored = "BIGINT" if INT64[0] <= type_.lower and type_.upper <= INT64[1] else "HUGEINT"
    inside = f"CASE WHEN {total} > {high} THEN {high} WHEN {total} < {low} THEN {low} ELSE {total} END"
    return dialect.cast(inside, stored)


def _decimal(unscaled: int, scale: int) -> str:
    sign, digits = "-" if unscaled < 0 else "", str(abs(unscaled)).rjust(scale + 1, "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"


# window functions -----------------------------------------------------------------------------------------------------
# Window functions over one unit's rows as SQL, in an order that no engine can choose.


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
