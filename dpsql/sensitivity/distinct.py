"""COUNT(DISTINCT x): how many different values of x one unit may stand for.

Each unit keeps at most `cap` different pairs (group, x) of its own, chosen by a salted hash of the unit and the pair;
a value counts once in a group if any unit keeps it there.

**Theorem.** Adding or removing a unit changes the counts of all groups together by at most `cap`: l1 ≤ cap, hence
linf ≤ cap and l2 ≤ cap; where all of its rows lie in one group, in one coordinate only.
**Proof.** The kept pairs are the union of the units' own sets, and each set depends on its unit's rows and the salt
alone (the hash orders a unit's pairs, the pairs themselves break ties). Adding a set of at most `cap` pairs to a union
adds between 0 and `cap` pairs to it. Where the rule is `row` or `single_row` a unit has one row, and so one pair.
**Requires** that the cap comes before values of different units meet: values that are deduplicated first would leave
a value to one of the units that have it, and removing that unit would let another's hash choose anew.
**Checked by** `tests/properties/test_distinct.py`, with the planted bugs "no cap" and "distinct before the cap".
"""

from __future__ import annotations

from math import ceil, floor

from dpsql.bounds.domain import Domain
from dpsql.expressions.expression import Call, Expression, Literal
from dpsql.expressions.types import Kind
from dpsql.plan.relation import Relation


def distinct_cap(source: Relation, argument: Expression, domain: Domain, groups: int | None) -> int:
    """The most pairs (group, value) of one unit, which may have rows in so many groups (None: nobody knows).

    It is enforced, so a domain that the data does not keep to costs accuracy alone.
    """
    if source.by_row or source.single:
        return 1
    values = _values(source, argument, domain)
    pairs = None if values is None or groups is None else values * groups
    return max(1, source.rows_per_unit if pairs is None else min(pairs, source.rows_per_unit))


def _values(source: Relation, argument: Expression, domain: Domain) -> int | None:
    """The most different values of one unit; a choice (and so FILTER) has at most those of its branches together."""
    known = [count for count in (_listed(argument, domain), _chosen(source, argument)) if count is not None]
    return min(known, default=None)


def _chosen(source: Relation, argument: Expression) -> int | None:
    if isinstance(argument, Literal):
        return 0 if argument.value is None else 1
    if source.is_attribute(argument):
        return 1
    if not (isinstance(argument, Call) and argument.op == "case"):
        return None
    *pairs, default = argument.args
    branches = [_chosen(source, result) for result in (*pairs[1::2], default)]
    known = [count for count in branches if count is not None]
    return sum(known) if len(known) == len(branches) else None


def _listed(argument: Expression, domain: Domain) -> int | None:
    """How many values the domain has."""
    if domain.nan:
        return None
    if domain.values is not None:
        return sum(1 for value in domain.values if value is not None)
    if argument.type.kind in (Kind.INTEGER, Kind.DATE) and domain.lower is not None and domain.upper is not None:
        return max(0, floor(domain.upper) - ceil(domain.lower) + 1)
    return None
