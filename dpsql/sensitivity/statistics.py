"""From the aggregates of a query to the fewest statistics that answer them all.

Aggregates over the same argument share statistics. Each statistic is α·Σ + β·n of two exact integers per group, the
sum Σ of the argument and the number n of rows that have one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf

from dpsql.bounds.domain import Domain
from dpsql.expressions.expression import Call, Expression, Literal
from dpsql.expressions.types import integer
from dpsql.expressions.typing import call, literal
from dpsql.plan.nodes.relation import Aggregate
from dpsql.sensitivity.argument import Argument, Usual, counted, summed
from dpsql.sensitivity.part_and_rest import PartAndRest, pairs_of

Form = OneOf["count", "sum", "pair", "centred", "units", "distinct", "nested", "choice", "tree"]


@dataclass(frozen=True, slots=True)
class Part:
    """One statistic before its claim is known: α·Σ + β·n, and the most that one row adds to it.

    `units` counts units instead, and `distinct` the different values of the argument, of which a unit adds `row`.
    `typical` is what a typical row adds, either way, as far as that is public; `rare` marks a count that may be of few
    rows, and `divides` one that only an average is divided by.
    """

    name: str
    argument: int
    alpha: int
    beta: int
    row: int
    units: bool = False
    distinct: bool = False
    typical: int = field(default=1, compare=False)
    rare: bool = field(default=False, compare=False)
    divides: bool = field(default=False, compare=False)

    @property
    def weighed(self) -> bool:
        """Is it a sum over rows, bounded by the weights of their units?"""
        return not (self.units or self.distinct)


@dataclass(frozen=True, slots=True)
class Source:
    """Where an aggregate's answer comes from: a form, and its first statistic; of a choice or a tree, its number."""

    form: Form
    first: int

    @property
    def chosen(self) -> bool:
        """Whether it is a value of a public grid, rather than a number computed from statistics."""
        return self.form in ("choice", "tree")

    @property
    def statistics(self) -> range:
        """The places of all of its statistics."""
        return range(self.first, self.first + (2 if self.form in ("pair", "centred", "nested") else 1))


@dataclass(frozen=True, slots=True)
class Layout:
    """Arguments, statistics, and the groups of statistics (`shares`) that one portion of the budget covers jointly.

    Shares that are `believed` have arguments of which it is inferred, but not enforced, that a row has one at most.
    """

    arguments: tuple[Argument, ...]
    parts: tuple[Part, ...]
    shares: tuple[tuple[int, ...], ...]
    sources: tuple[Source, ...]
    believed: tuple[tuple[int, ...], ...] = ()


def lay_out(
    aggregates: Sequence[Aggregate],
    domains: Sequence[Domain | None],
    mechanism: str,
    caps: Sequence[int | None] = (),
    usual: Sequence[Usual | None] | None = None,
) -> Layout:
    """The statistics of a release; `caps` has the most values of one unit for each COUNT(DISTINCT) of other columns.

    AVG, or SUM with COUNT of the same argument, takes the two-sided pair Σ(x−L), Σ(U−x) under Laplace noise, whose
    joint L1 sensitivity is that of one sum, and the centred sum with the count under Gaussian noise, or where vectors
    are clipped: then `usual` has around where the values of each argument lie, as far as that is known.
    """
    builder = _Layout(mechanism if usual is None else "gaussian")
    for aggregate, domain, each in zip(aggregates, domains, usual or (), strict=False):
        if aggregate.argument is not None and domain is not None and domain.bounded:
            builder.usual[aggregate.argument] = each or _around(domain)
    asked = _flags_counted([(a.function, *_subject(a, d)) for a, d in zip(aggregates, domains, strict=True)])
    whole = next((e for f, e, d in asked if f in ("sum", "avg") and d is not None and not (d.nullable or d.nan)), None)
    subjects = [
        whole if f == "count" and e is None and not a.distinct else e
        for (f, e, _), a in zip(asked, aggregates, strict=True)
    ]
    sources, limits = [], iter(caps)
    halves = _halves(builder, asked, subjects, aggregates)
    for place, ((function, _, _), subject, aggregate) in enumerate(zip(asked, subjects, aggregates, strict=True)):
        if place in halves:
            sources.append(halves[place])
            continue
        if aggregate.distinct:
            cap = next(limits)
            sources.append(builder.units() if cap is None else builder.distinct(aggregate.argument, cap))
            continue
        needs = {
            f for (f, _, _), s, a in zip(asked, subjects, aggregates, strict=True) if s == subject and not a.distinct
        }
        domain = next((d for (_, e, d) in asked if e == subject), None)
        sources.append(builder.source(function, subject, domain, needs))
    return Layout(tuple(builder.arguments), tuple(builder.parts), tuple(builder.shares), tuple(sources))


