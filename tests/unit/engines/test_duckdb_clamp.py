"""What a row adds is a whole number between the bounds, whatever is stored."""

from __future__ import annotations

import math
from fractions import Fraction

import duckdb
import pytest

from dpsql.bounds.domain import interval
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.sql.clamp import clamped, pieces
from dpsql.expressions.expression import Column
from dpsql.expressions.types import from_engine
from dpsql.sensitivity.argument import Argument, summed

DOUBLES = ["'nan'", "'inf'", "'-inf'", "1e300", "-1e300", "5e-324", "-0.0", "0.5", "2.5", "-7", "536870911.4", "1e10"]
STORED = {
    "DOUBLE": DOUBLES,
    "TINYINT": ["-128", "127", "0", "5"],
    "INTEGER": ["-2147483648", "2147483647", "0", "5"],
    "UINTEGER": ["0", "2147483648", "4294967295"],
    "BIGINT": ["-9223372036854775808", "9223372036854775807", "0", "5", "2147483647", "2147483648", "4294967295"],
    "UBIGINT": ["0", "18446744073709551615"],
    "HUGEINT": ["-170141183460469231731687303715884105728", "170141183460469231731687303715884105727", "5"],
    "DECIMAL(9,2)": ["-9999999.99", "9999999.99", "0.01", "2.50"],
}
BOUNDS = [
    (-10, 10),
    (0, 0),
    (3, 4),
    (-128, 127),
    (-(2**29), 2**29),
    (0, 2**31 - 1),
    (-(2**31), 0),
    (0, 2**31),
    (-(2**32), 2**32 - 1),
    (-(2**40), 2**40),
    (0, 2**62),
    (-1, 2**64),
]


def argument(type_: str, low: int, high: int) -> Argument:
    found = from_engine(type_)
    assert found is not None
    return summed(Column(found, name="v"), interval(low, high))


@pytest.mark.parametrize(("low", "high"), BOUNDS)
@pytest.mark.parametrize("type_", STORED)
def test_a_row_adds_its_value_moved_to_the_nearer_bound_and_nothing_raises(type_: str, low: int, high: int) -> None:
    made = argument(type_, low, high)
    rows = ", ".join(f"(CAST({value} AS {type_}))" for value in [*STORED[type_], "NULL"])
    text = clamped(DUCKDB, made, "v")
    found = duckdb.sql(f"SELECT v, {text}, typeof({text}) FROM (VALUES {rows}) AS t(v)").fetchall()
    for value, added, kind in found:
        if value is None or value != value:
            assert added is None
            continue
        within = min(max(value, made.lower * made.grid), made.upper * made.grid)
        assert made.lower <= added <= made.upper
        assert abs(added - Fraction(within) / made.grid) <= (0.501 if type_ == "DOUBLE" or made.grid > 1 else 0)
        assert kind in ("INTEGER", "BIGINT")


@pytest.mark.parametrize("type_", STORED)
def test_a_row_is_in_one_piece_and_one_without_a_number_in_none(type_: str) -> None:
    rows = ", ".join(f"(CAST({value} AS {type_}))" for value in [*STORED[type_], "NULL"])
    listed = ", ".join(f"CAST({piece.condition} AS INTEGER)" for piece in pieces(DUCKDB, argument(type_, -3, 100), "v"))
    for value, *hits in duckdb.sql(f"SELECT v, {listed} FROM (VALUES {rows}) AS t(v)").fetchall():
        assert sum(hit or 0 for hit in hits) == (0 if value is None or value != value else 1)


@pytest.mark.parametrize("width", ["INTEGER", "BIGINT"])
def test_steps_and_unscaled_values_do_not_rely_on_a_check_before_them(width: str) -> None:
    """Whatever the engine computes first, what does not fit is NULL and raises nothing."""
    rows = ", ".join(f"(CAST({value} AS DOUBLE))" for value in [*DOUBLES, "NULL"])
    most = 2**31 if width == "INTEGER" else 2**63
    for factor in (1.0, 2.0**-20, 2.0**60):
        text = f"SELECT v, {DUCKDB.steps('v', factor, width)} FROM (VALUES {rows}) AS t(v)"
        for value, made in duckdb.sql(text).fetchall():
            fits = value is not None and math.isfinite(value * factor) and -most <= round(value * factor) < most
            assert made == (round(value * factor) if fits else None)
    assert duckdb.sql(f"SELECT {DUCKDB.unscaled('1e30::DECIMAL(38,2)', 2)}").fetchall() == [(None,)]
    assert duckdb.sql(f"SELECT {DUCKDB.unscaled('1.25::DECIMAL(9,2)', 2)}").fetchall() == [(125,)]
