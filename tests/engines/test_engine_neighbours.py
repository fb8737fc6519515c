"""The neighbour property on every engine: no unit moves a traced vector further than claimed."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from attack.worlds import joins, kinds, shop
from stores import STORES, Store

from dpsql.audit.neighbour_search import examine, settled
from dpsql.audit.outcome import Tally

OTHERS = sorted(name for name, store in STORES.items() if store.engine is not Store.engine)
PAIRS = 300
"""The most of the search runs on DuckDB (`tests/audit/test_neighbours.py`); here the engine's own words are tried."""


@pytest.mark.parametrize("engine", OTHERS)
def test_no_unit_moves_anything_further_than_claimed(engine: str) -> None:
    store, tally = STORES[engine](), Tally()
    if (reason := store.absent()) is not None:
        pytest.skip(reason)
    try:
        for number, make in enumerate((kinds, joins, shop)):
            rng = random.Random(f"{engine} {number}")
            world = settled(replace(make(rng), engine=store.engine), rng)
            tally = tally.plus(examine(world, rng, queries=24, neighbours=5))
    finally:
        store.close()
    assert tally.findings == [], f"{tally.findings[0].what}\n{tally.findings[0].again}"
    assert tally.pairs["all"] >= PAIRS
    assert tally.touched["all"] > tally.pairs["all"] / 3
