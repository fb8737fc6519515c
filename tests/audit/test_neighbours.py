"""The search of `dpsql audit` for a unit that moves something further than claimed; and that it would find one."""

from __future__ import annotations

import json
import math
from itertools import count

import pytest
import tiers
from attack.neighbours import run_block

from dpsql.audit.neighbour_check import outcome_of
from dpsql.audit.outcome import Tally

CHUNKS, CHUNK = 20, 250
"""At most so many tests, and how many pairs are worth one more."""
NEIGHBOURS = "neighbour search"
RULES = ("row", "single_row", "one_group", "clip", "selection", "choice")


def _pairs(config: pytest.Config) -> int:
    """As many as `--pairs` says; without it those of the short audit, and fewer in the core."""
    usual = tiers.CORE_PAIRS if tiers.core_only(config) else tiers.ALL_PAIRS
    return config.getoption("--pairs") or usual


def _chunks(config: pytest.Config) -> int:
    return min(CHUNKS, math.ceil(_pairs(config) / CHUNK))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("chunk", range(_chunks(metafunc.config)))


def test_no_unit_moves_anything_further_than_claimed(chunk: int, request: pytest.FixtureRequest) -> None:
    """Random worlds and queries: the chunks add up to all pairs."""
    chunks, seed = _chunks(request.config), request.config.getoption("--pairs-seed")
    wanted, tally = math.ceil(_pairs(request.config) / chunks), Tally()
    for number in count(chunk, chunks):
        tally = tally.plus(run_block(seed, number))
        if tally.pairs["all"] >= wanted or tally.findings:
            break
    _record(request, tally)
    assert tally.findings == [], f"{tally.findings[0].what}\n{tally.findings[0].again}"
    assert tally.touched["all"] > tally.pairs["all"] / 3
    assert tally.counted["pairs seen"] == tally.counted["pairs answered"] > 0
    assert outcome_of(tally).passed


def _record(request: pytest.FixtureRequest, tally: Tally) -> None:
    ratios: dict[str, float] = {}
    for name, ratio in tally.ratios.items():
        rule = name.rpartition(" ")[0]
        ratios[rule] = max(ratio, ratios.get(rule, 0.0))
    seen = {"pairs": tally.pairs, "touched": tally.touched, "ratios": ratios}
    request.node.user_properties.append((NEIGHBOURS, json.dumps(seen)))
