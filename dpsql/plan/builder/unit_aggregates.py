"""Aggregates over the rows of one unit, written with those that have a rule of their own.

Within a unit any function of its rows is harmless as long as the rows alone decide it: not their order, and not the
order in which an engine adds floats. So each aggregate here becomes COUNT, SUM, AVG, MIN and MAX, which are exact, of
expressions over the row and over windows inside the group, whose order the rows decide (`dpsql.plan.nodes.windows`).

**Theorem.** The rewritten aggregate is a function of the group's rows as a bag, and equals DuckDB's wherever DuckDB's
is one. **Proof.** It is an expression over aggregates and windows, each of which is such a function. ARG_MIN, FIRST and
their kin take the value of the first row in an order that ties settle by the value itself; a quantile takes the values
at the places that DuckDB computes; MODE takes the most frequent value, of several the least; ANY_VALUE is the least
value. A variance is the mean square about the mean, both sums on the grid that sums of a unit have.
**Requires** that the partition of each window is the group. **Checked by**
`tests/properties/test_unit_aggregates.py`, which compares each with DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp, parse_one

from dpsql.expressions.from_syntax import convert
from dpsql.expressions.types import Kind
from dpsql.plan.builder.clauses import keep_title
from dpsql.plan.builder.moments import PAIRS, SPREADS
from dpsql.plan.builder.name_scope import Scope, computed, outermost
from dpsql.plan.nodes.relation import unused_name
from dpsql.plan.nodes.windows import WindowCall, windowed
from dpsql.policy.identifiers import fold
from dpsql.sql.span import refuse

AsCall = Callable[[exp.Expr, Scope], WindowCall]

_ALL = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
_NAMED = {"every": "bool_and", "arbitrary": "any_value", "arg_min_null": "arg_min_null", "arg_max_null": "arg_max_null",
          "geomean": "geomean", "geometric_mean": "geomean", "favg": "avg", "mean": "avg", "fsum": "sum",
          "kahan_sum": "sum", "sumkahan": "sum"}  # fmt: skip
_PARSED: dict[type[exp.Expr], str] = {
    exp.LogicalOr: "bool_or", exp.LogicalAnd: "bool_and", exp.AnyValue: "any_value", exp.ArgMin: "arg_min",
    exp.ArgMax: "arg_max", exp.First: "first", exp.Last: "last", exp.Median: "median", exp.Mode: "mode",
    exp.PercentileCont: "quantile_cont", exp.PercentileDisc: "quantile_disc", exp.Quantile: "quantile_disc",
}  # fmt: skip
_LENGTHS = (exp.Length, exp.ArraySize)


def with_unit_aggregates(node: exp.Select, scope: Scope, as_call: AsCall) -> Scope:
    """The scope in which a SELECT's aggregates are those that have a rule of their own."""
    for clause in (*node.expressions, *(node.args[c] for c in ("having", "qualify") if node.args.get(c) is not None)):
        for call in _calls(clause):
            made = _written(call, scope)
            if made is not None:
                keep_title(call)
                scope = _put(call, made, scope, as_call)
    return scope


def in_window(window: exp.Expr, scope: Scope, as_call: AsCall) -> tuple[exp.Expr, Scope] | None:
    """A window function whose aggregate has no rule of its own, written with those that do."""
    made = _written(window.this, scope)
    if made is None:
        return None
    inner = list(made.find_all(exp.Window))
    if inner and any(window.args.get(part) is not None for part in ("order", "spec", "alias")):
        return None
    for each in inner:
        each.set("partition_by", [*each.args.get("partition_by", []), *(e.copy() for e in window.args["partition_by"])])
    holder = exp.Paren(this=made)
    scope = _place(holder, scope, as_call)
    for aggregate in outermost(holder, (exp.AggFunc, exp.Filter)):
        over = window.copy()
        aggregate.replace(over)
        over.set("this", aggregate)
    return holder, scope


