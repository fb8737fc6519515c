"""Error bars allow for what a clip cuts off, however released numbers are read on; refusals tell of searches."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pytest

import dpsql

GROUPED = "SELECT k, count(*) AS n FROM t GROUP BY k"


@pytest.fixture(scope="module")
def db() -> Iterator[dpsql.Connection]:
    """Rows of a unit have a heavy tail, so that what is cut off is more than the noise."""
    rng = np.random.default_rng(1)
    units = np.repeat(np.arange(15_000), np.minimum(rng.zipf(1.9, 15_000), 300))
    table = {"unit": "u", "columns": {"k": {"values": [0, 1, 2], "nulls": False}}}
    policy = {"dataset": "d", "budget": {"epsilon": 100, "delta": 1e-6}, "tables": {"t": table}}
    with duckdb.connect() as raw:
        raw.execute("CREATE TABLE t AS SELECT unnest($1)::INT AS u, unnest($2)::INT AS k", [
            units.tolist(), rng.integers(0, 3, len(units)).tolist(),
        ])  # fmt: skip
        with dpsql.connect(raw, policy=policy, ledger=":memory:") as connection:
            yield connection


def ends(db: dpsql.Connection, sql: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    answer = db.query(sql)
    assert isinstance(answer, dpsql.Result)
    bars, shown = answer.intervals(), answer.df()["n"].to_numpy(dtype=float)
    return shown, *(bars[f"n_{end}"].to_numpy(dtype=float) for end in ("low", "high"))


@pytest.mark.parametrize("sql", [
    f"SELECT * FROM ({GROUPED}) AS s",
    f"WITH s AS ({GROUPED}) SELECT k, n FROM s WHERE k >= 0 ORDER BY k",
    f"SELECT k, n, sum(n) OVER (ORDER BY k) AS running FROM ({GROUPED}) AS s ORDER BY k",
])  # fmt: skip
def test_a_subquery_has_the_bars_of_what_it_reads(db: dpsql.Connection, sql: str) -> None:
    shown, low, high = ends(db, f"{GROUPED} ORDER BY k")
    assert (high - shown > 1.2 * (shown - low)).all(), "more was cut off than nothing"
    for one, two in zip(ends(db, sql), (shown, low, high), strict=True):
        assert one == pytest.approx(two, abs=1)


def test_a_total_of_groups_bears_the_cut_of_each(db: dpsql.Connection) -> None:
    shown, low, high = ends(db, GROUPED)
    [total], [least], [most] = ends(db, f"SELECT sum(n) AS n FROM ({GROUPED}) AS s")
    cut = (high - shown - (shown - low)).sum()
    assert most - total == pytest.approx(total - least + cut, rel=0.05)
    [largest], _, [above] = ends(db, f"SELECT max(n) AS n FROM ({GROUPED}) AS s")
    assert above - largest >= (high - shown)[shown.argmax()]


def test_a_search_that_finds_nothing_is_said_to_be_paid() -> None:
    policy = {
        "dataset": "d",
        "budget": {"epsilon": 3},
        "tables": {"t": {"unit": "u", "columns": {"x": {}}}},
    }
    with duckdb.connect() as raw:
        raw.execute("CREATE TABLE t AS SELECT range AS u, 2.5::DOUBLE AS x FROM range(3)")
        with dpsql.connect(raw, policy=policy, ledger=":memory:") as db:
            with pytest.raises(dpsql.UnboundedColumn, match="too few units") as refusal:
                db.query("SELECT sum(x) FROM t")
            assert "the private search that came first is counted" in str(refusal.value)
            assert db.budget().dataset.spent.epsilon == pytest.approx(0.1)
