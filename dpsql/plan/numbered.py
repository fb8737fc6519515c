"""What a condition on a row number proves: at most so many rows per unit are left, on any data."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.expressions.expression import Call, Column, Expression, Literal
from dpsql.plan.join import Exists
from dpsql.plan.mark import Marked
from dpsql.plan.relation import Filter, Project, Relation
from dpsql.plan.window import Windowed


def rows_left(source: Relation, conditions: Sequence[Expression]) -> int | None:
    """The most rows of one unit on which all conditions hold, None if a row number does not tell.

    **Theorem.** Where a column numbers a unit's rows, `column = c` leaves one row per unit, `column <= c` at most c.
    **Proof.** row_number() over a partition whose keys are all attributes has one partition per unit, and gives its
    rows the numbers 1, 2, …, each once. Filters leave out rows, projections and further columns keep them; so each
    number stands in at most one row of a unit.
    **Requires** attributes that are proved. **Checked by** the neighbour test of windows (rule `single_row`), and the
    planted bug "numbered within groups".
    """
    columns = _numbering(source)
    return min((n for c in conditions if (n := _most(c, columns)) is not None), default=None)


def _most(condition: Expression, columns: frozenset[str]) -> int | None:
    if not isinstance(condition, Call) or not isinstance(condition.args[0], Column):
        return None
    column, *others = condition.args
    values = [o.value for o in others if isinstance(o, Literal) and type(o.value) is int]
    if column.name not in columns or len(values) != len(others):  # type: ignore[attr-defined]
        return None
    match condition.op:
        case "eq" | "in":
            return len(values)
        case "le":
            return max(1, values[0])
        case "lt":
            return max(1, values[0] - 1)
    return None


def _numbering(relation: Relation) -> frozenset[str]:
    """The columns that number each unit's rows, each number at most once."""
    match relation:
        case Windowed(source=Relation() as source, calls=calls):
            made = {n for n, c in calls if c.function == "row_number" and all(map(source.is_attribute, c.partition))}
            return _numbering(source) | made
        case Filter(source=Relation() as source) | Exists(source=Relation() as source):
            return _numbering(source)
        case Marked(source=Relation() as source):
            return _numbering(source)
        case Project(source=Relation() as source, items=items):
            below = _numbering(source)
            return frozenset(i.name for i in items if isinstance(i.expression, Column) and i.expression.name in below)
    return frozenset()
