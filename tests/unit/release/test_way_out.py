"""Where an answer is mostly noise, one line says what to ask instead; what it names can be asked for, and helps."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import dpsql
from dpsql.answers.way_out import PEOPLE, WayOut
from dpsql.interfaces.cli import output

GROUPS = 60


def opened(epsilon: float = 8, delta: float = 1e-6, rows: int = 20) -> dpsql.Connection:
    frame = pd.DataFrame({"k": np.repeat(np.arange(GROUPS), rows)}).assign(x=5.0)
    policy = {
        "dataset": "d", "search": False, "budget": {"epsilon": epsilon, "delta": delta},
        "tables": {"t": {"unit": "row", "columns": {
            "k": {"min": 0, "max": GROUPS - 1, "nulls": False}, "x": {"min": 0, "max": 9, "nulls": False}}}},
    }  # fmt: skip
    return dpsql.connect({"t": frame}, policy=policy, ledger=":memory:")


def by(width: int) -> str:
    key = "k" if width == 1 else f"k // {width}"
    return f"SELECT {key} AS k, count(*) AS n FROM t GROUP BY {key}"


@pytest.mark.parametrize(("delta", "rows"), [(0.0, 60), (1e-6, 20)])
def test_the_price_that_is_named_is_enough_and_the_groups_are_few_enough(delta: float, rows: int) -> None:
    with opened(delta=delta, rows=rows) as db:
        first = db.query(by(1), price="1%")
        way = first.way_out
        assert way is not None and way.price is not None and way.groups is not None and not way.cut
        assert 1 <= way.groups < GROUPS / 2 and 1 < float(way.price[:-1]) < 99
        for answer in (db.query(by(1), price=way.price), db.query(by(-(-GROUPS // way.groups)), price="1%")):
            shown = answer.shown_bars[1] or []
            errors = [(high - low) / 2 / abs(row[1]) for row, (low, high) in zip(answer.fetchall(), shown, strict=True)]
            assert np.median(errors) < 0.15 and answer.way_out is None
        text = str(way)
        assert (
            text in str(first) and text.replace('"', "&quot;") in first._repr_html_() and text in output.footer(first)
        )
        assert json.loads(output.to_json(first))["way_out"]["price"] == way.price


def test_a_price_that_is_not_left_is_not_named() -> None:
    with opened(epsilon=0.3) as db:
        way = db.query(by(1), price="20%").way_out
        assert way is not None and way.price is None


def test_a_good_answer_needs_no_way_out() -> None:
    with opened() as db:
        assert db.query("SELECT count(*) FROM t", price="10%").way_out is None
        assert db.query("SELECT 1 AS one").way_out is None


def test_the_line_is_one_sentence() -> None:
    assert str(WayOut(8, "5%")) == (
        "mostly noise; for numbers within about 10% ask for at most about 8 groups in place of these, at the same price,"
        ' or these at price="5%"'
    )
    assert "a single total" in str(WayOut(1)) and "price=" not in str(WayOut(1))
    assert PEOPLE in str(WayOut()) and "cuts off" in str(WayOut(cut=True))


@pytest.mark.parametrize("spare", [-0.5, 0.001, 0.01, 0.05, 0.5])
def test_a_price_that_is_named_is_answered(spare: float) -> None:
    """Also where rounded up it is just more, or just less, than what is left (in percent)."""
    with opened() as db:
        first = db.query(by(1), price="1%")
        assert first.way_out is not None and first.way_out.price is not None
        needed = float(first.way_out.price[:-1])
        db.query("SELECT count(*) FROM t", price=f"{99 - needed - spare:.4f}%")
        price = first.way_out.price
        assert (price is not None) == (spare > 0)
        if price is not None:
            db.query(by(1), price=price)
