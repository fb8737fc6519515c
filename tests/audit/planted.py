"""Bugs planted in the noise: half of what the claims call for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any
from unittest.mock import patch

from dpsql.mechanisms import ExponentialLaw, Noise
from dpsql.mechanisms.noise import MAX_DENOMINATOR


def _half(scale: Fraction) -> Fraction:
    finer = scale / 2
    return finer if finer.denominator <= MAX_DENOMINATOR else Fraction(-(-scale.numerator // 2), scale.denominator)


@contextmanager
def half_the_noise() -> Iterator[None]:
    """Every sampler draws with half the scale; claims, charges and thresholds stay as they are."""
    sample, choose = Noise.sample, ExponentialLaw.choose

    def sampled(self: Any, n: int) -> Any:
        return sample(type(self)(_half(self.scale)), n)

    def chosen(self: Any, sizes: Any, scores: Any) -> Any:
        return choose(ExponentialLaw(_half(self.scale)), sizes, scores)

    with patch.object(Noise, "sample", sampled), patch.object(ExponentialLaw, "choose", chosen):
        yield
