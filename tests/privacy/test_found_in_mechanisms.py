"""Each break that a review of the mechanisms and of local privacy found, as a test of the behaviour that closes it."""

from __future__ import annotations

import math
import sqlite3
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpsql.pandas
from dpsql.errors import Error, InterfaceError, LedgerError, ProgrammingError
from dpsql.local import Answers
from dpsql.mechanisms import (
    Exponential,
    FiniteLaw,
    Gaussian,
    Guarantee,
    Laplace,
    NoisyMax,
    RandomizedResponse,
    SmoothMedian,
    default_delta,
    delta_between,
    group,
)

YES = ["yes", "no"]


@pytest.mark.parametrize(
    "mechanism", [Laplace(0.1, 1, grid=0.1), Laplace(0.1, 1e-4), Laplace(0.1, 1, grid=Decimal("0.1"))]
)
def test_a_sensitivity_is_read_as_the_data_are(mechanism: Laplace) -> None:
    """The float 0.1 is more than a tenth: read as a tenth, −0.1 and 0 were two steps apart and paid for as one."""
    assert delta_between(mechanism.law(-0.1), mechanism.law(0.0), mechanism.epsilon).low == 0


def test_long_floats_are_not_rounded_on_the_way_to_the_grid() -> None:
    """As doubles, these two, which differ by 1, were rounded to 2 and to just below 1: two steps for the price of one."""
    below: Any = np.longdouble(7) * np.longdouble(2) ** -56
    mechanism = Laplace(1, 1, grid=1)
    assert mechanism.law(2 - below).centre - mechanism.law(1 - below).centre == 1


@pytest.mark.parametrize("kind", [Exponential, NoisyMax])
def test_so_it_is_for_a_quality(kind: type[Exponential | NoisyMax]) -> None:
    mechanism = kind(0.1, 1, grid=0.1)
    down, up = Fraction(-1) - Fraction(0.1), Fraction(0.1)
    one, two = (mechanism.law([0, 1], scores) for scores in ([down, up], [-1, 0]))
    assert delta_between(one, two, 1).low == 0


def vector_delta(sigma: float, moved: tuple[int, ...], epsilon: float) -> float:
    """The δ of discrete Gaussian noise on whole numbers that move together: the loss is a function of Σ dᵢzᵢ."""
    reach = math.ceil(12 * sigma)
    z = np.arange(-reach, reach + 1)
    masses, total = np.array([1.0]), sum(d * d for d in moved)
    for d in moved:
        spread = np.zeros(2 * reach * d + 1)
        spread[::d] = np.exp(-(z**2) / (2 * sigma**2))
        masses = np.convolve(masses, spread / spread.sum())
    place = np.arange(masses.size) - masses.size // 2
    loss = (2 * place + total) / (2 * sigma**2)
    return float(np.sum(masses * np.maximum(0, -np.expm1(np.minimum(epsilon - loss, 1)))))


def test_gaussian_noise_for_one_whole_number_is_not_enough_for_several() -> None:
    """Nine counts that move by 1 need more than one that moves by 3: a vector says how many of it a unit moves."""
    mechanism = Gaussian(3, 2, 1e-9, grid=1)
    sigma = float(mechanism.noise.scale)
    assert vector_delta(sigma, (3,), 2) <= 1e-9 * (1 + 1e-6)
    assert vector_delta(sigma, (1,) * 9, 2) > 1.02e-9
    with pytest.raises(ProgrammingError, match="several of these values"):
        mechanism.release([1, 2, 3])
    assert len(Gaussian(3, 2, 1e-9, grid=1, touched=1).release([1, 2, 3])) == 3
    assert len(Gaussian(3, 2, 1e-9, touched=3).release([1, 2, 3])) == 3
    assert len(Laplace(3, 2, grid=1).release([1, 2, 3])) == 3


def test_a_group_is_promised_nothing_where_the_factor_is_beyond_floats() -> None:
    assert group(Guarantee(100, 1e-308), 10).delta == 1
    assert group(Guarantee(100), 10) == Guarantee(1000)
    assert group(Guarantee(1, 1e-9), 3).delta == 3 * math.exp(2) * 1e-9


def test_no_level_of_the_smooth_median_is_beyond_the_sampler() -> None:
    """Else data that are far apart end in an error, and others do not."""
    top = 2**29 - 1
    mechanism = SmoothMedian(0, top, 1, 1e-5, grid=1)
    assert math.isfinite(mechanism.release([0, top]))
    assert mechanism.law([0, top])[1] >= 2 * top


@pytest.mark.parametrize("masses", [{0: math.nan, 1: 0.5}, {0: -0.5, 1: 1.5}, {0: 0.5}, {}])
def test_what_is_no_law_passes_no_check(masses: dict[Any, float]) -> None:
    with pytest.raises(ProgrammingError, match="probabilities"):
        FiniteLaw(masses)


def test_no_power_is_no_delta() -> None:
    for power in (math.nan, math.inf, 1):
        with pytest.raises(ProgrammingError):
            default_delta(1000, power)


