"""Every rule has a golden file of its own: bounds, sensitivity, emitted SQL, refusals."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from golden import CASES, connect, queries, render


@pytest.mark.parametrize("name", sorted(path.stem for path in CASES.glob("*.sql")))
def test_what_dpsql_says_is_what_it_said(name: str, request: pytest.FixtureRequest) -> None:
    with connect() as db:
        said = render(db, name)
    expected = CASES / f"{name}.out"
    if request.config.getoption("--golden-update"):
        assert not os.environ.get("CI"), "golden files are not rewritten in CI"
        expected.write_text(said)
    assert said == expected.read_text()


def test_there_is_a_refusal_and_an_answer_to_compare() -> None:
    assert len(queries("refusals")) > 30
    assert sum(len(queries(path.stem)) for path in CASES.glob("*.sql")) > 90