def _calls(clause: exp.Expr) -> list[exp.Expr]:
    """The outermost aggregates of a clause that are no window functions, in their FILTER or the length around them."""
    kinds = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.AggFunc, exp.Anonymous, exp.Window, *_LENGTHS)
    found: list[exp.Expr] = []
    for call in outermost(clause, kinds):
        if isinstance(call, exp.Window):
            continue
        known = _name(_bare(call)[0]) is not None or _is_length(call)
        found += [call] if known or isinstance(call, exp.AggFunc | exp.Filter) else _below(call)
    return found


def _below(call: exp.Expr) -> list[exp.Expr]:
    return [found for child in call.iter_expressions() for found in _calls(child)]


def _bare(node: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """A call and the condition of its FILTER."""
    where = None
    while isinstance(node, exp.Filter | exp.IgnoreNulls):
        where = node.expression.this if isinstance(node, exp.Filter) else where
        node = node.this
    return node, where


def _name(call: exp.Expr) -> str | None:
    if isinstance(call, exp.Anonymous):
        return _NAMED.get(call.name.lower())
    if isinstance(call, exp.WithinGroup):
        return _name(call.this)
    return _PARSED.get(type(call)) or SPREADS.get(type(call)) or PAIRS.get(type(call))


def _is_length(node: exp.Expr) -> bool:
    return isinstance(node, _LENGTHS) and isinstance(_bare(node.this)[0], exp.ArrayAgg)


def _put(call: exp.Expr, made: exp.Expr, scope: Scope, as_call: AsCall) -> Scope:
    holder = exp.Paren(this=made)
    holder.meta.update(call.meta)
    call.replace(holder)
    return _place(holder, scope, as_call)


def _place(holder: exp.Expr, scope: Scope, as_call: AsCall) -> Scope:
    """Windows become columns, the innermost first."""
    while windows := [
        w for w in holder.find_all(exp.Window) if not any(c.find(exp.Window) for c in w.iter_expressions())
    ]:
        taken = {fold(f.name) for f in scope.relation.fields}
        calls: dict[WindowCall, str] = {}
        for window in windows:
            over = as_call(window, scope)
            name = calls.setdefault(over, unused_name("w", taken)) if over not in calls else calls[over]
            window.replace(computed(name, window))
        scope = replace(scope, relation=windowed(scope.relation, [(name, over) for over, name in calls.items()]))
    return scope


# what each is written as ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Text:
    """A text over operands: each stands in it under a name, so that nothing of it is lost, and is put back later."""

    operands: dict[str, exp.Expr] = field(default_factory=dict)

    def name(self, node: exp.Expr) -> str:
        name = f"_operand{len(self.operands)}"
        self.operands[name] = node
        return f'"{name}"'

    def parsed(self, text: str) -> exp.Expr:
        holder = exp.Paren(this=parse_one(text, dialect="duckdb"))
        for column in list(holder.find_all(exp.Column)):
            column.replace(exp.Paren(this=self.operands[column.name].copy()))
        return holder


def _written(node: exp.Expr, scope: Scope) -> exp.Expr | None:
    """The aggregate as an expression over others; None if it has a rule of its own, or none at all."""
    text = _Text()
    if _is_length(node):
        listed, where = _bare(node.this)
        if isinstance(listed.this, exp.Distinct):
            return None
        return text.parsed("count(*)" if where is None else f"nullif(count(*) FILTER (WHERE {text.name(where)}), 0)")
    call, where = _bare(node)
    name = _name(call)
    if name is None:
        return None
    operands, order = _operands(call)
    if not operands or any(isinstance(each, exp.Distinct | exp.Star) for each in operands):
        return None
    if (name in ("first", "last")) != bool(order) and not isinstance(call, exp.WithinGroup):
        return None
    values = [text.name(each if where is None else _where(where, each)) for each in operands]
    if name in ("first", "last"):
        return text.parsed(_first(text, values[0], order, where, reverse=name == "last"))
    if name.startswith("quantile") or name == "median":
        quantile = _quantile(name, call, operands[0], values[0], order, scope)
        return None if quantile is None else text.parsed(quantile)
    if name not in _TEXTS or len(values) != _ARGUMENTS.get(name, 1):
        return None
    return text.parsed(_TEXTS[name](*values))


def _operands(call: exp.Expr) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """The operands of a call, and its ORDER BY."""
    if isinstance(call, exp.WithinGroup):
        order = call.expression.expressions
        return [order[0].this], list(order)
    if isinstance(call, exp.Anonymous):
        return list(call.expressions), []
    first = call.this
    order = list(first.expressions) if isinstance(first, exp.Order) else []
    first = first.this if isinstance(first, exp.Order) else first
    second = (
        [] if type(call) in _PARSED and not isinstance(call, exp.ArgMin | exp.ArgMax) else [call.args.get("expression")]
    )
    more = [] if call.args.get("count") is None else [exp.Star()]
    return [first, *(each for each in second if each is not None), *more], order


def _where(where: exp.Expr, value: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=where.copy(), true=value.copy())])


