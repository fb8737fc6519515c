"""Rule `vector`: all that a unit adds is one vector, which is clipped to a public norm.

Let y_gj be what unit u adds to statistic j of group g: α·Σ + β·n of its rows there, a whole number, or 1 for each group
that it is in where units are counted. With a public exponent e_j for each statistic and a public bound C, z_gj is
y_gj·2^e_j, rounded down where e_j < 0, and cut to [−C, C]. N is a whole number with N ≥ ‖z‖, over all groups and
statistics, in L2 under Gaussian noise and in L1 under Laplace noise. The unit adds z if ‖z‖ ≤ C, else
sign(z)·⌊|z|·C/N⌋ in every coordinate.

**Theorem (vector).** Adding or removing a unit changes the vector of all totals by at most C in that norm, hence by at
most C in every coordinate, and by at most √m·C in L1 under an L2 clip of m coordinates. All statistics together are
one event, at the price of one.
**Proof.** What u adds is a function of u's rows and public numbers: of exact sums over its own rows, which no order
changes. It has norm at most C: as it is, or because each coordinate is at most |z|·C/N, so that the norm is at most
‖z‖·C/N ≤ C. The totals are sums over the units, so a unit changes them by what it adds; ‖d‖₁ ≤ √m·‖d‖₂.
**Requires** exact sums below, N from exact squares and rounded up, quotients rounded towards zero
(`dpsql.engines.sql.vector_clip`), and a C, exponents and centres that are public: they follow from the SQL, the policy,
and what was released before (`dpsql.sensitivity.clip_choice`).
**Checked by** `tests/audit/test_neighbours.py`, `tests/properties/test_vector_clip.py`, and the planted bugs
"a norm of floats", "the clip rounds down below zero" and "the clip is forgotten".

**Theorem (norms).** In the histogram of norms a unit adds (a, ⌊b·t⌋) to one bucket, with 0 ≤ t ≤ 1: it changes two
coordinates, by at most √(a² + b²) in L2 and a + b in L1.
**Proof.** The bucket and t are functions of the unit's own vector, of which a bucket's condition holds for one bucket
only. t is cut to [0, 1].
**Requires** the same vector as above, without the clip. **Checked by** `tests/properties/test_vector_clip.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from math import floor, frexp, isqrt, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpsql.sensitivity.claim import Claim
from dpsql.sensitivity.clip_choice import ClipChoice, NormHistogram, choose_clip
from dpsql.sensitivity.unit_weight import WEIGHT_BITS

Norm = Literal["l1", "l2"]
Ranked = Literal["rows", "groups"]
"""What a choice ranks: a unit's rows, or its groups, of each of which it has one extreme."""
CLIP_BITS = 20
"""A clip has from 2**20 to 2**21 steps: fine enough to share among many cells, and squares fit 64 bits."""
ROW_BITS = 32
"""In the units of norms a row adds at most 2**32."""
CELL_BITS = 52
"""In the units of norms a cell counts up to 2**52: the squares of a million cells fit the widest integer."""
BUCKETS = 2 * CELL_BITS + 2
"""Half octaves of norms from 1 to 2**52, with all below in the first bucket and all above in the last."""
HISTOGRAM_BITS = 12
COUNT_PART, SPREAD_PART = 0.94, 0.34
"""What a unit adds to its bucket under Gaussian noise: its presence, and its spread over cells; a vector of norm 1."""

NARROW = 2
"""Up to this limit nothing is searched for: it is never far from the best clip of whole numbers."""
_ABOVE = 1 + 2.0**-40
"""The edges of buckets are roots of whole numbers, as floats."""

SHOWN_FROM = 100
"""A group with a private key is taken to have this many units for each unit of noise: far more than its threshold."""
RATE_CUT = 0.3
"""How much of a cut is left in a rate: a clip takes the same part of what is divided and of what it is divided by, so
only that matters by which the rates of heavy units differ from those of others."""
MEAN_CUT = 0.5
"""The same for averages, variances and other quotients with a sum of values: those of heavy units differ more often."""
RANK_CUT = 0.1
"""How much of a cut is left in a rank: a unit counts less below the value and above it, and the values of units with
many rows are mostly spread as those of others are."""
VALUE_CUT = 0.5
"""How much of a cut is left in a number of different values: what one unit leaves out, others often keep."""


@dataclass(frozen=True, slots=True)
class Vector:
    """The vector of a unit before it is clipped.

    `scales` has for each statistic the exponent that turns its steps into units of norms, None where it is no part
    of the vector. `cells` is the number of coordinates, as far as it is known. `limit` is the most that declared
    bounds and caps allow, in units of norms; `declared` tells whether the policy declares one, or nothing can
    exceed it, or it is the default; with `closed` nothing can exceed it, whatever the data are. With `one_group`
    all rows of a unit lie in one group. `left` is how much of a cut is left in what is shown. With `distinct` it
    has the numbers of different values of a unit, of which some are left out (`sensitivity.distinct`): a group has
    at most so many `values`, if that is known. With `ranked` it has no statistics, but the numbers of rows, or the
    groups, by which a unit weighs in choices and trees. With `private` keys the number of cells is a guess, until a
    search tells more.
    """

    norm: Norm
    scales: tuple[int | None, ...]
    cells: int
    limit: float
    declared: bool
    one_group: bool
    left: float = field(default=1.0, compare=False)
    distinct: bool = False
    values: int | None = None
    ranked: Ranked | None = None
    private: bool = field(default=False, compare=False)
    closed: bool = field(default=False, compare=False)

    @property
    def groups(self) -> int:
        """In how many groups each of its statistics is released, as far as that is known."""
        return self.cells // max(1, len(self.members))

    @property
    def members(self) -> tuple[int, ...]:
        """The places of the statistics that are parts of it."""
        return tuple(place for place, scale in enumerate(self.scales) if scale is not None)

    @property
    def means(self) -> bool:
        """Are averages, variances or the like shown, and nothing else?"""
        return self.left == MEAN_CUT

    @property
    def searched(self) -> bool:
        """Is there enough between the least clip and its limit to be worth a search?"""
        return not (self.distinct or self.ranked) or self.limit > NARROW


