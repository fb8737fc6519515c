"""Expressions over one released row as what they are in the noisy statistics: linear forms, or quotients of two.

Those have exact error bars (`dpsql.release.intervals`); everything else is resampled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

from sqlglot import exp

from dpsql.budget.pricing import Priced
from dpsql.release.estimate import argument
from dpsql.sensitivity.statistics import Source


@dataclass(frozen=True, slots=True)
class Form:
    """A constant plus weighted statistics, each in its own unit; `nonnegative` where no data can make it negative."""

    constant: float
    weights: Mapping[int, float]
    nonnegative: bool = False

    def plus(self, other: Form, times: float = 1.0) -> Form:
        """The sum with `times` the other."""
        names = {**self.weights, **other.weights}
        weights = {i: self.weights.get(i, 0.0) + times * other.weights.get(i, 0.0) for i in names}
        nonnegative = self.nonnegative and (times == 0 or (times > 0 and other.nonnegative))
        return Form(self.constant + times * other.constant, weights, nonnegative)


@dataclass(frozen=True, slots=True)
class Quotient:
    """`shift + factor · numerator / denominator`, known to lie in [lower, upper]."""

    shift: float
    factor: float
    numerator: Form
    denominator: Form
    lower: float = -inf
    upper: float = inf

    def scaled(self, times: float) -> Quotient:
        """`times` the quotient."""
        ends = sorted((self.lower * times, self.upper * times)) if times else [0.0, 0.0]
        return replace(self, shift=self.shift * times, factor=self.factor * times, lower=ends[0], upper=ends[1])

    def shifted(self, by: float) -> Quotient:
        """The quotient plus a constant."""
        return replace(self, shift=self.shift + by, lower=self.lower + by, upper=self.upper + by)


Known = Form | Quotient


def aggregate_form(priced: Priced, index: int) -> Known:
    """An aggregate of a release in its statistics. Counts are never negative, nor are sums of what is not."""
    source, function = priced.bounded.sources[index], priced.bounded.release.aggregates[index].function
    made = source_form(priced, source, function)
    positive = function == "count" or argument(priced, source).lower >= 0
    return replace(made, nonnegative=positive) if isinstance(made, Form) else made


def source_form(priced: Priced, source: Source, function: str) -> Known:
    """COUNT, SUM or AVG in the statistics of a source."""
    if source.form in ("count", "units", "distinct", "sum"):
        return Form(0.0, {source.first: 1.0})
    one, two = Form(0.0, {source.first: 1.0}), Form(0.0, {source.first + 1: 1.0})
    if source.form == "nested":
        return one.plus(two)
    return (
        _pair(priced, source, function, one, two)
        if source.form == "pair"
        else _centred(priced, source, function, one, two)
    )


def _pair(priced: Priced, source: Source, function: str, one: Form, two: Form) -> Known:
    it = argument(priced, source)
    low, width = float(it.lower * it.grid), float(it.width * it.grid)
    if function == "avg":
        return Quotient(low, width, one, one.plus(two), low, float(it.upper * it.grid))
    count = Form(0.0, {source.first: 1 / width, source.first + 1: 1 / width})
    return count if function == "count" else one.plus(count, low)


def _centred(priced: Priced, source: Source, function: str, one: Form, two: Form) -> Known:
    it = argument(priced, source)
    if function == "avg":
        return Quotient(it.middle, 1.0, two, one, float(it.lower * it.grid), float(it.upper * it.grid))
    return one if function == "count" else two.plus(one, it.middle)


def form_of(node: exp.Expr, priced: Priced) -> Known | None:
    """What an expression over `_a0, _a1, …` is; None if it is neither linear nor a quotient of linear forms."""
    match node:
        case exp.Column() if node.name.startswith("_a"):
            index = int(node.name[2:])
            return None if priced.bounded.sources[index].chosen else aggregate_form(priced, index)
        case exp.Literal() if not node.is_string:
            return Form(float(node.name), {}, nonnegative=True)
        case exp.Paren():
            return form_of(node.this, priced)
        case exp.Cast() if node.to.this in (exp.DType.DOUBLE, exp.DType.FLOAT):
            return form_of(node.this, priced)
        case exp.Nullif() if isinstance(node.expression, exp.Literal) and node.expression.name in ("0", "0.0"):
            return form_of(node.this, priced)
        case exp.Neg():
            return _times(form_of(node.this, priced), -1.0)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            one, two = form_of(node.this, priced), form_of(node.expression, priced)
            return None if one is None or two is None else _binary(node, one, two)
    return None


def _binary(node: exp.Expr, one: Known, two: Known) -> Known | None:
    match node:
        case exp.Add():
            return _sum(one, two)
        case exp.Sub():
            minus = _times(two, -1.0)
            return None if minus is None else _sum(one, minus)
        case exp.Mul():
            return _times(one, _constant(two)) or _times(two, _constant(one))
    divisor = _constant(two)
    if divisor is not None:
        return _times(one, 1 / divisor) if divisor else None
    if not (isinstance(one, Form) and isinstance(two, Form)):
        return None
    return Quotient(0.0, 1.0, one, two, 0.0 if one.nonnegative and two.nonnegative else -inf)


def _constant(known: Known) -> float | None:
    return known.constant if isinstance(known, Form) and not any(known.weights.values()) else None


def _sum(one: Known, two: Known) -> Known | None:
    if isinstance(one, Form) and isinstance(two, Form):
        return one.plus(two)
    for quotient, other in ((one, two), (two, one)):
        constant = _constant(other)
        if isinstance(quotient, Quotient) and constant is not None:
            return quotient.shifted(constant)
    return None


def _times(known: Known | None, times: float | None) -> Known | None:
    if known is None or times is None:
        return None
    if isinstance(known, Quotient):
        return known.scaled(times)
    return Form(0.0, {}, nonnegative=True).plus(known, times)
