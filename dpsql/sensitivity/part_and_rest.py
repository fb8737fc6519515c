"""A part and its whole: SUM(CASE WHEN c THEN x END) beside SUM(x), or COUNT(*) FILTER (WHERE c) beside COUNT(*).

The whole is the part plus the rest, Σ x over the rows where c is TRUE plus Σ x over all others.

**Theorem.** Released as part and rest, both together need the budget of one sum: their joint L1 (and so L2) norm is
that of SUM(x), rows · M.
**Proof.** Every row is in exactly one of the two (a condition that is NULL is not TRUE), so it adds at most M to both
together. One weight per unit keeps the total of both below the cap: by a term on the number of its rows, or by one on
Σ|x| over the part plus Σ|x| over the rest (where all rows lie in one group, |Σ| of each), as in
`dpsql.sensitivity.unit_weight`. Part and rest are on one grid, with one bound M.
**Requires** that the planner gives both the same condition, once as it is and once as NOT TRUE, over the same rows, and
one weight for both in the emitted SQL (`Term.others`).
**Checked by** `tests/properties/test_parts_and_wholes.py`, with the planted bug "part and rest bounded one by one".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpsql.expressions.expression import Call, Expression, Literal, order
from dpsql.expressions.types import BOOLEAN
from dpsql.expressions.typing import call, literal

Subject = Expression | None


@dataclass(frozen=True, slots=True)
class PartAndRest:
    """The argument of the part and that of the rest; a row has exactly one of them, or none where x is NULL."""

    part: Expression
    rest: Expression


def nested(function: str, part: Subject, whole: Subject) -> PartAndRest | None:
    """Part and rest, if the one argument is the other under a condition (None is that of COUNT(*))."""
    if not (isinstance(part, Call) and part.op == "case" and len(part.args) == 3):
        return None
    condition, inside, otherwise = part.args
    nothing = isinstance(otherwise, Literal) and (
        otherwise.value is None or (function == "sum" and otherwise.value == 0)
    )
    if not nothing or condition.type != BOOLEAN or not _same(function, inside, whole):
        return None
    null = literal(None)
    return PartAndRest(
        call("case", inside.type, condition, inside, null), call("case", inside.type, condition, null, inside)
    )


def _same(function: str, inside: Expression, whole: Subject) -> bool:
    if whole is None:
        return function == "count" and isinstance(inside, Literal) and inside.value is not None
    return order(inside) == order(whole)


def pairs_of(asked: Sequence[tuple[str, Subject]]) -> dict[int, tuple[int, PartAndRest]]:
    """For each part, by its place, the place of its whole; a whole has one part, the first that is found."""
    found: dict[int, tuple[int, PartAndRest]] = {}
    taken: set[int] = set()
    for place, (function, part) in enumerate(asked):
        for other, (same, whole) in enumerate(asked):
            if other == place or same != function or {place, other} & taken:
                continue
            made = nested(function, part, whole)
            if made is not None:
                found[place] = (other, made)
                taken |= {place, other}
    return found
