"""COUNT(DISTINCT x): how many different values of x one unit may stand for.

Each unit keeps some of its different pairs (group, x), in the order of a salted hash of the unit and the pair; a value
counts once in a group if any unit keeps it there. By declared caps it keeps at most `cap` of them. Where bounds are
searched for, p_g is the number of pairs that it keeps in group g, and it keeps as many as leave ‖p‖ ≤ C: in L1 under
Laplace noise, and in L2 under Gaussian noise, where a unit that is spread over many groups keeps more.

**Theorem (cap).** Adding or removing a unit changes the counts of all groups together by at most `cap`: l1 ≤ cap, hence
linf ≤ cap and l2 ≤ cap; where all of its rows lie in one group, in one coordinate only.
**Proof.** The kept pairs are the union of the units' own sets, and each set depends on its unit's rows and the salt
alone (the hash orders a unit's pairs, the pairs themselves break ties). Adding a set of at most `cap` pairs to a union
adds between 0 and `cap` pairs to it. Where the rule is `row` or `single_row` a unit has one row, and so one pair.
**Theorem (norm).** Adding or removing a unit changes the counts of all groups together by at most C in that norm, in at
most as many groups as pairs fit, which are C in L1 and C² in L2.
**Proof.** Adding the set K of a unit to a union adds to the count of group g between 0 and p_g, the number of pairs of
K in g: at most one for each of them. So the changes d have 0 ≤ d_g ≤ p_g, and ‖d‖ ≤ ‖p‖ ≤ C. K is the longest beginning
of the unit's own pairs, in the order of the hash, of which that holds: it depends on the unit's rows, the salt and C
alone. A whole number p_g that is not zero has p_g ≤ p_g², so the groups with d_g > 0 are at most ‖p‖₁, and ‖p‖₂².
**Requires** that the cap comes before values of different units meet: values that are deduplicated first would leave
a value to one of the units that have it, and removing that unit would let another's hash choose anew. C is public: it
follows from the SQL, the policy, and a search for norms that was released before (`dpsql.sensitivity.clip`).
**Checked by** `tests/properties/test_distinct.py`, with the planted bugs "no cap" and "distinct before the cap", and
`tests/properties/test_distinct_norms.py`, with "distinct pairs are kept before the norm".
"""

from __future__ import annotations

from math import ceil, floor, sqrt

from dpsql.bounds.domain import Domain
from dpsql.expressions.expression import Call, Expression, Literal
from dpsql.expressions.types import Kind
from dpsql.plan.nodes.relation import Relation
from dpsql.sensitivity.clip import Clip, Norm


def distinct_cap(source: Relation, argument: Expression, domain: Domain, groups: int | None) -> int:
    """The most pairs (group, value) of one unit, which may have rows in so many groups (None: nobody knows).

    It is enforced, so a domain that the data does not keep to costs accuracy alone.
    """
    if source.by_row or source.single:
        return 1
    values = _values(source, argument, domain)
    pairs = None if values is None or groups is None else values * groups
    return max(1, source.rows_per_unit if pairs is None else min(pairs, source.rows_per_unit))


def values_limit(
    source: Relation, argument: Expression, domain: Domain, groups: int | None, norm: Norm
) -> tuple[float, bool]:
    """The largest norm of a unit's numbers p_g of values, by its rows and its values; and whether values decide.

    Of m rows and v values the sum of squares is largest where m/v groups have all v: m·v, or v² in each group.
    """
    rows, values = source.rows_per_unit, _values(source, argument, domain)
    if values is None:
        return max(1, rows), False
    spread = rows if groups is None else groups
    if norm == "l1":
        return max(1, min(rows, values * spread)), values * spread <= rows
    return sqrt(max(1, min(rows**2, rows * values, values**2 * spread))), values * spread <= rows


def most_values(clip: Clip) -> int:
    """The most that the sum of p_g (in L1) or of p_g² (in L2) may be; no unit has more than 2**62."""
    [exponent] = [each for each in clip.exponents if each is not None]
    return min(clip.bound if clip.norm == "l1" else clip.bound**2 >> 2 * exponent, 1 << 62)


def _values(source: Relation, argument: Expression, domain: Domain) -> int | None:
    """The most different values of one unit; a choice (and so FILTER) has at most those of its branches together."""
    known = [count for count in (listed_values(argument, domain), _chosen(source, argument)) if count is not None]
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


def listed_values(argument: Expression, domain: Domain) -> int | None:
    """How many values the domain has."""
    if domain.nan:
        return None
    if domain.values is not None:
        return sum(1 for value in domain.values if value is not None)
    if argument.type.kind in (Kind.INTEGER, Kind.DATE) and domain.lower is not None and domain.upper is not None:
        return max(0, floor(domain.upper) - ceil(domain.lower) + 1)
    return None
