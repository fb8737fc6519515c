"""Window functions below the aggregate, read off the syntax tree: those that stay inside one unit's rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from dpsql.errors import Error, ParseError
from dpsql.expressions.expression import Expression
from dpsql.expressions.from_syntax import convert
from dpsql.expressions.types import Kind
from dpsql.expressions.typing import Mismatch, common
from dpsql.plan.builder.clauses import entitled, title_of
from dpsql.plan.builder.group_by import to_aggregate
from dpsql.plan.builder.name_scope import Scope, computed, outermost
from dpsql.plan.builder.unit_aggregates import in_window
from dpsql.plan.nodes.relation import Relation, unused_name
from dpsql.plan.nodes.windows import WHOLE, Frame, Ordering, WindowCall, windowed
from dpsql.policy.identifiers import fold
from dpsql.sql.span import name_of, refuse

MOST_NUMBER = 1_000_000
_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.RowNumber: "row_number", exp.Rank: "rank", exp.DenseRank: "dense_rank", exp.PercentRank: "percent_rank",
    exp.CumeDist: "cume_dist", exp.Ntile: "ntile", exp.Lag: "lag", exp.Lead: "lead", exp.FirstValue: "first_value",
    exp.LastValue: "last_value", exp.NthValue: "nth_value",
}  # fmt: skip
_CLAUSES = {"this", "partition_by", "order", "spec", "alias", "over"}
_WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


def with_windows(node: exp.Select, scope: Scope) -> Relation:
    """The rows of a SELECT with its window functions as further columns, which take their places in the tree."""
    named = {fold(w.name): w for w in node.args.get("windows") or ()}
    entitled(node)
    for clause in (*node.expressions, node.args.get("qualify")):
        for window in outermost(clause, exp.Window) if clause is not None else ():
            if (written := in_window(window, scope, lambda each, now: _over(each, named, now))) is not None:
                window.replace(written[0])
                scope = written[1]
    relation, taken = scope.relation, {fold(f.name) for f in scope.relation.fields}
    made: dict[WindowCall, str] = {}
    for clause in (*node.expressions, node.args.get("qualify")):
        for window in outermost(clause, exp.Window) if clause is not None else ():
            over = _over(window, named, scope)
            name = made[over] if over in made else unused_name(title_of(window), taken)
            made[over] = name
            window.replace(computed(name, window))
    return windowed(relation, [(name, over) for over, name in made.items()]) if made else relation


def _over(node: exp.Expr, named: Mapping[str, exp.Expr], scope: Scope) -> WindowCall:
    """One window function; its window may build upon a named one."""
    relation = scope.relation
    extra = [part for part, value in node.args.items() if value and part not in _CLAUSES]
    if extra:
        raise refuse(f"{extra[0].upper()} in a window is not supported", node, hint="leave it out", reason="window")
    if relation.by_row:
        raise refuse(
            "a window function over rows that are units of their own would mix rows of different people",
            node,
            hint="use it above the aggregate: SELECT key, sum(count(*)) OVER () FROM … GROUP BY key",
            reason="window",
        )
    partition_by, order_by, spec = _parts(node, named, node)
    partition = tuple(convert(e, scope) for e in partition_by or ())
    if not any(relation.owner_of(e) is not None for e in partition):
        raise _global(node, relation)
    order = tuple(_ordering(o, scope) for o in (order_by.expressions if order_by is not None else ()))
    return _function(node, partition, order, _frame(spec, order, node), scope)


def within_group(keys: Sequence[Expression]) -> Callable[[exp.Expr, Scope], WindowCall]:
    """Windows inside the groups of a SELECT with the unit among its keys: those are part of every PARTITION BY."""

    def call(node: exp.Expr, scope: Scope) -> WindowCall:
        own = tuple(convert(e, scope) for e in node.args.get("partition_by") or ())
        by, spec = node.args.get("order"), node.args.get("spec")
        order = tuple(_ordering(o, scope) for o in (by.expressions if by is not None else ()))
        return _function(node, (*keys, *own), order, _frame(spec, order, node), scope)

    return call


def _parts(node: exp.Expr, named: Mapping[str, exp.Expr], use: exp.Expr) -> tuple[Any, Any, Any]:
    """PARTITION BY, ORDER BY and frame of a window, with those of the named window that it builds upon."""
    own = node.args.get("partition_by"), node.args.get("order"), node.args.get("spec")
    base = node.args.get("alias")
    if base is None:
        return own
    found = named.get(fold(base.name))
    if found is None:
        raise refuse(
            f"there is no window {base.name}",
            use,
            kind=ParseError,
            hint="WINDOW w AS (PARTITION BY …)",
            reason="window",
        )
    rest = {name: window for name, window in named.items() if window is not found}
    one, two, three = (mine or its for mine, its in zip(own, _parts(found, rest, use), strict=True))
    return one, two, three


def _global(node: exp.Expr, relation: Relation) -> Error:
    unit = next((f.name for f in relation.fields if f.unit), None)
    return refuse(
        "this window could mix rows of different people: below the aggregate PARTITION BY must contain the unit",
        node,
        hint=f"add {unit} to PARTITION BY, or use the window above the aggregate"
        if unit is not None
        else "use it above the aggregate: SELECT key, sum(count(*)) OVER () FROM … GROUP BY key",
        reason="window",
    )


def _ordering(node: exp.Expr, scope: Scope) -> Ordering:
    made = convert(node.this, scope)
    if made.type.kind is Kind.NULL:
        raise refuse("ORDER BY NULL orders nothing", node, kind=ParseError, hint="order by a column", reason="window")
    return Ordering(made, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))


def _frame(spec: object, order: Sequence[Ordering], node: exp.Expr) -> Frame:
    """The frame; without one, all rows up to the current one's peers, and without an order all rows."""
    if spec is None:
        return Frame("RANGE", None, 0) if order else WHOLE
    assert isinstance(spec, exp.Expr)
    kind, exclude = str(spec.args.get("kind") or "").upper(), spec.args.get("exclude")
    if kind not in ("ROWS", "RANGE") or exclude:
        raise refuse(
            f"{'EXCLUDE' if exclude else kind} in a window is not supported below the aggregate",
            node,
            hint="count rows: ROWS BETWEEN 3 PRECEDING AND CURRENT ROW",
            reason="window",
        )
    start = _end(spec.args.get("start"), spec.args.get("start_side"), "PRECEDING", node)
    end = _end(spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"), "FOLLOWING", node)
    if kind == "RANGE" and (start or end):
        raise refuse(
            "RANGE by values is not supported below the aggregate: adding to a value could overflow",
            node,
            hint="count rows: ROWS BETWEEN 3 PRECEDING AND CURRENT ROW",
            reason="window",
        )
    if start is not None and end is not None and start > end:
        raise refuse(
            "this frame ends before it begins",
            node,
            kind=ParseError,
            hint="write the earlier end first",
            reason="window",
        )
    if start is None and end is None:
        return WHOLE
    if not order and kind == "RANGE":
        return WHOLE
    return Frame("ROWS" if kind == "ROWS" else "RANGE", start, end)


def _end(bound: object, side: object, unbounded: str, node: exp.Expr) -> int | None:
    text = str(bound).upper() if isinstance(bound, str) else ""
    if text == "UNBOUNDED" and str(side).upper() == unbounded:
        return None
    if text == "CURRENT ROW":
        return 0
    rows = _number(bound, node, 0) if isinstance(bound, exp.Expr) else None
    if rows is None:
        raise refuse(
            "this frame is not supported", node, hint="write ROWS BETWEEN 3 PRECEDING AND CURRENT ROW", reason="window"
        )
    return -rows if str(side).upper() == "PRECEDING" else rows


def _number(node: exp.Expr | None, where: exp.Expr, least: int) -> int | None:
    """A whole number that is written out: one of a row's own could be anything."""
    if node is None:
        return None
    if not isinstance(node, exp.Literal) or node.args.get("is_string") or not node.name.isdigit():
        raise refuse(
            "a number is needed here", where, kind=ParseError, hint="write a whole number, such as 1", reason="window"
        )
    if not least <= int(node.name) <= MOST_NUMBER:
        raise refuse(
            f"a number from {least} to {MOST_NUMBER:,} is needed here",
            where,
            kind=ParseError,
            hint="write another",
            reason="window",
        )
    return int(node.name)


def _function(
    node: exp.Expr, partition: tuple[Expression, ...], order: tuple[Ordering, ...], frame: Frame, scope: Scope
) -> WindowCall:
    inner, ignore = node.this, False
    if isinstance(inner, exp.IgnoreNulls | exp.RespectNulls):
        ignore, inner = isinstance(inner, exp.IgnoreNulls), inner.this
    name = _FUNCTIONS.get(type(inner))
    if name is None:
        if ignore or not isinstance(inner, exp.AggFunc | exp.Filter):
            raise _unknown(node)
        aggregate = to_aggregate(inner, scope)
        return WindowCall(aggregate.function, aggregate, partition=partition, order=order, frame=frame)
    if any(value for part, value in inner.args.items() if part not in ("this", "offset", "default")):
        raise _unknown(node)
    frame = _checked(name, frame, node, ignore)
    number, args = _operands(name, inner, node, scope)
    if ignore and name not in ("lag", "lead", "first_value", "last_value", "nth_value"):
        raise _unknown(node)
    return WindowCall(name, None, args, number, ignore, partition, order, frame)


def _checked(name: str, frame: Frame, node: exp.Expr, ignore_nulls: bool) -> Frame:
    """The frame of a function that takes the value of one row: it must not end with peers, of which any may be last."""
    if name not in ("first_value", "last_value", "nth_value"):
        return WHOLE
    if frame.kind == "RANGE" and name == "first_value" and frame.start is None and not ignore_nulls:
        return Frame("ROWS", None, 0)
    if frame.kind == "RANGE":
        raise refuse(
            f"{name} over a frame that ends with the peers of the current row depends on the order of equal rows",
            node,
            hint=f"write the frame: {name}(x) OVER (PARTITION BY … ORDER BY … {_WHOLE})",
            reason="window",
        )
    return frame


def _operands(name: str, inner: exp.Expr, node: exp.Expr, scope: Scope) -> tuple[int | None, tuple[Expression, ...]]:
    if name == "ntile":
        return _number(inner.this, node, 1) or 1, ()
    if name not in ("lag", "lead", "first_value", "last_value", "nth_value"):
        if inner.this is not None:
            raise _unknown(node)
        return None, ()
    number = _number(inner.args.get("offset"), node, 1 if name == "nth_value" else 0)
    if name in ("lag", "lead"):
        number = 1 if number is None else number
    elif name == "nth_value" and number is None:
        raise refuse("nth_value takes a number", node, kind=ParseError, hint="write nth_value(x, 2)", reason="window")
    parts = [inner.this, *([inner.args["default"]] if inner.args.get("default") is not None else [])]
    try:
        _, args = common([convert(part, scope) for part in parts])
    except Mismatch as problem:
        raise refuse(str(problem), node, kind=ParseError, hint="give values of one kind", reason="window") from None
    return number, args


def _unknown(node: exp.Expr) -> Error:
    return refuse(
        f"the window function {name_of(node.this)} is not supported below the aggregate",
        node,
        hint="use row_number, rank, dense_rank, ntile, lag, lead, first_value, last_value, nth_value, count, sum, avg, "
        "min or max",
        reason="window",
    )
