"""A search is a release like any other: removing a unit moves it by at most one count in one bucket."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from unlocked import integers

import dpsql
from dpsql.policy.searched_subjects import Subject

POLICY = {
    "dataset": "d",
    "search": False,
    "budget": {"epsilon": 5},
    "tables": {
        "t": {
            "unit": "u",
            "max_rows_per_unit": "auto",
            "columns": {"x": {"bounds": "auto"}, "n": {"bounds": "auto"}, "day": {"bounds": "auto"}},
        },
        "r": {"unit": "row", "columns": {"x": {"bounds": "auto"}}},
    },
}
EDGES = [0.0, -0.0, 1.0, -1.0, 2.0**0.5, 1e308, -1e308, 5e-324, float("inf"), float("-inf"), float("nan"), None]


def _rows(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    count = 60
    days = np.array(["0001-01-01", "1800-06-01", "2020-02-29", "2200-12-31", "9999-12-31"], dtype="datetime64[s]")
    return pd.DataFrame(
        {
            "u": rng.integers(0, 8, count),
            "x": [EDGES[i] if i < len(EDGES) else rng.normal(0, 1e4) for i in rng.integers(0, 30, count)],
            "n": rng.choice([0, 1, -1, 2**62, -(2**62), 77], count),
            "day": rng.choice(days, count),
        }
    )


def _exact(frame: pd.DataFrame, subject: Subject) -> list[tuple[tuple[object, ...], list[int], int]]:
    with dpsql.connect({"t": frame, "r": frame}, policy=POLICY, ledger=":memory:", steward=True) as db:
        _, bill = db.searches.search(subject)
        ran = [(priced, integers(db.engine, priced, b"salt")) for priced in bill.releases]
        return [(tuple(e.keys), e.values[0].tolist(), p.noised[0].claim.l1) for p, e in ran]


@pytest.mark.parametrize(
    "subject", [Subject("t"), Subject("t", "x"), Subject("t", "n"), Subject("t", "day"), Subject("r", "x")], ids=str
)
def test_a_unit_is_in_one_bucket(subject: Subject) -> None:
    moved = 0
    for seed in range(4):
        frame = _rows(seed)
        whole = _exact(frame, subject)
        for unit in (0, 3):
            less = frame[frame.u != unit] if subject.table == "t" else frame.drop(index=unit)
            for (keys, values, claim), (others, fewer, _) in zip(whole, _exact(less, subject), strict=True):
                assert keys == others
                shift = sum(abs(a - b) for a, b in zip(values, fewer, strict=True))
                assert shift <= claim == 1
                moved += shift
    assert moved > 4


def test_the_price_of_a_search_does_not_depend_on_the_query() -> None:
    with dpsql.connect({"t": _rows(0), "r": _rows(1)}, policy=POLICY, ledger=":memory:", steward=True) as db:
        bills = [db.searches.search(Subject("t", "x"))[1] for _ in range(2)]
        assert bills[0] == bills[1]
        assert bills[0].epsilon == Fraction(1, 10)
