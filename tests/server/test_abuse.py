"""A short version of `python tests/server/abuse.py 100000`."""

from __future__ import annotations

from abuse import abuse
from conftest import Served


def test_hostile_clients_neither_end_nor_fill_nor_stop_the_server(served: Served) -> None:
    done = abuse(served, 900, crowd=60)
    assert done.wrong == []
    assert done.seen["healthy clients served"] >= 5 and done.seen["connections at once"] == 60
