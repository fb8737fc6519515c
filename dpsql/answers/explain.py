"""What a query will do and cost, before any data is touched: for people to read and for programs to use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql.answers.analytic_bars import half_width, interval
from dpsql.answers.chosen_rows import chosen_notes
from dpsql.answers.chosen_values import rank_error, rank_of
from dpsql.answers.estimation import step
from dpsql.answers.finish import finishing_sql
from dpsql.answers.noise_stage import RELEASE, Released
from dpsql.answers.notes import inner_notes, notes_of, owner_notes
from dpsql.budget import Cost, ErrorBar
from dpsql.budget.pricing import Bill, Priced
from dpsql.errors import InterfaceError
from dpsql.mechanisms import DiscreteLaplace, Noise
from dpsql.plan.nodes.released_scan import released_in
from dpsql.plan.plan import Plan
from dpsql.sensitivity.at_rest_rule import parts_at_rest
from dpsql.sensitivity.bound import Bounded
from dpsql.sensitivity.clip import Clip
from dpsql.sensitivity.group_keys import Key

if TYPE_CHECKING:
    from dpsql.query_draft import PreparedQuery

_RELEASE = RELEASE.take()


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one row adds at most, and where that is known from."""

    lower: float
    upper: float
    origin: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StatisticPlan:
    """One noisy vector, in the statistic's own unit. `sensitivity` is the norm that the noise is scaled to."""

    name: str
    sensitivity: float
    l0: int | None
    linf: float
    l1: float
    l2: float
    bounds: Bounds
    mechanism: str
    scale: float
    grid: float
    _noise: Noise

    def expected_error(self, confidence: float = 0.95) -> float:
        """The half width of the interval of this statistic."""
        return self._noise.half_width(confidence) * self.grid


@dataclass(frozen=True, slots=True)
class ChoicePlan:
    """One choice per group among `cells` public values; `sensitivity` and `scale` count rows (or units) of its rank."""

    name: str
    sensitivity: float
    cells: int
    lowest: Any
    highest: Any
    origin: tuple[str, ...]
    mechanism: str
    scale: float
    _errors: Callable[[float], float]

    def expected_error(self, confidence: float = 0.95) -> float:
        """How far off the rank may be: in rows, for MIN and MAX in units."""
        return self._errors(1 - confidence)


@dataclass(frozen=True, slots=True)
class TreePlan:
    """Noisy counts of all cells of a tree, from which many quantiles come; claims and scale are in rows."""

    name: str
    height: int
    cells: int
    l1: float
    l2: float
    mechanism: str
    scale: float


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """An aggregate as it was asked for, with its error bar where that is known in advance (not for averages).

    A chosen value has an error in its `rank`, in rows or units.
    """

    text: str
    statistics: tuple[str, ...]
    error: float | None
    rank: float | None = None


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """A group key; `values` is None where the key is private."""

    text: str
    values: tuple[Any, ...] | None
    origin: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClipPlan:
    """How a vector of a unit is clipped: about how many units there are, and how many of them add more.

    `cut` has for each statistic the most that is expected to be cut off in all groups together, if all of it were cut
    off there. `units` is None where nothing was found, so that the clip is the limit of the policy or a guess. It is
    `wider` where the search was that of the same query with fewer conditions.
    """

    units: float | None
    above: float
    cut: Mapping[str, float]
    wider: bool = False


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """One release: its keys, its statistics, the rule that bounds them, and the threshold of private keys.

    `apart`: it is read from a prepared copy, which has the units that must be weighed apart from all others.
    """

    table: str
    rule: str
    keys: tuple[KeyPlan, ...]
    statistics: tuple[StatisticPlan, ...]
    aggregates: tuple[AggregatePlan, ...]
    rows_per_unit: int
    groups: int | None
    threshold: float | None
    sql: str
    choices: tuple[ChoicePlan, ...] = ()
    stage: int = 1
    trees: tuple[TreePlan, ...] = ()
    apart: bool = False
    clips: tuple[ClipPlan, ...] = ()


