"""SUM(x + 1), SUM(2 * x), AVG(x - 3): arithmetic on the sum and the count of one x, where several of them are
requested.

SUM(a·x + b) is a·SUM(x) + b·COUNT(x), and AVG(a·x + b) is a·AVG(x) + b, for constants a and b: a row without x adds
nothing to either side, and clamping a·x + b to what the bounds of x leave of it is clamping x. So any number of them
needs two statistics. One alone stays as it is: it needs one.

RR_COUNT: how many rows truly have a value, where the stored answers were randomised at the source.

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

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

from sqlglot import exp

from dpsql.errors import Error, ParseError
from dpsql.expressions.expression import Column
from dpsql.expressions.from_syntax import convert
from dpsql.expressions.types import Kind
from dpsql.mechanisms import RandomizedResponse
from dpsql.plan.builder.name_scope import Scope
from dpsql.plan.nodes.relation import Field
from dpsql.sql.parse import RR_COUNT
from dpsql.sql.span import refuse

_PLAIN = re.compile(r"\d{1,9}(\.\d{1,6})?")
_CLAUSES = ("expressions", "having", "qualify", "order")


@dataclass(frozen=True, slots=True)
class LinearAggregate:
    """`factor`·base + `offset`, over the rows where `where` holds."""

    base: exp.Expr
    where: exp.Expr | None
    factor: Fraction
    offset: Fraction

    @property
    def key(self) -> tuple[str, str]:
        """What it shares with other forms of the same base."""
        return self.base.sql("duckdb"), "" if self.where is None else self.where.sql("duckdb")


def several_forms(node: exp.Select, scope: Scope) -> frozenset[tuple[str, str]]:
    """The bases of which the SELECT asks for several forms, none of which is rounded."""
    forms = defaultdict[tuple[str, str], set[tuple[Fraction, Fraction]]](set)
    for aggregate in _aggregates(node):
        form = form_of(aggregate)
        if form is not None and _exact(form, scope):
            forms[form.key].add((form.factor, form.offset))
    return frozenset(key for key, found in forms.items() if len(found) > 1)


def over_base(node: exp.Expr, bases: frozenset[tuple[str, str]]) -> exp.Expr | None:
    """A SUM or AVG as arithmetic on those of its base; None if it is one of them, or of another base."""
    form = form_of(node)
    if form is None or form.key not in bases or (form.factor == 1 and form.offset == 0):
        return None
    call = node.this if isinstance(node, exp.Filter) else node
    scaled = exp.Mul(this=_number(form.factor), expression=_filtered(type(call)(this=form.base.copy()), form.where))
    if not form.offset:
        return exp.Paren(this=scaled)
    offset = _number(form.offset)
    if isinstance(call, exp.Sum):
        offset = exp.Mul(this=offset, expression=_filtered(exp.Count(this=form.base.copy()), form.where))
    return exp.Paren(this=exp.Add(this=scaled, expression=offset))


def form_of(node: exp.Expr) -> LinearAggregate | None:
    """The linear form of a SUM or AVG; None for anything else."""
    where, call = (node.expression.this, node.this) if isinstance(node, exp.Filter) else (None, node)
    if not isinstance(call, exp.Sum | exp.Avg) or isinstance(call.this, exp.Distinct) or call.expressions:
        return None
    base, factor, offset = _split(call.this)
    return LinearAggregate(base, where, factor, offset) if factor and base.find(exp.Column) is not None else None


def _aggregates(node: exp.Select) -> Iterator[exp.Expr]:
    for clause in _CLAUSES:
        made = node.args.get(clause) or ()
        for part in made if isinstance(made, list) else [made]:
            for each in part.walk(prune=lambda n: isinstance(n, exp.Query | exp.Window)) if part else ():
                if isinstance(each, exp.Filter) or not isinstance(each.parent, exp.Filter):
                    yield each


def _split(node: exp.Expr) -> tuple[exp.Expr, Fraction, Fraction]:
    """An expression as factor·base + offset; the base of a constant is itself, with the factor 0."""
    constant = _constant(node)
    if constant is not None:
        return node, Fraction(0), constant
    if isinstance(node, exp.Paren):
        return _split(node.this)
    if isinstance(node, exp.Neg):
        base, factor, offset = _split(node.this)
        return base, -factor, -offset
    if isinstance(node, exp.Add | exp.Sub | exp.Mul):
        one, two = _constant(node.this), _constant(node.expression)
        sign = -1 if isinstance(node, exp.Sub) else 1
        if two is not None:
            base, factor, offset = _split(node.this)
            return (
                (base, factor * two, offset * two) if isinstance(node, exp.Mul) else (base, factor, offset + sign * two)
            )
        if one is not None:
            base, factor, offset = _split(node.expression)
            return (
                (base, factor * one, offset * one)
                if isinstance(node, exp.Mul)
                else (base, sign * factor, one + sign * offset)
            )
    return node, Fraction(1), Fraction(0)


def _constant(node: exp.Expr) -> Fraction | None:
    if isinstance(node, exp.Paren | exp.Neg):
        inside = _constant(node.this)
        return inside if inside is None or isinstance(node, exp.Paren) else -inside
    if isinstance(node, exp.Literal) and not node.is_string and _PLAIN.fullmatch(node.this):
        return Fraction(node.this)
    return None


def _exact(form: LinearAggregate, scope: Scope) -> bool:
    """Whole numbers with whole constants, and doubles: sums of other types would get another type."""
    try:
        kind = convert(form.base, scope).type.kind
    except Error:
        return False
    whole = form.factor.denominator == form.offset.denominator == 1
    return kind is Kind.DOUBLE or (kind is Kind.INTEGER and whole)


def _filtered(call: exp.Expr, where: exp.Expr | None) -> exp.Expr:
    return call if where is None else exp.Filter(this=call, expression=exp.Where(this=where.copy()))


def _number(value: Fraction) -> exp.Expr:
    text = str(value) if value.denominator == 1 else repr(float(value))
    made = exp.Literal.number(text.removeprefix("-"))
    return exp.Paren(this=exp.Neg(this=made)) if value < 0 else made


# RR_COUNT -------------------------------------------------------------------------------------------------------------


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
