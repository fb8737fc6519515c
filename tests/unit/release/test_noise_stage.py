"""Where exact integers end: what leaves is noisy, complete for public keys, and thresholded for private ones."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from unlocked import run, sealed, with_spread

import dpsql
from dpsql.answers.error_bars import resampled
from dpsql.answers.noise_stage import add_noise, box, public_table

POLICY = {
    "dataset": "noise",
    "search": False,
    "budget": {"epsilon": 100, "delta": 1e-6},
    "tables": {"t": {"unit": "row", "columns": {"x": {"min": 0, "max": 10}, "k": {"values": ["a", "b"]}, "free": {}}}},
}


@pytest.fixture
def db() -> dpsql.Connection:
    import pandas as pd

    frame = pd.DataFrame({"x": [1.0, 2.0], "k": ["a", "b"], "free": ["u", "v"]})
    return dpsql.connect({"t": frame}, policy=POLICY, ledger=":memory:")


def prepared(db: dpsql.Connection, sql: str, epsilon: float = 1.0, mechanism: str = "laplace"):
    return db.prepare(sql, epsilon=epsilon, mechanism=mechanism).bill.releases[0]


def test_every_public_key_is_released_also_an_empty_one(db: dpsql.Connection) -> None:
    priced = prepared(db, "SELECT k, count(*) FROM t GROUP BY k")
    released = add_noise(priced, run(db.engine, priced, b"salt"))
    assert released.keys == (("a",), ("b",), (None,))


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_noise_has_the_planned_spread_and_no_bias(db: dpsql.Connection, mechanism: str) -> None:
    priced = prepared(db, "SELECT count(*) FROM t", 0.5, mechanism)
    exact = sealed(tuple((i,) for i in range(20_000)), (np.full(20_000, 7),), None)
    noisy = add_noise(priced, exact).noisy[0]
    deviation = np.sqrt(priced.noised[0].noise.variance())
    assert abs(noisy.mean() - 7) < 6 * deviation / np.sqrt(20_000)
    assert 0.95 < noisy.std() / deviation < 1.05


def test_every_statistic_of_every_group_has_noise_of_its_own(db: dpsql.Connection) -> None:
    priced = prepared(db, "SELECT count(*), sum(x), count(DISTINCT x) FROM t", 0.5, "gaussian")
    n = 4_000
    zeros = tuple(np.zeros(n, dtype=np.int64) for _ in priced.noised)
    noisy = np.stack(add_noise(priced, sealed(tuple((i,) for i in range(n)), zeros, None)).noisy).astype(float)
    for drawn, noised in zip(noisy, priced.noised, strict=True):
        assert 0.9 < drawn.std() / np.sqrt(noised.noise.variance()) < 1.1
        assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.1
    assert np.all(np.abs(np.corrcoef(noisy) - np.eye(len(noisy))) < 0.1)


def test_a_key_is_shown_only_if_its_noisy_weight_reaches_the_threshold(db: dpsql.Connection) -> None:
    priced = prepared(db, "SELECT free, count(*) FROM t GROUP BY free")
    assert priced.threshold is not None
    weights = np.array([1] * 5_000 + [10 * priced.threshold] * 50)
    exact = sealed(tuple((str(i),) for i in range(len(weights))), (np.zeros(len(weights), dtype=np.int64),), weights)
    shown = {key[0] for key in add_noise(priced, exact).keys}
    assert shown == {str(i) for i in range(5_000, 5_050)}


def test_the_value_shown_has_noise_of_its_own_so_it_is_not_biased_by_the_threshold(db: dpsql.Connection) -> None:
    priced = prepared(db, "SELECT free, count(*) FROM t GROUP BY free")
    assert priced.threshold is not None
    n = 20_000
    edge = np.full(n, priced.threshold)
    released = add_noise(priced, sealed(tuple((i,) for i in range(n)), (edge,), edge))
    assert 0.4 * n < len(released.keys) < 0.65 * n
    deviation = np.sqrt(priced.noised[0].noise.variance())
    assert abs(released.noisy[0].mean() - priced.threshold) < 6 * deviation / np.sqrt(len(released.keys))


def test_public_keys_alone_need_no_data(db: dpsql.Connection) -> None:
    priced = prepared(db, "SELECT DISTINCT k FROM t")
    assert priced.free
    assert public_table(priced).keys == (("a",), ("b",), (None,))


def test_resampling_draws_around_what_was_released(db: dpsql.Connection) -> None:
    priced = prepared(db, "SELECT k, count(*) FROM t GROUP BY k")
    released = add_noise(priced, run(db.engine, priced, b"salt"))
    draws = resampled(released, 4_000)[0]
    assert draws.shape == (4_000, 3)
    assert np.all(np.abs(draws.mean(axis=0) - released.noisy[0]) < 0.5)


def test_a_key_that_no_unit_supports_is_never_shown(db: dpsql.Connection) -> None:
    priced = prepared(db, "SELECT free, count(*) FROM t GROUP BY free", 0.01)
    n = 200_000
    exact = sealed(tuple((i,) for i in range(n)), (np.zeros(n, dtype=np.int64),), np.zeros(n, dtype=np.int64))
    assert add_noise(dataclasses.replace(priced, threshold=1), exact).keys == ()


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_box_holds_all_noises_together_and_is_no_wider_than_that_takes(db: dpsql.Connection, mechanism: str) -> None:
    priced = prepared(db, "SELECT k, count(*) FROM t GROUP BY k", 0.01, mechanism)
    released = add_noise(priced, run(db.engine, priced, b"salt"))
    draws = np.abs(resampled(released, 8_000)[0] - released.noisy[0])
    [(low, high)] = box(released, 0.9, 3)
    assert np.all(high - released.noisy[0] == released.noisy[0] - low)
    assert np.mean(np.all(draws <= high - released.noisy[0], axis=1)) == pytest.approx(0.9, abs=0.02)
    [(low, high)] = box(released, 0.9, 0)
    assert np.mean(draws <= high - released.noisy[0]) == pytest.approx(0.9, abs=0.02)


def test_a_box_around_fitted_values_is_as_many_times_as_wide_as_their_error(db: dpsql.Connection) -> None:
    priced = prepared(db, "SELECT k, count(*) FROM t GROUP BY k", 0.1, "gaussian")
    released = add_noise(priced, run(db.engine, priced, b"salt"))
    fitted = with_spread(released, 0.25)
    [(_, plain)], [(_, narrow)] = box(released, 0.9, 3), box(fitted, 0.9, 3)
    assert np.allclose(narrow - released.noisy[0], 0.25 * (plain - released.noisy[0]))
