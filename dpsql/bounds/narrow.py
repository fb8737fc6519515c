"""What a WHERE clause says about the rows that pass it."""

from __future__ import annotations

from dpsql.bounds.infer import infer
from dpsql.bounds.known import Known
from dpsql.bounds.predicates import Truth, narrowed
from dpsql.expressions.expression import Expression


def narrow(known: Known, condition: Expression, holds: bool = True) -> Known:
    """The row, where the condition is TRUE; or, if it did not hold, FALSE or NULL.

    Twice, so that what a later conjunct says of a column reaches the columns it was compared with before.
    """
    truth = Truth(holds, or_null=not holds)
    return narrowed(narrowed(known, condition, truth, infer, "WHERE"), condition, truth, infer, "WHERE")
