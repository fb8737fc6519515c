"""The bench of first answers on a tiny world: what it calls the truth, the best clip in hindsight, and its shares."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from importlib import import_module
from math import inf, nan, sqrt
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

ROWS = [
    (1, "a", 10.0),
    (1, "a", 30.0),
    (1, "b", 50.0),
    (2, "a", None),
    (2, "b", 20.0),
    (3, None, 5.0),
    (None, "a", 7.0),
]
"""unit, group, value: a NULL value, a NULL group, and a row that nobody owns."""


@pytest.fixture
def hindsight(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The bench's module; its neighbours import each other as scripts do."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "bench"))
    return import_module("hindsight")


@pytest.fixture
def useful(hindsight: Any) -> Any:
    return import_module("useful")


@pytest.fixture
def data() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (unit INTEGER, g VARCHAR, x DOUBLE)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", ROWS)
        yield connection


def many(units: int, rows: int = 1) -> duckdb.DuckDBPyConnection:
    """Units with equally many rows in two groups, x from 0 to 99."""
    connection = duckdb.connect()
    connection.execute(
        f"CREATE TABLE t AS SELECT u::INTEGER AS unit, 'g' || u % 2 AS g, ((u * 37 + r * 11) % 100)::DOUBLE AS x "
        f"FROM range({units}) AS units(u), range({rows}) AS rows(r)"
    )
    return connection


def test_the_truth_is_what_sql_says_also_of_rows_that_nobody_owns(useful: Any, data: duckdb.DuckDBPyConnection) -> None:
    question = useful.Question("q", "SELECT g, count(*) AS n, avg(x) AS x FROM t GROUP BY g", chosen=("n", "x"))
    truth = useful.truth_of(data, question)
    assert truth == {(("a",), "n"): 4, (("a",), "x"): 47 / 3, (("b",), "n"): 2, (("b",), "x"): 35,
                     ((None,), "n"): 1, ((None,), "x"): 5}  # fmt: skip


def test_contributions_add_up_and_the_owned_ones_leave_nobodys_rows_out(
    hindsight: Any, data: duckdb.DuckDBPyConnection
) -> None:
    given = hindsight.contributions(
        data, "t", "unit", ("g",), {"n": "count(*)", "s": "sum(x)", "p": "count(DISTINCT unit)"}
    )
    a, b, null = (given.keys.index((key,)) for key in ("a", "b", None))
    everything, owned = given.totals(), given.owned().totals()
    assert [everything["n"][i] for i in (a, b, null)] == [4, 2, 1]
    assert [owned["n"][i] for i in (a, b, null)] == [3, 2, 1]
    assert [everything["s"][i] for i in (a, b, null)] == [47, 70, 5]
    assert [everything["p"][i] for i in (a, b, null)] == [2, 2, 1]


def test_the_clip_shortens_the_whole_vector_of_a_unit(hindsight: Any) -> None:
    given = hindsight.Contributions(
        (("a",), ("b",)), np.array([0, 0, 1]), np.array([0, 1, 1]), {"n": np.array([3.0, 4, 1])}
    )
    vector = {"n": hindsight.Coordinate(0.0, 1.0, given.statistics["n"])}
    norms = np.sqrt(np.bincount(given.units, given.statistics["n"] ** 2))
    assert norms.tolist() == [5, 1]
    noisy = hindsight._noisy(given, vector, np.minimum(1, 2.5 / norms), np.zeros((1, 1, 2)))
    assert noisy["n"].tolist() == [[1.5, 3.0]]


@pytest.mark.parametrize("rows", [1, 4])
def test_the_noise_is_that_of_the_clip_at_the_whole_price(hindsight: Any, rows: int) -> None:
    """Equal units: the best clip is their norm, and cuts nothing."""
    given = hindsight.contributions(many(20_000, rows), "t", "unit", ("g",), {"n": "count(*)"})
    truth = {"n": given.totals()["n"]}
    best = hindsight.best_clip(given, {"n": hindsight.Total("n")}, truth, 0.01)
    assert best.clip == pytest.approx(1)
    rms = sqrt(float(np.mean(best.errors["n"] ** 2)))
    assert rms == pytest.approx(rows / sqrt(0.02), rel=0.2)


def test_without_noise_averages_rates_and_spreads_are_exact(useful: Any) -> None:
    from hindsight import Ratio, Share, Spread, Total

    data = many(400, 3)
    sql = "SELECT g, avg(x) AS a, stddev(x) AS d, sum(x) / sum(sum(x)) OVER () AS p, count(*) AS n FROM t GROUP BY g"
    question = useful.Question(
        "q", sql, "t", "unit", ("g",), {"s": "sum(x)", "q": "sum(x * x)", "n": "count(x)"},
        {"a": Ratio("s", "n"), "d": Spread("s", "q", "n"), "p": Share("s"), "n": Total("n")},
    )  # fmt: skip
    draws = useful.hindsight_errors(data, question, useful.truth_of(data, question), 1e16)
    assert len(draws) == 8
    assert max(float(errors.max()) for errors in draws.values()) < 1e-3


def test_a_heavy_unit_is_cut_where_that_costs_less_than_noise_for_all(hindsight: Any) -> None:
    """A thousand units with one row, one with 1,000 rows: the best clip is far below 1,000 and its loss shows."""
    given = hindsight.Contributions(
        ((),), np.arange(1_001), np.zeros(1_001, int), {"n": np.append(np.ones(1_000), 1_000.0)}
    )
    best = hindsight.best_clip(given, {"n": hindsight.Total("n")}, {"n": np.array([2_000.0])}, 0.0005)
    assert best.clip < 500
    assert best.loss < 1_000 / sqrt(2 * 0.0005) / 2_000


def test_statistics_that_belong_to_another_question_are_refused(useful: Any, data: duckdb.DuckDBPyConnection) -> None:
    from hindsight import Total

    question = useful.Question("q", "SELECT g, count(*) AS n FROM t GROUP BY g", "t", "unit", ("g",), {"n": "count(x)"},
                               {"n": Total("n")})  # fmt: skip
    with pytest.raises(AssertionError, match="do not add up to n"):
        useful.hindsight_errors(data, question, useful.truth_of(data, question), 1.0)


def test_shares_count_every_cell_of_the_truth_and_only_bars_that_are_shown(useful: Any) -> None:
    question = useful.Question("q", "", chosen=("n",))
    truth = {
        ((key,), "n"): value for key, value in {"near": 100, "far": 100, "gone": 100, "zero": 0, "null": nan}.items()
    }
    shown = {(("near",), "n"): useful.Shown(109, (90, 128)), (("far",), "n"): useful.Shown(150, (140, 160)),
             (("zero",), "n"): useful.Shown(3, (-inf, 5))}  # fmt: skip
    draws = {cell: np.array([0.05, 0.05, 0.2 if cell[0] != ("far",) else 0.05]) for cell in truth}
    draws[("gone",), "n"] = np.array([0.05, 0.2, 0.2])
    found = useful.score(question, truth, [useful.Asked(shown)], draws)
    assert (found.cells, found.reachable) == (3, 2)
    assert found.within == pytest.approx(1 / 3)
    assert found.reached == pytest.approx(1 / 2)
    assert found.missing == pytest.approx(1 / 3)
    assert (found.bars, found.held, found.open) == (3, pytest.approx(2 / 3), pytest.approx(1 / 3))


def test_a_refused_question_reaches_nothing_and_says_why(useful: Any) -> None:
    from hindsight import Total
    from made_up_world import World

    frame = pd.DataFrame({"customer_id": np.arange(3_000), "g": np.where(np.arange(3_000) % 3 > 0, "a", "b"), "x": 2.0})
    questions = (
        useful.Question("count", "SELECT g, count(*) AS n FROM customers GROUP BY g", "customers", "customer_id", ("g",),
                        {"n": "count(*)"}, {"n": Total("n")}),
        useful.Question("sum", "SELECT g, sum(x) AS s FROM customers GROUP BY g", "customers", "customer_id", ("g",),
                        {"s": "sum(x)"}, {"s": Total("s")}),
        useful.Question("rows", "SELECT g, count(*) AS n FROM nobody GROUP BY g", chosen=("n",)),
    )  # fmt: skip
    world = World(
        "tiny", {"customers": frame, "nobody": frame[["g"]]}, {"customers": {"g": {"values": ["a", "b"]}}}, questions
    )
    counted, summed, unknown = useful.study(world, set(), 1, 0.5, "drafted")
    assert (counted.cells, counted.refusal, counted.reachable) == (2, "", 2)
    assert summed.cells == 2
    assert unknown.refusal
    assert (unknown.within, unknown.missing) == (0, 1)
    policy = useful.policy_of(world, world.database())
    assert policy["tables"]["customers"]["columns"]["g"] == {"values": ["a", "b"]}
    assert "max_rows_per_unit" not in policy["tables"]["customers"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, None), (nan, None), (pd.NaT, None), ("x", "x"), (True, "True"), (3.0, "3"), (3, "3"), (date(2024, 1, 2), "2024-01-02"),
     (datetime(2024, 1, 2), "2024-01-02"), (pd.Timestamp("2024-01-02 03:04"), "2024-01-02 03:04:00")],
)  # fmt: skip
def test_keys_read_the_same_from_everywhere(hindsight: Any, value: Any, text: str | None) -> None:
    assert hindsight.key_text(value) == text
