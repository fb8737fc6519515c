"""The Laplace mechanism: a number, or a vector, with Laplace noise of scale Δ/ε.

**Theorem (privacy).** If one unit changes the value by at most Δ in L1, the release is ε-DP.
**Proof.** On the grid the values differ by at most D whole steps (`additive.py`), and the noise is discrete Laplace
of a scale of at least D/ε steps: log(P[y]/P'[y]) = Σ(|y−x'ᵢ| − |y−xᵢ|)/scale ≤ D/scale ≤ ε by the triangle
inequality.
**Theorem (accuracy).** P[|error| > α] ≤ β for α = (Δ/ε)·ln(1/β), and for k coordinates together α = (Δ/ε)·ln(k/β).
**Proof.** P[|Z| > t·scale] = e^(−t) for the continuous law; `accuracy` has the exact quantile of the discrete one,
which is the same to six digits on the fine grid. k coordinates: the union bound (`accuracy` uses their independence).
**Requires** a Δ in L1 that the caller states, a draw that is exactly discrete Laplace
(`dpsql.mechanisms.discrete_noise`), with independent draws for the coordinates.
**Checked by** `tests/unit/mechanisms/test_textbook.py`: coverage, the divergence on neighbours, and 0.9 of the noise,
which fails.

>>> Laplace(sensitivity=1, epsilon=1, grid=1).release(120)  # doctest: +SKIP
119
>>> round(Laplace(sensitivity=1e-6, epsilon=1).accuracy(0.05), 9)
2.996e-06
>>> round(Laplace(sensitivity=1, epsilon=1).epsilon_for(alpha=10, beta=0.05), 3)
0.3
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar

from dpsql.errors import InternalError, ProgrammingError
from dpsql.mechanisms.discrete_noise import LIMIT, DiscreteLaplace
from dpsql.mechanisms.exact_numbers import Number, positive
from dpsql.mechanisms.textbook.additive import Additive, coordinates, fine_grid, stored


@dataclass(frozen=True, slots=True)
class Laplace(Additive):
    """Laplace noise for a value of which one unit changes at most `sensitivity` in L1.

    `grid` is the step to which values are rounded (1 for counts; otherwise a millionth of the scale), `touched` the
    number of coordinates of a vector that one unit can change.
    """

    one_is_worst: ClassVar[bool] = True

    sensitivity: Number
    epsilon: Number
    grid: Number | None = None
    touched: int | None = None
    step: Fraction = field(init=False, repr=False)
    noise: DiscreteLaplace = field(init=False, repr=False)

    def __post_init__(self) -> None:
        delta, epsilon = stored(self.sensitivity, "sensitivity"), positive(self.epsilon, "epsilon")
        step = fine_grid(delta, float(delta / epsilon), LIMIT // 2) if self.grid is None else stored(self.grid, "grid")
        steps = math.ceil(delta / step) + coordinates(self.touched) - 1
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "noise", laplace_noise(steps, epsilon))

    def at(self, epsilon: Number) -> Laplace:
        """The same mechanism at another ε."""
        return replace(self, epsilon=epsilon)

    @property
    def scale(self) -> float:
        """Δ/ε, as large as the grid makes it."""
        return float(self.noise.scale * self.step)


def histogram(rows: Iterable[Hashable], cells: Sequence[Hashable], epsilon: Number) -> dict[Hashable, int]:
    """How many rows fall into each cell, with noise.

    **Theorem.** ε-DP for one row more or less, however many cells there are. **Proof.** A row is in one cell, so it
    changes the vector of counts by 1 in L1. **Requires** cells that are declared, not taken from the data: each one
    appears, also with no rows, and rows in no cell are left out. Where neighbours *replace* a row, two counts change:
    halve ε. **Checked by** `tests/unit/mechanisms/test_textbook.py`.
    """
    counts = Counter(rows)
    noisy = Laplace(sensitivity=1, epsilon=epsilon, grid=1).release([counts[cell] for cell in cells])
    return dict(zip(cells, noisy.tolist(), strict=True))


def laplace_noise(steps: int, epsilon: Fraction) -> DiscreteLaplace:
    """The least noise for a change of so many steps."""
    try:
        return DiscreteLaplace.for_epsilon(steps, epsilon)
    except InternalError:
        raise ProgrammingError(
            f"noise for epsilon {float(epsilon):g} has a scale of {float(steps / epsilon):g} steps of its grid, "
            "which is more than can be drawn",
            hint="declare a coarser grid, or ask for a larger epsilon",
        ) from None
