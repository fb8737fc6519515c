"""What does not change from one time to the next: the dtypes of a frame, and the intervals of a release."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import dpsql

POLICY = {
    "dataset": "d", "search": False, "budget": {"epsilon": 1e6, "delta": 1e-3},
    "tables": {
        "t": {"unit": "row", "columns": {"kind": {"values": ["a", "b", "c"]}, "x": {"min": 0, "max": 100}, "day": {"min": "2024-01-01", "max": "2024-01-03"}}},
        "p": {"public": True},
    },
}  # fmt: skip
RESAMPLED = (
    "SELECT kind, sqrt(abs(sum(x))) AS root, count(*)::DOUBLE / sum(count(*)) OVER () AS share FROM t GROUP BY kind"
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shop") / "shop.duckdb"
    with duckdb.connect(str(path)) as raw:
        raw.execute(
            "CREATE TABLE t AS SELECT ['a', 'b', 'c'][i % 3 + 1] AS kind, (i % 100)::DOUBLE AS x, "
            "DATE '2024-01-01' + (i % 3)::INTEGER AS day FROM range(3000) r(i)"
        )
        raw.execute(
            "CREATE TABLE p AS SELECT * FROM (VALUES (1::SMALLINT, true, 'a', 1.5, TIMESTAMP '2024-01-01')) v(i, b, s, d, w)"
        )
    return path


@pytest.fixture
def db(shop: Path) -> Iterator[dpsql.Connection]:
    with dpsql.connect(str(shop), policy=POLICY, ledger=":memory:") as made:
        yield made


@pytest.mark.parametrize("sql", [
    "SELECT kind, count(*) AS n, avg(x) AS a, sum(count(*)) OVER () AS whole FROM t GROUP BY kind",
    "SELECT kind, CASE WHEN count(*) > 1 THEN count(*) END AS n, max(count(*)) AS m FROM t GROUP BY kind HAVING true",
    "SELECT day, count(*) AS n FROM t GROUP BY day",
    "SELECT i, b, s, d, w, i::DECIMAL(9, 2) AS m FROM p",
])  # fmt: skip
def test_dtypes_follow_from_the_query(db: dpsql.Connection, sql: str) -> None:
    """With rows, without any, and with values that are missing."""
    if "max(count" in sql:
        sql = sql.replace(", max(count(*)) AS m", "").replace(" HAVING true", "")
    full = db.query(sql).df()
    empty = db.query(f"SELECT * FROM ({sql}) q WHERE false").df()
    names = ", ".join(f"{o}.{name}" for name in full.columns for o in ("q",))
    missing = db.query(f"SELECT {names} FROM (SELECT 1) one LEFT JOIN ({sql}) q ON false").df()
    assert len(full) and not len(empty) and bool(missing.isna().all(axis=None))
    assert full.dtypes.to_dict() == empty.dtypes.to_dict() == missing.dtypes.to_dict()


def test_an_answer_has_the_dtypes_that_are_documented(db: dpsql.Connection) -> None:
    frame = db.query("SELECT i, b, s, d::DOUBLE AS d, w, i::DECIMAL(9, 2) AS m, w::DATE AS o FROM p").df()
    kinds = {name: str(dtype) for name, dtype in frame.dtypes.items()}
    text = str(pd.Series(["a"]).dtype)
    assert kinds == {
        "i": "Int16",
        "b": "boolean",
        "s": text,
        "d": "float64",
        "w": "datetime64[us]",
        "m": "object",
        "o": "object",
    }


def test_two_columns_of_one_name_stay_apart(db: dpsql.Connection) -> None:
    frame = db.query("SELECT i AS x, s AS x FROM p").df()
    assert list(frame.columns) == ["x", "x"] and frame.iloc[0].tolist() == [1, "a"]


def test_a_release_has_one_interval(shop: Path, tmp_path: Path) -> None:
    """Asked twice of one answer, of its replay, and of another connection: what is resampled is drawn alike."""
    ledger = tmp_path / "ledger"
    with dpsql.connect(str(shop), policy=POLICY, ledger=str(ledger)) as db:
        first, again = db.query(RESAMPLED), db.query(RESAMPLED)
        assert again.replayed
        shown = first.intervals()
        for each in (first.intervals(), again.intervals()):
            pd.testing.assert_frame_equal(each, shown, check_exact=True)
    with dpsql.connect(str(shop), policy=POLICY, ledger=str(ledger)) as db:
        replay = db.query(RESAMPLED)
        assert replay.replayed
        pd.testing.assert_frame_equal(replay.intervals(), shown, check_exact=True)
    assert (shown["root_low"] < shown["root_high"]).all()


def test_equal_values_of_two_releases_are_drawn_apart(db: dpsql.Connection) -> None:
    """The difference of two unlike releases has the noise of both, even if the values are the same."""
    result = db.query(
        "SELECT sqrt(abs((SELECT count(*) FROM t WHERE x < 50) - (SELECT count(*) FROM t WHERE x >= 50)) + 1) AS d"
    )
    ends = result.intervals()
    assert ends["d_high"][0] > ends["d_low"][0]
