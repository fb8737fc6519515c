"""Bugs planted in the noise: half of what the claims call for, or another share of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any
from unittest.mock import patch

from dpsql.mechanisms import ExponentialLaw, Noise
from dpsql.mechanisms.discrete_noise import MAX_DENOMINATOR


def _part(scale: Fraction, share: Fraction) -> Fraction:
    finer = scale * share
    if finer.denominator <= MAX_DENOMINATOR:
        return finer
    return Fraction(-(-finer * MAX_DENOMINATOR // 1), MAX_DENOMINATOR)


@contextmanager
def part_of_the_noise(share: Fraction) -> Iterator[None]:
    """Every sampler draws with a share of its scale; claims, charges and thresholds stay as they are.

    That is the noise of sums, counts and trees, the noise in which thresholds are compared, and the law of choices.
    """
    sample, choose = Noise.sample, ExponentialLaw.choose

    def sampled(self: Any, n: int) -> Any:
        return sample(type(self)(_part(self.scale, share)), n)

    def chosen(self: Any, sizes: Any, scores: Any) -> Any:
        return choose(ExponentialLaw(_part(self.scale, share)), sizes, scores)

    with patch.object(Noise, "sample", sampled), patch.object(ExponentialLaw, "choose", chosen):
        yield


def half_the_noise() -> Any:
    """Half of the scale everywhere: twice the ε, four times the ρ."""
    return part_of_the_noise(Fraction(1, 2))
