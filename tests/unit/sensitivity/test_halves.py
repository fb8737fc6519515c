"""A part beside its whole: which aggregates are released as a part and the rest, and what these are."""

from __future__ import annotations

import pytest

from dpsql.bounds.domain import interval
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.types import BIGINT, BOOLEAN
from dpsql.expressions.typing import call, literal
from dpsql.plan.nodes.relation import Aggregate
from dpsql.sensitivity.part_and_rest import nested, pairs_of
from dpsql.sensitivity.statistics import lay_out

X, Y = Column(BIGINT, name="x"), Column(BIGINT, name="y")
C, D = Column(BOOLEAN, name="c"), Column(BOOLEAN, name="d")
NULL = literal(None)


def case(condition: Expression, inside: Expression, otherwise: Expression = NULL) -> Expression:
    return call("case", inside.type, condition, inside, otherwise)


ONE = literal(1)


@pytest.mark.parametrize(
    ("function", "part", "whole", "there"),
    [
        ("sum", case(C, X), X, True),
        ("sum", case(C, X, literal(0)), X, True),
        ("sum", case(C, X, literal(1)), X, False),
        ("sum", case(C, X, Y), X, False),
        ("sum", case(C, X), Y, False),
        ("sum", case(C, X), None, False),
        ("sum", X, X, False),
        ("count", case(C, ONE), None, True),
        ("count", case(C, X), X, True),
        ("count", case(C, ONE, literal(0)), None, False),
        ("count", case(C, X), None, False),
        ("count", case(C, NULL), None, False),
        ("count", None, None, False),
        ("sum", call("case", BIGINT, C, X, D, X, NULL), X, False),
    ],
)
def test_what_is_a_part_of_its_whole(
    function: str, part: Expression | None, whole: Expression | None, there: bool
) -> None:
    made = nested(function, part, whole)
    assert (made is not None) == there
    if made is not None and isinstance(part, Expression):
        inside = ONE if whole is None else whole
        assert made.part == case(C, inside) and made.rest == call("case", inside.type, C, NULL, inside)


def test_a_whole_has_one_part_and_a_part_one_whole() -> None:
    """Two parts of one whole overlap, so that the rest of the one is not that of the other."""
    asked = [("sum", case(C, X)), ("sum", X), ("sum", case(D, X)), ("sum", Y), ("count", None), ("count", case(D, ONE))]
    assert {part: whole for part, (whole, _) in pairs_of(asked).items()} == {0: 1, 5: 4}
    assert {part: whole for part, (whole, _) in pairs_of([*asked[1:3], ("count", X)]).items()} == {1: 0}
    assert pairs_of([("sum", case(C, X)), ("count", X)]) == {}
    inner = case(C, X)
    chained = [("sum", case(D, inner)), ("sum", inner), ("sum", X)]
    assert {part: whole for part, (whole, _) in pairs_of(chained).items()} == {0: 1}


def test_part_and_rest_are_one_share_on_one_grid() -> None:
    domain = interval(-3, 7)
    made = lay_out([Aggregate("sum", case(C, X)), Aggregate("sum", X)], [domain, domain], "laplace", [])
    assert [source.form for source in made.sources] == ["sum", "nested"]
    assert made.shares == ((0, 1),)
    assert [(a.lower, a.upper, a.grid) for a in made.arguments] == [(-3, 7, 1)] * 2
    assert [(p.argument, p.alpha, p.beta, p.row) for p in made.parts] == [(0, 1, 0, 7), (1, 1, 0, 7)]


@pytest.mark.parametrize(("nullable", "nan", "statistics"), [(False, False, 1), (True, False, 2), (False, True, 2)])
def test_a_count_of_what_is_never_null_is_that_of_the_rows(nullable: bool, nan: bool, statistics: int) -> None:
    domain = interval(0, 9, nullable=nullable, nan=nan)
    made = lay_out([Aggregate("count", None), Aggregate("count", X)], [None, domain], "laplace", [])
    assert len(made.parts) == statistics
