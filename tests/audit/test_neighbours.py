"""The search of `dpsql audit` for a unit that moves something further than claimed; and that it would find one."""

from __future__ import annotations

import json
import math
from itertools import count

import pytest

from dpsql.audit.checks.neighbours import outcome
from dpsql.audit.search import run_block
from dpsql.audit.tally import Tally

CHUNKS = 20
NEIGHBOURS = "neighbour search"
RULES = ("row", "single_row", "one_group", "clip", "selection", "choice")


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_unit_moves_anything_further_than_claimed(chunk: int, request: pytest.FixtureRequest) -> None:
    """Random worlds and queries: the chunks add up to `--pairs` pairs, by default those of the short audit."""
    total, seed = request.config.getoption("--pairs"), request.config.getoption("--pairs-seed")
    wanted, tally = math.ceil(total / CHUNKS), Tally()
    for number in count(chunk, CHUNKS):
        tally = tally.plus(run_block(seed, number))
        if tally.pairs["all"] >= wanted or tally.findings:
            break
    _record(request, tally)
    assert tally.findings == [], f"{tally.findings[0].what}\n{tally.findings[0].again}"
    assert tally.touched["all"] > tally.pairs["all"] / 3
    assert tally.counted["pairs seen"] == tally.counted["pairs answered"] > 0
    assert outcome(tally).passed


def _record(request: pytest.FixtureRequest, tally: Tally) -> None:
    ratios: dict[str, float] = {}
    for name, ratio in tally.ratios.items():
        rule = name.rpartition(" ")[0]
        ratios[rule] = max(ratio, ratios.get(rule, 0.0))
    seen = {"pairs": tally.pairs, "touched": tally.touched, "ratios": ratios}
    request.node.user_properties.append((NEIGHBOURS, json.dumps(seen)))
