"""Which keys are public: the values that the policy and the query give, as the column's type holds them."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pytest

from dpsql.bounds.domain import Domain, finite, interval, number
from dpsql.bounds.infer import AT_MOST
from dpsql.expressions.expression import Column
from dpsql.expressions.types import BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, Type, from_engine
from dpsql.sensitivity.group_keys import make_keys, on_type, public_values

DECIMAL, WHOLE = from_engine("DECIMAL(9,2)"), from_engine("INTEGER")
assert DECIMAL is not None and WHOLE is not None


@pytest.mark.parametrize(
    ("value", "type_", "held"),
    [
        (True, BOOLEAN, True), (1, BOOLEAN, None), (5, WHOLE, 5), (5.0, WHOLE, 5), (Decimal(5), WHOLE, 5), (5.5, WHOLE, None),
        (True, WHOLE, None), (1, DECIMAL, Decimal("1.00")), (1.25, DECIMAL, Decimal("1.25")), (Decimal("1.01"), DECIMAL, Decimal("1.01")), (-3, DECIMAL, Decimal(-3)),
        (Decimal("1.255"), DECIMAL, None), (True, DECIMAL, None), (3, DOUBLE, 3.0), (-0.0, DOUBLE, 0.0), (True, DOUBLE, None),
        ("a", TEXT, "a"), (1, TEXT, None), (date(2020, 1, 2), TIMESTAMP, datetime(2020, 1, 2)),
        (datetime(2020, 1, 2, 3), TIMESTAMP, datetime(2020, 1, 2, 3)), (datetime(2020, 1, 2), DATE, date(2020, 1, 2)),
        (datetime(2020, 1, 2, 3), DATE, None), (date(2020, 1, 2), DATE, date(2020, 1, 2)), ("a", DATE, None), (None, TEXT, None),
    ],
)  # fmt: skip
def test_a_value_as_the_type_holds_it(value: object, type_: Type, held: object) -> None:
    made = on_type(value, type_)  # type: ignore[arg-type]
    assert (made, type(made)) == (held, type(held))
    assert repr(made) != "-0.0"


@pytest.mark.parametrize(
    ("domain", "type_", "limit", "values"),
    [
        (finite(("a", "b"), TEXT, nullable=False), TEXT, 2, ("a", "b")),
        (finite(("a", "b"), TEXT, nullable=True), TEXT, 2, ("a", "b", None)),
        (finite(("a", "b", "c"), TEXT, nullable=False), TEXT, 2, None),
        (interval(2, 4, nullable=False), WHOLE, 3, (2, 3, 4)),
        (interval(1.5, 4.5, nullable=False), WHOLE, 3, (2, 3, 4)),
        (interval(2, 5, nullable=False), WHOLE, 3, None),
        (interval(2, None), WHOLE, 3, None),
        (interval(None, 2), WHOLE, 3, None),
        (interval(2, 4), DOUBLE, 3, None),
        (interval(2, 3, nullable=False, origin=(f"{AT_MOST}3 rows",)), WHOLE, 3, (2, 3, None)),
        (interval(number(date(2020, 1, 1)), number(date(2020, 1, 2)), nullable=False), DATE, 9, (date(2020, 1, 1), date(2020, 1, 2))),
        (Domain(), TEXT, 9, None),
    ],
)  # fmt: skip
def test_the_values_of_a_public_key(domain: Domain, type_: Type, limit: int, values: object) -> None:
    assert public_values(domain, type_, limit) == values


def test_all_keys_are_public_or_none_is() -> None:
    small = ("s", Column(TEXT, name="s"), finite(("a", "b"), TEXT, nullable=False), False)
    other = ("o", Column(WHOLE, name="o"), interval(1, 3, nullable=False), True)
    free = ("f", Column(TEXT, name="f"), Domain(), False)
    assert [key.values for key in make_keys([small, other], 6)] == [("a", "b"), (1, 2, 3)]
    assert [key.values for key in make_keys([small, other], 5)] == [None, None]
    assert [key.values for key in make_keys([small, free], 100)] == [None, None]
    assert [(key.attribute, key.contiguous) for key in make_keys([small, other], 6)] == [(False, False), (True, True)]
    assert make_keys([], 1) == ()
