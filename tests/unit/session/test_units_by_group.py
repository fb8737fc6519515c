"""COUNT(DISTINCT unit) by public groups: no default cuts anything, neither of it nor of what is asked beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpsql
from dpsql.audit import trace

MONTHS, UNITS = 24, 40
ROWS = pd.DataFrame(
    {
        "id": [u for u in range(UNITS) for _ in range(MONTHS)],
        "month": [m for _ in range(UNITS) for m in range(MONTHS)],
    }
)


def policy(search: bool, **table: Any) -> dict[str, Any]:
    columns = {"month": {"values": list(range(MONTHS)), "nulls": False}}
    return {
        "dataset": "visits", "search": search, "budget": {"epsilon": 1000, "delta": 1e-6},
        "tables": {"t": {"unit": "id", **table, "columns": columns}},
    }  # fmt: skip


def counted(search: bool, aggregate: str, mechanism: str, **table: Any) -> list[float]:
    """What is left of each group, before noise, in the unit of the count."""
    sql = f"SELECT month, {aggregate} FROM t GROUP BY month"
    with dpsql.connect({"t": ROWS}, policy=policy(search, **table), ledger=":memory:", steward=True) as db:
        [release] = trace(db, sql, salt=b"s", epsilon=1, delta=1e-8, mechanism=mechanism)
    return [float(value * statistic.grid) for statistic in release.statistics for value in statistic.values]


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("search", [True, False])
def test_units_are_counted_in_all_of_their_public_groups(search: bool, mechanism: str) -> None:
    assert counted(search, "count(DISTINCT id)", mechanism) == pytest.approx([UNITS] * MONTHS, rel=1e-5)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_what_is_asked_beside_them_is_not_cut_either(mechanism: str) -> None:
    both = counted(False, "count(DISTINCT id), count(*)", mechanism)
    assert both == pytest.approx([UNITS] * 2 * MONTHS, rel=1e-5)


@pytest.mark.parametrize("search", [True, False])
def test_a_declared_cap_cuts(search: bool) -> None:
    assert max(counted(search, "count(DISTINCT id)", "gaussian", max_groups_per_unit=6)) < 0.6 * UNITS


def test_without_a_search_the_noise_is_that_of_all_public_groups() -> None:
    with dpsql.connect({"t": ROWS}, policy=policy(True), ledger=":memory:") as db:
        [release] = db.explain("SELECT month, count(DISTINCT id) FROM t GROUP BY month").releases
    assert release.statistics[0].l2 == pytest.approx(MONTHS**0.5, rel=1e-3)


def test_what_a_filter_leaves_of_a_unit_decides() -> None:
    """Of a unit's 24 rows a filter leaves one: the clip that is found for it is that of one row."""
    rows = pd.concat([ROWS.assign(id=ROWS.id + UNITS * i) for i in range(50)])
    with dpsql.connect({"t": rows}, policy=policy(True), ledger=":memory:") as db:
        found = []
        for where in ("month = 3", "month < 24"):
            sql = f"SELECT count(*) FROM t WHERE {where}"
            db.query(sql, epsilon=2, delta=1e-8)
            found.append(db.explain(sql, epsilon=2, delta=1e-8).releases[0].statistics[0].l2)
    assert found[0] < 1.5 and 22 < found[1] < 34


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_units_in_all_groups_are_within_the_limit_that_is_found(mechanism: str) -> None:
    """Their norm is the root of 24, in a bucket that ends at the root of 32: none of them has so much."""
    rows = pd.DataFrame({"id": np.repeat(np.arange(2_000), MONTHS), "month": np.tile(np.arange(MONTHS), 2_000)})
    sql = "SELECT month, count(DISTINCT id) AS n FROM t GROUP BY month"
    with dpsql.connect({"t": rows}, policy=policy(True), ledger=":memory:") as db:
        answer = db.query(sql, epsilon=5, delta=1e-8, mechanism=mechanism)
        [release] = answer.released.values()
    clip = release.priced.bounded.clip
    assert clip is not None and clip.choice is not None and clip.choice.found
    assert (clip.choice.above, clip.choice.cut) == (0, 0)
    assert clip.choice.cut_upper == 0
    assert any(note.startswith("hardly any of about") for note in answer.notes)
