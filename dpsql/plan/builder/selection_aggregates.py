"""MEDIAN, quantiles, MIN, MAX and MODE over all rows: aggregates that choose a value, in all their spellings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast

from sqlglot import exp

from dpsql.errors import Error, ParseError, UnboundedColumn
from dpsql.expressions.expression import Expression
from dpsql.expressions.types import DOUBLE, TIMESTAMP, Kind, Type
from dpsql.plan.nodes.relation import Aggregate
from dpsql.sql.span import name_of, refuse

CHOOSING = frozenset({"quantile_cont", "quantile_disc", "min", "max", "mode"})
MOST_PARTS = 10_000
"""A quantile is a fraction with at most this denominator: four decimal digits."""

_QUANTILES: dict[type[exp.Expr], str] = {
    exp.PercentileCont: "quantile_cont", exp.PercentileDisc: "quantile_disc", exp.Quantile: "quantile_disc",
}  # fmt: skip
_HALF = Fraction(1, 2)


def chooses(aggregate: Aggregate) -> bool:
    """Is its answer, over many units, one value that is chosen?"""
    return aggregate.function in CHOOSING


def chosen_type(aggregate: Aggregate) -> Type:
    """The type of the value, as DuckDB has it: continuous quantiles of whole numbers are DOUBLE, of dates TIMESTAMP."""
    assert aggregate.argument is not None
    type_ = aggregate.argument.type
    if aggregate.function != "quantile_cont":
        return type_
    return {Kind.INTEGER: DOUBLE, Kind.DATE: TIMESTAMP}.get(type_.kind, type_)


@dataclass(frozen=True, slots=True)
class _Read:
    """The parts of a call: its function, its argument and its quantiles."""

    function: str
    argument: exp.Expr | None
    places: exp.Expr | None
    descending: bool = False


def is_choosing(node: exp.Expr) -> bool:
    """Is it a call (without its FILTER) of one of these functions?"""
    return isinstance(node, exp.WithinGroup | exp.Median | exp.Mode | exp.Min | exp.Max) or type(node) in _QUANTILES


def separated(node: exp.Expr) -> exp.Expr | None:
    """A call with a list of quantiles as a list of calls, each with its FILTER; None if it has no list."""
    call = node.this if isinstance(node, exp.Filter) else node
    places = _read(call).places if is_choosing(call) else None
    if not isinstance(places, exp.Array):
        return None
    made = []
    for number in range(len(places.expressions)):
        copy = node.copy()
        inner = _read(copy.this if isinstance(copy, exp.Filter) else copy).places
        assert inner is not None
        inner.replace(inner.expressions[number].copy())
        made.append(copy)
    return exp.Array(expressions=made)


def argument_of(call: exp.Expr) -> exp.Expr:
    """The values among which is chosen. DISTINCT changes nothing for MIN and MAX, and is refused elsewhere."""
    read = _read(call)
    distinct = read.argument.expressions if isinstance(read.argument, exp.Distinct) else []
    if len(distinct) == 1 and read.function in ("min", "max"):
        return cast(exp.Expr, distinct[0])
    if read.argument is None or isinstance(read.argument, exp.Distinct | exp.Star) or call.expressions:
        raise refuse(
            f"{name_of(call)} takes the values of one column",
            call,
            hint="write median(x), without DISTINCT",
            reason="aggregate",
        )
    return read.argument


def to_choice(call: exp.Expr, argument: Expression) -> Aggregate:
    """The aggregate of a call over this argument; the quantiles 0 and 1 are MIN and MAX."""
    read = _read(call)
    if call.args.get("count") is not None:
        raise refuse(
            f"{name_of(call)} with a number of values is not supported",
            call,
            hint="ask for quantiles",
            reason="aggregate",
        )
    if read.function in ("min", "max", "mode"):
        return Aggregate(read.function, argument)
    at = _HALF if isinstance(call, exp.Median) else _place(read.places, call)
    at = 1 - at if read.descending else at
    if argument.type.kind is Kind.BOOLEAN or (argument.type.kind is Kind.TEXT and read.function == "quantile_cont"):
        raise refuse(
            f"{name_of(call)} takes numbers, dates or timestamps, but this is {argument.type}",
            call,
            kind=ParseError,
            hint="use MODE, or count the rows: GROUP BY the column",
            reason="types",
        )
    if at in (0, 1):
        return Aggregate("max" if at else "min", argument)
    return Aggregate(read.function, argument, at=at)


def _read(call: exp.Expr) -> _Read:
    if isinstance(call, exp.WithinGroup):
        return _within(call)
    if isinstance(call, exp.Median):
        return _Read("quantile_cont", call.this, None)
    if isinstance(call, exp.Quantile):
        return _Read("quantile_disc", call.this, call.args.get("quantile"))
    if type(call) in _QUANTILES:
        return _Read(_QUANTILES[type(call)], call.this, call.args.get("expression"))
    return _Read(call.key, call.this, None)


def _within(node: exp.WithinGroup) -> _Read:
    """… WITHIN GROUP (ORDER BY x)."""
    call, ordered = node.this, node.expression.expressions if isinstance(node.expression, exp.Order) else []
    if len(ordered) != 1 or not (type(call) in _QUANTILES or isinstance(call, exp.Mode)):
        raise refuse(
            "WITHIN GROUP needs a quantile or MODE over one ordered value",
            node,
            hint="write percentile_cont(0.5) WITHIN GROUP (ORDER BY x)",
            reason="aggregate",
        )
    value = ordered[0].this if isinstance(ordered[0], exp.Ordered) else ordered[0]
    if isinstance(call, exp.Mode):
        return _Read("mode", value, None)
    descending = isinstance(ordered[0], exp.Ordered) and bool(ordered[0].args.get("desc"))
    return _Read(_QUANTILES[type(call)], value, call.this, descending)


def _place(node: exp.Expr | None, call: exp.Expr) -> Fraction:
    """The quantile, exactly as it was written."""
    written = node.this if isinstance(node, exp.Neg) else node
    try:
        at = Fraction(written.name) if isinstance(written, exp.Literal) and not written.is_string else None
    except ValueError:
        at = None
    if at is None or isinstance(node, exp.Neg) or not 0 <= at <= 1 or at.denominator > MOST_PARTS:
        raise refuse(
            "a quantile must be a number between 0 and 1 with at most four digits",
            node or call,
            kind=ParseError,
            hint="write quantile_cont(x, 0.25), or a list: quantile_cont(x, [0.25, 0.5, 0.75])",
            reason="aggregate",
        )
    return at


def no_grid(aggregate: Aggregate) -> Error:
    """The refusal of a choice among values that nobody has named."""
    assert aggregate.argument is not None
    it, name = aggregate.argument, replace(aggregate, argument=None).function.upper()
    if it.type.numeric:
        hint = f"clamp it in the query to bounds of your own, such as least(greatest({it}, 0), 1000), or ask the"
        return refuse(
            f"{name} of {it} needs bounds, and none are known",
            it.span,
            kind=UnboundedColumn,
            hint=f"{hint} steward to declare min and max for the column in the policy",
            reason="bounds",
        )
    what = "min and max" if it.type.temporal else "values"
    return refuse(
        f"{name} of {it} needs a column whose values the policy declares",
        it.span,
        kind=UnboundedColumn,
        hint=f"ask the steward to declare {what} for the column in the policy, or GROUP BY it and count",
        reason="bounds",
    )


def no_single_values(aggregate: Aggregate) -> Error:
    """The refusal of a MODE over a continuum."""
    assert aggregate.argument is not None
    return refuse(
        f"MODE of {aggregate.argument} needs a list of possible values, not a range",
        aggregate.argument.span,
        hint=f"round it to whole numbers in narrow bounds: mode(CAST(round({aggregate.argument}) AS INTEGER))",
        reason="bounds",
    )