def test_a_person_is_the_same_in_every_type_of_number() -> None:
    """A column that once had a missing value is read as floats: its people were asked anew."""
    store, response = Answers(), RandomizedResponse(0.01, values=YES)
    truths = ["yes"] * 100
    first = store.ask("q", list(range(100)), truths, response)
    for same in (float, np.float32, np.int16, Decimal, Fraction):
        assert store.ask("q", [same(i) for i in range(100)], truths, response) == first
    halves = store.ask("q", [i + 0.5 for i in range(100)], truths, response)
    assert store.ask("q", [Decimal(i) + Decimal("0.5") for i in range(100)], truths, response) == halves
    days = [datetime(2020, 1, 1, 0, i % 60, i // 60) for i in range(100)]
    assert store.ask("q", days, truths, response) == store.ask("q", list(map(pd.Timestamp, days)), truths, response)
    pairs = store.ask("q", [(i, "a") for i in range(100)], truths, response)
    assert store.ask("q", [(np.float64(i), "a") for i in range(100)], truths, response) == pairs
    with pytest.raises(ProgrammingError, match="several rows"):
        store.ask("q", [1, 1.0], ["yes", "no"], response)


@pytest.mark.parametrize(
    "nobody", [None, math.nan, pd.NA, pd.NaT, object(), (1, math.nan), np.datetime64("2020-01-01")]
)
def test_who_has_no_text_of_their_own_is_refused(nobody: Any) -> None:
    with pytest.raises(ProgrammingError, match="a person is identified by text"):
        Answers().ask("q", [nobody], ["yes"], RandomizedResponse(1, values=YES))


def test_any_epsilon_can_be_asked_again() -> None:
    store = Answers()
    for epsilon in (Fraction(1, 3), Decimal("0.1"), 0.1, 1e-9):
        response = RandomizedResponse(epsilon, values=YES)
        first = store.ask(f"q {float(epsilon)}", [1], ["yes"], response)
        assert store.ask(f"q {float(epsilon)}", [1], ["no"], response) == first
    assert store.spent() == pytest.approx(1 / 3 + 0.1 + 1e-9)


def test_the_order_of_rows_does_not_tell_the_truths(tmp_path: Path) -> None:
    """A frame that is sorted by the column: neither what is handed on nor the file keeps its order."""
    df = pd.DataFrame({"id": range(100), "ill": [i % 3 == 0 for i in range(100)]}).sort_values("ill")
    path = tmp_path / "survey.answers"
    assert df.dp.randomize("ill", epsilon=1, unit="id", answers=path).index.tolist() == list(range(100))
    assert df.dp.randomize("ill", epsilon=1).index.tolist() == list(range(100))
    with sqlite3.connect(path) as file:
        people = [person for (person,) in file.execute("SELECT person FROM answers ORDER BY rowid")]
    assert people == sorted(people)


def test_a_store_that_forgets_or_is_held_by_another_is_refused(tmp_path: Path) -> None:
    df = pd.DataFrame({"id": [1, 2], "ill": [True, False]})
    for forgets in ("", ":memory:"):
        with pytest.raises(InterfaceError, match="must name a file"):
            df.dp.randomize("ill", epsilon=1, unit="id", answers=forgets)
    store = Answers(tmp_path / "a")
    store._db.execute("PRAGMA busy_timeout = 1")
    with sqlite3.connect(tmp_path / "a", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="cannot be written"):
            store.ask("q", [1], ["yes"], RandomizedResponse(1, values=YES))
        other.execute("ROLLBACK")
    assert store.ask("q", [1], ["yes"], RandomizedResponse(1, values=YES))


def test_a_missing_truth_is_refused_and_not_told() -> None:
    for missing in (pd.NA, None, math.nan):
        df = pd.DataFrame({"ill": pd.Series([True, missing], dtype=object if missing is not pd.NA else "boolean")})
        with pytest.raises(Error, match="not among the values"):
            df.dp.randomize("ill", epsilon=1, values=[True, False])


def test_debiased_counts_move_no_more_than_they_claim() -> None:
    """RR_COUNT is two ordinary counts: a unit with many rows in many groups stays inside the claims."""
    column = {"values": YES, "randomized": {"epsilon": 1}}
    people = {"unit": "u", "max_rows_per_unit": 2, "columns": {"s": column, "r": {"values": ["a", "b", "c"]}}}
    policy = {"dataset": "d", "search": False, "budget": {"epsilon": 100}, "tables": {"t": people}}
    rows = "SELECT i AS u, CASE WHEN i % 3 = 0 THEN 'yes' ELSE 'no' END AS s, 'a' AS r FROM range(50) x(i)"
    guest = "SELECT 99, 'yes', r FROM (VALUES ('a'), ('a'), ('b'), ('c')) y(r)"
    traces = []
    for sql in (rows, f"{rows} UNION ALL {guest}"):
        data = duckdb.connect()
        data.execute(f"CREATE TABLE t AS {sql}")
        with dpsql.connect(data, policy=policy, ledger=":memory:", steward=True) as db:
            asked = "SELECT r, rr_count(s) FROM t GROUP BY r"
            [traced] = dpsql.audit.trace(db, asked, salt=b"salt", epsilon=1)
            traces.append(traced)
    for before, after in zip(traces[0].statistics, traces[1].statistics, strict=True):
        one, two = (dict(zip(t.keys, s.values, strict=True)) for t, s in zip(traces, (before, after), strict=True))
        moved = sum(abs(one.get(key, 0) - two.get(key, 0)) for key in {*one, *two})
        assert before.l1 is not None
        assert 0 < moved <= before.l1