def _around(domain: Domain) -> Usual:
    """Where values may lie if only their bounds are known: around zero, unless all are far from it."""
    assert domain.lower is not None and domain.upper is not None
    low, high = float(domain.lower), float(domain.upper)
    far = abs(low + high) > 2 * (high - low)
    return ((low + high) / 2 if far else min(max(0.0, low), high)), (high - low) / 2


_Asked = tuple[str, Expression | None, Domain | None]


def _halves(
    builder: _Layout,
    asked: Sequence[_Asked],
    subjects: Sequence[Expression | None],
    aggregates: Sequence[Aggregate],
) -> dict[int, Source]:
    """Sums beside their own parts, and counts: where nothing else is asked of either argument."""
    plain = [
        (f, s) if f in ("sum", "count") and not a.distinct else ("", None)
        for (f, _, _), s, a in zip(asked, subjects, aggregates, strict=True)
    ]
    alone = [("", None) if any(s == t and f != g for g, t in plain if g) else (f, s) for f, s in plain]
    alone = [("", None) if any(a[0] == "avg" and s == a[1] for a in asked) else (f, s) for f, s in alone]
    made: dict[int, Source] = {}
    for place, (whole, both) in pairs_of(alone).items():
        function, subject = alone[whole]
        domain = next((d for _, e, d in asked if e == subject), None)
        first = builder.halves(function, subject, domain or Domain(), both)
        made[place], made[whole] = Source("count" if function == "count" else "sum", first), Source("nested", first)
    return made


def _subject(aggregate: Aggregate, domain: Domain | None) -> tuple[Expression | None, Domain | None]:
    """The argument; COUNT(x) over an x that is never NULL is COUNT(*), and of a constant under a condition it is 1."""
    if aggregate.function == "count" and (domain is None or not (domain.nullable or domain.nan)):
        return None, None
    if aggregate.function == "count" and not aggregate.distinct:
        return _one_where(aggregate.argument, (None,)) or aggregate.argument, domain
    return aggregate.argument, domain


def _one_where(argument: Expression | None, otherwise: tuple[int | None, ...]) -> Expression | None:
    """1 under the argument's condition, and NULL elsewhere, if the argument is a constant under a condition."""
    if not (isinstance(argument, Call) and argument.op == "case" and len(argument.args) == 3):
        return None
    condition, inside, other = argument.args
    constant = isinstance(inside, Literal) and inside.value is not None
    if not (constant and isinstance(other, Literal) and other.value in otherwise):
        return None
    return call("case", integer(1, 1), condition, literal(1), literal(None))


def _flags_counted(asked: list[_Asked]) -> list[_Asked]:
    """SUM(CASE WHEN c THEN 1 ELSE 0 END) is COUNT(*) FILTER (WHERE c): where both are asked, they are one statistic."""
    counts = {subject for function, subject, _ in asked if function == "count"}

    def counted(function: str, subject: Expression | None, domain: Domain | None) -> _Asked:
        one = isinstance(subject, Call) and any(isinstance(a, Literal) and a.value == 1 for a in subject.args[1:2])
        same = _one_where(subject, (None, 0)) if function == "sum" and one else None
        return ("count", same, domain) if same is not None and same in counts else (function, subject, domain)

    return [counted(*each) for each in asked]


