"""The choices of a release: which histograms they need, and which rule bounds what a unit adds to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpsql.bounds.domain import Domain
from dpsql.plan.builder.selection_aggregates import no_grid, no_single_values
from dpsql.plan.nodes.relation import Aggregate
from dpsql.plan.plan import Release
from dpsql.sensitivity.choice import Choice, Histogram, Kept, choice_of
from dpsql.sensitivity.grid import Grid, make_grid
from dpsql.sensitivity.quantile_tree import Tree, plant
from dpsql.sensitivity.statistics import Source
from dpsql.sensitivity.unit_weight import WEIGHT_BITS, Term

_KEPT: dict[str, Kept] = {"min": "least", "max": "greatest"}


@dataclass(frozen=True, slots=True)
class ChoiceLayout:
    """All choices of a release, and which of them answers each of its aggregates."""

    histograms: tuple[Histogram, ...]
    choices: tuple[Choice, ...]
    trees: tuple[Tree, ...]
    sources: tuple[Source, ...]


def lay_out_choices(
    release: Release, asked: Sequence[tuple[Aggregate, Domain]], rule: str, groups: int | None, mechanism: str
) -> ChoiceLayout:
    """Histograms, choices and trees, each once, and for each aggregate its choice or its tree.

    `groups` is the number of public groups, None if they are private.
    """
    histograms: list[Histogram] = []
    choices: dict[tuple[object, ...], Choice] = {}
    numbers = []
    for aggregate, domain in asked:
        grid = _grid(aggregate, domain)
        made = histogram(release, grid, _KEPT.get(aggregate.function, "rows"), rule)
        if made not in histograms:
            histograms.append(made)
        choice = choice_of(aggregate, histograms.index(made))
        same = (choice.histogram, choice.kind, choice.at)
        choices.setdefault(same, choice)
        numbers.append(list(choices).index(same))
    return _with_trees(
        tuple(histograms), list(choices.values()), numbers, plant(histograms, list(choices.values()), groups, mechanism)
    )


def _with_trees(
    histograms: tuple[Histogram, ...], choices: Sequence[Choice], numbers: Sequence[int], trees: Sequence[Tree]
) -> ChoiceLayout:
    """The choices that are left beside the trees."""
    grown = {tree.histogram: place for place, tree in enumerate(trees)}
    left = [c for c in choices if c.kind != "quantile" or c.histogram not in grown]
    sources = [
        Source("choice", left.index(c)) if c in left else Source("tree", grown[c.histogram])
        for c in (choices[number] for number in numbers)
    ]
    return ChoiceLayout(histograms, tuple(left), tuple(trees), tuple(sources))


def _grid(aggregate: Aggregate, domain: Domain) -> Grid:
    assert aggregate.argument is not None
    grid = make_grid(aggregate.argument, domain)
    if grid is None:
        raise no_grid(aggregate)
    if aggregate.function == "mode" and not grid.exact:
        raise no_single_values(aggregate)
    return grid


def histogram(release: Release, grid: Grid, kept: Kept, rule: str) -> Histogram:
    """The histogram under the rule of its release.

    **Theorem.** One unit adds at most `most` to all cells of all groups together; where bounds are searched for, to the
    cells of each group an amount w with a norm ‖w‖ ≤ `most` over the groups.
    **Proof.** Rules `row` and `single_row`: a unit is one row, in one group and one cell. Otherwise its n rows with a
    value each add W with W·n ≤ rows_per_unit; or each of its g groups has one extreme, and adds W with
    W·g ≤ groups_per_unit; where all keys are attributes of the unit there is one group, so no weight is needed. W is
    rounded down to units of 2^-WEIGHT_BITS (`dpsql.sensitivity.unit_weight`). Rule `at_rest`: it has at most that many
    rows, and each adds one. Where bounds are searched for, let n be the numbers by group of u's rows with a value, or
    of its extremes (each 0 or 1): W is at most `most`/N in those units, rounded down, for an N ≥ ‖n‖, so ‖W·n‖ ≤
    `most`.
    **Requires** the emitted weight (`dpsql.engines.sql.histogram`), one value for each unit and group where extremes
    are kept, and attributes that are derived (`dpsql.plan.invariants`).
    **Checked by** `tests/properties/test_choices.py`.
    """
    if rule in ("row", "single_row") or (rule == "one_group" and kept != "rows"):
        return Histogram(grid, kept, None, 1, 1)
    cap = release.source.rows_per_unit if kept == "rows" else release.groups_per_unit
    if rule == "at_rest":
        return Histogram(grid, kept, None, 1, cap)
    term = Term("count" if kept == "rows" else "groups", None, cap)
    return Histogram(grid, kept, term, 1 << WEIGHT_BITS, cap << WEIGHT_BITS)
