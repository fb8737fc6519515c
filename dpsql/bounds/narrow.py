"""What a WHERE clause says about the rows that pass it."""

from __future__ import annotations

from dpsql.bounds.infer import infer
from dpsql.bounds.known import Known
from dpsql.bounds.predicates import Truth, narrowed
from dpsql.expressions.expression import Call, Expression

MOST_PASSES = 12


def narrow(known: Known, condition: Expression, holds: bool = True) -> Known:
    """The row, where the condition is TRUE; or, if it did not hold, FALSE or NULL.

    Again until nothing changes, so that what one conjunct says of a column reaches the columns that another one
    compares it with, in whatever order they are written; `x < y AND y < x` would shrink for ever, so not more often
    than there are comparisons.
    """
    truth = Truth(holds, or_null=not holds)
    comparisons = sum(1 for node in condition.walk() if isinstance(node, Call))
    for _ in range(min(MOST_PASSES, comparisons + 1)):
        before, known = known, narrowed(known, condition, truth, infer, "WHERE")
        if known == before:
            break
    return known
