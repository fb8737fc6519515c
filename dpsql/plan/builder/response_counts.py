"""RR_COUNT: how many rows truly have a value, where the stored answers were randomised at the source.

**Theorem.** With the policy's p and q (the probability of an answer v if it is true, and if it is not), (c − q·n)/(p
− q) is an unbiased estimate of the number of rows whose truth is v, c of n answers being v. It is private as any two
counts are.
**Proof.** The mean of c is p·t + q·(n − t), t the true number. c and n are ordinary counts with noise of their own,
charged as such, and the rest is arithmetic on them; what the source did to the answers protects people from us, and
the noise of the counts, with the budget, everyone from the analyst: neither takes the place of the other.
**Requires** rows that were not chosen by the randomised answer itself, by WHERE, FILTER or GROUP BY.
**Checked by** `tests/unit/session/test_randomized_columns.py`.
"""

from __future__ import annotations

from math import sqrt

from sqlglot import exp

from dpsql.errors import Error, ParseError
from dpsql.expressions.expression import Column
from dpsql.mechanisms import RandomizedResponse
from dpsql.plan.builder.name_scope import Scope
from dpsql.plan.nodes.relation import Field
from dpsql.sql.parse import RR_COUNT
from dpsql.sql.span import refuse


def response_count(node: exp.Expr, scope: Scope, keys: frozenset[str]) -> tuple[exp.Expr, str] | None:
    """The call as an expression over two counts, and what its error bars leave out; None for another aggregate.

    `keys` are the columns by which rows are grouped.
    """
    where, call = (node.expression.this, node.this) if isinstance(node, exp.Filter) else (None, node)
    if not isinstance(call, exp.AnonymousAggFunc) or call.name.lower() != RR_COUNT:
        return None
    field, response = _randomized(call, scope, keys | _columns(where, scope))
    column = call.expressions[0]
    equal: exp.Expr = exp.EQ(this=column.copy(), expression=_wanted(call, field, response))
    counted = [exp.Count(this=_case(_both(where, equal), exp.Literal.number(1)))]
    counted.append(exp.Count(this=column.copy() if where is None else _case(where.copy(), column.copy())))
    lie, factor = (exp.Literal.number(f"{number:.17e}") for number in (response.lie, response.factor))
    unbiased = exp.Sub(this=counted[0], expression=exp.Mul(this=lie, expression=counted[1]))
    return exp.Paren(this=exp.Mul(this=exp.Paren(this=unbiased), expression=factor)), _note(field, response)


def _randomized(call: exp.Expr, scope: Scope, choosing: frozenset[str]) -> tuple[Field, RandomizedResponse]:
    column = call.expressions[0] if call.expressions else None
    found = scope.find(column) if isinstance(column, exp.Column) else None
    field = scope.relation.field(found.name) if isinstance(found, Column) else None
    if field is None or field.response is None:
        listed = ", ".join(f.name for f in scope.relation.fields if f.response is not None)
        raise refuse(
            "RR_COUNT takes a column whose answers were randomised at the source, as the policy declares",
            call,
            hint=f"randomised columns: {listed}" if listed else "for a column that is stored as it is, use COUNT",
            reason="randomized",
        )
    narrowed = field.domain.values is not None and set(field.domain.values) != set(field.response.values)
    if narrowed or field.name in choosing:
        raise refuse(
            f"the rows are filtered or grouped by the randomised answer {field.name} itself, "
            "so its randomisation cannot be corrected for",
            call,
            hint=f"leave {field.name} out of WHERE, FILTER and GROUP BY, and write RR_COUNT({field.name}, <value>)",
            reason="randomized",
        )
    return field, field.response


def _columns(where: exp.Expr | None, scope: Scope) -> frozenset[str]:
    """The fields that a condition reads."""
    found = [] if where is None else [scope.find(column) for column in where.find_all(exp.Column)]
    return frozenset(each.name for each in found if isinstance(each, Column))


def _wanted(call: exp.Expr, field: Field, response: RandomizedResponse) -> exp.Expr:
    """The value whose truth is counted: the second argument, or of two values the first."""
    known = {exp.convert(value).sql("duckdb"): exp.convert(value) for value in response.values}
    if len(call.expressions) == 1 and len(known) == 2:
        return next(iter(known.values()))
    if len(call.expressions) == 2 and call.expressions[1].sql("duckdb") in known:
        return known[call.expressions[1].sql("duckdb")]
    raise _no_value(call, field, list(known))


def _no_value(call: exp.Expr, field: Field, known: list[str]) -> Error:
    return refuse(
        "RR_COUNT counts one value of the column",
        call,
        kind=ParseError,
        hint=f"write RR_COUNT({field.name}, {known[0]}); the values: {', '.join(known)}",
        reason="randomized",
    )


def _note(field: Field, response: RandomizedResponse) -> str:
    spread = max(p * (1 - p) for p in (response.truth, response.lie))
    most = "about" if len(response.values) == 2 else "at most about"
    return (
        f"RR_COUNT({field.name}) reads answers that were randomised at the source with ε = {float(response.rate):g}; "
        "their own noise is not in the error bars: "
        f"of n answers it adds {most} ± {1.96 * sqrt(spread) * response.factor:.3g}·√n (95%)"
    )


def _case(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=value)])


def _both(where: exp.Expr | None, other: exp.Expr) -> exp.Expr:
    return other if where is None else exp.and_(where.copy(), other)
