"""The law of a weighted sum of noises: how far it strays, and how far at most with a given confidence."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import ceil, prod
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms import DiscreteGaussian, Noise

Floats = NDArray[np.float64]
FEW_STEPS = 4
ENUMERATED = 1 - 1e-5
DRAWS = 20_000
_REACH = {True: 6.0, False: 16.0}
"""Beyond so many scales a Gaussian or a Laplace law has less than one part in a million."""


def deviation(weights: Floats, noises: Sequence[Noise], confidence: float) -> Floats:
    """For each row w of `weights` the t with P[|Σ wᵢ·Zᵢ| ≤ t] ≥ confidence, Zᵢ the independent noises in steps.

    One noise has its exact discrete quantile. Several have that of the continuous law, which agrees once a scale has a
    few steps; below that the discrete law is added up point by point. More than two Laplace noises are drawn.
    """
    used = np.flatnonzero(np.any(weights != 0, axis=0))
    weights, noises = weights[:, used], [noises[int(i)] for i in used]
    if len(noises) == 0:
        return np.zeros(len(weights))
    if len(noises) == 1:
        return np.abs(weights[:, 0]) * noises[0].half_width(confidence)
    few = max(float(noise.scale) for noise in noises) < FEW_STEPS and len(noises) == 2
    if few and confidence <= ENUMERATED:
        return _enumerated(weights, noises, confidence)
    scales = np.abs(weights) * np.array([float(noise.scale) for noise in noises])
    if all(isinstance(noise, DiscreteGaussian) for noise in noises):
        z = -NormalDist().inv_cdf((1 - confidence) / 2)
        return np.asarray(z * np.sqrt((scales**2).sum(axis=1)))
    if len(noises) == 2:
        return _two_laplace(scales[:, 0], scales[:, 1], confidence)
    return _drawn(weights, noises, confidence)


def _two_laplace(one: Floats, two: Floats, confidence: float) -> Floats:
    """T with P[|X+Y| > t] = 1 − confidence for independent Laplace X, Y of these scales.

    For scales a > b = ra the tail at t·a is (e^(−t) − r²e^(−t/r)) / (1−r²); r is kept just below 1, where that is exact
    to the eighth digit.
    """
    a = np.maximum(np.maximum(one, two), 1e-300)
    r = np.minimum(np.minimum(one, two) / a, 1 - 1e-4)

    def tail(t: Floats) -> Floats:
        small = np.where(r > 0, r * r * np.exp(-t / np.where(r > 0, r, 1.0)), 0.0)
        tails: Floats = (np.exp(-t) - small) / (1 - r * r)
        return tails

    low, high = np.zeros_like(a), np.full_like(a, 100.0)
    for _ in range(60):
        middle = (low + high) / 2
        above = tail(middle) > 1 - confidence
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return a * high


def _enumerated(weights: Floats, noises: Sequence[Noise], confidence: float) -> Floats:
    """The exact quantile for scales of a few steps: every pair of draws that is worth counting."""
    reaches = [1 + ceil(_REACH[isinstance(n, DiscreteGaussian)] * float(n.scale)) for n in noises]
    masses = [
        {z: n.survival(z) - n.survival(z + 1) for z in range(-r, r + 1)} for n, r in zip(noises, reaches, strict=True)
    ]
    points = np.array(list(product(*masses)), dtype=np.float64)
    chances = np.array([prod(pair) for pair in product(*(m.values() for m in masses))])
    found = np.empty(len(weights))
    for row, weight in enumerate(weights):
        far = np.abs(points @ weight)
        order = np.argsort(far)
        reached = np.searchsorted(np.cumsum(chances[order]), confidence)
        found[row] = far[order][min(int(reached), len(far) - 1)]
    return found


def _drawn(weights: Floats, noises: Sequence[Noise], confidence: float) -> Floats:
    """By draws that are the same each time, so that the same released values have the same interval.

    They only measure a width: no noise that protects anything is drawn here.
    """
    random = np.random.default_rng(0)
    laws = [random.normal if isinstance(noise, DiscreteGaussian) else random.laplace for noise in noises]
    draws = np.stack([np.rint(law(0.0, float(n.scale), DRAWS)) for law, n in zip(laws, noises, strict=True)])
    rank = min(DRAWS, ceil((DRAWS + 1) * confidence)) - 1
    return np.array([np.partition(np.abs(weight @ draws), rank)[rank] for weight in weights])
