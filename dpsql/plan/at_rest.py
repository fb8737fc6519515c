"""Tables that are bounded at rest: where a copy that `dpsql prepare` wrote may be read in place of the table.

**The copy.** Let T_u be the rows of unit u in a table (rows without owner are left out), each column as the planner
reads it, with one zero and one NaN. A copy for m rows has in its part `within` the rows f(T_u) of each unit: · f(T_u) =
T_u where |T_u| ≤ m; · `prepare: weigh`: nothing where |T_u| > m, and the part `over` has T_u instead; · `prepare:
keep`: the first m rows of T_u in the order of (a salted hash of the row, the row). **Theorem (neighbours stay
neighbours).** Copies of two databases that differ in one unit differ in that unit's rows only, and in `within` in at
most m of them. **Proof.** f is a function of T_u, m and the salt: a tie in the order is one between equal rows, so the
order in which rows are stored does not matter. The copy is ⊎_u f(T_u), and no T_u of another unit changes. **Theorem
(at rest).** Let a relation give at most one row for each row of one scan (`bounded_at_rest`), and nothing else. Read
from `within` it has at most m rows of each unit. **Proof.** By induction: a filter, EXISTS or a projection gives at
most one row for each; an inner join does whose other parts are all looked up by unique keys from it, and so does an
outer join with at most one match (`dpsql.plan.nodes.lookups`); what else they read is public or the same unit's.
**Theorem (apart).** With `over`, the rows of such a relation from `within` and those from `over`, together, are its
rows from the table, and a unit has rows in one of the two only. **Proof.** The parts are a partition of the table by
unit; each row of the relation comes from one row of the scan. **Requires** a copy made of this version of the data by
these bounds (`dpsql.policy.prepared_copies`); verified uniqueness behind each lookup. **Checked by**
`tests/properties/test_at_rest.py`: neighbours are prepared and compared, with the planted bugs "chosen by place", "one
row too many" and "a unit in both parts".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from dpsql.plan.nodes.joins import Inner, Outer
from dpsql.plan.nodes.relation import Copy, JoinSide, Relation, Scan
from dpsql.plan.nodes.semi_joins import Exists
from dpsql.plan.nodes.unary import Filter, Project


def bounded_at_rest(relation: Relation) -> Copy | None:
    """The copy from which the relation can be read with at most one row for each row of it; None if there is none."""
    match relation:
        case Scan(copy=copy, part=None):
            return copy
        case Filter(source=Relation() as source) | Project(source=Relation() as source):
            return bounded_at_rest(source)
        case Exists(source=Relation() as source):
            return bounded_at_rest(source)
        case Outer(left=JoinSide() as left, right=JoinSide() as right, full=False, once=True) if not right.private:
            return bounded_at_rest(left.relation)
        case Inner(parts=parts, lookups=lookups):
            roots = [part for number, part in enumerate(parts) if number not in lookups]
            private = [part for part in parts if part.private]
            return bounded_at_rest(roots[0].relation) if len(roots) == 1 and private == roots else None
    return None


def reading(relation: Relation, part: Literal["within", "over"]) -> Relation:
    """The same relation over one part of the copy; the relation is one that `bounded_at_rest` finds a copy for."""
    match relation:
        case Scan():
            return replace(relation, part=part)
        case Filter(source=Relation() as source):
            return replace(relation, source=reading(source, part))
        case Project(source=Relation() as source):
            return replace(relation, source=reading(source, part))
        case Exists(source=Relation() as source):
            return replace(relation, source=reading(source, part))
        case Outer(left=JoinSide() as left):
            return replace(relation, left=replace(left, relation=reading(left.relation, part)))
        case Inner(parts=parts):
            read = [replace(p, relation=reading(p.relation, part)) if p.private else p for p in parts]
            return replace(relation, parts=tuple(read))
    return relation
