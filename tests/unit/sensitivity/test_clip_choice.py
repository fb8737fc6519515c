"""The clip that is chosen from a noisy histogram: what always holds, and how good it is on seeded worlds."""

from __future__ import annotations

import importlib.util
import math
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.sensitivity.clip_choice import (
    COUNT_WEIGHT,
    SPREAD_WEIGHT,
    ClipChoice,
    Mechanism,
    NormHistogram,
    _reach,
    choose_clip,
    likely_histograms,
    widen,
)

Floats = NDArray[np.float64]
FIRST, SIZE = -60, 187
MECHANISMS: tuple[Mechanism, ...] = ("gaussian", "laplace")


def bucket_of(h: int) -> int:
    """Where the bucket with half-octave index h is."""
    return h - FIRST + 1


def histogram(
    held: dict[int, float], sd: float = 10.0, noise: Floats | None = None, first: int = FIRST
) -> NormHistogram:
    counts = np.zeros(SIZE) if noise is None else noise.copy()
    for h, count in held.items():
        counts[bucket_of(h)] += count
    return NormHistogram(first, counts, None, sd, None)


def noise_of(mechanism: Mechanism, rng: np.random.Generator, sd: float = 10.0) -> Floats:
    return rng.normal(0, sd, SIZE) if mechanism == "gaussian" else rng.laplace(0, sd / math.sqrt(2), SIZE)


def chosen(
    seen: NormHistogram, mechanism: Mechanism = "gaussian", groups: int = 10, cap: float | None = None
) -> ClipChoice:
    return choose_clip(seen, groups=groups, noise_per_clip=4.0, mechanism=mechanism, cap=cap)


def test_one_row_for_each_unit_is_left_whole() -> None:
    """The bucket of h = 0 ends at 1: a clip of 1 cuts nothing, and the next edge below cuts everybody."""
    choice = chosen(histogram({0: 5_000}))
    assert choice == ClipChoice(1.0, True, 0.0, choice.cut_upper, 5_000.0, 0.0)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("cap", [None, 3.0, 50.0, 1e-12])
def test_the_clip_is_an_edge_or_the_cap_and_never_above_it(mechanism: Mechanism, cap: float | None) -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        seen = histogram({h: 3_000 * 0.6**h for h in range(12)}, noise=noise_of(mechanism, rng))
        choice = chosen(seen, mechanism, cap=cap)
        assert choice.found
        assert cap is None or choice.clip <= cap
        assert choice.clip == cap or choice.clip in seen.uppers[:-1]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_norms_twice_as_large_give_twice_the_clip(mechanism: Mechanism) -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        noise = noise_of(mechanism, rng)
        once = chosen(histogram({h: 1_000 * 0.5**h for h in range(10)}, noise=noise), mechanism)
        twice = chosen(histogram({h: 1_000 * 0.5**h for h in range(10)}, noise=noise, first=FIRST + 2), mechanism)
        assert twice.clip == pytest.approx(2 * once.clip, rel=1e-12)
        assert (twice.cut, twice.cut_upper) == pytest.approx((2 * once.cut, 2 * once.cut_upper), rel=1e-9)
        assert (twice.units, twice.above) == pytest.approx((once.units, once.above), rel=1e-9)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_noise_of_any_size_leads_to_a_choice(mechanism: Mechanism) -> None:
    rng = np.random.default_rng(3)
    for sd in (1e-6, 1.0, 1e3, 1e9, 1e18):
        for _ in range(20):
            seen = histogram(dict.fromkeys(range(6), 400.0), sd, noise_of(mechanism, rng, sd))
            choice = choose_clip(seen, groups=3, noise_per_clip=sd / 3, mechanism=mechanism, cap=100.0)
            assert 0 < choice.clip <= 100
            assert 0 <= choice.cut < math.inf
            assert 0 <= choice.cut_upper < math.inf
            assert 0 <= choice.above <= choice.units


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_nothing_is_found_in_noise_alone(mechanism: Mechanism) -> None:
    """In 400 histograms of noise: almost never anywhere, and rarely close below a cap."""
    rng = np.random.default_rng(4)
    noises = [histogram({}, noise=noise_of(mechanism, rng)) for _ in range(400)]
    assert sum(chosen(seen, mechanism).found for seen in noises) <= 5
    assert sum(chosen(seen, mechanism, cap=50.0).found for seen in noises) <= 25