@dataclass(frozen=True, slots=True)
class NestedPlan:
    """A result that is read below an aggregate, under its name in the engine's SQL, and the SQL that gives it."""

    name: str
    sql: str
    stage: int
    public: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """`print(explanation)` is for people. `sql` is what the engine would run (the salt is left out).

    `plan` and `bill` are None in an explanation that came from a server, which has them.
    """

    cost: Cost
    mechanism: str
    releases: tuple[ReleasePlan, ...]
    alternatives: Mapping[str, Explanation]
    finishing: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    notes: tuple[str, ...]
    remark: str | None
    plan: Plan | None = field(repr=False)
    bill: Bill | None = field(repr=False)
    nested: tuple[NestedPlan, ...] = ()

    def expected_error(self, confidence: float = 0.95, n: float | None = None) -> dict[str, float | None]:
        """For each output column with noise, the half width of its interval in every row, at this price.

        `n` is the number of rows that an average stands on (its mean in the middle of the bounds); without it an
        average has None, as has any other expression above the aggregate, whose error depends on the answer.
        """
        if not 0 < confidence < 1 or (n is not None and not 0 < n <= 2**40):
            raise InterfaceError(f"no expected error: confidence {confidence}, n {n}", hint="write (0.95, n=1000)")
        assert self.plan is not None
        assert self.bill is not None
        made = {priced.bounded.release.name: priced for priced in self.bill.releases}
        direct = {output.name: output.direct for output in self.plan.outputs if output.noisy}
        return {name: None if d is None else _expected(made[d[0]], d[1], confidence, n) for name, d in direct.items()}

    @property
    def sql(self) -> str:
        """The engine's SQL, one statement for each release."""
        return ";\n".join(release.sql for release in self.releases)

    def _repr_html_(self) -> str:
        from dpsql.answers.render import explanation_html

        return explanation_html(self)

    def __str__(self) -> str:
        from dpsql.answers.render import format_explanation

        return format_explanation(self)

    __repr__ = __str__


def release_plan(priced: Priced, sql: str) -> ReleasePlan:
    """The public description of a priced release."""
    bounded = priced.bounded
    statistics = tuple(_statistic(priced, i) for i in range(len(bounded.statistics)))
    aggregates = []
    for index, (aggregate, source) in enumerate(zip(bounded.release.aggregates, bounded.sources, strict=True)):
        if source.chosen:
            made = bounded.choices[source.first] if source.form == "choice" else bounded.trees[source.first]
            aggregates.append(AggregatePlan(str(aggregate), (made.name,), None, rank_of(priced, index)))
            continue
        names = tuple(bounded.statistics[i].name for i in source.statistics)
        aggregates.append(AggregatePlan(str(aggregate), names, half_width(priced, index, 0.95)))
    groups = None
    if bounded.public:
        groups = 1
        for key in bounded.keys:
            groups *= len(key.values or ())
    one = bounded.selection.one if bounded.selection is not None else 1
    cut = None if priced.threshold is None else priced.threshold / one
    return ReleasePlan(
        bounded.release.table,
        bounded.rule,
        tuple(map(_key, bounded.keys)),
        statistics,
        tuple(aggregates),
        bounded.release.source.rows_per_unit,
        groups,
        cut,
        sql,
        tuple(_choice(priced, i) for i in range(len(priced.chosen))),
        trees=tuple(_tree(priced, i) for i in range(len(priced.trees))),
        apart=parts_at_rest(bounded) is not None,
        clips=tuple(_clip(bounded, c.clip) for c in bounded.clipped if c.clip is not None and c.vector.searched),
    )


def _clip(bounded: Bounded, clip: Clip) -> ClipPlan:
    choice = clip.choice
    if choice is None:
        return ClipPlan(None, 0.0, {})
    steps = max(choice.cut, choice.cut_upper) * clip.bound / choice.clip
    members = [bounded.statistics[place] for place in clip.members]
    cut = {each.name: steps * float(each.grid) for each in members}
    return ClipPlan(choice.units if choice.found else None, choice.above, cut, choice.wider)


def _expected(priced: Priced, index: int, confidence: float, n: float | None) -> float | None:
    """A count or sum has one half width; an average that of an imagined release of n rows around the middle."""
    width = half_width(priced, index, confidence)
    source = priced.bounded.sources[index]
    if width is not None or n is None or source.chosen:
        return width
    it = priced.bounded.arguments[priced.bounded.statistics[source.first].part.argument]
    side = n * float(it.width * it.grid) / 2
    pair = (n, 0.0) if source.form == "centred" else (side, side)
    values = [0.0] * source.first + list(pair)
    noisy = tuple(np.array([round(v / step(priced, i))], dtype=np.int64) for i, v in enumerate(values))
    low, high = interval(Released(priced, ((),), noisy, by=_RELEASE), index, confidence)
    return float(high[0] - low[0]) / 2


