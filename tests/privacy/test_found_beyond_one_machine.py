"""What a review of the engines, the lakes and the copies found: versions that did not change, and addresses that said
too much. What needs a server is in `tests/engines/test_postgres_engine.py`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hand_made_catalog import catalog_of

import dpsql
from dpsql.audit.traces import trace
from dpsql.errors import InterfaceError
from dpsql.interfaces import steward_tasks
from dpsql.plan.nodes.relation import Copy, Scan
from dpsql.sensitivity.at_rest_rule import parts_at_rest
from dpsql.sensitivity.bound import bound

POLICY: dict[str, Any] = {
    "dataset": "shop", "search": False, "budget": {"epsilon": 1000, "delta": "1e-6"},
    "tables": {
        "customers": {"unit": "id", "unique": True, "columns": {"age": {"min": 0, "max": 100}}},
        "orders": {
            "unit": "customer", "max_rows_per_unit": 5, "prepare": "keep", "columns": {"amount": {"min": 0, "max": 9}},
        },
    },
}  # fmt: skip
COUNT = "SELECT count(*) AS n FROM customers"
ORDERS = "SELECT count(*) AS n FROM orders"
LEFT_IN_THE_LOG = """
import duckdb, os, sys
data = duckdb.connect(sys.argv[1])
data.execute("INSERT INTO customers SELECT 5, 30 FROM range(1000)")
data.execute("INSERT INTO orders SELECT 5, 1 FROM range(1000)")
os._exit(9)
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as data:
        data.execute("CREATE TABLE customers AS SELECT range::INTEGER AS id, 30 AS age FROM range(50)")
        data.execute("CREATE TABLE orders AS SELECT range::INTEGER AS customer, 1.5 AS amount FROM range(50)")
    return path


def opened(path: Path, policy: dict[str, Any] = POLICY, **words: Any) -> dpsql.Connection:
    return dpsql.connect(path, policy=policy, ledger=path.with_suffix(".ledger"), **words)


def write_without_a_checkpoint(path: Path) -> None:
    """As a writer that crashes: all that it wrote stands in the log beside the file, and every reader reads it."""
    before = path.stat()
    subprocess.run([sys.executable, "-c", LEFT_IN_THE_LOG, str(path)], check=False)
    after = path.stat()
    assert (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)
    assert path.with_name("shop.duckdb.wal").exists()


def test_what_stands_in_the_write_ahead_log_is_another_version(shop: Path) -> None:
    """One customer got a thousand rows; the fact that each has one was verified for the file without the log."""
    with opened(shop, steward=True) as db:
        steward_tasks.check(db)
        assert db.explain(COUNT).releases[0].rule == "single_row"
        before = db.data_version()
    write_without_a_checkpoint(shop)
    with opened(shop, steward=True) as db:
        [statistic] = trace(db, COUNT, salt=b"s")[0].statistics
        assert db.data_version() != before
        assert db.explain(COUNT).releases[0].rule == "one_group", "a fact was believed of rows that nobody checked"
        assert statistic.linf is not None and statistic.values[0] <= 100 * statistic.linf


def test_a_copy_without_what_stands_in_the_write_ahead_log_is_stale(shop: Path) -> None:
    with opened(shop, steward=True) as db:
        steward_tasks.prepare(db, lambda *_: None)
    with opened(shop) as db:
        db.query(ORDERS)
    write_without_a_checkpoint(shop)
    with opened(shop) as db, pytest.raises(dpsql.Error, match="another version of the data"):
        db.query(ORDERS)


@pytest.mark.parametrize("sign", "/?#[%")
def test_a_password_that_is_no_url_is_not_shown(sign: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Such a sign makes what stands before it a host and a port, and what follows a database."""
    address = f"postgresql://ana:se{sign}cret@127.0.0.1:1/shop"
    with pytest.raises(InterfaceError) as refusal:
        dpsql.connect(address, policy=POLICY, ledger=":memory:")
    said = f"{refusal.value!s} {refusal.value.__cause__!r} {refusal.value.__context__!r} {capsys.readouterr()}"
    assert "cret" not in said and "'se" not in said and "ana" not in said


def test_several_hosts_are_one_place() -> None:
    pytest.importorskip("psycopg")
    from dpsql.server_address import read_server

    address = read_server("postgresql://ana:secret@one:5432,two:5433/shop?sslpassword=more")
    assert "one" in address.place and "two" in address.place
    assert not {"secret", "more", "ana"} & set(re.split(r"\W", address.place))


# what no other test noticed, when a line was broken by hand -----------------------------------------------------------


def copied(folder: Path, mode: str) -> list[tuple[int, int]]:
    """Units of 4, 5, 6 and 60 different rows, prepared for five: what `within` has, in order."""
    folder.mkdir()
    with duckdb.connect(str(folder / "shop.duckdb")) as data:
        data.execute(
            "CREATE TABLE orders AS SELECT customer::INTEGER AS customer, unnest(range(customer))::INTEGER AS amount "
            "FROM unnest([4, 5, 6, 60]) AS u(customer)"
        )
    table = {**POLICY["tables"]["orders"], "prepare": mode, "columns": {"amount": {"min": 0, "max": 100}}}
    with opened(folder / "shop.duckdb", {**POLICY, "tables": {"orders": table}}, steward=True) as db:
        steward_tasks.prepare(db, lambda *_: None)
    with duckdb.connect(str(folder / "shop.prepared"), read_only=True) as copy:
        return copy.execute("SELECT customer, amount FROM within.orders ORDER BY ALL").fetchall()


def test_a_unit_with_one_row_too_many_is_over_its_bound(tmp_path: Path) -> None:
    assert Counter(unit for unit, _ in copied(tmp_path / "weigh", "weigh")) == {4: 4, 5: 5}
    assert Counter(unit for unit, _ in copied(tmp_path / "keep", "keep")) == {4: 4, 5: 5, 6: 5, 60: 5}


def test_which_rows_are_kept_is_a_secret_of_the_ledger(tmp_path: Path) -> None:
    """Two ledgers have two salts; of sixty rows both keep the same five once in five million times."""
    assert copied(tmp_path / "one", "keep") != copied(tmp_path / "two", "keep")


@pytest.mark.parametrize("over", [True, False])
def test_a_copy_for_more_rows_than_may_count_is_not_read(shop: Path, over: bool) -> None:
    """The policy gives both numbers today; the rules hold for any two."""
    with opened(shop, steward=True) as db:
        steward_tasks.prepare(db, lambda *_: None)
    with opened(shop, steward=True) as db:
        release = db.prepare(ORDERS).plan.releases[0]
    assert isinstance(release.source, Scan) and release.source.rows_per_unit == 5
    for rows, read in ((5, True), (6, False)):
        source = replace(release.source, copy=Copy(rows, over))
        bounded = bound(replace(release, source=source), "laplace", catalog_of(source))
        assert (parts_at_rest(bounded) is not None if over else bounded.rule == "at_rest") is read