def test_what_was_not_found_is_a_guess_below_the_cap() -> None:
    guess = chosen(histogram({}), cap=50.0)
    assert not guess.found
    assert 0 < guess.clip <= 50
    assert math.isfinite(chosen(histogram({})).clip)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_weak_evidence_of_a_few_units_leads_to_a_better_guess_than_the_cap(mechanism: Mechanism) -> None:
    """300 units around 4 in noise of 45 a bucket: too few to be sure, and yet the guess is mostly near."""
    rng, law = np.random.default_rng(8), {2: 60.0, 3: 90.0, 4: 90.0, 5: 60.0}
    guesses = [
        choose_clip(
            histogram(law, 45.0, noise_of(mechanism, rng, 45.0)),
            groups=1, noise_per_clip=20.0, mechanism=mechanism, cap=1000.0,
        )
        for _ in range(40)
    ]  # fmt: skip
    assert sum(2 <= guess.clip <= 16 for guess in guesses) >= 30


def test_many_small_counts_in_a_row_are_units_and_one_alone_is_not() -> None:
    """Each of them two and a half standard deviations, on the far side of many units."""
    base = dict.fromkeys(range(4), 2000.0)
    assert chosen(histogram({**base, **dict.fromkeys(range(4, 10), 25.0)}), groups=1).clip == 2**4.5
    assert chosen(histogram({**base, 9: 25.0}), groups=1).clip < 2**4.5


def test_likely_histograms_are_near_what_was_released() -> None:
    seen = histogram({0: 5_000, 3: 700})
    likely = likely_histograms(seen, "gaussian", None)
    assert likely_histograms(seen, "gaussian", None) is likely
    assert np.allclose(likely.counts.mean(axis=0)[[bucket_of(0), bucket_of(3)]], [5_000, 700], rtol=0.02)
    assert np.median(np.sum(likely.counts > 0, axis=1)) < 12
    assert likely.evidence > 1e6 > 1 > likely_histograms(histogram({}), "gaussian", None).evidence


def test_fewer_units_are_believed_close_below_the_cap_than_anywhere() -> None:
    seen = histogram({4: 40.0})
    assert not chosen(seen).found
    assert not chosen(seen, cap=2.0**40).found
    assert chosen(seen, groups=1, cap=50.0).clip == 4.0


def test_a_phantom_far_out_is_ignored_and_many_units_there_are_not() -> None:
    base = dict.fromkeys(range(4), 2000.0)
    assert chosen(histogram({**base, 60: 50.0})).clip == chosen(histogram(base)).clip == 2**1.5
    assert chosen(histogram({**base, 60: 2_000.0})).clip == 2.0**30


def test_a_run_apart_must_stand_out_the_more_the_farther_it_is() -> None:
    base = dict.fromkeys(range(4), 2000.0)
    far = [h for h in range(5, 60) if chosen(histogram({**base, h: 50.0}), groups=1).clip == 2 ** (h / 2)]
    assert far == list(range(5, max(far) + 1))
    assert 10 < max(far) < 40