def _extreme(x: str, y: str, way: str, *, nulls: bool = False) -> str:
    """The value of x where y is least or greatest; rows without y do not count, nor without x unless `nulls`."""
    lacks = f"{y} IS NULL" if nulls else f"{x} IS NULL OR {y} IS NULL"
    order = f"CASE WHEN {lacks} THEN 1 ELSE 0 END, {y} {way} NULLS LAST, {x} NULLS LAST"
    return f"min(first_value(CASE WHEN {y} IS NOT NULL THEN {x} END) OVER (ORDER BY {order} {_ALL}))"


def _first(text: _Text, x: str, order: Sequence[exp.Expr], where: exp.Expr | None, *, reverse: bool) -> str:
    """The value of the first row in an order, or of the last one: of the first in the opposite order."""
    keys = [] if where is None else [f"CASE WHEN {text.name(where)} THEN 0 ELSE 1 END"]
    for each in order:
        down, first = bool(each.args.get("desc")) != reverse, bool(each.args.get("nulls_first")) != reverse
        keys.append(f"{text.name(each.this)} {'DESC' if down else 'ASC'} NULLS {'FIRST' if first else 'LAST'}")
    return f"min(first_value({x}) OVER (ORDER BY {', '.join(keys)}, {x} NULLS LAST {_ALL}))"


def _quantile(name: str, call: exp.Expr, operand: exp.Expr, x: str, order: list[exp.Expr], scope: Scope) -> str | None:
    """The values at the places that DuckDB computes, in double precision as it does."""
    inner = call.this if isinstance(call, exp.WithinGroup) else call
    written = (
        inner.this if isinstance(call, exp.WithinGroup) else inner.args.get("quantile", inner.args.get("expression"))
    )
    place = "0.5" if name == "median" else written.name if isinstance(written, exp.Literal) else ""
    if not place or not 0 <= float(place) <= 1:
        return None
    q = f"CAST({place} AS DOUBLE)"
    way = " DESC" if order and order[0].args.get("desc") else ""
    n, r = f"count({x}) OVER ()", f"row_number() OVER (ORDER BY {x}{way} NULLS LAST)"
    if name == "quantile_disc":
        return f"min(CASE WHEN {r} = greatest(1, {n} - floor({n} - {q} * {n})) THEN {x} END)"
    kind = convert(operand, scope).type.kind
    if kind not in (Kind.INTEGER, Kind.DOUBLE):
        raise refuse(
            f"a continuous quantile of one unit takes whole numbers or doubles, but this is {kind.value}",
            call,
            hint="use quantile_disc, or cast: median(CAST(x AS DOUBLE))",
            reason="aggregate",
        )
    at, x = f"({n} - 1) * {q}", f"CAST({x} AS DOUBLE)"
    low, high = (f"min(CASE WHEN {r} = {end}({at}) + 1 THEN {x} END)" for end in ("floor", "ceil"))
    part = f"least(greatest(max({at} - floor({at})), 0), 1)"
    between = f"({low} + {high}) / 2" if float(place) == 0.5 else f"{low} * (1 - {part}) + {high} * {part}"
    return f"CASE WHEN {low} = {high} THEN {low} ELSE {between} END"