class _Layout:
    """Collects arguments and statistics, each once."""

    def __init__(self, mechanism: str) -> None:
        self.mechanism = mechanism
        self.arguments: list[Argument] = []
        self.parts: list[Part] = []
        self.shares: list[tuple[int, ...]] = []
        self.made: dict[tuple[Expression | None, str], Source] = {}
        self.usual: dict[Expression, Usual] = {}

    def units(self) -> Source:
        """COUNT(DISTINCT unit): one for each unit that has a row in the group."""
        return self._once(
            (None, "units"), "units", counted(None, Domain()), lambda i, _: [Part("units", i, 0, 1, 1, True)]
        )

    def distinct(self, subject: Expression | None, cap: int) -> Source:
        """COUNT(DISTINCT x): one for each value that some unit keeps in the group."""
        return self._once(
            (subject, "distinct"),
            "distinct",
            counted(subject, Domain()),
            lambda i, _: [Part(f"distinct{i}", i, 0, 1, cap, distinct=True)],
        )

    def halves(self, function: str, whole: Expression | None, domain: Domain, both: PartAndRest) -> int:
        """A part and the rest on one grid, as one share; the number of the first statistic."""
        one, two = len(self.arguments), len(self.arguments) + 1
        for expression in (both.part, both.rest):
            if function == "count":
                self.arguments.append(counted(expression, domain))
            else:
                assert whole is not None
                self.arguments.append(replace(summed(whole, domain, self.usual.get(whole)), expression=expression))
        alpha, row = (0, 1) if function == "count" else (1, self.arguments[one].magnitude)
        first = len(self.parts)
        typical = self.arguments[one].typical
        self.parts.append(Part(f"part{one}", one, alpha, 1 - alpha, row, typical=typical, rare=alpha == 0))
        self.parts.append(Part(f"rest{two}", two, alpha, 1 - alpha, row, typical=typical))
        self.shares.append((first, first + 1))
        return first

    def source(self, function: str, subject: Expression | None, domain: Domain | None, needs: set[str]) -> Source:
        """The form of statistics that answers all aggregates of one argument."""
        if needs == {"count"}:
            argument = counted(subject, domain or Domain())
            return self._once((subject, "count"), "count", argument, lambda i, _: [Part(f"count{i}", i, 0, 1, 1)])
        assert subject is not None and domain is not None
        argument = summed(subject, domain, self.usual.get(subject))
        if needs == {"sum"}:
            return self._once((subject, "sum"), "sum", argument, _sum)
        if self.mechanism == "laplace" and argument.width > 0:
            return self._once((subject, "pair"), "pair", argument, _pair)
        alone = needs == {"avg"}
        return self._once((subject, "centred"), "centred", argument, lambda i, a: _centred(i, a, alone=alone))

    def _once(self, key: tuple[Expression | None, str], form: Form, argument: Argument, parts: object) -> Source:
        if key not in self.made:
            self.made[key] = Source(form, len(self.parts))
            self.arguments.append(argument)
            made = parts(len(self.arguments) - 1, argument)  # type: ignore[operator]
            numbers = range(len(self.parts), len(self.parts) + len(made))
            self.parts += made
            self.shares += [tuple(numbers)] if form == "pair" else [(n,) for n in numbers]
        return self.made[key]


def _sum(index: int, argument: Argument) -> list[Part]:
    """Σx."""
    return [Part(f"sum{index}", index, 1, 0, argument.magnitude, typical=argument.typical, rare=argument.flag)]


def _pair(index: int, argument: Argument) -> list[Part]:
    """Σ(x−L) and Σ(U−x).

    **Theorem.** A row adds exactly U−L to both together: their joint L1 norm is that of one. **Proof.** x is clamped to
    [L, U], so both terms are at least 0, and their sum is U−L.
    **Requires** one clamp and one grid for both terms, and a row counted in both or in none: n is the number of rows
    that have a value.
    **Checked by** `tests/properties/test_planted_bugs.py`, with the planted bug "joint claim halved".
    """
    return [
        Part(f"above{index}", index, 1, -argument.lower, argument.width),
        Part(f"below{index}", index, -1, argument.upper, argument.width),
    ]


def _centred(index: int, argument: Argument, *, alone: bool) -> list[Part]:
    """The count n and Σ(2x−2c) around the argument's centre c, in half steps: the middle may lie between two steps.

    If the average is asked for `alone`, neither n nor Σx, of which n·c is a part, is shown.
    """
    twice = argument.twice_centre
    largest = max(2 * argument.upper - twice, twice - 2 * argument.lower)
    centred = Part(f"centred{index}", index, 2, -twice, largest, typical=2 * argument.spread, rare=argument.flag)
    return [Part(f"count{index}", index, 0, 1, 1, divides=alone), centred]