def test_one_bucket_of_laplace_noise_is_believed_less_than_one_of_gaussian_noise() -> None:
    seen = histogram({4: 50.0})
    assert chosen(seen, "gaussian").found
    assert not chosen(seen, "laplace").found
    assert chosen(histogram({4: 120.0}), "laplace").found


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_fewer_units_are_above_a_higher_clip(mechanism: Mechanism) -> None:
    """The less noise is paid for each C, the higher it is, and the fewer units and the less of their sum are cut."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        seen = histogram({h: 3_000 * 0.7**h for h in range(16)}, noise=noise_of(mechanism, rng))
        choices = [
            choose_clip(seen, groups=20, noise_per_clip=price, mechanism=mechanism) for price in (300.0, 30.0, 3.0, 0.3)
        ]
        for low, high in pairwise(choices):
            assert low.clip <= high.clip
            assert low.above >= high.above
            assert low.cut >= high.cut
        assert choices[0].clip < choices[-1].clip


def test_units_spread_over_many_cells_are_cut_less() -> None:
    """A cut of such a unit takes more from the cells together, which the released spread tells."""
    counts = np.zeros(SIZE)
    counts[bucket_of(0) : bucket_of(12)] = 2_000 * 0.6 ** np.arange(12)
    clips = [
        chosen(NormHistogram(FIRST, counts, t * counts, 10 / COUNT_WEIGHT, 10 / SPREAD_WEIGHT), groups=400).clip
        for t in (0.0, 0.2, 0.8)
    ]
    assert clips[0] < clips[1] < clips[2]


def test_the_choice_is_a_function_of_the_histogram_alone() -> None:
    noise = noise_of("gaussian", np.random.default_rng(6))
    first, second = (histogram(dict.fromkeys(range(6), 500.0), noise=noise) for _ in range(2))
    before = first.counts.copy()
    assert chosen(first) == chosen(second) == chosen(first)
    assert (first.counts == before).all()


def test_the_coordinates_of_a_unit_have_a_norm_of_at_most_one() -> None:
    assert COUNT_WEIGHT**2 + SPREAD_WEIGHT**2 <= 1


def test_a_histogram_that_makes_no_sense_is_refused() -> None:
    counts = np.zeros(5)
    for bad in (
        lambda: NormHistogram(0, np.zeros(2), None, 1.0, None),
        lambda: NormHistogram(0, counts, None, 0.0, None),
        lambda: NormHistogram(0, counts, np.zeros(4), 1.0, 1.0),
        lambda: NormHistogram(0, counts, counts, 1.0, None),
        lambda: NormHistogram(0, counts + math.nan, None, 1.0, None),
        lambda: choose_clip(histogram({}), groups=0, noise_per_clip=1.0, mechanism="gaussian"),
        lambda: choose_clip(histogram({}), groups=1, noise_per_clip=0.0, mechanism="gaussian"),
        lambda: choose_clip(histogram({}), groups=1, noise_per_clip=1.0, mechanism="gaussian", cap=0.0),
    ):
        with pytest.raises(ValueError, match=r"must|needs"):
            bad()


def test_bars_are_widened_above_by_size_and_below_where_signs_are_mixed() -> None:
    choice = ClipChoice(4.0, True, 60.0, 100.0, 500.0, 10.0)
    below, above = widen(np.array([30.0, 10.0, -5.0]), choice)
    assert (list(below), list(above)) == ([0, 0, 0], [75, 25, 0])
    below, above = widen(np.array([30.0, 10.0, -10.0]), choice, signed=True)
    assert (list(below), list(above)) == ([60, 20, 20], [60, 20, 20])
    assert list(widen(np.array([-1.0, -2.0]), choice)[1]) == [50, 50]


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    """The bench module, by its path."""
    path = Path(__file__).parents[2] / "bench" / "clip_worlds.py"
    spec = importlib.util.spec_from_file_location("clip_worlds", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["clip_worlds"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_error_is_close_to_the_best_in_hindsight(bench: ModuleType, mechanism: Mechanism) -> None:
    worlds = [
        world
        for law, rows in {"constant": bench.constant(5), "geometric": bench.geometric(4), "Pareto": bench.pareto(3, 2)}.items()
        for world in (
            bench.World(f"{law} counted", law, 8_000, 24, rows),
            bench.World(f"{law} summed", law, 20_000, 60, rows, "popular", bench.skewed(40, 1.0), 500.0),
        )
    ]  # fmt: skip
    runs = [run for run in bench.run_all(worlds, 10, mechanism) if run.useful]
    ratios = np.array([run.ratio for run in runs])
    assert len(runs) >= 100
    assert np.median(ratios) < 1.25
    assert np.quantile(ratios, 0.95) < 2.2
    assert min(ratios) > 1
    assert np.median([run.declared / run.best for run in runs]) > 5


def test_the_worlds_of_the_bench_say_what_a_clip_does(bench: ModuleType) -> None:
    """Clipped cells by hand, for a clip on the grid: every unit's vector, scaled to the norm."""
    for mechanism in MECHANISMS:
        world = bench.World("by hand", "geometric", 300, 7, bench.geometric(6), "popular", bench.even(1, 9), 9.0)
        seen = bench.seen_by(world, mechanism)
        units, groups, values = world.contributions()
        vectors = np.zeros((300, 7))
        vectors[units, groups] = values
        norms = np.linalg.norm(vectors, ord=2 if mechanism == "gaussian" else 1, axis=1)
        for clip in (2.0, 8 * math.sqrt(2), 32.0, world.declared):
            expected = (vectors * np.minimum(1, clip / norms)[:, None]).sum(axis=0)
            assert np.allclose(seen.cells(clip), expected, rtol=1e-9)
        assert seen.counts.sum() == 300
        assert seen.counts[bench.LAST - bench.FIRST + 2] == 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_cut_that_matters_less_is_larger(mechanism: Mechanism) -> None:
    seen = histogram({0: 5_000, 2: 3_000, 4: 1_000, 6: 300, 8: 100})
    clips = [
        choose_clip(seen, groups=10, noise_per_clip=4.0, mechanism=mechanism, cut_matters=matters).clip
        for matters in (1.0, 0.3, 0.1)
    ]
    assert clips == sorted(clips, reverse=True)
    assert clips[0] > clips[-1]


