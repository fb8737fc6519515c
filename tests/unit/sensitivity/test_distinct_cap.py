"""How many different values a unit may stand for: as few as its rows, its groups and the domain allow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpsql.bounds.domain import Domain, finite, interval
from dpsql.expressions.expression import Column, Expression, Literal
from dpsql.expressions.types import BOOLEAN, DATE, DOUBLE, TEXT, from_engine
from dpsql.expressions.typing import call
from dpsql.plan.nodes.relation import Field, Relation
from dpsql.sensitivity.distinct import distinct_cap

WHOLE = from_engine("INTEGER")
assert WHOLE is not None
SOURCE = Relation(
    (
        Field("n", WHOLE, Domain()),
        Field("a", TEXT, Domain(), attribute=True),
        Field("x", DOUBLE, Domain()),
        Field("d", DATE, Domain()),
    ),
    False,
    50,
    False,
)
N, A, X, DAY = Column(WHOLE, name="n"), Column(TEXT, name="a"), Column(DOUBLE, name="x"), Column(DATE, name="d")
CONDITION, NULL = Column(BOOLEAN, name="n"), Literal(TEXT, value=None)


def case(*branches: Expression, default: Expression = NULL) -> Expression:
    return call("case", TEXT, *(each for branch in branches for each in (CONDITION, branch)), default)


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
        (N, interval(0.2, 0.8), 3, 1),
        (N, interval(5, 5), 1, 1),
        (N, interval(1, 50), 1, 50),
        (N, interval(1, 49), 1, 49),
        (N, interval(1, 4), 0, 1),
        (N, Domain(1, 2, (1, 2, None)), 3, 6),
        (N, finite((), WHOLE, nullable=True), 3, 1),
        (N, replace(interval(1, 4), nan=True), 3, 50),
        (X, finite((1.5, 2.5), DOUBLE, nullable=True), 3, 6),
        (DAY, interval(0, 4), 3, 15),
        (A, finite(("p", "q"), TEXT, nullable=True), 3, 3),
        (A, interval(1, None), 3, 3),
        (case(A), Domain(), 3, 3),
        (case(A, A), Domain(), 3, 6),
        (case(A, Literal(TEXT, value="q"), Literal(TEXT, value=None)), Domain(), 3, 6),
        (case(A, case(A, A)), Domain(), 3, 9),
        (case(A, N), Domain(), 3, 50),
        (case(N, default=A), Domain(), 3, 50),
        (case(A, A, A), finite(("p", "q"), TEXT, nullable=True), 3, 6),
        (call("upper", TEXT, Column(TEXT, name="n")), Domain(), 3, 50),
    ],
)
def test_the_cap(argument: object, domain: Domain, groups: int | None, cap: int) -> None:
    assert distinct_cap(SOURCE, argument, domain, groups) == cap  # type: ignore[arg-type]


def test_one_row_has_one_value() -> None:
    assert distinct_cap(replace(SOURCE, by_row=True), N, Domain(), 9) == 1
    assert distinct_cap(replace(SOURCE, single=True), N, Domain(), 9) == 1
