"""RR_COUNT: answers that were randomised at the source, debiased over ordinary noisy counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpsql
from dpsql.errors import Error, ParseError, PolicyError, UnsupportedQuery
from dpsql.mechanisms import RandomizedResponse
from dpsql.session import Connection

N = 20_000
SMOKER = RandomizedResponse(1, values=("yes", "no"))
PARTY = RandomizedResponse(2, values=("red", "green", "blue"))


def table() -> pd.DataFrame:
    truths = np.where(np.arange(N) % 4 == 0, "yes", "no")
    parties = np.array(["red", "green", "blue"])[np.minimum(np.arange(N) % 5, 2)]
    return pd.DataFrame(
        {
            "id": np.arange(N),
            "smoker": SMOKER.release_all(truths.tolist()),
            "party": PARTY.release_all(parties.tolist()),
            "ill": RandomizedResponse(1).release_all((np.arange(N) % 10 == 0).tolist()),
            "region": np.where(np.arange(N) % 2 == 0, "north", "south"),
        }
    )


def columns() -> dict[str, Any]:
    return {
        "smoker": {"values": ["yes", "no"], "randomized": {"epsilon": 1}},
        "party": {"values": ["red", "green", "blue"], "randomized": {"epsilon": 2}},
        "ill": {"randomized": {"epsilon": 1}},
        "region": {"values": ["north", "south"]},
    }


def connect(spec: dict[str, Any] | None = None) -> Connection:
    policy = {
        "dataset": "survey",
        "search": False,
        "budget": {"epsilon": 100},
        "tables": {"people": {"unit": "row", "columns": spec or columns()}},
    }
    return dpsql.connect({"people": table()}, policy=policy, ledger=":memory:")


@pytest.fixture
def db() -> Connection:
    return connect()


@pytest.mark.parametrize(
    ("call", "truth"),
    [
        ("rr_count(smoker)", N / 4),
        ("RR_COUNT(smoker, 'no')", 3 * N / 4),
        ("rr_count(party, 'blue')", 3 * N / 5),
        ("rr_count(ill)", N / 10),
        ("rr_count(smoker) FILTER (WHERE region = 'south')", 0),
        ("rr_count(smoker) FILTER (WHERE region = 'north')", N / 4),
        ("100 * rr_count(smoker) / count(*)", 25),
    ],
)
def test_the_estimate_is_near_the_truth(db: Connection, call: str, truth: float) -> None:
    [(found,)] = db.query(f"SELECT {call} FROM people", epsilon=5).fetchall()
    allowed = 5 * SMOKER.factor * 0.5 * N**0.5
    assert found == pytest.approx(truth, abs=allowed if truth > 100 or truth == 0 else 100 * allowed / N)


def test_it_is_the_debiasing_formula_over_ordinary_counts(db: Connection) -> None:
    both = db.query(
        "SELECT rr_count(smoker) AS r, count(*) FILTER (WHERE smoker = 'yes') AS c, count(smoker) AS n FROM people",
        epsilon=1,
    )
    [(r, c, n)] = both.fetchall()
    assert r == pytest.approx((c - SMOKER.lie * n) * SMOKER.factor)
    statistics = db.explain("SELECT rr_count(smoker) FROM people", epsilon=1).releases[0].statistics
    plain = db.explain("SELECT count(*) FILTER (WHERE smoker = 'yes'), count(smoker) FROM people", epsilon=1)
    assert [(s.l1, s.scale) for s in statistics] == [(s.l1, s.scale) for s in plain.releases[0].statistics]
    assert both.cost.epsilon == pytest.approx(1)


def test_groups_and_error_bars(db: Connection) -> None:
    answer = db.query(
        "SELECT region, rr_count(smoker) AS n, dp_error(rr_count(smoker)) AS e FROM people GROUP BY region", epsilon=1
    )
    frame, bars = answer.df().set_index("region"), answer.intervals()
    assert frame.loc["north", "n"] == pytest.approx(N / 4, abs=600)
    assert frame.loc["south", "n"] == pytest.approx(0, abs=600)
    width = (bars["n_high"] - bars["n_low"]) / 2
    assert (width < 60).all() and (width > 1).all()  # fmt: skip
    assert any("not in the error bars" in note and "1.88·√n" in note and "ε = 1" in note for note in answer.notes)


def test_the_width_in_the_note_is_right() -> None:
    """± 1.88·√n: what the answers' own randomness does to the estimate, 95 times in 100."""
    truths = np.zeros(400, dtype=np.int64)
    off = [abs((np.sum(SMOKER.answers(truths) == 0) - SMOKER.lie * 400) * SMOKER.factor - 400) for _ in range(2000)]
    assert np.mean(np.array(off) <= 1.88 * 20) == pytest.approx(0.95, abs=0.02)


def test_through_subqueries_and_filters_on_other_columns(db: Connection) -> None:
    sql = "SELECT rr_count(s) FROM (SELECT smoker AS s, region FROM people WHERE region = 'north')"
    assert db.query(sql, epsilon=2).fetchall()[0][0] == pytest.approx(N / 4, abs=600)
    assert db.query("SELECT rr_count(smoker) FROM people", epsilon=2, dialect="postgres").fetchall()


@pytest.mark.parametrize(
    ("sql", "kind", "said"),
    [
        ("SELECT rr_count(region) FROM people", UnsupportedQuery, "randomised columns: smoker, party, ill"),
        ("SELECT rr_count(smoker || 'x') FROM people", UnsupportedQuery, "takes a column"),
        ("SELECT rr_count() FROM people", UnsupportedQuery, "takes a column"),
        ("SELECT rr_count(party) FROM people", ParseError, "write RR_COUNT(party, 'red')"),
        ("SELECT rr_count(smoker, 'maybe') FROM people", ParseError, "'yes', 'no'"),
        (
            "SELECT rr_count(smoker) FROM people WHERE smoker = 'yes'",
            UnsupportedQuery,
            "filtered or grouped by the randomised answer",
        ),
        (
            "SELECT rr_count(smoker) FILTER (WHERE smoker = 'yes') FROM people",
            UnsupportedQuery,
            "filtered or grouped by",
        ),
        ("SELECT smoker, rr_count(smoker) FROM people GROUP BY smoker", UnsupportedQuery, "filtered or grouped by"),
        (
            "SELECT rr_count(s) FROM (SELECT smoker AS s FROM people) GROUP BY upper(s)",
            UnsupportedQuery,
            "filtered or grouped by",
        ),
        ("SELECT count(*) FROM people WHERE rr_count(smoker) > 1", UnsupportedQuery, "aggregate"),
        ("SELECT rr_count(smoker) OVER () FROM people", UnsupportedQuery, ""),
    ],
)
def test_what_is_refused(db: Connection, sql: str, kind: type[Error], said: str) -> None:
    before = db.budget().dataset.spent.epsilon
    with pytest.raises(kind) as refusal:
        db.query(sql, epsilon=1)
    assert said in str(refusal.value)
    assert db.budget().dataset.spent.epsilon == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"values": ["yes"], "randomized": {"epsilon": 1}},
        {"min": 0, "max": 1, "randomized": {"epsilon": 1}},
        {"randomized": {"epsilon": 1}},
        {"values": ["yes", "no"], "randomized": {"epsilon": 0}},
        {"values": ["yes", "no"], "randomized": {"p": 1}},
    ],
)
def test_a_policy_that_declares_it_wrongly_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(PolicyError):
        connect({"smoker": wrong}).query("SELECT count(*) FROM people")
