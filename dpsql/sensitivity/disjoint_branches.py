"""Branches that no row is in together: SUM(CASE WHEN k = 'a' THEN x END) beside SUM(CASE WHEN k = 'b' THEN x END), ….

A table that is turned by CASE or FILTER has the same coordinates as GROUP BY k, so it needs the budget of one sum too.

**Theorem.** Statistics of arguments of which a row has at most one, each at most M, have jointly the L1 norm (and so
the L2 norm) of one of them: M for a unit of one row, and rows · M for a unit whose weight keeps the total over all of
these arguments below the cap.
**Proof.** A row adds to one of them at most, so its vector has an L1 norm of at most M. For the weight it is the
theorem `clip` (`dpsql.sensitivity.unit_weight`) with T the sum over all of these arguments, in whichever of them a row
is.
**Requires** one weight for all of them in the emitted SQL (`Term.others`, also beside a term on its rows), or, for a
unit of one row, arguments of which each excludes those before it (`exclusive`): so it never rests on the inference
which branches are disjoint, and a mistake there costs accuracy. One grid and one M for all of them.
**Checked by** `tests/properties/test_disjoint_branches.py`, with the planted bugs "branches bounded one by one" and
"branches that are believed to be disjoint".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpsql.bounds import infer, narrow
from dpsql.bounds.domain import RowDomains
from dpsql.expressions.expression import Call, Expression, Literal
from dpsql.expressions.types import BOOLEAN
from dpsql.expressions.typing import call, literal
from dpsql.sensitivity.statistics import Layout

MOST = 64
"""So many branches at most are taken together: each is compared with all others."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A share of statistics about one argument: `inside` where the condition is TRUE, nothing elsewhere."""

    share: tuple[int, ...]
    argument: int
    condition: Expression
    inside: Expression
    alike: object


def joined(layout: Layout, *, one_row: bool) -> Layout:
    """The layout with shares of disjoint branches as one; where a unit has `one_row`, they exclude each other."""
    branches = {share: branch for share in layout.shares if (branch := _branch(layout, share)) is not None}
    groups: list[list[Branch]] = []
    for branch in branches.values():
        fits = (group for group in groups if len(group) < MOST and all(_apart(branch, other) for other in group))
        group = next(fits, None)
        groups += [[branch]] if group is None else []
        if group is not None:
            group.append(branch)
    several = [group for group in groups if len(group) > 1]
    arguments = list(layout.arguments)
    for group in several:
        for place, branch in enumerate(group):
            before = [other.condition for other in group[:place]] if one_row else []
            arguments[branch.argument] = replace(arguments[branch.argument], expression=exclusive(branch, before))
    taken = {branch.share: group for group in several for branch in group}
    first = {group[0].share: group for group in several}
    shares = tuple(
        tuple(place for branch in first.get(share, ()) for place in branch.share) or share
        for share in layout.shares
        if share not in taken or share in first
    )
    believed = () if one_row else tuple(share for share in shares if share not in layout.shares)
    return replace(layout, arguments=tuple(arguments), shares=shares, believed=believed)


def exclusive(branch: Branch, before: Sequence[Expression]) -> Expression:
    """The argument of a branch, nothing where a condition before it holds."""
    null = literal(None)
    excluded = [each for condition in before for each in (condition, null)]
    return call("case", branch.inside.type, *excluded, branch.condition, branch.inside, null)


def _branch(layout: Layout, share: tuple[int, ...]) -> Branch | None:
    parts = [layout.parts[place] for place in share]
    number = parts[0].argument
    argument = layout.arguments[number]
    expression = argument.expression
    plain = all(part.weighed and part.argument == number for part in parts)
    if not (plain and isinstance(expression, Call) and expression.op == "case" and len(expression.args) == 3):
        return None
    condition, inside, otherwise = expression.args
    summed = not any(part.beta for part in layout.parts if part.argument == number)
    nothing = isinstance(otherwise, Literal) and (otherwise.value is None or (summed and otherwise.value == 0))
    if not nothing or condition.type != BOOLEAN:
        return None
    sizes = tuple((part.alpha, part.beta, part.row) for part in parts)
    return Branch(share, number, condition, inside, (sizes, argument.grid, argument.lower, argument.upper))


def _apart(one: Branch, two: Branch) -> bool:
    """Are they alike, and is it known from their conditions alone that no row is in both?"""
    return one.alike == two.alike and (
        _never_both(one.condition, two.condition) or _never_both(two.condition, one.condition)
    )


def _never_both(one: Expression, two: Expression) -> bool:
    there = narrow(RowDomains(), one)
    return there.impossible or True not in (infer(two, there).values or (True,))
