"""CPU of a million exact draws, with OpenDP's samplers beside it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import opendp.prelude as opendp
from measure import Row, cpu_of, progress

from dpsql.mechanisms import DiscreteGaussian, DiscreteLaplace, Noise

MILLION = 1_000_000
FEWER = 20_000
SCALES = (Fraction(3), Fraction(1000), Fraction(2**15) + Fraction(1, 2))


def measure(times: int = 3) -> list[Row]:
    """The slowest of several scales."""
    opendp.enable_features("contrib")
    return [
        _row("Laplace", DiscreteLaplace, opendp.m.make_laplace, 1, times),
        _row("Gaussian", DiscreteGaussian, opendp.m.make_gaussian, 2, times),
    ]


def _row(name: str, law: Callable[[Fraction], Noise], other: Callable[..., object], limit: float, times: int) -> Row:
    ours = max(min(cpu_of(lambda: law(scale).sample(MILLION)) for _ in range(times)) for scale in SCALES)
    theirs = max(_opendp(other, float(scale)) for scale in SCALES)
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
