"""CPU of a million exact draws, with OpenDP's samplers beside it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import opendp.prelude as opendp
from measure import Row, cpu_of, progress

from dpsql.mechanisms import DiscreteGaussian, DiscreteLaplace, Noise

MILLION = 1_000_000
FEWER = 20_000
LAPLACE = (Fraction(3), Fraction(10_001, 8), Fraction(2**35 + 1))
GAUSSIAN = (Fraction(3), Fraction(10_001, 8), Fraction(2**21 + 1))


def measure(times: int = 3) -> list[Row]:
    """The slowest of several scales."""
    opendp.enable_features("contrib")
    return [
        _row("Laplace", LAPLACE, DiscreteLaplace, opendp.m.make_laplace, 1, times),
        _row("Gaussian", GAUSSIAN, DiscreteGaussian, opendp.m.make_gaussian, 2, times),
    ]


def _row(
    name: str, scales: tuple[Fraction, ...], law: Callable[[Fraction], Noise], other: Callable[..., object], limit: float,
    times: int,
) -> Row:  # fmt: skip
    ours = max(min(cpu_of(partial(law(scale).sample, MILLION)) for _ in range(times)) for scale in scales)
    theirs = max(_opendp(other, float(scale)) for scale in scales)
    progress(f"noise: {name}: {ours:.2f} s, OpenDP {theirs:.1f} s")
    measured = f"{ours:.2f} s (OpenDP {theirs:.0f} s)"
    return Row(f"a million exact draws, discrete {name}: CPU", measured, f"≤ {limit:g} s", ours, limit)


def _opendp(make: Callable[..., object], scale: float) -> float:
    """The CPU of a million draws, from fewer."""
    space = opendp.vector_domain(opendp.atom_domain(T="i64")), opendp.l1_distance(T="i64")
    if make is opendp.m.make_gaussian:
        space = space[0], opendp.l2_distance(T="i64")
    mechanism = make(*space, scale)
    zeros = [0] * FEWER
    return cpu_of(lambda: mechanism(zeros)) * MILLION / FEWER  # type: ignore[operator]
