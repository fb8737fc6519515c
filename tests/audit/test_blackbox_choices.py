"""The worlds of the black-box audit show a choice's noise: the exact laws of both neighbours, from the stored scores.

No sampling decides here, so a world in which no detector could tell half the noise from the right noise is noticed.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import black_box
import numpy as np
import pytest
from attack.blackbox_cases import cases
from numpy.typing import NDArray

from dpsql.audit.blackbox.observations import Observation, opened
from dpsql.audit.blackbox.promise_test import Counts, Limit, promised
from dpsql.audit.blackbox.rounds import EventTest, Seen, judged, refuted, rounds
from dpsql.audit.traces import Stepwise, trace
from dpsql.audit.world import World
from dpsql.budget.pricing import ENDS, TOTAL, PricedChoice
from dpsql.sensitivity.interval_ends import ends_scored, ends_spread, rungs

CHOICES = [
    f"{kind}, {noise}"
    for kind in ("median", "median by group", "greatest", "least", "mode")
    for noise in ("Laplace", "Gaussian")
]
RUNS = 3200
Law = NDArray[np.float64]


def laws(world: World, sql: str, share: float) -> list[Law]:
    """The chance of each cell, and of the ends of its interval, group by group, with a share of the noise."""
    with opened(world, steward=True) as db:
        (release,) = trace(db, sql, salt=b"audit")
        (chosen,) = db.prepare(sql).bill.releases[0].chosen
    (choice,) = release.statistics
    assert isinstance(choice.values, Stepwise) and choice.mechanism == "exponential"
    scores = [np.repeat(np.array(s, np.float64), sizes) for s, sizes in choice.values.groups]
    firsts = [_law(each, np.ones(len(each)), choice.scale, share) for each in scores]
    if chosen.ends is None:
        return firsts
    groups = [key[0] if key else None for key in release.keys]
    return [
        _with_ends(first, chosen, share, [row[1] for row in world.tables["even"].rows if group in (None, row[3])])
        for first, group in zip(firsts, groups, strict=True)
    ]


def _law(scores: Law, tickets: Law, scale: Fraction, share: float) -> Law:
    weights = tickets * np.exp((scores.min() - scores) / (float(scale) * share))
    return weights / weights.sum()


def _with_ends(first: Law, chosen: PricedChoice, share: float, values: list[Any]) -> Law:
    """The joint law of a cell and of the two ends that are chosen given that cell; each value is of one unit."""
    assert chosen.ends is not None
    size, ends = len(first), chosen.ends
    cells, counts = np.unique(np.array(values, np.int64), return_counts=True)
    unit = chosen.ends.spread // ends_spread(chosen.choice, 1)
    distances, tickets = rungs(size)
    joint = np.zeros((size, size, size))
    for middle in range(size):
        scored = ends_scored(chosen.choice, ends, middle, size, cells, counts * unit)
        low, high = (_law(each.astype(float), tickets.astype(float), ends.law.scale, share) for each in scored)
        lows, highs = np.maximum(middle - distances, 0), np.minimum(middle + distances, size - 1)
        np.add.at(joint[middle], (lows[:, None], highs[None, :]), first[middle] * np.outer(low, high))
    return joint.reshape(-1)


def alone(world: World, sql: str) -> list[Law]:
    """The logarithms of the chances of the cells alone, but for a constant."""
    with opened(world, steward=True) as db:
        (release,) = trace(db, sql, salt=b"audit")
    (choice,) = release.statistics
    assert isinstance(choice.values, Stepwise)
    return [np.repeat(np.array(s, np.float64), sizes) / float(choice.scale) for s, sizes in choice.values.groups]


@cache
def neighbours(name: str, share: float) -> tuple[list[Law], list[Law]]:
    """The laws with and without the unit."""
    (case,) = cases((name,))
    return laws(case.world, case.sql, share), laws(case.world.without(case.unit), case.sql, share)


@cache
def promises(name: str) -> tuple[Limit, ...]:
    (case,) = cases((name,))
    with opened(case.world) as db:
        return promised(db.prepare(case.sql), db.query(case.sql).cost)


def moved(name: str, share: float) -> tuple[Law, Law]:
    """The laws of the one group that the unit is in."""
    pairs = [(p, q) for p, q in zip(*neighbours(name, share), strict=True) if not np.array_equal(p, q)]
    assert len(pairs) == 1
    return pairs[0]


def excess(p: Law, q: Law, limit: Limit) -> float:
    """How far above the promise an event can be, either way round: by Neyman and Pearson one of the likeliest cells."""
    found = []
    for one, two in ((p, q), (q, p)):
        order = np.argsort(np.divide(two, one, out=np.full(len(one), np.inf), where=one > 0))
        likelier, other = np.cumsum(one[order])[:-1], np.cumsum(two[order])[:-1]
        found.append(float((likelier - limit.most(other)).max()))
    return max(found)


@pytest.mark.parametrize("name", CHOICES)
def test_a_unit_moves_a_choice_by_the_whole_claim(name: str) -> None:
    """The losses of the cells are as far apart as the charge allows: the part of ε, or ε with ε²/8 the part of ρ.

    The other parts pay for the ends of an interval and for the noisy weight.
    """
    (case,) = cases((name,))
    pairs = zip(alone(case.world, case.sql), alone(case.world.without(case.unit), case.sql), strict=True)
    mechanism = name.rpartition(" ")[2].casefold()
    part = 1 - TOTAL[mechanism] - (ENDS[mechanism] if name.startswith("median") else 0)
    rho, pure = promises(name)
    claim = part * pure.value if mechanism == "laplace" else (8 * part * rho.value) ** 0.5
    assert sorted(np.ptp(one - two) for one, two in pairs)[-1] == pytest.approx(float(claim), rel=1e-3)


@pytest.mark.parametrize("name", CHOICES)
def test_some_event_shows_half_the_noise_and_none_shows_the_right_noise(name: str) -> None:
    assert max(excess(*moved(name, 1.0), limit) for limit in promises(name)) < 1e-9
    assert max(excess(*moved(name, 0.5), limit) for limit in promises(name)) > 0.15


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_the_events_that_are_chosen_show_half_the_noise_and_not_the_right_noise(name: str, share: float) -> None:
    """As in the last round of the full audit, with answers drawn from the exact laws of all groups."""
    rng = np.random.default_rng(5)
    one, two = (_answers(groups, rng) for groups in neighbours(name, share))
    tests = judged(name, Seen((one, two), (False, True), promises(name)))
    assert bool(refuted(tests, len(tests) * black_box.ONE / len(rounds(RUNS)))) == (share < 1), tests


def _answers(groups: list[Law], rng: np.random.Generator) -> list[Observation]:
    cells = np.stack([rng.choice(len(law), RUNS, p=law) for law in groups], axis=1)
    return [Observation(tuple((f"key {i}", cell) for i, cell in enumerate(row))) for row in cells.tolist()]


def test_queries_that_are_asked_alone_are_judged_as_among_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, level = tmp_path / "figures.jsonl", black_box.ONE
    line = {"share": "1/2", "runs": 400, "cpu": 1.0, "factor": 0.5}
    for name, p in (("count, Laplace", 0.9 * level), ("least, Laplace", 3 * level)):
        test = EventTest(name, "event", "with the unit", Limit("rho", 0.1, 0.0), Counts(9, 20, 1, 20), 0.1, p)
        with out.open("a") as file:
            file.write(json.dumps(line | {"case": name, "tests": [asdict(test), asdict(test)]}) + "\n")
    black_box.table(out)
    shown = capsys.readouterr().out
    assert "1 of 2 flagged" in shown and [each[:5] for each in shown.splitlines() if "FLAGGED" in each] == ["count"]
