"""clipped=True: how much the bounds cut off, measured for a part of the price."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpsql
from dpsql.audit import trace
from dpsql.expressions.types import integer

UNITS = 1_000


def opened(**options: object) -> dpsql.Connection:
    """A tenth of the units have five rows, the others two; a fifth of the values are above the bound."""
    ids = np.concatenate([np.repeat(np.arange(UNITS), 2), np.repeat(np.arange(0, UNITS, 10), 3)])
    frame = pd.DataFrame(
        {"id": ids, "x": np.where(np.arange(len(ids)) % 5 == 0, 99.0, 4.0), "k": ["a", "b"] * (len(ids) // 2)}
    )
    policy = {"dataset": "d", "search": False, "budget": {"epsilon": 1000, "delta": 1e-6}, "limits": {"epsilon": 50, "delta": 1e-6},
              "tables": {"t": {"unit": "id", "max_rows_per_unit": 2, "max_groups_per_unit": 1,
                               "columns": {"x": {"min": 0, "max": 9}, "k": {"values": ["a", "b"]}}}}}  # fmt: skip
    return dpsql.connect({"t": frame}, policy=policy, ledger=":memory:", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("sql", ["SELECT k, count(*), sum(x) FROM t GROUP BY k", "SELECT count(*), avg(x) FROM t"])
def test_the_shares_are_about_right_and_said_in_words(sql: str, mechanism: str) -> None:
    with opened() as db:
        result = db.query(sql, epsilon=20, mechanism=mechanism, clipped=True)
        units, values = result.clipped
        assert units.share == pytest.approx(0.1, abs=0.02)
        assert units.low < units.share < units.high
        assert values.share == pytest.approx(0.2, abs=0.05)
        assert any("of the units in t were down-weighted to 2 rows" in note for note in result.notes)
        assert any("of the values of x were clamped to [0, 9]" in note for note in result.notes)
        assert db.query(sql, epsilon=20, mechanism=mechanism, clipped=True).replayed
        assert db.query(sql, epsilon=20, mechanism=mechanism).clipped == ()


def test_it_is_paid_for_out_of_the_same_price() -> None:
    with opened() as db:
        plain, checked = (db.explain("SELECT count(*) FROM t", epsilon=1, clipped=c) for c in (False, True))
        assert checked.cost.epsilon == plain.cost.epsilon == 1
        assert len(checked.releases) == 2
        assert checked.releases[0].statistics[0].scale > plain.releases[0].statistics[0].scale
        assert checked.notes == plain.notes
        before = db.budget().dataset.spent.epsilon
        assert db.query("SELECT count(*) FROM t", epsilon=1, mechanism="laplace", clipped=True).cost.epsilon == 1
        assert db.budget().dataset.spent.epsilon == pytest.approx(before + 1)


def test_the_flags_are_counted_exactly_and_move_by_one_unit() -> None:
    with opened(steward=True) as db:
        _, check = trace(db, "SELECT count(*) FROM t", salt=b"s", epsilon=1, mechanism="gaussian", clipped=True)
        count, centred = check.statistics
        assert check.rule == "single_row"
        assert count.values == (UNITS,)
        assert (count.l1, centred.l1) == (1, 1)
        share = Fraction(1, 2) + centred.values[0] * centred.grid / count.values[0]
        assert share == Fraction(1, 10)


def test_groups_and_sums_are_checked_by_what_they_limit() -> None:
    with opened() as db:
        units, rows, _ = db.query(
            "SELECT k, count(DISTINCT id), avg(x) FROM t GROUP BY k", epsilon=40, clipped=True
        ).clipped
        assert units.what.endswith("to 1 group")
        assert units.share == pytest.approx(1.0, abs=0.1)
        assert rows.share == pytest.approx(0.1, abs=0.05)
        [sums, _] = db.query("SELECT sum(x) FROM t", epsilon=40, clipped=True).clipped
        assert 0.0 < sums.share < 0.2


@pytest.mark.parametrize(
    ("sql", "share"),
    [
        ("SELECT sum(x) FROM t", Fraction(1, 4)),
        ("SELECT k, sum(x) FROM t GROUP BY k", Fraction(2, 4)),
        ("SELECT count(x) FROM t", Fraction(3, 4)),
    ],
)
def test_a_units_sum_is_cut_by_its_size_in_one_group_and_by_that_of_all_its_rows_in_several(
    sql: str, share: Fraction
) -> None:
    """Of four units one has rows that cancel, one has many large ones, one many small ones, and one a single row."""
    units = {1: [9.0, -9.0] * 3, 2: [-9.0] * 3, 3: [1.0] * 5, 4: [9.0]}
    rows = [(unit, x, "ab"[i % 2]) for unit, values in units.items() for i, x in enumerate(values)]
    columns = {"x": {"min": -9, "max": 9}, "k": {"values": ["a", "b"]}}
    policy = {"dataset": "d", "search": False, "budget": {"epsilon": 100, "delta": 1e-6},
              "tables": {"t": {"unit": "id", "max_rows_per_unit": 2, "columns": columns}}}  # fmt: skip
    frame = pd.DataFrame(rows, columns=["id", "x", "k"])
    with dpsql.connect({"t": frame}, policy=policy, ledger=":memory:", steward=True) as db:
        _, check, *_ = trace(db, sql, salt=b"s", epsilon=1, mechanism="gaussian", clipped=True)
        count, centred = check.statistics
        assert count.values == (4,)
        assert Fraction(1, 2) + centred.values[0] * centred.grid / 4 == share


def test_what_cannot_be_cut_off_is_not_checked() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0], "f": [True, False]})
    policy = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 10},
        "tables": {"t": {"unit": "row", "columns": {"f": {}}}},
    }
    with dpsql.connect({"t": frame}, policy=policy, ledger=":memory:") as db:
        assert db.query("SELECT count(*), avg(f) FROM t", clipped=True).clipped == ()


def test_a_check_adds_up_zeros_and_ones_and_its_type_has_both() -> None:
    with opened() as db:
        prepared = db.prepare("SELECT count(*), sum(x) FROM t", epsilon=1.0, mechanism="laplace", clipped=True)
        arguments = [a.argument for check in prepared.checks for a in check.bounded.release.aggregates]
        assert len(arguments) == 2 and all(a is not None and a.type == integer(0, 1) for a in arguments)
