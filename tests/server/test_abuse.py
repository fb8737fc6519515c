"""A short version of `python tests/server/abuse.py 100000`."""

from __future__ import annotations

import pytest
from abuse import abuse
from served import Served
from starvation import Starvation


def test_hostile_clients_neither_end_nor_fill_nor_stop_the_server(served: Served) -> None:
    done = abuse(served, 900, crowd=60)
    assert done.wrong == []
    assert done.seen["healthy clients served"] >= 5 and done.seen["connections at once"] == 60


WAYS = (
    "memory in the catalogue",
    "slow questions to the catalogue",
    "slow queries, then gone",
    "silent sockets",
    "answers that are kept",
)


@pytest.mark.parametrize("way", WAYS)
def test_one_analyst_does_not_starve_another(served: Served, way: str) -> None:
    """A second of each way; how long the other waits is measured by the command, here it must come to an answer."""
    starvation = Starvation(served, "carl")
    waits = starvation.measured(starvation.ways()[way], 1)
    assert waits.wrong == [] and len(waits.times) > 20
    assert waits.databases < 2**30
