"""Each break that the review of nested results, sets, searches and functions found, as a test of what closes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql

BUDGET = {"epsilon": 10_000, "delta": 1e-6}
VISITS = {
    "visits": {"unit": "row", "columns": {"x": {"min": 0, "max": 100}}},
    "stores": {"public": True},
}


def database(path: Path, *statements: str) -> Path:
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


def connect(source: Any, tables: dict[str, Any], **options: Any) -> dpsql.Connection:
    policy = {"dataset": "d", "budget": BUDGET, "replay": False, "tables": tables}
    return dpsql.connect(source, policy=policy, ledger=":memory:", **(options or {"steward": True}))


@pytest.fixture
def visits(tmp_path: Path) -> Iterator[dpsql.Connection]:
    path = database(
        tmp_path / "visits.duckdb",
        "CREATE TABLE visits AS SELECT i::DOUBLE AS x FROM range(20) r(i)",
        "CREATE TABLE stores AS SELECT i::INTEGER AS id FROM range(50) r(i)",
    )
    with connect(path, VISITS) as db:
        yield db


def test_a_released_key_that_is_read_with_less_precision_is_no_key(visits: dpsql.Connection) -> None:
    """Fifty wide decimals, all different, are one DOUBLE: a row that looks them up would become fifty."""
    step = "CAST('0.0000000000000000000000001' AS DECIMAL(38,25))"
    inner = f"SELECT CAST(10 AS DECIMAL(38,25)) + id * {step} AS k, count(*) AS c FROM stores GROUP BY 1"
    with pytest.raises(dpsql.UnsupportedQuery, match="multiply"):
        visits.explain(f"SELECT count(*) FROM visits v JOIN ({inner}) n ON v.x = n.k")
    [plain] = visits.explain(
        "SELECT count(*) FROM visits v JOIN (SELECT id::DOUBLE AS k, count(*) AS c FROM stores GROUP BY 1) n ON v.x = n.k"
    ).releases
    assert plain.rule == "row"


@pytest.mark.parametrize("ends", ["-1e308, 1e308", "0, 1e400", "-1e308, 5, 20"])
def test_a_bar_whose_width_overflows_on_some_rows_is_refused(visits: dpsql.Connection, ends: str) -> None:
    with pytest.raises(dpsql.Error, match="1e15"):
        visits.explain(f"SELECT count(*) FROM visits WHERE bar(x, {ends}) = 'x'")
    assert visits.explain("SELECT count(*) FROM visits WHERE bar(x, -1e15, 1e15, 100) = 'x'").releases
