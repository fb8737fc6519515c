"""Accuracies on an account that is nearly spent, with releases that were made before, and with none."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import dpsql
from dpsql.budget import FREE

TABLES = {
    "t": {"unit": "u", "max_rows_per_unit": 1, "columns": {"x": {"min": 0, "max": 10}, "k": {"values": ["a", "b"], "nulls": False}}}
}  # fmt: skip
MEAN = "SELECT avg(x) AS a FROM t"
OTHER = "SELECT sum(x) FROM t WHERE x > 1"


def connect(**policy: Any) -> dpsql.Connection:
    units = 2_000
    frame = pd.DataFrame({"u": range(units), "x": [4.0] * units, "k": ["a", "b"] * (units // 2)})
    chosen = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 3},
        "limits": {"epsilon": 2},
        "tables": TABLES,
        **policy,
    }
    return dpsql.connect({"t": frame}, policy=chosen, ledger=":memory:")


def spent(db: dpsql.Connection) -> float:
    return db.budget().dataset.spent.epsilon


def test_where_no_more_is_left_the_earlier_release_is_shown_with_what_it_misses() -> None:
    with connect() as db:
        earlier = db.query(MEAN, epsilon=1)
        db.query(OTHER, epsilon="1.9995")
        before = db.ledger.mark()
        result = db.query(MEAN, accuracy="0.01%")
        assert result.fetchall() == earlier.fetchall()
        assert result.replayed and result.cost == FREE and db.ledger.mark() == before
        assert any(note.startswith("no more: over the privacy budget") for note in result.notes)
        assert any("a" in note and "is missed" in note for note in result.notes)


def test_an_earlier_release_that_is_exact_enough_is_the_answer_and_says_so() -> None:
    words = "answered from an earlier release, which is as exact as asked"
    with connect() as db:
        earlier = db.query(MEAN, epsilon=0.2)
        for accuracy in ("20%", 1.0):
            result = db.query(MEAN, accuracy=accuracy)
            assert (result.fetchall(), result.cost, result.replayed) == (earlier.fetchall(), FREE, True)
            assert words in result.notes
        closer = db.query(MEAN, accuracy="0.5%")
        assert words not in closer.notes and not closer.replayed and closer.cost.epsilon > 0
        assert spent(db) == pytest.approx(0.2 + closer.cost.epsilon)
        assert any("an earlier release was used" in note for note in closer.notes)


def test_without_replay_nothing_earlier_is_looked_at_and_every_answer_is_paid() -> None:
    with connect(replay=False) as db:
        db.query(MEAN, epsilon=1)
        costs = [db.query(MEAN, accuracy="20%").cost.epsilon for _ in range(2)]
        assert min(costs) > 0 and spent(db) == pytest.approx(1 + sum(costs))
        assert not any("earlier" in note for note in db.query(MEAN, accuracy="20%").notes)


def test_a_refusal_before_anything_was_paid_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(request: object) -> int:
        raise dpsql.BudgetExceeded("somebody else was faster")

    with connect() as db:
        monkeypatch.setattr(db.ledger, "reserve", refuse)
        for sql, accuracy in ((MEAN, "5%"), ("SELECT count(*) AS n FROM t", 5)):
            with pytest.raises(dpsql.BudgetExceeded, match="somebody else was faster"):
                db.query(sql, accuracy=accuracy)


def test_pilots_are_counted_and_their_cost_is_told_with_that_of_the_answer() -> None:
    with connect() as db:
        result = db.query("SELECT k, avg(x) AS a FROM t GROUP BY k", accuracy="2%")
        charges = [line.cost.epsilon for line in db.ledger.log() if line.kind == "charge" and line.cost is not None]
        pilots = charges[:-1]
        said = "a pilot was" if len(pilots) == 1 else f"{len(pilots)} pilots were"
        assert len(pilots) > 1
        [note] = [each for each in result.notes if "charged first" in each]
        assert note.startswith(f"{said} charged first (")
        assert result.cost.epsilon == pytest.approx(sum(charges)) and not result.replayed
        assert all(abs(a - 4) < 0.5 for _, a in result.fetchall())
        again = db.query("SELECT k, avg(x) AS a FROM t GROUP BY k", accuracy="2%")
        assert again.replayed and again.fetchall() == result.fetchall()


def test_one_pilot_is_one_pilot() -> None:
    with connect(limits={"epsilon": 3}) as db:
        result = db.query("SELECT count(*) * 2 AS n FROM t", accuracy="10%")
        assert any(note.startswith("a pilot was charged first (") for note in result.notes)
        assert 0 < result.cost.epsilon == pytest.approx(spent(db))
