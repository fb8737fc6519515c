"""What is computed from groups means what it means in DuckDB (a sample; the command has thousands)."""

from __future__ import annotations

import pytest
from property_meaning import compare


@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_computed_from_groups_is_duckdbs_own(seed: int) -> None:
    found = compare(seed, 60)
    assert not found.wrong, "\n".join(text for _, text in found.wrong)
    assert found.refused.total() < 10
