"""What is known of a row of which one of two things holds."""

from __future__ import annotations

from dpsql.bounds.domain import finite
from dpsql.bounds.known import Known, either
from dpsql.expressions.types import BIGINT

COMPARED: list[int] = []


class Counted(int):
    """A number that notes when it is compared."""

    def __eq__(self, other: object) -> bool:
        COMPARED.append(int(self))
        return int(self) == other

    def __hash__(self) -> int:
        return hash(int(self))


def _known(values: range) -> Known:
    return Known({"x": finite([Counted(v) for v in values], BIGINT, nullable=False)}, {})


def test_values_stay_in_their_order() -> None:
    before = Known({"x": finite([5, 3, 9, 1], BIGINT, nullable=False)}, {})
    one = Known({"x": finite([1], BIGINT, nullable=False)}, {})
    two = Known({"x": finite([5, 9], BIGINT, nullable=False)}, {})
    assert either(before, one, two).columns["x"].values == (5, 9, 1)


def test_many_values_are_looked_up_and_not_compared_with_each_other() -> None:
    """A column that takes its values from a public table has thousands, and a WHERE many ORs."""
    many = range(2_000)
    COMPARED.clear()
    found = either(_known(many), _known(range(0, 1_000)), _known(range(1_000, 2_000)))
    assert len(found.columns["x"].values or ()) == len(many)
    assert len(COMPARED) < 10 * len(many)
