"""Which columns a copy has in steps, and which statistics read them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpsql.bounds.domain import Domain, finite, interval
from dpsql.engines.sql.clamp import steps_of
from dpsql.expressions.types import DOUBLE, Type, from_engine
from dpsql.plan.nodes.relation import Field, Scan

WHOLE = from_engine("BIGINT")
assert WHOLE is not None
SAID, FOUND = "declared for t.x", "found for t.x by a private search"


@pytest.mark.parametrize(
    ("type_", "domain", "there"),
    [
        (DOUBLE, interval(0.0, 9.0, origin=(SAID,)), True),
        (DOUBLE, interval(0.0, 9.0, origin=(SAID, f"{SAID}: values of p.x")), True),
        (DOUBLE, interval(0.0, 9.0, origin=(FOUND,)), False),
        (DOUBLE, interval(0.0, 9.0, origin=(FOUND, f"{SAID}: values of p.x")), False),
        (DOUBLE, interval(0.0, 9.0, origin=(f"{SAID}: values of p.x", FOUND)), False),
        (DOUBLE, interval(0.0, None, origin=(SAID,)), False),
        (DOUBLE, interval(None, 9.0, origin=(SAID,)), False),
        (DOUBLE, finite((1, 2), DOUBLE, nullable=True, origin=(SAID,)), False),
        (WHOLE, interval(0, 9, origin=(SAID,)), False),
    ],
)
def test_doubles_have_steps_if_the_policy_alone_declares_both_bounds(type_: Type, domain: Domain, there: bool) -> None:
    """Bounds that a search found may become others, and the copy would keep the steps of the first."""
    scan = Scan((Field("x", type_, domain),), False, 5, False, "t", "u")
    assert list(steps_of(scan)) == (["x"] if there else [])
    assert steps_of(replace(scan, fields=())) == {}
