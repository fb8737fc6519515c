"""How much of the data the bounds cut off, as releases of their own: asked for, charged and bounded like any other.

**Theorem.** Each check is the average of a 0/1 flag: over units (a relation with one row per unit, rule `single_row`),
or over the rows themselves (the rule of any aggregate without keys). **Proof.** The flag is an expression over rows
that belong to one unit, and its argument is declared here as a whole number in [0, 1], to which the emitted SQL clamps
it: so it is an aggregate like those that analysts write, and their rules bound it.
What the flag means is no matter of privacy: it is not derived from the inferred domains, under which no row is outside.
**Requires** the clamp to [0, 1] in the emitted SQL, and a charge of its own for each check (`dpsql.budget.pricing`).
**Checked by** the neighbour test, which asks for the checks of some of its queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod

from dpsql.bounds.domain import Domain
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.types import BOOLEAN, DOUBLE, integer
from dpsql.expressions.typing import call, literal
from dpsql.plan.nodes.relation import Aggregate, Item, Relation
from dpsql.plan.nodes.unary import unit_grouped
from dpsql.plan.plan import Release
from dpsql.sensitivity.bound import Bounded, with_rule
from dpsql.sensitivity.statistics import lay_out
from dpsql.sensitivity.unit_weight import Term

FLAG = Domain(0, 1, None, True, False, ("0 or 1",))
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class ClipCheck:
    """A release of one average, the share that was cut off; `what` and `effect` say so in words."""

    bounded: Bounded
    what: str
    effect: str


def checks_of(releases: Sequence[Bounded], mechanism: str) -> tuple[ClipCheck, ...]:
    """The checks of each release: its units' weights, and the clamp of each argument that is added up."""
    made = []
    for bounded in releases:
        flags = [*_unit_flags(bounded), *_row_flags(bounded)]
        for number, (source, flag, what, effect) in enumerate(flags):
            made.append(ClipCheck(_bounded(bounded.release, number, source, flag, mechanism), what, effect))
    return tuple(made)


_Flag = tuple[Relation, Expression, str, str]


def _bounded(release: Release, number: int, source: Relation, flag: Expression, mechanism: str) -> Bounded:
    shares = (Aggregate("avg", call("cast", integer(0, 1), flag)),)
    checked = replace(release, name=f"{release.name}_check{number}", source=source, keys=(), aggregates=shares, bars=())
    return with_rule(checked, (), lay_out(shares, [FLAG], mechanism), mechanism)


def _unit_flags(bounded: Bounded) -> list[_Flag]:
    """Is a unit's weight below one? Its number of groups is counted over another relation than the rest.

    No unit is in more public groups than there are, so a term on all of them needs no check.
    """
    terms, release = bounded.weight.terms if bounded.weight is not None else (), bounded.release
    public = prod(len(key.values or ()) for key in bounded.keys) if bounded.public else None
    terms = tuple(t for t in terms if t.kind != "groups" or public is None or t.cap < public)
    flags: list[_Flag] = []
    for kind in (True, False):
        mine = [term for term in terms if (term.kind == "groups") is kind]
        if mine:
            source = _pairs(release) if kind else release.source
            named = [(f"_t{i}", _total(bounded, term)) for i, term in enumerate(mine)]
            units = unit_grouped(source, [], named)
            above = [_above(bounded, term, units, name) for term, (name, _) in zip(mine, named, strict=True)]
            most = _many(mine[0].cap, "group") if kind else _many(release.source.rows_per_unit, "row")
            what = f"of the units in {release.table} were down-weighted to {most}"
            flags.append((units, reduce(_either, above), what, "so counts and sums are biased towards zero"))
    return flags


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _pairs(release: Release) -> Relation:
    return unit_grouped(release.source, [Item(k.name, k.expression) for k in release.keys], [])


def _total(bounded: Bounded, term: Term) -> Aggregate:
    """What the term limits, as an aggregate over one unit's rows."""
    if term.argument is None:
        return Aggregate("count", None)
    expression = bounded.arguments[term.argument].expression
    assert expression is not None
    others = [rest for other in term.others if (rest := bounded.arguments[other].expression) is not None]
    if others:
        expression = call("coalesce", expression.type, expression, *others)
    if term.kind == "count":
        return Aggregate("count", expression)
    real = _real(expression)
    return Aggregate("sum", real if bounded.rule == "one_group" else call("abs", DOUBLE, real))


def _above(bounded: Bounded, term: Term, units: Relation, name: str) -> Expression:
    total: Expression = Column(units.field(name).type, name=name)
    if term.kind != "sum" or term.argument is None:
        return call("gt", BOOLEAN, total, literal(term.cap))
    cap = float(term.cap * bounded.arguments[term.argument].grid) * (1 + _ROUNDING)
    return call("gt", BOOLEAN, call("abs", DOUBLE, total), literal(cap))


def _real(expression: Expression) -> Expression:
    return expression if expression.type == DOUBLE else call("cast", DOUBLE, expression)


def _either(one: Expression, two: Expression) -> Expression:
    return call("or", BOOLEAN, one, two)


def _row_flags(bounded: Bounded) -> list[_Flag]:
    """Does a row lie outside the declared bounds, to which it is clamped?"""
    summed = {s.part.argument for s in bounded.statistics if s.part.alpha}
    flags: list[_Flag] = []
    for index, it in enumerate(bounded.arguments):
        if index in summed and it.expression is not None and it.declared:
            low, high = (float(end * it.grid) for end in (it.lower, it.upper))
            real = _real(it.expression)
            ends = (call("lt", BOOLEAN, real, literal(low)), call("gt", BOOLEAN, real, literal(high)))
            what = f"of the values of {it.expression} were clamped to [{low:g}, {high:g}]"
            flags.append((bounded.release.source, _either(*ends), what, "so sums and averages are biased"))
    return flags
