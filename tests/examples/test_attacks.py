"""Every attack of `examples/attacks/` succeeds against the naive version and fails against dpsql.

"Fails" means: no more right guesses than e^ε/(1+e^ε) allows, with four standard deviations of a binomial for chance.
"""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from tiers import need

import dpsql

FOLDER = Path(dpsql.__file__).parents[1] / "examples" / "attacks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "common")


@pytest.fixture
def script(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    need("matplotlib")
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module(request.param)


def attacked(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("script", [name], indirect=True)


def allowed(epsilon: float, trials: int) -> float:
    """The most right guesses that the guarantee allows, and chance."""
    return math.exp(epsilon) / (1 + math.exp(epsilon)) + chance(trials)


def chance(trials: int) -> float:
    return 4 * math.sqrt(0.25 / trials)


@attacked("averaging")
def test_averaging(script: ModuleType) -> None:
    figures = script.attack(towns=100, repeats=4_000, asked=30)
    assert figures.exact(figures.naive) > 0.95
    assert np.ptp(figures.replayed, axis=0).max() < 1e-9, "the same noise each time"
    assert figures.charged == pytest.approx(script.EPSILON)
    assert len(figures.fresh) == 10 and "budget" in figures.refused
    assert figures.exact(figures.replayed) < 0.05 + chance(100)
    assert figures.exact(figures.fresh) < 0.09 + chance(100)


@attacked("differencing")
def test_differencing(script: ModuleType) -> None:
    figures = script.attack(towns=500, epsilons=(0.1, 1.0))
    assert figures.naive == 1
    assert all(right <= allowed(epsilon, 500) for epsilon, right in figures.ours.items())


@attacked("reconstruction")
def test_reconstruction(script: ModuleType) -> None:
    figures = script.attack(small=8, large=(64,), runs=2)
    linear = figures.linear[64]
    assert figures.exhaustive[0] == figures.exhaustive[1] == linear[0.0] == 1
    assert linear[0.125] > 0.95 and linear[4.0] < 0.5 + chance(128) and linear[0.25] > linear[2.0], "the threshold"
    noise, share = figures.linear_ours[64]
    assert noise > 10
    assert share <= 0.5 + chance(128)


@attacked("reconstruction")
def test_the_exhaustive_attack_fails_against_dpsql(script: ModuleType) -> None:
    """ε = 1 is the price of all counts together, so a secret is guessed no better than from one answer at ε = 1."""
    secrets = np.random.default_rng(1).integers(0, 2, (25, 6))
    subsets = script.every_subset(6)
    right = [script.survivor(script.private_answers(secret, subsets, 1.0), 6) == secret for secret in secrets]
    assert np.mean(right) <= allowed(1, 150) < 0.9


@attacked("reconstruction")
def test_the_exhaustive_attack_keeps_its_theorem(script: ModuleType) -> None:
    """With answers within E, all but 4E people are recovered."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert script.ruled_out(rng.integers(0, 2, 8), 1, rng) >= 1 - 4 / 8


@attacked("least_significant_bits")
def test_least_significant_bits(script: ModuleType) -> None:
    figures = script.attack(towns=500, epsilons=(0.1, 1.0))
    for epsilon, (naive, ours) in figures.support.items():
        assert naive.proved > 0.4 and ours.proved == 0
        assert ours.right <= allowed(epsilon, 500)
    assert figures.support[0.1][0].right > allowed(0.1, 500)
    assert figures.precision[1.0][0].proved > 0.05 and figures.precision[1.0][1].proved == 0


@attacked("least_significant_bits")
def test_the_inverted_sampler_finds_all_of_its_own_answers(script: ModuleType) -> None:
    """A proof is never wrong."""
    values = np.arange(500) % 2
    answers = script.numpy_laplace(values, 4.0)
    assert all(script.in_support(float(a), int(v), 4.0) for a, v in zip(answers, values, strict=True))
    answers = script.perfect_laplace(values, 1.0)
    assert all(script.coarse(float(a), int(v), 1.0) for a, v in zip(answers, values, strict=True))


@attacked("least_significant_bits")
def test_both_values_give_answers_on_one_grid(script: ModuleType) -> None:
    answers, grid = script.private_sum(np.arange(200) % 2, 4.0)
    assert all(script.on_grid(grid)(float(a), value, 4.0) for a in answers for value in (0, 1))


@attacked("summation_order")
def test_summation_order(script: ModuleType) -> None:
    figures = script.attack(towns=10, rounds=20)
    naive, ours = figures.right()
    assert figures.moved[0] > 5 and figures.moved[1] == pytest.approx(1, abs=1e-3)
    assert figures.spread[0] > 1 and figures.spread[1] < 1e-3
    assert naive > allowed(script.EPSILON, 200) and ours <= allowed(script.EPSILON, 200)


@attacked("advertisement")
def test_advertisement(script: ModuleType) -> None:
    naive, ours = script.attack(towns=500).right()
    assert naive == 1 and ours <= allowed(script.EPSILON, 500)


@attacked("linkage")
def test_linkage(script: ModuleType) -> None:
    figures = script.attack()
    assert figures.named > 0.8 and figures.claimed[0] > 0.3 and figures.claims_right[0] == 1
    assert figures.claims_right[1] < 0.75
    assert "private" in figures.refusal
    counts = figures.counts
    assert np.mean((counts["truth"] - counts["n"]).abs()) < 20, "useful to an honest analyst"


@pytest.mark.parametrize("name", NAMES)
def test_its_plot_is_committed_small_and_shown(name: str) -> None:
    picture = FOLDER / f"{name}.png"
    assert picture.stat().st_size < 100_000
    assert picture.name in (FOLDER / "README.md").read_text(encoding="utf-8")
