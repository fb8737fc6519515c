"""What a second review of the copies and the sources found: steps of other bounds, units that were read as one, and
values on which a query failed. What needs Spark is in `tests/engines/test_spark.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

import dpsql
from dpsql.audit.traces import trace
from dpsql.engines.sql.clamp import steps_name, steps_of
from dpsql.interfaces import steward_tasks
from dpsql.plan.at_rest import recipe
from dpsql.plan.nodes.relation import Scan
from dpsql.policy import load_policy
from dpsql.policy.column_types import column_types
from dpsql.policy.database_catalog import read_catalog


def policy(columns: dict[str, Any], **table: Any) -> dict[str, Any]:
    orders = {"unit": "customer", "max_rows_per_unit": 1, "columns": columns, **table}
    return {
        "dataset": "shop",
        "search": False,
        "budget": {"epsilon": 1000, "delta": "1e-6"},
        "tables": {"orders": orders, "prices": {"public": True}},
    }


# a copy has the steps of a column, and then the column gets other bounds ----------------------------------------------

AMOUNT = {"min": 0, "max": 511}
FROM_PRICES = {**AMOUNT, "values_from": "prices.amount"}
BY_KIND = "SELECT kind, sum(amount) AS s FROM orders GROUP BY kind"


def shop(folder: Path, amount: float | None) -> Path:
    """A public table with more prices than are listed, so that only their ends are known; and perhaps one customer."""
    folder.mkdir()
    with duckdb.connect(str(folder / "shop.duckdb")) as data:
        data.execute("CREATE TABLE prices AS SELECT range / 39200 AS amount FROM range(20001)")
        data.execute(
            "CREATE TABLE orders AS SELECT range AS customer, 'a' AS kind, 0.25::DOUBLE AS amount FROM range(9)"
        )
        if amount is not None:
            data.execute("INSERT INTO orders VALUES (99, 'a', ?)", [amount])
    return folder / "shop.duckdb"


def said(amount: dict[str, Any], mode: str) -> dict[str, Any]:
    return policy({"kind": {"values": ["a", "b"]}, "amount": amount}, prepare=mode)


@pytest.mark.parametrize("mode", ["weigh", "keep"])
def test_a_copy_is_not_read_by_bounds_that_a_public_table_gave_later(tmp_path: Path, mode: str) -> None:
    """The policy has the same `min` and `max` as before; but steps up to 511 would be read as steps up to 0.51."""
    moved, claimed = [], 0
    for name, amount in (("without", None), ("with", 511.0)):
        path = shop(tmp_path / name, amount)
        ledger = path.with_suffix(".ledger")
        with dpsql.connect(path, policy=said(AMOUNT, mode), ledger=ledger, steward=True) as db:
            steward_tasks.prepare(db, lambda *_: None)
        with dpsql.connect(path, policy=said(FROM_PRICES, mode), ledger=ledger, steward=True) as db:
            try:
                [statistic] = trace(db, BY_KIND, salt=b"s")[0].statistics
            except dpsql.Error as refusal:
                assert "made by other bounds" in str(refusal)
                continue
            moved.append(statistic.values[0])
            claimed = statistic.l1 or 0
    assert not moved or abs(moved[1] - moved[0]) <= claimed


def test_whatever_the_policy_says_of_a_column_is_in_the_recipe() -> None:
    recipes = [
        recipe(load_policy(said(amount, "keep")), "orders")
        for amount in (AMOUNT, FROM_PRICES, {**AMOUNT, "nulls": False})
    ]
    assert len(set(recipes)) == 3


def test_steps_are_found_by_their_bounds_and_their_grid(tmp_path: Path) -> None:
    """So a copy that slipped through would fail, and give no integers of other bounds."""
    path, names = shop(tmp_path / "shop", None), set()
    for amount in (AMOUNT, FROM_PRICES, {"min": 0, "max": 510}):
        with dpsql.connect(path, policy=said(amount, "keep"), ledger=":memory:", steward=True) as db:
            table = db.dataset.uncopied_catalog().find("orders")
            scan = getattr(table, "scan", None)
            assert isinstance(scan, Scan)
            names |= {steps_name(name, argument) for name, argument in steps_of(scan).items()}
    assert len(names) == 3


# two units that are read as one ---------------------------------------------------------------------------------------


def total(folder: Path, rows: Sequence[tuple[int, int]]) -> tuple[int, int]:
    folder.mkdir()
    (folder / "orders.csv").write_text("customer,amount\n" + "".join(f"{who},{amount}\n" for who, amount in rows))
    made = policy({"customer": {"min": 0, "max": 2**62}, "amount": {"min": -9, "max": 9}})
    del made["tables"]["prices"]
    with dpsql.connect(folder, policy=made, ledger=":memory:", steward=True) as db:
        [statistic] = trace(db, "SELECT sum(amount) AS s FROM orders", salt=b"s")[0].statistics
    return statistic.values[0], statistic.linf or 0


def test_two_units_of_a_text_file_are_not_rounded_to_one(tmp_path: Path) -> None:
    """The policy has bounds for their numbers, which DOUBLE cannot tell apart: together they would be one unit.

    Whoever comes turned its sum from one end of what a unit may add to the other: twice the claim.
    """
    one, two = 2**53, 2**53 + 1
    before, claimed = total(tmp_path / "before", [(one, -9)])
    after, _ = total(tmp_path / "after", [(one, -9), *[(two, 9)] * 50])
    assert abs(after - before) <= claimed


def test_what_leads_to_an_owner_is_text_whatever_the_policy_says_of_it() -> None:
    number = {"min": 0, "max": 9}
    tables = {
        "homes": {"unit": "family", "columns": {"id": number, "family": {"values": [1, 2]}, "size": number}},
        "visits": {"unit": {"home": "homes.id"}, "columns": {"home": number}},
    }
    made = load_policy({"dataset": "d", "search": False, "budget": {"epsilon": 1}, "tables": tables})
    assert column_types(made, "HOMES", ["family"]) == {"id": "VARCHAR", "family": "VARCHAR", "size": "DOUBLE"}
    assert column_types(made, "visits") == {"home": "VARCHAR"}


# a stored value on which queries fail ---------------------------------------------------------------------------------

FAR = [2**62, -(2**62)]
"""Milliseconds, or seconds, that are no microseconds of 64 bits."""


def arrow(unit: str, zone: str | None, far: Sequence[int]) -> pa.Table:
    moments = pa.array([0, 1, *far], pa.int64()).cast(pa.timestamp(unit, zone))
    return pa.table({"customer": pa.array(range(len(moments)), pa.int64()), "placed": moments})


def pandas(far: Sequence[int]) -> pd.DataFrame:
    moments = np.array([0, 1, *far], dtype="int64").view("datetime64[ms]")
    zoned = pd.Series(pd.arrays.DatetimeArray._simple_new(moments, dtype=pd.DatetimeTZDtype("ms", "UTC")))
    return pd.DataFrame({"customer": range(len(moments)), "placed": zoned})


def written(folder: Path, ending: str, far: Sequence[int]) -> str:
    table, path = arrow("ms", "UTC", far), folder / f"{len(far)}{ending}"
    if ending == ".parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        with pyarrow.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    return str(path)


SOURCES: dict[str, Callable[[Path, Sequence[int]], Any]] = {
    "parquet": lambda folder, far: written(folder, ".parquet", far),
    "arrow file": lambda folder, far: written(folder, ".arrow", far),
    "arrow, milliseconds": lambda _, far: arrow("ms", "UTC", far),
    "arrow, seconds": lambda _, far: arrow("s", "UTC", far),
    "arrow without zone": lambda _, far: arrow("ms", None, far),
    "pandas": lambda _, far: pandas(far),
}


@pytest.mark.parametrize("source", SOURCES)
def test_a_moment_that_does_not_fit_fails_the_opening_or_no_query(tmp_path: Path, source: str) -> None:
    """Whether a query is answered would show that somebody has such a row."""
    made = policy({"placed": {"min": "2020-01-01", "max": "2021-01-01"}})
    del made["tables"]["prices"]
    asked = (
        "SELECT count(placed) AS n FROM orders",
        "SELECT count(*) AS n FROM orders WHERE placed > DATE '2020-05-05'",
    )
    for far in ((), FAR):
        try:
            db = dpsql.connect({"orders": SOURCES[source](tmp_path, far)}, policy=made, ledger=":memory:")
        except dpsql.InterfaceError as refusal:
            assert far and "cannot be read as a table" in str(refusal)
            continue
        with db:
            for sql in asked:
                db.query(sql, epsilon=1)


@pytest.mark.parametrize("computed", ["100 // amount", "CAST(note AS INTEGER)", "(random() * 100)::INTEGER"])
def test_a_column_that_is_computed_when_it_is_read_does_not_exist(computed: str) -> None:
    """DuckDB does not compute it when rows are updated, and then raises on some; or it differs from scan to scan."""
    made = policy({"made": {"min": 0, "max": 100}})
    del made["tables"]["prices"]
    with duckdb.connect() as data:
        data.execute(
            f"CREATE TABLE orders (customer INT, amount INT, note VARCHAR, made INT GENERATED ALWAYS AS ({computed}))"
        )
        data.execute("INSERT INTO orders (customer, amount, note) SELECT range, 1, '5' FROM range(10)")
        data.execute("UPDATE orders SET amount = 0, note = 'five' WHERE customer = 3")
        with pytest.raises(dpsql.PolicyError, match="has no column"):
            dpsql.connect(data, policy=made, ledger=":memory:", steward=True).query("SELECT sum(made) AS s FROM orders")
        assert list(read_catalog(data)["orders"].columns) == ["customer", "amount", "note"]
