"""Aggregates over one unit's rows as DuckDB SQL."""

from __future__ import annotations

from fractions import Fraction

from dpsql.bounds import infer
from dpsql.engines.duckdb.clamp import clamped
from dpsql.engines.duckdb.source import From, one_zero
from dpsql.expressions.types import DOUBLE, INT64, Kind, Type
from dpsql.plan.relate import known_of
from dpsql.plan.relation import Aggregate, Relation
from dpsql.sensitivity.argument import summed


def unit_aggregate(aggregate: Aggregate, type_: Type, source: Relation, below: From, over: str = "") -> str:
    """An aggregate over one unit's rows: exact, so that neither order nor threads matter, and clamped to its type.

    With `over`, a window's clause, it reads the rows of its frame.
    """
    if aggregate.argument is None:
        return f"count(*){over}"
    value = below.render(aggregate.argument)
    if aggregate.function in ("count", "min", "max"):
        value = one_zero(value) if aggregate.argument.type == DOUBLE else value
        return f"{aggregate.function}({'DISTINCT ' if aggregate.distinct else ''}{value}){over}"
    argument = summed(aggregate.argument, infer(aggregate.argument, known_of(source))) if _on_grid(aggregate) else None
    added = value if argument is None else clamped(argument, value)
    total = f"sum({'DISTINCT ' if aggregate.distinct else ''}{added}){over}"
    grid = Fraction(1) if argument is None else argument.grid
    if aggregate.function == "avg":
        return f"(CAST({total} AS DOUBLE) / count({added}){over}{_scaled(grid)})"
    if type_ == DOUBLE:
        return f"(CAST({total} AS DOUBLE){_scaled(grid)})"
    return _into(total, type_)


def _on_grid(aggregate: Aggregate) -> bool:
    """Doubles, and integers whose sum might not fit, are added on a grid."""
    type_ = aggregate.argument.type if aggregate.argument is not None else DOUBLE
    return type_ == DOUBLE or (type_.kind is Kind.INTEGER and not (INT64[0] <= type_.lower and type_.upper <= INT64[1]))


def _scaled(grid: Fraction) -> str:
    return "" if grid == 1 else f" * {float(grid)!r}::DOUBLE"


def _into(total: str, type_: Type) -> str:
    """The total clamped to its type's range; NULL stays NULL (least and greatest would make it a bound)."""
    if type_.kind is Kind.DECIMAL:
        low, high = (_decimal(x, type_.scale) for x in (type_.lower, type_.upper))
        stored = f"DECIMAL(18,{type_.scale})"
    else:
        low, high = str(type_.lower), str(type_.upper)
        stored = "BIGINT" if INT64[0] <= type_.lower and type_.upper <= INT64[1] else "HUGEINT"
    return f"CAST(CASE WHEN {total} > {high} THEN {high} WHEN {total} < {low} THEN {low} ELSE {total} END AS {stored})"


def _decimal(unscaled: int, scale: int) -> str:
    sign, digits = "-" if unscaled < 0 else "", str(abs(unscaled)).rjust(scale + 1, "0")
    return f"CAST({sign}{digits[:-scale]}.{digits[-scale:]} AS DECIMAL(38,{scale}))"