def test_bars_allow_for_no_units_above_the_cap_where_none_was_found() -> None:
    """Units at 8 and nothing but noise above: a cap at 8 leaves nothing to be cut, and no cap leaves a doubt."""
    random = np.random.default_rng(4)
    counts = random.normal(0, 3, 40)
    counts[7] += 5_000
    histogram = NormHistogram(0, counts, None, 3.0, None)
    settled = choose_clip(histogram, groups=1, noise_per_clip=0.01, mechanism="gaussian", cap=8.0)
    open_ = choose_clip(histogram, groups=1, noise_per_clip=0.01, mechanism="gaussian")
    assert settled.found and settled.clip == 8.0 and settled.cut_upper == 0
    assert open_.clip == 8.0 and open_.cut_upper > 0


def test_the_number_of_private_cells_follows_from_how_units_spread() -> None:
    """More units that each add to more cells fill more of those that are shown, so that a cut matters less in each."""

    def clip_of(units: float, t: float, shown_from: float | None = 300.0) -> float:
        counts = np.zeros(SIZE)
        counts[bucket_of(0) : bucket_of(16)] = units * 0.6 ** np.arange(16)
        seen = NormHistogram(FIRST, counts, t * counts, 10 / COUNT_WEIGHT, 10 / SPREAD_WEIGHT)
        return choose_clip(
            seen, groups=100, noise_per_clip=10.0, mechanism="gaussian", shown_from=shown_from
        ).clip  # fmt: skip

    assert clip_of(2_000, 0.9) < clip_of(2_000, 0.0)
    assert clip_of(2_000, 0.9, 3.0) < clip_of(2_000, 0.9, 300.0) < clip_of(2_000, 0.9, 30_000.0)
    assert clip_of(2_000, 0.9, 2_000 * 2.5 * 9.1**2 / 100) == clip_of(2_000, 0.9, None)


def test_the_spread_of_a_bucket_is_believed_by_its_units_against_the_noise() -> None:
    """By hand: 100 units with a spread of .8 each and 10 with one of .2, which is .745 on average.

    The noise has a standard deviation of 6, the own mean of a bucket that of .3 for each unit: 30 and 3.
    """
    counts, spreads = np.array([0.0, 100.0, 10.0, 0.0]), np.array([0.0, 80.0, 2.0, 5.0])
    kept = np.array([False, True, True, False])
    seen = NormHistogram(0, counts, spreads, 1.0, 6.0)
    mean = 82 / 110
    shrunk = [mean, mean + 900 / 936 * (0.8 - mean), mean + 9 / 45 * (0.2 - mean), mean]
    assert _reach(seen, counts, kept, 100) == pytest.approx([1 + 9 * t for t in shrunk])
    assert list(_reach(NormHistogram(0, counts, None, 1.0, None), counts, kept, 100)) == [1, 1, 1, 1]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_of_few_values_little_is_lost_once_most_are_kept(mechanism: Mechanism) -> None:
    """Units have 16 values each, of 50 in all: with one of each unit, none of the 50 is likely to be missed."""

    def choice(units: float, values: int | None) -> ClipChoice:
        return choose_clip(
            histogram({8: units}), groups=10, noise_per_clip=4.0, mechanism=mechanism, cap=100.0, values=values
        )

    assert choice(5_000, None).clip == 16 and choice(5_000, 50).clip == 1
    assert choice(5_000, 10**6).clip == 16
    assert choice(5_000, 50).cut_upper == choice(5_000, 50).cut == 50 * 10
