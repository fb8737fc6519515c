"""What is known of a row of which one of two things holds."""

from __future__ import annotations

from dpsql.bounds.domain import Domain, RowDomains, either, finite, interval, of_type
from dpsql.expressions.expression import Call, Column
from dpsql.expressions.types import BIGINT

COMPARED: list[int] = []


class Counted(int):
    """A number that notes when it is compared."""

    def __eq__(self, other: object) -> bool:
        COMPARED.append(int(self))
        return int(self) == other

    def __hash__(self) -> int:
        return hash(int(self))


def _known(values: range) -> RowDomains:
    return RowDomains({"x": finite([Counted(v) for v in values], BIGINT, nullable=False)}, {})


def test_values_stay_in_their_order() -> None:
    before = RowDomains({"x": finite([5, 3, 9, 1], BIGINT, nullable=False)}, {})
    one = RowDomains({"x": finite([1], BIGINT, nullable=False)}, {})
    two = RowDomains({"x": finite([5, 9], BIGINT, nullable=False)}, {})
    assert either(before, one, two).columns["x"].values == (5, 9, 1)


def test_many_values_are_looked_up_and_not_compared_with_each_other() -> None:
    """A column that takes its values from a public table has thousands, and a WHERE many ORs."""
    many = range(2_000)
    COMPARED.clear()
    found = either(_known(many), _known(range(0, 1_000)), _known(range(1_000, 2_000)))
    assert len(found.columns["x"].values or ()) == len(many)
    assert len(COMPARED) < 10 * len(many)


X, Y = Column(BIGINT, name="x"), Column(BIGINT, name="y")
SUM = Call(BIGINT, op="add", args=(X, Y))
NEVER = RowDomains({"x": Domain(values=(), nullable=False)})


def test_of_two_things_one_of_which_cannot_be_the_other_holds() -> None:
    row = RowDomains({"x": interval(1, 2)}, {SUM: interval(3, 4)})
    assert either(row, NEVER, row) == row == either(row, row, NEVER)
    assert either(row, NEVER, NEVER).impossible


def test_what_only_one_of_them_speaks_of_is_forgotten() -> None:
    one = RowDomains({"x": interval(1, 2), "y": interval(0, 0)}, {SUM: interval(1, 2), X: interval(7, 8)})
    two = RowDomains({"x": interval(5, 6)}, {SUM: interval(0, 1)})
    assert either(one, one, two) == RowDomains({"x": interval(1, 6)}, {SUM: interval(0, 2)})
    assert either(one, two, one) == RowDomains({"x": interval(1, 6)}, {SUM: interval(0, 2)})


def test_a_list_that_was_none_before_stays_as_it_is() -> None:
    one, two = (RowDomains({"x": finite(values, BIGINT, nullable=False)}) for values in ((3, 1), (2, 1)))
    for before in (RowDomains({}), RowDomains({"x": interval(0, 9)})):
        assert either(before, one, two).columns["x"].values == (3, 1, 2)


def test_knowledge_of_an_expression_is_kept_beside_the_columns_and_sharpens_it() -> None:
    row = (
        RowDomains({"x": interval(1, 9)})
        .refined(SUM, interval(2, 7))
        .refined(SUM, interval(4, 8))
        .refined(X, interval(0, 5))
    )
    assert row.column(X) == interval(1, 5) and row.column(Y) == of_type(BIGINT)
    assert row.refinements == {SUM: interval(4, 7)}
    assert row.sharpen(SUM, interval(0, 5)) == interval(4, 5) and row.sharpen(Y, interval(0, 5)) == interval(0, 5)
    assert not row.impossible and NEVER.impossible
    assert RowDomains({}, {SUM: Domain(values=(), nullable=False)}).impossible
    assert RowDomains({"x": Domain(values=(), nullable=False), "y": interval(1, 2)}).impossible
    assert not RowDomains({"x": Domain(values=())}).impossible, "NULL is left"