def first_error(releases: Sequence[Priced], mechanism: str) -> ErrorBar | None:
    """The error bar of the first aggregate for which it is known in advance (it is not for averages)."""
    for priced in releases:
        for index, aggregate in enumerate(priced.bounded.release.aggregates):
            half = half_width(priced, index, 0.95)
            if half is not None:
                return ErrorBar(str(aggregate), half, mechanism)
    return None


def _key(key: Key) -> KeyPlan:
    return KeyPlan(str(key.expression), key.values, key.domain.origin)


def _choice(priced: Priced, number: int) -> ChoicePlan:
    chosen = priced.chosen[number]
    histogram = priced.bounded.histograms[chosen.choice.histogram]
    unit, grid = chosen.choice.parts * histogram.one, histogram.grid
    return ChoicePlan(
        chosen.choice.name,
        chosen.choice.sensitivity(histogram.most) / unit,
        grid.cells,
        grid.value(0),
        grid.value(grid.cells - 1),
        grid.domain.origin,
        "exponential",
        float(chosen.law.scale) / unit,
        lambda missed: rank_error(priced, number, missed),
    )


def _tree(priced: Priced, number: int) -> TreePlan:
    tree, noised = priced.bounded.trees[number], priced.trees[number]
    unit, laplace = 2**noised.shift / tree.one, isinstance(noised.noise, DiscreteLaplace)
    cells = priced.bounded.histograms[tree.histogram].grid.cells
    l1, l2, scale = (float(x) * unit for x in (noised.joint.l1, noised.joint.l2, noised.noise.scale))
    return TreePlan(tree.name, tree.height, cells, l1, l2, "laplace" if laplace else "gaussian", scale)


def _statistic(priced: Priced, index: int) -> StatisticPlan:
    statistic, noised = priced.bounded.statistics[index], priced.noised[index]
    unit = float(statistic.grid * 2**noised.shift)
    argument = priced.bounded.arguments[statistic.part.argument]
    claim, laplace = noised.claim, isinstance(noised.noise, DiscreteLaplace)
    lower, upper = (float(x * argument.grid) for x in (argument.lower, argument.upper))
    once = "each value counts once" if statistic.part.distinct else "each row counts once"
    origin = argument.domain.origin if statistic.part.alpha else (once,)
    return StatisticPlan(
        statistic.name,
        (noised.joint.l1 if laplace else noised.joint.l2) * unit,
        claim.l0,
        claim.linf * unit,
        claim.l1 * unit,
        claim.l2 * unit,
        Bounds(lower, upper, origin) if statistic.part.alpha else Bounds(1, 1, origin),
        "laplace" if laplace else "gaussian",
        float(noised.noise.scale) * unit,
        unit,
        noised.noise,
    )


def staged(releases: Sequence[ReleasePlan], plan: Plan) -> tuple[tuple[ReleasePlan, ...], tuple[NestedPlan, ...]]:
    """The releases of a plan (and further ones about them) with the stage in which each is made, and what they read.

    A release belongs to the stage after those of everything that it reads.
    """
    stages: dict[str, int] = {}
    nested = {each.name: each for each in plan.nested}

    def of_nested(name: str) -> int:
        return max((stages[release.name] for release in nested[name].plan.releases), default=0)

    for release in plan.releases:
        stages[release.name] = 1 + max((of_nested(scan.table) for scan in released_in(release.source)), default=0)
    last = max(stages.values(), default=1)
    shown = [replace(r, stage=stages[plan.releases[i].name] if i < len(plan.releases) else last)
             for i, r in enumerate(releases)]  # fmt: skip
    results = [NestedPlan(n, each.plan.finishing.sql("duckdb"), of_nested(n), not each.plan.releases)
               for n, each in nested.items()]  # fmt: skip
    return tuple(shown), tuple(results)


def explained(
    prepared: PreparedQuery,
    texts: Sequence[str],
    engine_notes: Sequence[str],
    remark: str | None,
    alternatives: Mapping[str, Explanation],
) -> Explanation:
    """The explanation of a prepared query; `texts` has the SQL of each release."""
    plan, bill = prepared.plan, prepared.bill
    shown = [release_plan(priced, text) for priced, text in zip(bill.releases, texts, strict=True)]
    releases, nested = staged(shown, plan)
    return Explanation(
        prepared.cost,
        bill.mechanism,
        releases,
        alternatives,
        finishing_sql(plan),
        tuple(output.name for output in plan.outputs),
        prepared.types,
        (
            *owner_notes(plan.releases),
            *chosen_notes(plan),
            *notes_of(bill.releases, prepared.checks),
            *inner_notes(plan),
            *plan.notes,
            *engine_notes,
        ),
        remark,
        plan,
        bill,
        nested,
    )
