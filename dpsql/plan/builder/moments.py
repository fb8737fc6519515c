"""VARIANCE, SKEWNESS, CORR and REGR_* as arithmetic on a count and sums of scaled values; BOOL_OR and BOOL_AND.

With y = (x − middle) / (half width) of the argument's inferred bounds, y and 2y²−1 lie in [−1, 1], so each sum has
the least sensitivity that the bounds allow. Where a search has found around where the values lie, that is the middle,
how far around the half width, and y² is added up: most of it is then around 1. Everything else is post-processing of
those sums, with error bars like those of any other expression above the aggregate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp, parse_one

from dpsql.bounds import infer
from dpsql.expressions.from_syntax import convert
from dpsql.expressions.types import Kind
from dpsql.plan.builder.name_scope import Scope
from dpsql.plan.nodes.relation import unbounded
from dpsql.plan.typical_ranges import typical_range
from dpsql.sql.span import name_of, refuse

SPREADS: dict[type[exp.Expr], str] = {
    exp.Variance: "var_samp", exp.VariancePop: "var_pop",
    exp.Stddev: "stddev_samp", exp.StddevSamp: "stddev_samp", exp.StddevPop: "stddev_pop",
    exp.Skewness: "skewness",
}  # fmt: skip
PAIRS: dict[type[exp.Expr], str] = {
    exp.CovarPop: "covar_pop", exp.CovarSamp: "covar_samp", exp.Corr: "corr",
    exp.RegrSlope: "regr_slope", exp.RegrIntercept: "regr_intercept", exp.RegrR2: "regr_r2",
    exp.RegrCount: "regr_count", exp.RegrAvgx: "regr_avgx", exp.RegrAvgy: "regr_avgy",
    exp.RegrSxx: "regr_sxx", exp.RegrSxy: "regr_sxy", exp.RegrSyy: "regr_syy",
}  # fmt: skip
WIDEST = 10**150
"""Bounds whose products still fit into doubles."""


@dataclass(frozen=True, slots=True)
class _Variable:
    """An argument in SQL, and its centred and scaled form; `n` counts the rows that have it.

    Of two variables each is there where the other is, so that both are counted by the same argument, `like`.
    """

    sql: str
    centre: float
    half: float
    usual: bool = False
    like: str | None = None

    @property
    def count(self) -> str:
        return f"count({self.like or self.sql})"

    @property
    def n(self) -> str:
        return f"nullif(greatest({self.count}, 0), 0)"

    @property
    def scaled(self) -> str:
        return f"(({self.sql} - {_number(self.centre)}) / {_number(self.half)})"

    @property
    def mean(self) -> str:
        """The mean of the scaled form."""
        return f"(sum({self.scaled}) / {self.n})"

    @property
    def mean_square(self) -> str:
        """The mean of the squares of the scaled form."""
        if self.usual:
            return f"{self.sum_of(f'{self.scaled} * {self.scaled}')} / {self.n}"
        inside = f"least(greatest(2 * {self.scaled} * {self.scaled} - 1, -1), 1)"
        return f"({self.sum_of(inside)} / {self.n} + 1) / 2"

    @property
    def spread(self) -> str:
        """The population variance of the scaled form, which noise must not make negative."""
        return f"greatest({self.mean_square} - {self.mean} * {self.mean}, 0)"

    @property
    def variance(self) -> str:
        """The population variance."""
        return f"({_number(self.half**2)} * {self.spread})"

    def sum_of(self, expression: str) -> str:
        """The sum of an expression over the rows that have a number; LEAST and GREATEST would make one of NaN."""
        return f"sum(CASE WHEN NOT isnan({self.sql}) THEN {expression} END)"


def composed(node: exp.Expr, scope: Scope) -> exp.Expr | None:
    """The aggregate as an expression over COUNT and SUM; None if it is not one of these."""
    where, call = (node.expression.this, node.this) if isinstance(node, exp.Filter) else (None, node)
    if type(call) in SPREADS:
        text = _spread(SPREADS[type(call)], _variable(call.this, where, call, scope))
    elif type(call) in PAIRS:
        one, two = (
            _variable(a, _both(where, b, scope), call, scope)
            for a, b in ((call.this, call.expression), (call.expression, call.this))
        )
        like = min(one.sql, two.sql, key=lambda sql: (len(sql), sql))
        text = _pair(PAIRS[type(call)], replace(one, like=like), replace(two, like=like))
    elif isinstance(call, exp.LogicalOr | exp.LogicalAnd):
        text = _any(call.this, where, every=isinstance(call, exp.LogicalAnd))
    else:
        return None
    return parse_one(f"({text})", dialect="duckdb")


def _any(condition: exp.Expr, where: exp.Expr | None, *, every: bool) -> str:
    """BOOL_OR: are there, with 95% confidence, rows for which it is true? BOOL_AND: are there none for which it is not?

    One row more or less is what privacy hides, so a handful of rows cannot decide.
    """
    wanted = exp.Not(this=exp.Paren(this=condition.copy())) if every else condition.copy()
    counted = exp.Case(
        ifs=[exp.If(this=wanted if where is None else exp.and_(where.copy(), wanted), true=exp.Literal.number(1))]
    )
    found = f"dp_low(count({counted.sql('duckdb')})) > 0"
    return f"NOT ({found})" if every else found


def _both(where: exp.Expr | None, other: exp.Expr, scope: Scope) -> exp.Expr | None:
    """A row counts where the other argument has a value: neither NULL nor NaN. Some have one in every row."""
    domain = infer(convert(other, scope), scope.relation.row_domains())
    if not (domain.nullable or domain.nan):
        return where
    there = exp.Not(this=exp.IsNan(this=other.copy()))
    return there if where is None else exp.and_(where.copy(), there)


def _variable(argument: exp.Expr, where: exp.Expr | None, call: exp.Expr, scope: Scope) -> _Variable:
    if isinstance(argument, exp.Distinct) or call.expressions:
        raise refuse(
            f"DISTINCT in {name_of(call)} is not supported", call, hint="leave out DISTINCT", reason="aggregate"
        )
    if where is not None:
        argument = exp.Case(ifs=[exp.If(this=where.copy(), true=argument.copy())])
    made = convert(argument, scope)
    if made.type.kind is Kind.BOOLEAN:
        argument = exp.cast(argument.copy(), "INTEGER")
        made = convert(argument, scope)
    domain = infer(made, scope.relation.row_domains())
    if domain.lower is None or domain.upper is None:
        raise unbounded(name_of(call).lower(), made)
    if domain.lower < -WIDEST or domain.upper > WIDEST:
        raise refuse(
            f"the bounds of {made} are too wide for {name_of(call)}: its square would overflow", call,
            hint="clamp it: least(greatest(x, 0), 1000)", reason="aggregate",
        )  # fmt: skip
    usual = typical_range(made, scope.relation)
    if usual is not None and 0 < usual[1] <= WIDEST and abs(usual[0]) <= WIDEST:
        return _Variable(argument.sql("duckdb"), *usual, usual=True)
    low, high = float(domain.lower), float(domain.upper)
    return _Variable(argument.sql("duckdb"), (low + high) / 2, (high - low) / 2 or 1.0)


def _spread(name: str, it: _Variable) -> str:
    if name == "skewness":
        return _skewness(it)
    variance = it.variance
    if name.endswith("_samp"):
        variance = f"({variance} * {_corrected(it)})"
    return f"sqrt({variance})" if name.startswith("stddev") else variance


def _skewness(it: _Variable) -> str:
    """The third central moment in standard deviations, corrected for the sample; NULL for fewer than three rows."""
    mean, spread = it.mean, f"nullif({it.spread}, 0)"
    cube = f"{it.sum_of(' * '.join([it.scaled] * 3))} / {it.n}"
    third = f"({cube} - 3 * {mean} * ({it.mean_square}) + 2 * {mean} * {mean} * {mean})"
    correction = f"(sqrt(greatest({it.n} * ({it.n} - 1), 0)) / nullif(greatest({it.n} - 2, 0), 0))"
    return f"({correction} * {third} / ({spread} * sqrt({spread})))"


def _corrected(it: _Variable) -> str:
    """N / (n − 1): NULL for a single row."""
    return f"({it.count} / nullif(greatest({it.count} - 1, 0), 0))"


def _covariance(one: _Variable, two: _Variable) -> str:
    product = f"sum({one.scaled} * {two.scaled}) / {one.n}"
    return f"({_number(one.half * two.half)} * ({product} - {one.mean} * {two.mean}))"


def _pair(name: str, y: _Variable, x: _Variable) -> str:
    """The function of two variables; as in SQL the dependent one, y, comes first."""
    covariance, n = _covariance(y, x), x.count
    slope = f"({covariance} / nullif({x.variance}, 0))"
    correlation = f"least(greatest({covariance} / nullif(sqrt({x.variance} * {y.variance}), 0), -1), 1)"
    mean = {v: f"({_number(v.centre)} + {_number(v.half)} * {v.mean})" for v in (x, y)}
    match name:
        case "covar_pop":
            return covariance
        case "covar_samp":
            return f"{covariance} * {_corrected(x)}"
        case "corr":
            return correlation
        case "regr_r2":
            return f"CASE WHEN {y.variance} = 0 AND {x.variance} > 0 THEN 1 ELSE power({correlation}, 2) END"
        case "regr_slope":
            return slope
        case "regr_intercept":
            return f"{mean[y]} - {slope} * {mean[x]}"
        case "regr_count":
            return n
        case "regr_avgx":
            return mean[x]
        case "regr_avgy":
            return mean[y]
        case "regr_sxx":
            return f"{n} * {x.variance}"
        case "regr_syy":
            return f"{n} * {y.variance}"
    return f"{n} * {covariance}"


def _number(value: float) -> str:
    return f"({value:.17e})"
