"""Rules `row` and `single_row`: a unit is one row. Rules `one_group` and `clip`: one weight bounds a unit.

Let unit u own rows with integer contributions v (a vector over statistics), and let W_u be a whole number of
2**-WEIGHT_BITS, at most 1, with W_u · T_j(u) ≤ C_j for every term j: T is u's number of rows (or of rows that have the
argument, or of groups), or its total Σ|v|, and C the cap: `rows_per_unit`, `groups_per_unit`, or rows · magnitude.

**Theorem (clip).** Multiplying every row of u by W_u leaves Σ over groups |Σ rows v·W_u| ≤ C for each statistic:
l1 ≤ C, hence linf ≤ C and l2 ≤ C, for any number of groups and rows. The pair Σ(x−L), Σ(U−x) has *jointly*
l1 ≤ C, C = rows·(U−L).
**Proof.** Σ_g |Σ v W| ≤ W Σ|v|. For a term on the total, W Σ|v| ≤ C by choice of W. For a term on the number n of rows,
Σ|v| ≤ n·M and W·n ≤ rows, so W Σ|v| ≤ rows·M. W is ⌊C·2^B / T⌋ / 2^B, rounded down, and v·W is an exact integer in
units of 2^−B, so nothing is rounded up afterwards. W depends on u's own rows only, so other units do not move.
For the pair a row adds (x−L)+(U−x) = U−L, whatever x is.
**Theorem (one_group).** If all rows of u lie in one group (every key is an attribute of the unit, or there is no key),
the same holds with T = |Σ v| in place of Σ|v|, and each statistic changes in one coordinate: l0 = 1.
**Proof.** There is one g, so Σ_g |Σ v W| = W·|Σ v| ≤ C by choice of W; for a term on the number of rows |Σ v| ≤ Σ|v| ≤
n·M, as above. A part beside its rest has T = |Σ| of the one plus |Σ| of the other, which bounds both together. The pair
has a term on the number of rows, never on |Σ v|: its two sums are each at least 0 and add up to n·(U−L).
**Theorem (groups).** The weight of a unit in g groups, of which it counts in m, leaves a vector of units with linf ≤ 1,
l1 ≤ m and l2 ≤ √m. With m the number of public groups, nothing is cut.
**Proof.** It adds W ≤ min(1, m/g) to each of g groups: W·g ≤ m, and W²·g ≤ min(g, m²/g) ≤ m, the first for g ≤ m, the
second for g ≥ m. With g ≤ m the weight is one.
All statistics of a release use the same W_u, so sums, counts and averages stay consistent with each other.
**Requires** exact integer sums in the engine, the cap in every term (`dpsql.sensitivity.bound._terms`), and, for
`one_group`, attributes that are derived and not believed (`dpsql.plan.invariants`).
**Checked by** `tests/audit/test_neighbours.py`, and the planted bugs "weight ignored" and "weight per row".

Rules `row` and `single_row`: a unit is one row.

**Theorem.** If each unit owns at most one row of the relation, and the row adds an integer vector of at most M per
statistic in one group, adding or removing a unit changes one coordinate of each statistic, by at most M.
**Proof.** The totals are exact integer sums over rows; a unit adds one summand, clamped to [−M, M] in the row, at the
coordinate of the row's own group (one key each, by evaluation of the key on that row).
**Requires** `unit: row`, or a relation that is `single`: verified uniqueness of the unit column, or GROUP BY unit.
A declared `unique: true` that was not verified is enforced by rule `clip` or `one_group` with one row per unit.
**Checked by** `tests/audit/test_neighbours.py` and the planted bugs "no clamp" and "unverified unique believed".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WEIGHT_BITS = 30


@dataclass(frozen=True, slots=True)
class Term:
    """W · T ≤ cap, for T = rows, groups, rows with an argument, or the total of an argument; of all `others` too."""

    kind: Literal["rows", "groups", "count", "sum"]
    argument: int | None
    cap: int
    others: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Weight:
    """The least of 1 and cap/T over all terms."""

    terms: tuple[Term, ...]
