"""Every reason of the table is true: its example is refused for it, its rewriting is answered, and no reason is unused."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpsql
from dpsql.refusals import KINDS, REFUSALS, Refusal

sys.path.insert(0, str(Path(__file__).parent))
from golden import connect


@pytest.fixture(scope="module")
def db() -> Iterator[dpsql.Connection]:
    with connect() as connection:
        yield connection


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=list(REFUSALS))
def test_the_example_is_refused_for_that_reason(db: dpsql.Connection, refusal: Refusal) -> None:
    with pytest.raises(dpsql.Error) as refused:
        db.explain(refusal.example)
    assert refused.value.reason == refusal.code, str(refused.value)


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=list(REFUSALS))
def test_the_rewriting_is_answered(db: dpsql.Connection, refusal: Refusal) -> None:
    """On the empty shop, so that no answer depends on anything but the text."""
    assert db.query(refusal.instead, epsilon=0.1).columns


def test_every_refusal_in_the_code_names_a_reason_of_the_table() -> None:
    used = set()
    for path in Path(dpsql.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "refuse":
                reasons = [k.value for k in node.keywords if k.arg == "reason"]
                used |= {r.value for r in reasons if isinstance(r, ast.Constant)}
    assert used <= set(REFUSALS), used - set(REFUSALS)
    assert set(REFUSALS) <= used, set(REFUSALS) - used
    assert {r.kind for r in REFUSALS.values()} <= set(KINDS)
