"""Totals in SQL: where a value is already a total, only the widest type holds its multiples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import duckdb
import pytest

import dpsql
from dpsql.bounds.domain import Domain, interval
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.postgres.dialect import Postgres
from dpsql.engines.spark.dialect import SPARK
from dpsql.engines.sql.dialect import Dialect, Site
from dpsql.engines.sql.emit import _weighted
from dpsql.engines.sql.from_item import From
from dpsql.engines.sql.release_statements import statements
from dpsql.engines.sql.unit_windows import unit_aggregate
from dpsql.expressions.expression import Column
from dpsql.expressions.types import DOUBLE, from_engine
from dpsql.plan.nodes.relation import Aggregate, Field, Relation
from dpsql.sensitivity.bound import Bounded
from dpsql.sensitivity.unit_weight import WEIGHT_BITS

NARROW, WIDE = 9, 2**40


@pytest.fixture(scope="module")
def db() -> Iterator[dpsql.Connection]:
    data = duckdb.connect()
    data.execute("CREATE TABLE t (u INTEGER, n INTEGER, m BIGINT, k VARCHAR)")
    columns = {"n": {"min": 0, "max": NARROW}, "m": {"min": 0, "max": WIDE}, "k": {"values": ["a", "b"]}}
    table = {"unit": "u", "max_rows_per_unit": 5, "columns": columns}
    policy = {"dataset": "d", "search": False, "budget": {"epsilon": 9, "delta": 1e-6}, "tables": {"t": table}}
    with dpsql.connect(data, policy=policy, ledger=":memory:") as connection:
        yield connection


def bounded(db: dpsql.Connection, column: str) -> Bounded:
    return (
        db.prepare(f"SELECT k, sum({column}) FROM t GROUP BY k", epsilon=1.0, delta=1e-7, mechanism="laplace")
        .bill.releases[0]
        .bounded
    )


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


@pytest.mark.parametrize(("top", "wide"), [(2**31, False), (2**32 - 1, False), (2**32, True), (2**33, True)])
def test_a_weighted_value_is_in_the_widest_type_from_33_bits_on(db: dpsql.Connection, top: int, wide: bool) -> None:
    """Less, times a weight of 31 bits, fits 64 bits."""
    found = bounded(db, "m")
    changed = replace(found, arguments=(replace(found.arguments[0], upper=top), *found.arguments[1:]))
    value = DUCKDB.wide("v0") if wide else "v0"
    assert _weighted(DUCKDB, changed, rows=True) == [f"{DUCKDB.total(f'{value} * w')} AS s0"]


@pytest.mark.parametrize("dialect", [Postgres(), SPARK], ids=["postgres", "spark"])
def test_a_units_total_has_the_bits_of_the_widest_of_its_values(db: dpsql.Connection, dialect: Dialect) -> None:
    """Spark adds up wide numbers in pieces, and would let a narrow one overflow."""
    [release] = db.prepare(
        "SELECT k, sum(n), sum(m) FROM t GROUP BY k", epsilon=1.0, delta=1e-7, mechanism="laplace"
    ).bill.releases
    made = statements(release, Site(db.engine.schema(), dialect), b"s")[0]
    for index in (0, 1):
        assert dialect.total(f"abs(v{index})", bits=WIDE.bit_length()) in made


@pytest.mark.parametrize("dialect", [DUCKDB, Postgres(), SPARK], ids=["duckdb", "postgres", "spark"])
@pytest.mark.parametrize(
    ("stored", "bits"),
    [
        ("TINYINT", 8),
        ("INTEGER", 32),
        ("BIGINT", 64),
        ("UINTEGER", 32),
        ("DECIMAL(9,2)", None),
        ("DECIMAL(18,0)", 60),
    ],
)
def test_a_units_total_knows_the_bits_of_a_whole_number_that_fits_and_of_no_decimal(
    dialect: Dialect, stored: str, bits: int | None
) -> None:
    type_ = from_engine(stored)
    assert type_ is not None
    source, column = Relation((Field("n", type_, Domain()),), False, 5, False), Column(type_, name="n")
    below = From("t", (), {"n": "n"}, None, dialect)
    for distinct in (False, True):
        made = unit_aggregate(Aggregate("avg", column, distinct), DOUBLE, source, below)
        value = below.render(column)
        added = dialect.addend(value, type_) if bits is None else value
        total = dialect.cast(dialect.total(added, distinct=distinct, bits=bits), "DOUBLE")
        assert made == f"({total} / count({'DISTINCT ' if distinct else ''}{added}))"


@pytest.mark.parametrize(
    ("stored", "on_grid"), [("BIGINT", False), ("UBIGINT", True), ("HUGEINT", True), ("DOUBLE", True)]
)
def test_a_units_total_lies_on_a_grid_where_its_type_does_not_fit(stored: str, on_grid: bool) -> None:
    type_ = from_engine(stored)
    assert type_ is not None
    domain = interval(0, 2**60)
    source, below = Relation((Field("n", type_, domain),), False, 5, False), From("t", (), {"n": "n"}, None, DUCKDB)
    made = unit_aggregate(Aggregate("sum", Column(type_, name="n")), DOUBLE, source, below)
    assert ("BETWEEN" in made) == on_grid


@pytest.mark.parametrize("bits", [3, 28, 29, 30, 31, 40])
@pytest.mark.parametrize(("stored", "values"), [("DOUBLE", [1, 4, 4, None]), ("HUGEINT", [1, 4, 4, None])])
def test_a_units_sum_and_mean_are_in_the_unit_of_its_values(stored: str, values: list[int | None], bits: int) -> None:
    """However coarse the grid on which they are added up."""
    type_ = from_engine(stored)
    assert type_ is not None
    source = Relation((Field("n", type_, interval(0, 2**bits)),), False, 5, False)
    below = From("t", (), {"n": "n"}, None, DUCKDB)
    whole = [None if value is None else value * 2 ** (bits - 3) for value in values]
    rows = ", ".join(f"(CAST({'NULL' if value is None else value} AS {stored}))" for value in whole)
    made = [unit_aggregate(Aggregate(f, Column(type_, name="n")), DOUBLE, source, below) for f in ("sum", "avg")]
    apart = unit_aggregate(Aggregate("sum", Column(type_, name="n"), distinct=True), DOUBLE, source, below)
    found = duckdb.sql(f"SELECT {', '.join([*made, apart])} FROM (VALUES {rows}) AS t(n)").fetchall()
    one = 2 ** (bits - 3)
    assert found == [(9.0 * one, 3.0 * one, 5.0 * one)]
