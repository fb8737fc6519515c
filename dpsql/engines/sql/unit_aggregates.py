"""Aggregates over one unit's rows as SQL."""

from __future__ import annotations

from dpsql.bounds import infer
from dpsql.engines.sql.clamp import clamped
from dpsql.engines.sql.dialect import Dialect
from dpsql.engines.sql.from_item import From
from dpsql.expressions.types import DOUBLE, INT64, Kind, Type
from dpsql.plan.nodes.relation import Aggregate, Relation
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
