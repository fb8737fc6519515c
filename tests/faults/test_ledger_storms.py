"""Short storms; the long ones are commands: see ledger_storms."""

from __future__ import annotations

from pathlib import Path

from ledger_storms import crowd, kills


def test_random_kills_never_lose_a_charge(tmp_path: Path) -> None:
    told, charged = kills(tmp_path / "shop.ledger", 30)
    assert charged >= told > 5


def test_a_crowd_never_passes_the_cap(tmp_path: Path) -> None:
    assert crowd(tmp_path / "shop.ledger", 4, 40) == 120
