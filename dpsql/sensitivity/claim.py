"""How far one unit can move a vector of integers: the claim that the noise is scaled to."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt


@dataclass(frozen=True, slots=True)
class Claim:
    """Bounds on what adding or removing one unit changes, in whole steps of a grid.

    `l0` is the number of coordinates (None: no claim), `linf`, `l1`, `l2` the norms, rounded up. `reach` is the number
    of coordinates that a unit can touch at all; the floor to a coarser grid costs up to one step in each of them.
    """

    l0: int | None
    linf: int
    l1: int
    l2: int
    reach: int

    def coarser(self, shift: int) -> Claim:
        """The claim after each coordinate is floored to a grid 2**shift times as coarse.

        **Theorem.** If a unit changes coordinate i by d_i, the floored totals change by at most ⌈|d_i|/2^s⌉, so
        linf ≤ ⌈linf/2^s⌉, l1 ≤ l1/2^s + m and l2 ≤ l2/2^s + √m for m coordinates; for m = 1 all are ⌈·/2^s⌉.
        **Proof.** ⌊a⌋ − ⌊b⌋ is an integer in (a−b−1, a−b+1), and |a−b| ≤ D for an integer D implies it is at most D.
        Sum ⌈|d_i|/2^s⌉ < |d_i|/2^s + 1 over m coordinates; for l2 use the triangle inequality with a vector of ones.
        **Requires** an exact floor in the engine (`Dialect.floored`) of exact integer totals, and an m that counts
        every coordinate that one unit can touch.
        **Checked by** `tests/audit/test_neighbours.py` (values are compared after the floor).
        """
        if shift == 0:
            return self
        step = 1 << shift
        linf, l1, l2 = (-(-norm // step) for norm in (self.linf, self.l1, self.l2))
        if self.reach > 1:
            l1, l2 = l1 + self.reach, l2 + isqrt(self.reach - 1) + 1
        return Claim(self.l0, linf, l1, l2, self.reach)


def one_coordinate(size: int) -> Claim:
    """A unit touches one coordinate, and moves it by at most `size`."""
    return Claim(1, size, size, size, 1)