@dataclass(frozen=True, slots=True)
class Clip:
    """A vector's clip: `bound` is C, in steps; `exponents` turn each statistic's own steps into those.

    `choice` is what it was chosen by, None where nothing was found. Where choices are `ranked`, steps are those of a
    weight (`dpsql.sensitivity.unit_weight`).
    """

    norm: Norm
    bound: int
    exponents: tuple[int | None, ...]
    choice: ClipChoice | None = None
    ranked: Ranked | None = None

    @property
    def members(self) -> tuple[int, ...]:
        """The places of the statistics that it clips."""
        return tuple(place for place, exponent in enumerate(self.exponents) if exponent is not None)

    def claim(self, reach: int) -> Claim:
        """What one unit changes, of so many coordinates, in steps."""
        l1 = self.bound if self.norm == "l1" else self.bound * (isqrt(max(1, reach) - 1) + 1)
        return Claim(None, self.bound, l1, self.bound, reach)


@dataclass(frozen=True, slots=True)
class ClippedVector:
    """One of the vectors of a release: what was `found` of its norms, if they were searched for, and, once the release
    has a price, the `clip` that was chosen.
    """

    vector: Vector
    found: NormHistogram | None = None
    clip: Clip | None = None


@dataclass(frozen=True, slots=True)
class Norms:
    """The histogram of norms as a release of its own: what a unit adds to its bucket, and to the bucket's spread."""

    norm: Norm
    count: int
    spread: int

    @property
    def claim(self) -> Claim:
        """Both coordinates together."""
        square = self.count**2 + self.spread**2
        l2 = isqrt(square - 1) + 1
        return Claim(None, self.count, self.count + self.spread, l2, 2 if self.spread else 1)


def norms_of(norm: Norm, cells: int) -> Norms:
    """Under Gaussian noise the spread is measured too, unless there is one cell."""
    if norm == "l1" or cells == 1:
        return Norms(norm, 1, 0)
    one = 1 << HISTOGRAM_BITS
    return Norms(norm, int(COUNT_PART * one), int(SPREAD_PART * one))


def largest_in(bucket: int) -> int:
    """The largest norm in a bucket that is a whole number."""
    return isqrt(1 << bucket)


def clip_at(vector: Vector, norm: float, choice: ClipChoice | None = None) -> Clip:
    """The vector clipped at a norm, on a grid on which that has CLIP_BITS bits; it is at least one unit of norms."""
    if vector.distinct:
        return _clip_of_values(vector, max(norm, 1.0) * _ABOVE, choice)
    if vector.ranked:
        return Clip(vector.norm, int(max(norm, 1.0) * 2**WEIGHT_BITS), vector.scales, choice, vector.ranked)
    mantissa, exponent = frexp(max(norm, 1.0))
    bound = int(mantissa * (2 << CLIP_BITS))
    exponents = tuple(None if scale is None else scale + CLIP_BITS + 1 - exponent for scale in vector.scales)
    return Clip(vector.norm, bound, exponents, choice)


def _clip_of_values(vector: Vector, norm: float, choice: ClipChoice | None) -> Clip:
    """The most that whole numbers of values reach within a norm: of one number a whole one, else the root of one."""
    if vector.norm == "l1" or vector.one_group:
        bound, exponent, reached = floor(norm), 0, float(floor(norm))
    else:
        square = floor(norm**2)
        reached = sqrt(square)
        exponent = max(0, CLIP_BITS + 1 - frexp(reached)[1])
        bound = isqrt((square << 2 * exponent) - 1) + 1
    exponents = tuple(None if scale is None else exponent for scale in vector.scales)
    return Clip(vector.norm, bound, exponents, None if choice is None else replace(choice, clip=reached))


def chosen_clip(vector: Vector, found: NormHistogram | None, noise: float) -> Clip:
    """The clip with the least error, by a histogram of norms, for noise of this deviation where the clip is 1.

    Where nothing was searched it is the limit of the policy; where too few units were found, a guess below that.
    """
    if found is None:
        return clip_at(vector, vector.limit)
    mechanism: Literal["laplace", "gaussian"] = "laplace" if vector.norm == "l1" else "gaussian"
    choose = partial(
        choose_clip,
        found,
        groups=vector.cells,
        noise_per_clip=noise,
        mechanism=mechanism,
        cut_matters=_cut_matters(vector),
        values=vector.values,
        most=vector.limit if vector.closed else None,
        shown_from=SHOWN_FROM * noise / max(1, len(vector.members)) if vector.private else None,
    )
    choice = choose(cap=vector.limit if vector.declared else None)
    if not (choice.found or vector.declared):
        choice = replace(choose(cap=vector.limit), found=False)
    return clip_at(vector, choice.clip, choice)


def _cut_matters(vector: Vector) -> float:
    if vector.ranked:
        return RANK_CUT
    return VALUE_CUT if vector.distinct else vector.left


def read_norms(
    norms: Norms, counts: NDArray[np.float64], spreads: NDArray[np.float64] | None, sd: float
) -> NormHistogram:
    """A released histogram, as the chooser reads it; `sd` is that of the noise, in its integers."""
    wide = None if spreads is None or not norms.spread else spreads / norms.spread
    return NormHistogram(1, counts / norms.count, wide, sd / norms.count, sd / norms.spread if norms.spread else None)
