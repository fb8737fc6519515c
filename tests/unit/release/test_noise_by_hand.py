"""Where noise meets exact values, on releases made by hand: with next to no noise the result is known to the last unit."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from math import ceil, log
from typing import Any

import numpy as np
import pytest
from hand_made_catalog import catalog_of
from scipy import stats
from unlocked import released as made_up
from unlocked import sealed, unsealed, with_spread

from dpsql.answers.chosen_values import (
    choice_notes,
    chosen_ends,
    chosen_values,
    grid_of,
    rank_error,
    rank_of,
)
from dpsql.answers.error_bars import resampled
from dpsql.answers.noise_stage import Drawn, add_noise, box, drawn_ahead, public_table
from dpsql.answers.tree_quantiles import quantile_ends
from dpsql.bounds.domain import Domain, finite, interval
from dpsql.budget.pricing import Noised, Portion, Priced, PricedChoice
from dpsql.engines.sealed import Exact, Weights
from dpsql.errors import InternalError
from dpsql.expressions.expression import Column
from dpsql.expressions.types import BIGINT, DATE, DOUBLE, TEXT
from dpsql.mechanisms import DiscreteGaussian, DiscreteLaplace, ExponentialLaw
from dpsql.plan.nodes.relation import UNIT, Aggregate, Field, Item, Scan
from dpsql.plan.plan import Release
from dpsql.sensitivity.bound import bound

FIELDS = (
    Field("u", BIGINT, Domain(), attribute=True, owner=UNIT),
    Field("n", BIGINT, interval(0, 9, nullable=False)),
    Field("x", DOUBLE, interval(0.0, 1.0)),
    Field("d", DATE, interval(0, 9)),
    Field("k", TEXT, finite(("a", "b", "c"), TEXT, nullable=False)),
    Field("j", BIGINT, interval(1, 2, nullable=False)),
    Field("none", TEXT, finite((), TEXT, nullable=False)),
    Field("free", TEXT, Domain()),
)
TABLE = Scan(FIELDS, False, 5, False, table="t", unit="u", unit_type=BIGINT)
HALF = Fraction(1, 2)
TINY = Fraction(1, 2**20)
"""A scale at which noise is zero but for a chance of exp(-2**20)."""


def column(name: str) -> Column:
    return Column(TABLE.field(name).type, name=name)


def asked(function: str, name: str | None = None, at: Fraction | None = None) -> Aggregate:
    return Aggregate(function, None if name is None else column(name), at=at)


COUNT, SUM = asked("count"), asked("sum", "x")
TENTHS = tuple(asked("quantile_cont", "n", Fraction(i, 10)) for i in range(1, 10))


def priced(
    keys: str,
    *aggregates: Aggregate,
    scale: Fraction = TINY,
    law: str = "laplace",
    threshold: int = 100,
    shift: int = 0,
) -> Priced:
    items = tuple(Item(f"_k{i}", column(name)) for i, name in enumerate(keys.split()))
    made = bound(Release("r", "t", TABLE, items, aggregates, 3), law, catalog_of(TABLE, 1_000))
    noise = DiscreteLaplace(scale) if law == "laplace" else DiscreteGaussian(scale)

    def noised(claim: object) -> Noised:
        return Noised(noise, shift, claim, claim)  # type: ignore[arg-type]

    return Priced(
        made,
        tuple(noised(s.claim) for s in made.statistics),
        Portion(law),
        None if made.selection is None else noised(made.selection.claim),
        None if made.selection is None else threshold,
        tuple(PricedChoice(c, ExponentialLaw(Fraction(1, 4)), 1) for c in made.choices),
        tuple(noised(t.claim) for t in made.trees),
    )


def exact(keys: int, statistics: int = 1, histograms: tuple[Weights, ...] = (), selection: Any = None) -> Exact:
    values = tuple(100 * (s + 1) + np.arange(keys) for s in range(statistics))
    return sealed(tuple((i,) for i in range(keys)), values, selection, histograms)


# noise ------------------------------------------------------------------------------------------------------------------


def test_each_value_keeps_its_place() -> None:
    asked_ = priced("k", COUNT, SUM)
    released = add_noise(asked_, exact(3, 2))
    assert [v.tolist() for v in released.noisy] == [[100, 101, 102], [200, 201, 202]]
    assert released.keys == ((0,), (1,), (2,)) and released.priced is asked_
    assert (released.chosen, released.trees, released.spread) == ((), (), ())


@pytest.mark.parametrize(("keys", "many"), [("", 1), ("k", 3), ("k j", 6), ("none", 0), ("k none", 0)])
def test_noise_is_drawn_ahead_for_every_public_key(keys: str, many: int) -> None:
    asked_ = priced(keys, COUNT, SUM, *TENTHS, scale=Fraction(8))
    ahead = drawn_ahead(asked_)
    assert ahead is not None
    assert [each.shape for each in ahead.statistics] == [(many,)] * 2
    assert [each.shape for each in ahead.trees] == [(many, 16)]
    assert ahead.of(many) is ahead
    for other in (many - 1, many + 1):
        with pytest.raises(InternalError, match="another number of keys"):
            ahead.of(other)
    weights = Weights(np.arange(many), np.full(many, 3), np.full(many, 50))
    released = add_noise(asked_, exact(many, 2, (weights,)), ahead)
    for values, drawn, true in zip(released.noisy, ahead.statistics, unsealed(exact(many, 2)).values, strict=True):
        assert (values - true).tolist() == drawn.tolist()
    assert (released.trees[0] - ahead.trees[0]).tolist() == [[0, 0, 0, 50, *[0] * 12]] * many


def test_no_noise_is_spread_over_several_keys_or_trees() -> None:
    one, three = np.zeros(1, np.int64), np.zeros(3, np.int64)
    for statistics, trees in (((one, three), ()), ((three, one), ()), ((three,), (np.zeros((1, 16), np.int64),))):
        with pytest.raises(InternalError, match="another number of keys"):
            Drawn(statistics, trees).of(3)
    assert drawn_ahead(priced("free", COUNT)) is None
    assert drawn_ahead(priced("k free", COUNT)) is None


@pytest.mark.parametrize("threshold", [1, 2, 100])
def test_a_private_key_is_shown_from_the_threshold_on_with_the_values_of_its_own_place(threshold: int) -> None:
    weights = np.array([threshold - 1, threshold, threshold + 1, 0, 10**6, -5])
    given = exact(6, selection=weights)
    released = add_noise(priced("free", COUNT, threshold=threshold), given)
    assert released.keys == ((1,), (2,), (4,))
    assert released.noisy[0].tolist() == [101, 102, 104]


def test_no_weight_is_none_however_low_the_threshold() -> None:
    given = exact(3, selection=np.array([0, 1, 0]))
    assert add_noise(priced("free", COUNT, threshold=-5), given).keys == ((1,),)


def test_public_keys_are_all_combinations_in_their_order() -> None:
    made = public_table(priced("j k", COUNT))
    assert made.keys == ((1, "a"), (1, "b"), (1, "c"), (2, "a"), (2, "b"), (2, "c"))
    assert made.noisy == ()


@pytest.mark.parametrize("keys", ["", "k"])
def test_the_cell_with_all_the_weight_is_chosen_in_each_group(keys: str) -> None:
    groups = 3 if keys else 1
    asked_ = priced(keys, asked("mode", "n"), asked("max", "n"), asked("quantile_disc", "n", HALF))
    assert [h.kept for h in asked_.bounded.histograms] == ["rows", "greatest"]
    heavy = 10**9
    rows = Weights(np.arange(groups), np.array([2, 5, 9][:groups]), np.full(groups, heavy))
    tops = Weights(np.arange(groups), np.array([3, 6, 8][:groups]), np.full(groups, heavy))
    released = add_noise(asked_, exact(groups, 0, (rows, tops)))
    assert [each.tolist() for each in released.chosen] == [[2, 5, 9][:groups], [3, 6, 8][:groups], [2, 5, 9][:groups]]


def test_a_choice_of_a_shown_key_reads_the_weights_of_that_key() -> None:
    asked_ = priced("free", asked("mode", "n"))
    rows = Weights(np.arange(3), np.array([2, 5, 9]), np.full(3, 10**9))
    given = sealed((("p",), ("q",), ("r",)), (), np.array([0, 1_000, 1_000]), (rows,))
    released = add_noise(asked_, given)
    assert released.keys == (("q",), ("r",)) and released.chosen[0].tolist() == [5, 9]


def test_a_tree_is_floored_to_its_grid_before_the_noise() -> None:
    asked_ = priced("k", *TENTHS, shift=4)
    weights = Weights(np.array([0, 0, 2]), np.array([3, 4, 9]), np.array([50, 15, 16]))
    [nodes] = add_noise(asked_, exact(3, 0, (weights,))).trees
    assert nodes.shape == (3, 16)
    assert {(int(g), int(c)): int(nodes[g, c]) for g, c in zip(*np.nonzero(nodes), strict=True)} == {
        (0, 3): 3,
        (2, 9): 1,
    }


# error bars ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [0.3, 0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_a_fitted_value_strays_as_far_as_the_wider_of_one_noise_and_of_a_sum_of_many(
    law: str, confidence: float
) -> None:
    asked_ = priced("k", COUNT, SUM, scale=Fraction(64), law=law)
    released = add_noise(asked_, exact(3, 2))
    assert list(released.stretch(confidence)) == [1.0, 1.0]
    upper = (1 + confidence) / 2
    wider = max(1.0, stats.norm.ppf(upper) * np.sqrt(2) / stats.laplace.ppf(upper)) if law == "laplace" else 1.0
    fitted = with_spread(released, 0.25, 3.0)
    assert list(fitted.stretch(confidence)) == pytest.approx([0.25 * wider, 3 * wider])


@pytest.mark.parametrize(("noises", "each"), [(0, 0.9), (1, 0.9), (2, 0.9**0.5), (5, 0.9**0.2)])
def test_a_box_is_as_wide_as_each_of_so_many_noises_takes(noises: int, each: float) -> None:
    asked_ = priced("k", COUNT, SUM, scale=Fraction(64))
    released = add_noise(asked_, exact(3, 2))
    wide = asked_.noised[0].noise.half_width(each)
    for values, (low, high) in zip(released.noisy, box(released, 0.9, noises), strict=True):
        assert (values - low).tolist() == (high - values).tolist() == [wide] * 3
    fitted = with_spread(released, 0.5, 2.0)
    for by, values, (low, high) in zip(fitted.stretch(each), fitted.noisy, box(fitted, 0.9, noises), strict=True):
        assert [*(values - low), *(high - values)] == pytest.approx([wide * by] * 6)


def test_fresh_draws_lie_around_the_values_as_far_as_their_spread() -> None:
    released = add_noise(priced("k", COUNT, SUM, scale=Fraction(64)), exact(3, 2))
    plain = [each - values for each, values in zip(resampled(released, 2_000), released.noisy, strict=True)]
    wide = [
        each - values
        for each, values in zip(resampled(with_spread(released, 0.5, 3.0), 2_000), released.noisy, strict=True)
    ]
    for drawn, by in (*((d, 1.0) for d in plain), (wide[0], 0.5), (wide[1], 3.0)):
        assert drawn.shape == (2_000, 3)
        assert drawn.std() == pytest.approx(64 * np.sqrt(2) * by, rel=0.1)
        assert abs(drawn.mean()) < 8 * by
        assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.1
    assert all(each.dtype.kind == "i" for each in plain)


# chosen values ------------------------------------------------------------------------------------------------------------


def test_a_chosen_cell_is_shown_in_the_type_of_the_aggregate() -> None:
    half = [asked("quantile_cont", name, HALF) for name in ("n", "d", "x")]
    aggregates = (*half, asked("quantile_disc", "n", HALF), asked("max", "d"), asked("mode", "k"))
    asked_ = priced("", *aggregates)
    cells = [np.array([3, 3, 7])] * len(asked_.bounded.choices)
    cells[-1] = np.array([2, 0, 1])
    shown = [
        chosen_values(asked_, source, aggregate, cells)
        for source, aggregate in zip(asked_.bounded.sources, aggregates, strict=True)
    ]
    assert shown[0].dtype == np.float64 and shown[0].tolist() == [3.0, 3.0, 7.0]
    assert shown[1].tolist() == [datetime(1970, 1, 4), datetime(1970, 1, 4), datetime(1970, 1, 8)]
    step = float(grid_of(asked_, asked_.bounded.sources[2]).step)
    assert shown[2].dtype == np.float64 and shown[2].tolist() == pytest.approx(
        [3.5 * step, 3.5 * step, 7.5 * step], rel=1e-4
    )
    assert shown[3].dtype == object and shown[3].tolist() == [3, 3, 7]
    assert {type(value) for value in shown[3]} == {int}
    assert shown[4].tolist() == [date(1970, 1, 4), date(1970, 1, 4), date(1970, 1, 8)]
    assert shown[5].tolist() == ["c", "a", "b"]


def test_a_number_of_rows_stands_for_as_many_nulls() -> None:
    aggregates = (asked("quantile_cont", "n", HALF), asked("quantile_disc", "n", HALF))
    asked_ = priced("", *aggregates)
    nothing = [chosen_values(asked_, s, a, 4) for s, a in zip(asked_.bounded.sources, aggregates, strict=True)]
    assert nothing[0].dtype == np.float64 and np.isnan(nothing[0]).all() and len(nothing[0]) == 4
    assert nothing[1].dtype == object and nothing[1].tolist() == [None] * 4


def test_quantiles_of_a_tree_are_read_from_its_nodes() -> None:
    asked_ = priced("", *TENTHS)
    nodes = np.array([[10] * 10 + [0] * 6, [0, 0, 100] + [0] * 13])
    for i, aggregate in enumerate(TENTHS):
        assert asked_.bounded.sources[i].form == "tree"
        shown = chosen_values(asked_, asked_.bounded.sources[i], aggregate, (), (nodes,))
        assert shown.tolist() == [float(i), 2.0]


def test_the_ends_of_a_quantile_are_values_and_of_a_wide_cell_its_edges() -> None:
    for name, scale in (("n", 2), ("x", 2)):
        tenths = tuple(asked("quantile_cont", name, Fraction(i, 100)) for i in range(1, 100))
        asked_ = priced("", *tenths, scale=Fraction(scale))
        [tree] = asked_.bounded.trees
        grid = grid_of(asked_, asked_.bounded.sources[49])
        nodes = np.zeros((1, tree.nodes), np.int64)
        nodes[0, 0] = nodes[0, 7] = 40
        released = made_up(asked_, ((),), (), trees=(nodes,))
        low, high = quantile_ends(tree, asked_.trees[0], grid.cells, nodes, HALF, 0.9)
        ends = chosen_ends(released, 49, 0.9)
        assert ends is not None and low < high
        half = 0.0 if name == "n" else float(grid.step) / 2
        assert ends[0].tolist() == [float(grid.value(int(low[0]))) - half]  # type: ignore[arg-type]
        assert ends[1].tolist() == [float(grid.value(int(high[0]))) + half]  # type: ignore[arg-type]


def test_a_choice_has_no_ends_nor_has_a_date() -> None:
    single = priced("", asked("quantile_cont", "n", HALF), COUNT)
    cells = made_up(single, ((),), (np.array([1]),), chosen=(np.array([3]),))
    assert chosen_ends(cells, 0, 0.9) is None and chosen_ends(cells, 1, 0.9) is None
    days = priced("", *(asked("quantile_cont", "d", Fraction(i, 10)) for i in range(1, 10)))
    assert days.bounded.sources[0].form == "tree"
    assert chosen_ends(made_up(days, ((),), (), trees=(np.zeros((1, 16), np.int64),)), 0, 0.9) is None


ONE = 2**30


@pytest.mark.parametrize(
    ("aggregate", "parts", "one"),
    [
        (asked("quantile_disc", "n", HALF), 2, ONE),
        (asked("quantile_disc", "n", Fraction(9, 10)), 10, ONE),
        (asked("max", "n"), 2, 1),
        (asked("mode", "n"), 1, ONE),
    ],
)
@pytest.mark.parametrize("missed", [0.05, 0.5])
def test_a_rank_is_off_by_no_more_rows_than_the_scores_of_so_many_cells_reach(
    aggregate: Aggregate, parts: int, one: int, missed: float
) -> None:
    """A cell whose score is higher by x is as likely as exp(-x/scale), and there are ten cells."""
    scale = Fraction(5 * one)
    asked_ = priced("", COUNT, aggregate)
    asked_ = replace(asked_, chosen=(replace(asked_.chosen[0], law=ExponentialLaw(scale)),))
    wanted = ceil(log(10 / missed) * scale) / (parts * one)
    assert rank_error(asked_, 0, missed) == rank_of(asked_, 1, missed) == pytest.approx(wanted)


def test_the_rank_of_a_tree_is_off_by_its_noise() -> None:
    asked_ = priced("", *TENTHS, scale=Fraction(3), law="gaussian", shift=30)
    for i in (0, 4, 8):
        at = (i + 1) / 10
        widest = max(np.sqrt(c * (1 - at) ** 2 + (16 - c) * at**2) for c in range(1, 17))
        for missed in (0.05, 0.5):
            assert rank_of(asked_, i, missed) == pytest.approx(3 * stats.norm.ppf(1 - missed / 2) * widest)


def test_the_notes_say_how_far_off_each_choice_may_be() -> None:
    few = (asked("min", "n"), asked("max", "n"), asked("mode", "n"), asked("quantile_disc", "n", HALF))
    asked_ = priced("", COUNT, *few)
    laws = [
        replace(c, law=ExponentialLaw(Fraction(one * 4)))
        for c, one in zip(asked_.chosen, (1, 1, ONE, ONE), strict=True)
    ]
    off, half = round(log(10 / 0.05) * 4), round(ceil(log(10 / 0.05) * 4) / 2)
    assert choice_notes(replace(asked_, chosen=tuple(laws))) == [
        f"min(n) is the value below which about {half} units lie (95%: 0 to {2 * half})",
        f"max(n) is the value above which about {half} units lie (95%: 0 to {2 * half})",
        f"mode(n) is the most frequent value, or (95%) one with no more than about {off} rows less",
        f"quantile_disc(n, 0.5) is a value whose rank is off (95%) by no more than about {half} rows",
    ]
    tiny = priced("", *few)
    assert "about 1 units lie (95%: 0 to 2)" in choice_notes(tiny)[0]
    assert all("about 1 " in note for note in choice_notes(tiny))
    assert choice_notes(priced("", COUNT, *TENTHS)) == []
