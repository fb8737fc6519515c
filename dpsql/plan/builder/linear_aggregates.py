"""SUM(x + 1), SUM(2 * x), AVG(x - 3): arithmetic on the sum and the count of one x, where several of them are
requested.

SUM(a·x + b) is a·SUM(x) + b·COUNT(x), and AVG(a·x + b) is a·AVG(x) + b, for constants a and b: a row without x adds
nothing to either side, and clamping a·x + b to what the bounds of x leave of it is clamping x. So any number of them
needs two statistics. One alone stays as it is: it needs one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from dpsql.errors import Error
from dpsql.expressions.from_syntax import convert
from dpsql.expressions.types import Kind
from dpsql.plan.builder.name_scope import Scope

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
