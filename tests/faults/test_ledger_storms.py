"""Short storms; the long ones are commands: see ledger_storms."""

from __future__ import annotations

from pathlib import Path

import pytest
from ledger_storms import crowd, kills
from postgres_server import a_place


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    return a_place(request, tmp_path)


@pytest.mark.true_randomness
@pytest.mark.parametrize("place", ["file", "postgres"], indirect=True)
def test_random_kills_never_lose_a_charge(place: str | Path) -> None:
    told, charged = kills(place, 30)
    assert charged >= told > 5


def test_a_crowd_never_passes_the_cap(tmp_path: Path) -> None:
    assert crowd(tmp_path / "shop.ledger", 4, 40) == 120
