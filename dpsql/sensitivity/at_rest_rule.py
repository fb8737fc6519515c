"""Rule `at_rest`: a copy of the table already keeps each unit to its bound.

**Theorem.** If each unit owns at most m rows of the relation, and a row adds an integer vector of at most M per
statistic in one group, adding or removing a unit changes at most m coordinates of each statistic, by at most m·M in
all: l0 ≤ m, and linf, l1 and l2 ≤ m·M. The pair Σ(x−L), Σ(U−x) has *jointly* l1 ≤ m·(U−L). Where all rows of a unit lie
in one group, one coordinate changes. A histogram to whose cells each row adds one changes by at most m in all.
**Proof.** The totals are exact integer sums over rows, and a unit adds at most m summands, each clamped to [−M, M] in
the row, at the coordinate of the row's own group; l2 ≤ l1. For the pair a row adds U−L to both together.
**Requires** `bounded_at_rest` (`dpsql.plan.at_rest`, with its theorems), m = `rows_per_unit`, and nothing that is
counted by unit: COUNT(DISTINCT), MIN, MAX and private keys read the table itself, by the rules `one_group` and `clip`.
**Checked by** `tests/properties/test_at_rest.py`.
"""

from __future__ import annotations

from dpsql.plan.at_rest import bounded_at_rest, reading
from dpsql.plan.nodes.relation import Relation
from dpsql.sensitivity.bound import Bounded


def parts_at_rest(bounded: Bounded) -> tuple[Relation, Relation] | None:
    """The source over the units within their bound and over the others, where a copy has them apart."""
    source, terms = bounded.release.source, bounded.weight.terms if bounded.weight is not None else ()
    copy = bounded_at_rest(source) if terms else None
    if copy is None or not copy.over or copy.rows > source.rows_per_unit or bounded.selection is not None:
        return None
    counted = any(s.part.units for s in bounded.statistics)
    return None if counted else (reading(source, "within"), reading(source, "over"))