def _mode(x: str) -> str:
    return f"min(first_value({x}) OVER (ORDER BY count({x}) OVER (PARTITION BY {x}) DESC, {x} NULLS LAST {_ALL}))"


def _products(function: str, x: str, y: str) -> str:
    """The sum or mean of the products of what two variables differ from their means."""
    return f"{function}(({x} - avg({x}) OVER ()) * ({y} - avg({y}) OVER ()))"


def _spread(x: str, *, sample: bool) -> str:
    """The variance: the mean square, which the bounds of x bound, and for a sample at most twice that."""
    n, more = f"count({x})", f" * least(count({x}) / nullif(count({x}) - 1, 0), 2)"
    return f"CASE WHEN {n} > {int(sample)} THEN greatest({_products('avg', x, x)}, 0){more if sample else ''} END"


def _within(low: int, value: str) -> str:
    """A number from `low` to 1, whatever the last bit of its floats is."""
    return f"CASE WHEN {value} IS NOT NULL THEN least(greatest({value}, {low}), 1) END"


def _pair(text: str) -> Callable[[str, str], str]:
    """A text over y and x on the rows that have both, with their number n and their sums of products."""

    def written(y: str, x: str) -> str:
        a, b = (f"(CASE WHEN {two} IS NOT NULL THEN {one} END)" for one, two in ((x, y), (y, x)))
        sums = {"xx": _products("sum", a, a), "yy": _products("sum", b, b), "xy": _products("sum", a, b)}
        sums["mean"] = _products("avg", a, b)
        return text.format(x=a, y=b, n=f"count({a})", **sums)

    return written


_TEXTS: dict[str, Callable[..., str]] = {
    "bool_or": lambda c: f"max(CAST({c} AS INTEGER)) = 1", "bool_and": lambda c: f"min(CAST({c} AS INTEGER)) = 1",
    "any_value": lambda x: f"min({x})", "mode": _mode, "geomean": lambda x: f"exp(avg(ln({x})))",
    "avg": lambda x: f"avg({x})", "sum": lambda x: f"sum({x})",
    "arg_min": lambda x, y: _extreme(x, y, "ASC"), "arg_max": lambda x, y: _extreme(x, y, "DESC"),
    "arg_min_null": lambda x, y: _extreme(x, y, "ASC", nulls=True),
    "arg_max_null": lambda x, y: _extreme(x, y, "DESC", nulls=True),
    "var_pop": lambda x: _spread(x, sample=False), "var_samp": lambda x: _spread(x, sample=True),
    "stddev_pop": lambda x: f"sqrt({_spread(x, sample=False)})",
    "stddev_samp": lambda x: f"sqrt({_spread(x, sample=True)})",
    "covar_pop": _pair("{mean}"),
    "covar_samp": _pair("CASE WHEN {n} > 1 THEN {mean} * least({n} / nullif({n} - 1, 0), 2) END"),
    "corr": _pair(_within(-1, "({xy} / nullif(sqrt({xx}) * sqrt({yy}), 0))")), "regr_count": _pair("{n}"),
    "regr_avgx": _pair("avg({x})"), "regr_avgy": _pair("avg({y})"), "regr_sxx": _pair("{xx}"),
    "regr_syy": _pair("{yy}"), "regr_sxy": _pair("{xy}"), "regr_slope": _pair("{xy} / nullif({xx}, 0)"),
    "regr_intercept": _pair("avg({y}) - {xy} / nullif({xx}, 0) * avg({x})"),
    "regr_r2": _pair("CASE WHEN {yy} = 0 AND {xx} > 0 THEN 1 ELSE "
                     + _within(0, "({xy} * {xy} / nullif({xx} * {yy}, 0))") + " END"),
}  # fmt: skip
_ARGUMENTS = dict.fromkeys((*PAIRS.values(), "arg_min", "arg_max", "arg_min_null", "arg_max_null"), 2)
