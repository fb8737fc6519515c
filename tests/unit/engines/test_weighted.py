"""Weighted totals in SQL: where a value is already a total, only the widest type holds its multiples."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import dpsql
from dpsql.engines.postgres.dialect import Postgres
from dpsql.engines.spark.dialect import SPARK
from dpsql.engines.sql.dialect import Dialect
from dpsql.engines.sql.emit import _weighted
from dpsql.sensitivity.bound import Bounded
from dpsql.sensitivity.weight import WEIGHT_BITS

NARROW, WIDE = 9, 2**40


@pytest.fixture(scope="module")
def db() -> Iterator[dpsql.Connection]:
    data = duckdb.connect()
    data.execute("CREATE TABLE t (u INTEGER, n INTEGER, m BIGINT, k VARCHAR)")
    columns = {"n": {"min": 0, "max": NARROW}, "m": {"min": 0, "max": WIDE}, "k": {"values": ["a", "b"]}}
    table = {"unit": "u", "max_rows_per_unit": 5, "columns": columns}
    policy = {"dataset": "d", "budget": {"epsilon": 9, "delta": 1e-6}, "tables": {"t": table}}
    with dpsql.connect(data, policy=policy, ledger=":memory:") as connection:
        yield connection


def bounded(db: dpsql.Connection, column: str) -> Bounded:
    return db.prepare(f"SELECT k, sum({column}) FROM t GROUP BY k", 1.0, 1e-7, "laplace").bill.releases[0].bounded


@pytest.mark.parametrize("dialect", [Postgres(), SPARK], ids=["postgres", "spark"])
def test_a_total_of_rows_knows_its_bits_and_one_of_totals_is_in_the_widest_type(
    db: dpsql.Connection, dialect: Dialect
) -> None:
    narrow, wide = bounded(db, "n"), bounded(db, "m")
    bits = NARROW.bit_length() + WEIGHT_BITS
    assert _weighted(dialect, narrow, rows=True) == [f"{dialect.total('v0 * w', bits=bits)} AS s0"]
    assert _weighted(dialect, narrow, rows=False) == [f"{dialect.total('s0 * w')} AS s0"]
    for rows, value in ((True, "v0"), (False, "s0")):
        assert _weighted(dialect, wide, rows=rows) == [f"{dialect.total(f'{dialect.wide(value)} * w')} AS s0"]
