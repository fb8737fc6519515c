"""How many different values a unit may stand for: as few as its rows, its groups and the domain allow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpsql.bounds.domain import Domain, finite, interval
from dpsql.expressions.expression import Column, Literal
from dpsql.expressions.types import DOUBLE, TEXT, from_engine
from dpsql.plan.relation import Field, Relation
from dpsql.sensitivity.distinct import distinct_cap

WHOLE = from_engine("INTEGER")
assert WHOLE is not None
SOURCE = Relation(
    (Field("n", WHOLE, Domain()), Field("a", TEXT, Domain(), attribute=True), Field("x", DOUBLE, Domain())),
    False,
    50,
    False,
)
N, A, X = Column(WHOLE, name="n"), Column(TEXT, name="a"), Column(DOUBLE, name="x")


@pytest.mark.parametrize(
    ("argument", "domain", "groups", "cap"),
    [
        (N, Domain(), 3, 50),
        (N, interval(1, 4), 3, 12),
        (N, interval(0.5, 4.5), 3, 12),
        (N, interval(1, 4), None, 50),
        (N, interval(1, None), 3, 50),
        (N, interval(None, 4), 3, 50),
        (N, interval(1, 4), 100, 50),
        (N, finite((1, 2), WHOLE, nullable=True), 3, 6),
        (X, interval(1, 4), 3, 50),
        (X, interval(1, 4, nan=True), 3, 50),
        (A, Domain(), 3, 3),
        (Literal(TEXT, value="q"), Domain(), 3, 3),
        (Literal(TEXT, value=None), Domain(), 3, 1),
    ],
)
def test_the_cap(argument: object, domain: Domain, groups: int | None, cap: int) -> None:
    assert distinct_cap(SOURCE, argument, domain, groups) == cap  # type: ignore[arg-type]


def test_one_row_has_one_value() -> None:
    assert distinct_cap(replace(SOURCE, by_row=True), N, Domain(), 9) == 1
    assert distinct_cap(replace(SOURCE, single=True), N, Domain(), 9) == 1
