"""The closed form against a dense weighted least-squares solve."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from dpsql.answers import consistent_totals
from dpsql.answers.consistent_totals import fitted

CASES = {
    "rollup of one": ((4,), [{0}, set()]),
    "rollup of two": ((3, 4), [{0, 1}, {0}, set()]),
    "rollup of three": ((2, 3, 2), [{0, 1, 2}, {0, 1}, {0}, set()]),
    "cube of two": ((3, 2), [{0, 1}, {0}, {1}, set()]),
    "cube of three": ((2, 3, 2), [{0, 1, 2}, {0, 1}, {0, 2}, {1, 2}, {0}, {1}, {2}, set()]),
    "sets that do not nest": ((3, 4), [{0}, {1}]),
    "sets without their finest": ((2, 3, 2), [{0, 1}, {1, 2}, {1}]),
    "a key with one value": ((1, 3), [{0, 1}, {0}, set()]),
    "the same set twice": ((3,), [{0}, {0}]),
}


def _dense(
    shape: tuple[int, ...], sets: list[set[int]], raw: list[np.ndarray], variances: list[float]
) -> tuple[list, list]:
    """All cells of the full table as unknowns; a pseudo-inverse, since sets may leave some of it open."""
    cells = list(product(*map(range, shape)))
    rows, precisions, blocks = [], [], []
    for axes, variance in zip(sets, variances, strict=True):
        places = list(product(*(range(n) if axis in axes else [0] for axis, n in enumerate(shape))))
        blocks.append(len(places))
        for place in places:
            rows.append([float(all(cell[a] == place[a] for a in axes)) for cell in cells])
            precisions.append(1 / variance)
    design, weights = np.array(rows), np.diag(precisions)
    hat = design @ np.linalg.pinv(design.T @ weights @ design) @ design.T @ weights
    covariance = hat @ np.diag(1 / np.array(precisions)) @ hat.T
    ends = np.cumsum(blocks)[:-1]
    return np.split(hat @ np.concatenate([r.ravel() for r in raw]), ends), np.split(np.diag(covariance), ends)


def _compare(name: str) -> float:
    """The largest difference to the dense solve."""
    shape, sets = CASES[name]
    random = np.random.default_rng(len(name))
    raw = [random.normal(0, 5, [n if axis in axes else 1 for axis, n in enumerate(shape)]) for axes in sets]
    variances = [float(v) for v in random.uniform(0.2, 5, len(sets))]
    values, left = fitted([r[None] for r in raw], [frozenset(s) for s in sets], variances)
    wanted, spread = _dense(shape, sets, raw, variances)
    far = [np.abs(v.ravel() - w).max() for v, w in zip(values, wanted, strict=True)]
    off = [np.abs(v - w).max() for v, w in zip(left, spread, strict=True)]
    assert all(v <= before + 1e-9 for v, before in zip(left, variances, strict=True))
    return float(max(*far, *off))


@pytest.mark.parametrize("name", CASES)
def test_it_is_the_weighted_least_squares_fit(name: str) -> None:
    assert _compare(name) < 1e-9


def test_wrong_weights_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consistent_totals, "weight", lambda variance, cells: 1 / variance)
    assert _compare("rollup of two") > 1e-3
    monkeypatch.setattr(consistent_totals, "weight", lambda variance, cells: 1.0)
    assert _compare("cube of two") > 1e-3


def test_totals_are_the_sums_of_their_parts() -> None:
    random = np.random.default_rng(3)
    tables = [random.normal(0, 5, size) for size in ((7, 3, 4), (7, 3, 1), (7, 1, 1))]
    (fine, middle, total), _ = fitted(tables, [frozenset({0, 1}), frozenset({0}), frozenset()], [1.0, 2.0, 0.5])
    assert np.allclose(fine.sum(axis=2, keepdims=True), middle)
    assert np.allclose(middle.sum(axis=1, keepdims=True), total)
