"""Bounds that a policy leaves to a private search: found, charged once, shown, remembered, and stored in a policy."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpsql
from dpsql.expressions.types import DOUBLE
from dpsql.interfaces.steward_tasks import found
from dpsql.mechanisms import DiscreteGaussian, DiscreteLaplace
from dpsql.policy.searched_subjects import FoundBounds, Subject
from dpsql.search.bounds_search import OFFSET, largest_of, lower_edge

VISITS = {
    "unit": "person",
    "max_rows_per_unit": "auto",
    "columns": {
        "fee": {"bounds": "auto"},
        "change": {"bounds": "auto"},
        "day": {"bounds": "auto"},
        "rare": {"bounds": "auto"},
        "kind": {"values": ["a", "b"]},
    },
}
POLICY: dict[str, Any] = {
    "dataset": "clinic",
    "search": False,
    "budget": {"epsilon": 20, "delta": 1e-6, "analysts": {"ana": {"epsilon": 10}, "bob": {"epsilon": 10}}},
    "defaults": {"epsilon": 1, "search": 0.2},
    "tables": {"visits": VISITS},
}
SUM = "SELECT kind, sum(fee) AS s FROM visits GROUP BY kind"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,000 people with four visits each; fees from 10 to 90, but one of a million; changes from -40 to 5."""
    path = tmp_path_factory.mktemp("search") / "clinic.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute(
            "CREATE TABLE visits AS SELECT i % 2000 AS person, CASE WHEN i = 7 THEN 1e6 ELSE 10 + i % 81 END::DOUBLE AS fee,"
            " (5 - i % 46)::INTEGER AS change, DATE '2021-03-01' + (i % 700)::INTEGER AS day,"
            " CASE WHEN i < 3 THEN i END AS rare, ['a', 'b'][1 + i % 2] AS kind FROM range(8000) AS r(i)"
        )
    return path


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No noise: the search finds what it would find at its best."""
    for noise in (DiscreteLaplace, DiscreteGaussian):
        monkeypatch.setattr(noise, "sample", lambda self, count: np.zeros(count, np.int64))


@pytest.fixture
def db(database: Path) -> Iterator[dpsql.Connection]:
    with dpsql.connect(database, policy=POLICY, ledger=":memory:", analyst="ana") as opened:
        yield opened


def test_the_ends_hold_all_but_a_few_units(database: Path, silent: None) -> None:
    with dpsql.connect(database, policy=POLICY, ledger=":memory:", steward=True) as db:
        got = {subject: db.search(subject) for subject in db.policy.searched()}
    told = {subject: made[0] for subject, made in got.items() if made is not None}
    assert told[Subject("visits")] == FoundBounds(None, 5)  # four rows each, in a bucket of half an octave
    assert told[Subject("visits", "fee")] == FoundBounds(0, Decimal("90.6"))
    assert told[Subject("visits", "change")] == FoundBounds(Decimal("-45.3"), Decimal("5.66"))
    assert told[Subject("visits", "day")] == FoundBounds(date(2021, 1, 1), date(2023, 12, 31))
    assert told[Subject("visits", "rare")] is None


@pytest.mark.parametrize("rows", [1, 2])
def test_a_value_that_is_not_a_number_is_no_bound(silent: None, rows: int) -> None:
    """NaN compares above every number, so it was taken for the largest value there is."""
    raw = duckdb.connect()
    raw.execute(
        f"CREATE TABLE t AS SELECT i // {rows} AS person, "
        "CASE WHEN i % 6 = 0 THEN 'nan'::DOUBLE ELSE 10 + i % 81 END AS fee FROM range(4000) AS r(i)"
    )
    policy = {**POLICY, "tables": {"t": {"unit": "person", "columns": {"fee": {"bounds": "auto"}}}}}
    with dpsql.connect(raw, policy=policy, ledger=":memory:", steward=True) as db:
        made = db.search(Subject("t", "fee"))
    assert made is not None and made[0] is not None
    assert (made[0].lower, made[0].upper) == (0, Decimal("90.6"))


def test_one_unit_far_out_does_not_move_the_bounds_and_the_answer_is_close(db: dpsql.Connection, silent: None) -> None:
    [(_, one), *_] = db.query(SUM).fetchall()
    assert one == pytest.approx(200_000, rel=0.1)


def test_the_first_query_pays_for_the_search_and_says_what_was_found(db: dpsql.Connection, silent: None) -> None:
    before = db.explain(SUM)
    assert "first a private search for max_rows_per_unit of visits and the bounds of visits.fee" in str(before)
    first = db.query(SUM)
    assert first.cost.epsilon == pytest.approx(before.cost.epsilon, rel=1e-4)
    assert first.cost.rho > db.explain(SUM).cost.rho
    assert "visits.fee: 0 to 90.6, found by a private search" in first.notes
    spent = db.budget().analyst.spent
    again = db.query(SUM)
    assert again.replayed and again.cost.epsilon == 0
    assert again.fetchall() == first.fetchall()
    assert db.budget().analyst.spent == spent
    assert "found for visits.fee by a private search" in str(db.explain(SUM))


def test_only_what_a_query_cannot_do_without_is_searched_for(db: dpsql.Connection) -> None:
    notes = db.query("SELECT count(*) FROM visits WHERE day > DATE '2022-01-01' AND fee > 20").notes
    assert [n.partition(":")[0] for n in notes if "private search" in n] == ["max_rows_per_unit of visits"]


def test_a_refusal_comes_before_the_search_is_charged(db: dpsql.Connection) -> None:
    spent = db.budget().dataset.spent
    for sql in ("SELECT sum(fee), sum(nope) FROM visits", "SELECT sum(fee) FROM visits LIMIT random()"):
        with pytest.raises(dpsql.Error):
            db.query(sql)
    assert db.budget().dataset.spent == spent


def test_a_budget_that_is_too_small_for_both_pays_for_neither(database: Path) -> None:
    policy = {**POLICY, "budget": {"epsilon": 1.05, "delta": 0}}
    with dpsql.connect(database, policy=policy, ledger=":memory:") as db:
        with pytest.raises(dpsql.BudgetExceeded):
            db.query(SUM, epsilon=1)
        assert db.budget().dataset.spent.epsilon == 0


def test_an_accuracy_that_the_search_shows_to_be_out_of_reach_is_refused_and_the_search_is_told(
    db: dpsql.Connection, silent: None
) -> None:
    """What an accuracy costs follows from the bounds, so nobody can know before the search."""
    before = db.budget().analyst
    for again in (False, True):
        with pytest.raises(dpsql.BudgetExceeded) as caught:
            db.query(SUM, accuracy=0.001)
        assert ("private search that came first is counted" in str(caught.value)) is not again
        assert (db.budget().analyst == before) is again
        before = db.budget().analyst


def test_too_few_units_are_told_and_the_search_is_not_repeated(db: dpsql.Connection, silent: None) -> None:
    for _ in range(2):
        with pytest.raises(dpsql.UnboundedColumn, match="too few units"):
            db.query("SELECT sum(rare) FROM visits")
        spent = db.budget().dataset.spent
    with pytest.raises(dpsql.UnboundedColumn, match="too few units"):
        db.query("SELECT sum(rare) FROM visits")
    assert db.budget().dataset.spent == spent


def test_another_analyst_is_counted_the_search_once(database: Path, tmp_path: Path) -> None:
    with dpsql.connect(database, policy=POLICY, ledger=tmp_path / "l", analyst="ana") as ana:
        ana.query(SUM)
        whole = ana.budget().dataset.spent
    with dpsql.connect(database, policy=POLICY, ledger=tmp_path / "l", analyst="bob") as bob:
        answer = bob.query(SUM)
        own = bob.budget().analyst.spent
        bob.query(SUM)
        assert bob.budget().analyst.spent == own
        assert bob.budget().dataset.spent == whole
        assert own.rho > 0
    assert answer.cost.epsilon == 0


def test_a_trace_needs_the_search_first(database: Path, silent: None) -> None:
    with dpsql.connect(database, policy=POLICY, ledger=":memory:", steward=True) as db:
        with pytest.raises(dpsql.InterfaceError, match="not searched for yet"):
            dpsql.audit.trace(db, SUM, salt=b"s")
        for subject in db.policy.searched():
            db.search(subject)
        assert dpsql.audit.trace(db, SUM, salt=b"s")


def test_what_was_found_can_be_stored_in_the_policy(database: Path, silent: None) -> None:
    with dpsql.connect(database, policy=POLICY, ledger=":memory:", steward=True) as db:
        assert all(line.startswith("#") for line in found(db, search=False))
        lines = list(found(db, search=True))
    assert "tables.visits.max_rows_per_unit: 5" in lines
    assert "tables.visits.columns.fee: {min: 0, max: 90.6}" in lines
    assert "# tables.visits.columns.rare: too few units to find bounds" in lines


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"bounds": "auto", "min": 0}, "declared here too"),
        ({"bounds": "wide"}, "not a way to find bounds"),
    ],
)
def test_a_policy_that_contradicts_itself_is_refused(column: dict[str, Any], words: str) -> None:
    with pytest.raises(dpsql.PolicyError, match=words):
        dpsql.connect(
            {}, policy={**POLICY, "tables": {"t": {"unit": "u", "columns": {"x": column}}}}, ledger=":memory:"
        )


def test_text_has_no_bounds_to_search(database: Path) -> None:
    table = {**VISITS, "columns": {"kind": {"bounds": "auto"}}}
    policy = {**POLICY, "tables": {"visits": table}}
    with (
        dpsql.connect(database, policy=policy, ledger=":memory:", steward=True) as db,
        pytest.raises(dpsql.PolicyError, match="numbers and dates only"),
    ):
        db.query("SELECT count(*) FROM visits")


@pytest.mark.parametrize("power", [-30, -7, -1, 0, 1, 2, 5, 20, 63])
def test_the_ends_of_a_bucket_are_rounded_away_from_its_values(power: int) -> None:
    """A bucket holds the numbers from 2^(h/2) to 2^((h+1)/2), or their negatives; its ends have three digits."""
    above, below = OFFSET + power, -OFFSET - power
    low, high = (Decimal(str(end(above, DOUBLE))) for end in (lower_edge, largest_of))
    assert low**2 <= Decimal(2) ** power < low**2 * Decimal("1.03")
    assert high**2 >= Decimal(2) ** (power + 1) > high**2 * Decimal("0.97")
    assert (largest_of(below, DOUBLE), lower_edge(below, DOUBLE)) == (-low, -high)


def test_a_limit_on_public_keys_is_about_queries_not_about_searches() -> None:
    """The buckets of a search were private keys under a small limit, and only those with many units were seen."""
    frame = pd.DataFrame({"id": range(2_000), "a": [float(i % 50) for i in range(2_000)]})
    columns = {"a": {}}
    policy = {
        "dataset": "limited",
        "budget": {"epsilon": 20, "delta": 1e-6},
        "limits": {"max_public_keys": 5},
        "tables": {"t": {"unit": "id", "unique": True, "columns": columns}},
    }
    with dpsql.connect({"t": frame}, policy=policy, ledger=":memory:") as db:
        [[total]] = db.query("SELECT sum(a) FROM t", epsilon=5).fetchall()
        assert abs(total / frame.a.sum() - 1) < 0.1
