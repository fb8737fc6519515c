"""What is read of a copy in steps, how cells are numbered, and how the engine's rows become exact integers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

import duckdb
import pytest
from unlocked import integers

import dpsql
from dpsql.bounds.domain import Domain, interval, number
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.sql.clamp import STEPS, clamped, on_steps, pieces, steps_name
from dpsql.engines.sql.histogram import _cell
from dpsql.engines.sql.release_statements import _identity, statements
from dpsql.expressions.expression import Column
from dpsql.expressions.types import DATE, TIMESTAMP, Type, from_engine, integer
from dpsql.plan.nodes.relation import Copy, Relation, Scan
from dpsql.plan.nodes.semi_joins import Exists
from dpsql.plan.nodes.unary import Filter
from dpsql.sensitivity.argument import Argument, summed
from dpsql.sensitivity.bound import Bounded
from dpsql.sensitivity.grid import Grid

ROWS = [(1, 0, 1.5, "b", 2.5), (2, 1, 2.0, "a", math.nan), (3, 3, 3.0, None, -1.0), (4, 3, 4.0, "a", None), (5, 2, 0.0, "a", 2.5),
        (6, 3, 0.5, "b", 2.5)]  # fmt: skip


@pytest.fixture(scope="module")
def data() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    made.execute("CREATE TABLE t (u INTEGER, x INTEGER, f DOUBLE, city VARCHAR, odd DOUBLE)")
    made.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", ROWS)
    made.execute("CREATE TABLE o (u INTEGER, y INTEGER)")
    return made


@pytest.fixture(scope="module")
def db(data: duckdb.DuckDBPyConnection) -> Iterator[dpsql.Connection]:
    columns = {"u": {}, "x": {"min": 0, "max": 3}, "f": {"min": 0, "max": 8}, "city": {}, "odd": {}}
    tables = {
        "t": {"unit": "u", "max_rows_per_unit": 3, "max_groups_per_unit": 2, "columns": columns},
        "o": {"unit": "u", "max_rows_per_unit": 3, "columns": {"u": {}, "y": {"min": 0, "max": 3}}},
    }
    policy = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 99, "delta": 1e-6},
        "limits": {"epsilon": 99},
        "tables": tables,
    }
    with dpsql.connect(data, policy=policy, ledger=":memory:") as connection:
        yield connection


def release(db: dpsql.Connection, sql: str) -> Any:
    [found] = db.prepare(sql, epsilon=9.0, delta=1e-7, mechanism="laplace").bill.releases
    return found


# steps -------------------------------------------------------------------------------------------------------------------


def in_part(relation: Relation) -> Relation:
    if isinstance(relation, Scan):
        return replace(relation, part="within", copy=Copy(3, True))
    return replace(relation, source=in_part(relation.source))  # type: ignore[attr-defined,call-arg]


def over_a_copy(db: dpsql.Connection, sql: str) -> Bounded:
    bounded = release(db, sql).bounded
    return replace(bounded, release=replace(bounded.release, source=in_part(bounded.release.source)))


@pytest.mark.parametrize(
    ("sql", "stepped"),
    [
        ("SELECT sum(f) FROM t", 1),
        ("SELECT avg(f) FROM t", 1),
        ("SELECT sum(f), count(f), sum(x) FROM t", 1),
        ("SELECT sum(f) FROM t WHERE x > 1", 1),
        ("SELECT sum(f) FROM t WHERE EXISTS (SELECT 1 FROM o WHERE o.u = t.u)", 1),
        ("SELECT count(f) FROM t", 0),
        ("SELECT sum(x) FROM t", 0),
        ("SELECT sum(f + 1) FROM t", 0),
        ("SELECT sum(f) FROM t WHERE f > 1", 0),
        ("SELECT sum(m) FROM (SELECT u, max(f) AS m FROM t GROUP BY u)", 0),
    ],
)
def test_a_sum_of_a_column_as_declared_reads_its_steps_and_nothing_else_does(
    db: dpsql.Connection, sql: str, stepped: int
) -> None:
    bounded = over_a_copy(db, sql)
    made = on_steps(bounded)
    changed = [(old, new) for old, new in zip(bounded.arguments, made.arguments, strict=True) if old != new]
    assert len(changed) == stepped
    if not stepped:
        assert made is bounded
        return
    [(old, new)] = changed
    name = steps_name("f", old)
    assert STEPS in name and f"{old.lower} to {old.upper} by {old.grid}" in name
    assert new.expression == Column(integer(old.lower, old.upper), name=name)
    assert (new.lower, new.upper, new.grid) == (old.lower, old.upper, Fraction(1))
    source = made.release.source
    while isinstance(source, Filter | Exists):
        assert source.source is not None
        source = source.source
    assert [f.name for f in source.fields].count(name) == 1 and isinstance(source, Scan) and source.part == "within"


def test_the_table_itself_has_no_steps(db: dpsql.Connection) -> None:
    bounded = release(db, "SELECT sum(f) FROM t").bounded
    assert on_steps(bounded) is bounded


# cells -------------------------------------------------------------------------------------------------------------------


def cells(grid: Grid, type_: str, values: list[str]) -> list[Any]:
    rows = ", ".join(f"(CAST({value} AS {type_}))" for value in values)
    made = _cell(DUCKDB, grid, "v")
    return [cell for (cell,) in duckdb.sql(f"SELECT {made} FROM (VALUES {rows}) AS t(v)").fetchall()]


def test_a_moment_is_in_the_cell_of_its_interval_and_beyond_the_ends_in_the_first_or_last() -> None:
    first, hour = datetime(1969, 12, 31, 22), 3_600_000_000
    low = int(number(first))
    grid = Grid(Column(TIMESTAMP, name="v"), Domain(), lower=low, upper=low + 5 * hour - 1, width=hour)
    moments = [
        first + timedelta(microseconds=step) for step in (0, 1, hour - 1, hour, 3 * hour, 5 * hour - 1, 5 * hour)
    ]
    listed = [f"'{moment}'" for moment in moments] + ["'infinity'", "'-infinity'", "NULL"]
    assert cells(grid, "TIMESTAMP", listed) == [0, 0, 0, 1, 3, 4, 4, 4, 0, None]


def test_a_day_is_in_the_cell_of_its_interval() -> None:
    low = int(number(date(1969, 12, 30)))
    grid = Grid(Column(DATE, name="v"), Domain(), lower=low, upper=low + 9, width=2)
    days = [
        "'1969-12-30'",
        "'1969-12-31'",
        "'1970-01-01'",
        "'1970-01-08'",
        "'1970-01-09'",
        "'infinity'",
        "'-infinity'",
        "NULL",
    ]
    assert cells(grid, "DATE", days) == [0, 0, 1, 4, 4, 4, 0, None]


def test_a_number_is_in_the_cell_of_its_interval_and_a_listed_value_in_its_own() -> None:
    column = Column(integer(-(2**31), 2**31 - 1), name="v")
    argument = summed(column, interval(-4, 5))
    grid = Grid(column, interval(-4, 5), argument=argument, lower=-4, upper=5, width=3)
    assert cells(grid, "INTEGER", ["-99", "-4", "-2", "-1", "4", "5", "99", "NULL"]) == [0, 0, 0, 1, 2, 3, 3, None]
    few = Grid(column, Domain(), values=(7, 3, 9, -1))
    assert cells(few, "INTEGER", ["7", "3", "9", "-1", "8", "NULL"]) == [0, 1, 2, 3, None, None]
    many = Grid(column, Domain(), values=(7, 3, 9, -1, 4))
    assert _cell(DUCKDB, many, "v") == "v"


# clamps ------------------------------------------------------------------------------------------------------------------


def argument(stored: str, low: int, high: int, grid: Fraction = Fraction(1)) -> Argument:
    type_ = from_engine(stored)
    assert type_ is not None
    return Argument(Column(type_, name="v"), interval(low, high), low, high, grid)


@pytest.mark.parametrize(
    ("low", "high", "width"),
    [(0, 2**31 - 1, "INTEGER"), (-(2**31) + 1, 0, "INTEGER"), (0, 2**31, "BIGINT"), (-(2**31), 0, "BIGINT"), (0, 2**30, "INTEGER"),
     (0, 2**30 - 1, "INTEGER"), (0, 2**32, "BIGINT")],
)  # fmt: skip
def test_a_clamped_number_has_the_narrow_type_up_to_31_bits(low: int, high: int, width: str) -> None:
    inside, _, _ = pieces(DUCKDB, argument("HUGEINT", low, high), "v")
    assert inside.result == f"TRY_CAST(v AS {width})"
    narrow = Argument(Column(integer(low, high), name="v"), interval(low, high), low, high, Fraction(1))
    assert clamped(DUCKDB, narrow, "v") == f"CAST(v AS {width})"


@pytest.mark.parametrize(
    ("stored", "grid", "whole"),
    [("BIGINT", Fraction(1), True), ("BIGINT", Fraction(2), False), ("DOUBLE", Fraction(1), False), ("DECIMAL(9,2)", Fraction(1, 100), True),
     ("DECIMAL(9,2)", Fraction(1), False), ("DOUBLE", Fraction(1, 100), False)],
)  # fmt: skip
def test_only_an_exact_type_on_its_own_grid_is_not_rounded(stored: str, grid: Fraction, whole: bool) -> None:
    made = pieces(DUCKDB, argument(stored, -5, 5, grid), "v")
    assert (
        "AS DOUBLE) AS" not in made[0].result and "infinity" not in made[1].condition and "inf" not in made[1].condition
    ) == whole
    text = clamped(DUCKDB, argument(stored, -5, 5, grid), "v")
    values = ["-1e6", "-0.02", "0", "0.03", "3", "1e6"]
    rows = ", ".join(f"(CAST({value} AS {stored}))" for value in values)
    for value, steps in duckdb.sql(f"SELECT v, {text} FROM (VALUES {rows}) AS t(v)").fetchall():
        assert abs(steps - min(max(Fraction(value) / grid, -5), 5)) <= Fraction(1, 2)


def test_the_ends_of_a_decimal_have_all_their_digits() -> None:
    type_ = Type(from_engine("DECIMAL(9,3)").kind, -(10**9) + 1, 10**9 - 1, 3)  # type: ignore[union-attr]
    made = Argument(Column(type_, name="v"), interval(-1, 1), -5, 1204, Fraction(1, 1000))
    inside, above, below = pieces(DUCKDB, made, "v")
    assert (inside.condition, above.condition, below.condition) == (
        "v BETWEEN -0.005 AND 1.204",
        "v > 1.204",
        "v < -0.005",
    )


# rows that come back -----------------------------------------------------------------------------------------------------


def test_private_keys_are_in_order_with_nan_behind_numbers_and_null_last(
    data: duckdb.DuckDBPyConnection, db: dpsql.Connection
) -> None:
    found = integers(DuckDBEngine(data), release(db, "SELECT odd, count(*), sum(x) FROM t GROUP BY odd"), b"s")
    assert (
        [key for (key,) in found.keys][:2] == [-1.0, 2.5] and math.isnan(found.keys[2][0]) and found.keys[3] == (None,)
    )
    counts, sums = found.values
    assert [int(value) * 3 // int(counts[1]) for value in counts] == [1, 3, 1, 1]
    assert [round(int(value) / int(sums[1]) * 5) for value in sums] == [3, 5, 1, 3]
    assert found.selection is not None and found.selection[1] == 3 * found.selection[0] > 0


@pytest.mark.parametrize("what", ["count(*)", "count(*), sum(x), sum(f)"])
def test_private_keys_have_one_number_for_each_statistic_and_may_be_none(
    data: duckdb.DuckDBPyConnection, db: dpsql.Connection, what: str
) -> None:
    asked = release(db, f"SELECT city, {what} FROM t GROUP BY city")
    found = integers(DuckDBEngine(data), asked, b"s")
    assert found.keys == (("a",), ("b",), (None,)) and len(found.values) == what.count(",") + 1
    assert [round(int(value) / int(found.values[0][2])) for value in found.values[0]] == [3, 2, 1]
    empty = duckdb.connect()
    empty.execute("CREATE TABLE t (u INTEGER, x INTEGER, f DOUBLE, city VARCHAR, odd DOUBLE)")
    none = integers(DuckDBEngine(empty), asked, b"s")
    assert none.keys == () and [len(values) for values in none.values] == [0] * (what.count(",") + 1)


def test_public_keys_are_all_there_with_zero_where_there_is_no_row(
    data: duckdb.DuckDBPyConnection, db: dpsql.Connection
) -> None:
    found = integers(DuckDBEngine(data), release(db, "SELECT x, count(*) FROM t WHERE x <> 1 GROUP BY x"), b"s")
    counts = dict(zip(found.keys, found.values[0].tolist(), strict=True))
    wanted = Counter(x for _, x, *_ in ROWS if x != 1)
    assert counts[0,] > 0
    assert {x: count / counts[0,] for (x,), count in counts.items()} == {x: wanted[x] for (x,) in found.keys}
    whole = integers(DuckDBEngine(data), release(db, "SELECT count(*), sum(x) FROM t"), b"s")
    assert whole.keys == ((),) and whole.selection is None
    assert [len(values) for values in whole.values] == [1, 1] and whole.values[0][0] > 0 < whole.values[1][0]


def test_the_statements_are_the_totals_if_there_are_any_and_one_for_each_histogram(db: dpsql.Connection) -> None:
    site = DuckDBEngine(duckdb.connect())._site
    site = type(site)(db.engine.schema(), DUCKDB)
    for sql, texts in (("SELECT median(x) FROM t", 1), ("SELECT median(x), sum(f) FROM t", 2), ("SELECT sum(f) FROM t", 1),
                       ("SELECT city, median(x) FROM t GROUP BY city", 2)):  # fmt: skip
        made = statements(release(db, sql), site, b"\x01\xff")
        assert len(made) == texts
    hashed = release(db, "SELECT city, count(*) FROM t GROUP BY city")
    assert "01ff" in statements(hashed, site, b"\x01\xff")[0] and "<secret salt>" in statements(hashed, site, None)[0]


@pytest.mark.parametrize(("sql", "keyed"), [("SELECT median(x) FROM t", False), ("SELECT city, median(x) FROM t GROUP BY city", True),
                                            ("SELECT x % 2, median(x) FROM t GROUP BY x % 2", None)])  # fmt: skip
def test_a_histogram_has_the_weight_of_each_cell_of_each_group_in_order(
    data: duckdb.DuckDBPyConnection, db: dpsql.Connection, sql: str, keyed: bool | None
) -> None:
    found = integers(DuckDBEngine(data), release(db, sql), b"s")
    [histogram] = found.histograms
    if keyed is None:
        wanted = Counter((found.keys.index((x % 2,)), x) for _, x, *_ in ROWS)
    else:
        wanted = Counter((found.keys.index((city,)) if keyed else 0, x) for _, x, _, city, _ in ROWS)
    cells_ = list(zip(histogram.groups.tolist(), histogram.cells.tolist(), strict=True))
    assert cells_ == sorted(wanted)
    one = min(histogram.weights.tolist())
    assert [weight // one for weight in histogram.weights.tolist()] == [wanted[cell] for cell in cells_]


def test_a_key_is_found_again_by_its_type_and_value_and_nan_by_itself() -> None:
    assert _identity((math.nan, None)) == _identity((float("nan"), None))
    assert len({_identity((value,)) for value in (1, 1.0, True, "1", None, "None", -0.0)}) == 7
