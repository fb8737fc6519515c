"""Files and lakes: what makes a table, of which version, and that no row of a file decides whether a query fails."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest
import yaml
from typer.testing import CliRunner

import dpsql
from dpsql.engines.base import Resources
from dpsql.engines.duckdb import parquet, register_tables
from dpsql.engines.duckdb import table_files as listing
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.register_tables import _once
from dpsql.engines.duckdb.table_files import Files, _listed, list_files, partition_values
from dpsql.errors import EngineError, InterfaceError
from dpsql.interfaces import steward_tasks
from dpsql.interfaces.cli.main import app
from dpsql.policy import load_policy
from dpsql.policy.column_types import column_types

COUNT = "SELECT year, count(*) AS n, sum(amount) AS s FROM orders GROUP BY year"


def policy(**table: Any) -> dict[str, Any]:
    columns = {"year": {"min": 2020, "max": 2022}, "amount": {"min": 0, "max": 10}, "kind": {"values": ["a", "b"]}}
    return {
        "dataset": "lake",
        "search": False,
        "budget": {"epsilon": 10**6, "delta": "1e-6"},
        "limits": {"epsilon": 10**5},
        "tables": {
            "orders": {"unit": "customer", "max_rows_per_unit": 5, "columns": columns, **table},
            "stores": {"public": True},
        },
    }


def lake(folder: Path) -> Path:
    """Orders partitioned by year, and a public file."""
    data = duckdb.connect()
    data.execute(
        f"COPY (SELECT range // 2 AS customer, 2020 + range % 3 AS year, (range % 10)::DOUBLE AS amount, 'a' AS kind "
        f"FROM range(300)) TO '{folder / 'orders'}' (FORMAT parquet, PARTITION_BY (year))"
    )
    (folder / "stores.csv").write_text("store,size\ns1,1\ns2,2\n")
    (folder / "_SUCCESS").write_text("")
    (folder / "orders" / ".hidden.parquet").write_text("no data")
    return folder


def opened(source: Any, said: dict[str, Any] | None = None, **words: Any) -> dpsql.Connection:
    return dpsql.connect(source, policy=said or policy(), ledger=words.pop("ledger", ":memory:"), **words)


@pytest.mark.parametrize("isolate", [False, True])
def test_a_directory_is_a_dataset_with_its_partitions_as_columns(tmp_path: Path, isolate: bool) -> None:
    with opened(lake(tmp_path), isolate=isolate) as db:
        found = db.query(COUNT, epsilon=90_000, mechanism="laplace").fetchall()
        assert [row[0] for row in found[:3]] == [2020, 2021, 2022]
        assert [round(row[1]) for row in found[:3]] == [100, 100, 100]
        assert db.query("SELECT sum(size) FROM stores").fetchall() == [(3,)]


@pytest.mark.parametrize("spelled", ["orders", "orders/", "orders/**/*.parquet", "orders/year=202[0-2]/*.parquet"])
def test_a_table_is_a_directory_or_a_pattern(tmp_path: Path, spelled: str) -> None:
    lake(tmp_path)
    with opened({"orders": f"{tmp_path}/{spelled}", "stores": tmp_path / "stores.csv"}) as db:
        assert round(db.query("SELECT count(*) FROM orders", epsilon=90_000).fetchall()[0][0]) == 300


def test_a_directory_may_be_one_table_itself(tmp_path: Path) -> None:
    lake(tmp_path)
    said = policy()
    del said["tables"]["stores"]
    with opened(tmp_path / "orders", said) as db:
        assert round(db.query("SELECT count(*) FROM orders", epsilon=90_000).fetchall()[0][0]) == 300


def test_the_version_follows_names_sizes_and_times_and_nothing_else(tmp_path: Path) -> None:
    lake(tmp_path)
    with opened(tmp_path) as db:
        first = db.data_version()
    with opened(tmp_path) as db:
        assert db.data_version() == first and first.startswith("files:")
    path = next((tmp_path / "orders" / "year=2020").glob("*.parquet"))
    os.utime(path, ns=(1, 1))
    with opened(tmp_path) as db:
        second = db.data_version()
    path.rename(path.with_name("other.parquet"))
    with opened(tmp_path) as db:
        assert len({first, second, db.data_version()}) == 3


def _touched(path: Path) -> None:
    os.utime(path, ns=(5, 5))


def _gone(path: Path) -> None:
    path.unlink()


def _other(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize("change", [_touched, _gone, _other])
def test_files_that_change_under_a_session_give_one_constant_error(tmp_path: Path, change: Callable[..., None]) -> None:
    lake(tmp_path)
    with opened(tmp_path) as db:
        db.query(COUNT, epsilon=1)
        change(next((tmp_path / "orders" / "year=2021").glob("*.parquet")))
        texts = set()
        for sql in (COUNT, "SELECT count(*) FROM orders WHERE amount > 3"):
            with pytest.raises(EngineError) as failure:
                db.query(sql, epsilon=2)
            texts.add(str(failure.value).splitlines()[0])
        assert texts == {str(EngineError()).splitlines()[0]}
        spent = db.budget().dataset.spent
    assert spent is not None


def test_a_locked_lake_reads_its_own_files_and_no_others(tmp_path: Path) -> None:
    lake(tmp_path)
    (tmp_path / "orders" / "year=2020" / "later.parquet").write_bytes(b"")
    (tmp_path / "orders" / "year=2020" / "later.parquet").unlink()
    engine = DuckDBEngine({"orders": tmp_path / "orders"}, Resources(10**9))
    with duckdb.connect() as data:
        later = tmp_path / "orders" / "year=2020" / "later.parquet"
        data.execute(f"COPY (SELECT 1 AS customer) TO '{later}' (FORMAT parquet)")
    with engine._running() as cursor:
        assert cursor.execute("SELECT count(*) FROM orders").fetchall() == [(300,)]
        for path in (later, tmp_path / "stores.csv", Path("/etc/passwd")):
            for reader in ("read_parquet", "read_csv", "read_text", "read_blob", "glob"):
                with pytest.raises(duckdb.Error):
                    cursor.execute(f"SELECT * FROM {reader}('{path}')").fetchall()
        with pytest.raises(duckdb.Error):
            cursor.execute(f"COPY (SELECT 1) TO '{tmp_path}/orders/x.csv'")
    engine.close()


# what cannot be read ----------------------------------------------------------------------------------------------------


def _parquet(path: Path, select: str) -> None:
    path.parent.mkdir(exist_ok=True)
    with duckdb.connect() as data:
        data.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet)")


def _mixed_types(folder: Path) -> None:
    _parquet(folder / "orders" / "1.parquet", "SELECT 1 AS customer, 5 AS amount")
    _parquet(folder / "orders" / "2.parquet", "SELECT 1 AS customer, 'five' AS amount")


def _mixed_columns(folder: Path) -> None:
    _parquet(folder / "orders" / "1.parquet", "SELECT 1 AS customer, 5.0 AS amount")
    _parquet(folder / "orders" / "2.parquet", "SELECT 1 AS customer")


def _mixed_partitions(folder: Path) -> None:
    (folder / "orders").mkdir()
    _parquet(folder / "orders" / "year=2020" / "1.parquet", "SELECT 1 AS customer")
    _parquet(folder / "orders" / "2.parquet", "SELECT 1 AS customer")


def _mixed_formats(folder: Path) -> None:
    _parquet(folder / "orders" / "1.parquet", "SELECT 1 AS customer")
    (folder / "orders" / "2.csv").write_text("customer\n1\n")


def _no_text(folder: Path) -> None:
    table = pa.table({"customer": pa.array(["1"]), "kind": pa.array([b"\xff\xfe"]).cast(pa.binary())})
    bad = pa.StringArray.from_buffers(1, *table["kind"].combine_chunks().buffers()[1:])
    (folder / "orders").mkdir()
    pyarrow.parquet.write_table(pa.table({"customer": ["1"], "kind": bad}), folder / "orders" / "1.parquet")


def _bad_row(folder: Path) -> None:
    (folder / "orders.csv").write_text("customer,kind,amount\n1,a,2\n2,b\n")


def _open_quote(folder: Path) -> None:
    (folder / "orders.csv").write_text('customer,kind,amount\n1,"a,2\n2,b,1\n')


def _bad_bytes(folder: Path) -> None:
    (folder / "orders.csv").write_bytes(b"customer,kind,amount\n1,\xff,2\n")


def _two_headers(folder: Path) -> None:
    (folder / "orders").mkdir()
    (folder / "orders" / "1.csv").write_text("customer,kind,amount\n1,a,2\n")
    (folder / "orders" / "2.csv").write_text("customer,amount,kind\n1,2,a\n")


def _torn(folder: Path) -> None:
    _parquet(folder / "orders.parquet", "SELECT range AS customer, range AS amount FROM range(10000)")
    path = folder / "orders.parquet"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _empty(folder: Path) -> None:
    (folder / "orders").mkdir()


@pytest.mark.parametrize(
    "make",
    [_mixed_types, _mixed_columns, _mixed_partitions, _mixed_formats, _no_text, _bad_row, _open_quote, _bad_bytes,
     _two_headers, _torn, _empty],
)  # fmt: skip
def test_what_cannot_be_read_fails_when_it_is_opened(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path)
    said = policy()
    del said["tables"]["stores"]
    with pytest.raises(dpsql.InterfaceError) as refusal:
        opened(tmp_path, said)
    assert "orders" in str(refusal.value) and refusal.value.hint
    assert "five" not in str(refusal.value)


# text files ------------------------------------------------------------------------------------------------------------


def _csv(folder: Path, *rows: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "orders.csv").write_text("\n".join(["customer,kind,amount,note", *rows, ""]))
    return folder


def test_the_types_of_a_text_file_are_the_policys_whatever_its_rows_hold(tmp_path: Path) -> None:
    """A type is seen by analysts: one person's odd value must not change it, nor make a query fail."""
    said = policy(columns={"kind": {"values": ["a", "b"]}, "amount": {"min": 0, "max": 10}})
    del said["tables"]["stores"]
    tame = _csv(tmp_path / "tame", "1,a,2,x", "2,b,3.5,x")
    wild = _csv(tmp_path / "wild", "1,a,2,x", "2,b,3.5,x", 'x,"a, b",much,x', '"",a,,', "7,,nan,x", "8,b,1e400,x")
    with opened(tame, said) as one, opened(wild, said) as two:
        assert one.engine.schema() == two.engine.schema()
        assert one.engine.schema()["orders"] == {"customer": "VARCHAR", "kind": "VARCHAR", "amount": "DOUBLE"}
        for sql in ("SELECT kind, sum(amount), count(*) FROM orders GROUP BY kind", "SELECT avg(amount) FROM orders"):
            first, second = (db.query(sql, epsilon=90_000, mechanism="laplace") for db in (one, two))
            assert first.types == second.types
        assert round(two.query("SELECT count(*) FROM orders", epsilon=90_000).fetchall()[0][0]) == 5


def test_compressed_and_tabbed_text_is_read_too(tmp_path: Path) -> None:
    said = policy(columns={"amount": {"min": 0, "max": 10}})
    del said["tables"]["stores"]
    with gzip.open(tmp_path / "orders.csv.gz", "wt") as file:
        file.write("customer,amount\n1,2\n")
    with opened(tmp_path, said) as db:
        assert round(db.query("SELECT sum(amount) FROM orders", epsilon=90_000).fetchall()[0][0]) == 2
    (tmp_path / "orders.csv.gz").unlink()
    (tmp_path / "orders.tsv").write_text("customer\tamount\n1\t4\n")
    with opened(tmp_path, said) as db:
        assert round(db.query("SELECT sum(amount) FROM orders", epsilon=90_000).fetchall()[0][0]) == 4


def test_arrow_files_are_read_in_batches(tmp_path: Path) -> None:
    said = policy(columns={"amount": {"min": 0, "max": 10}})
    del said["tables"]["stores"]
    (tmp_path / "orders").mkdir()
    for number in range(2):
        table = pa.table({"customer": [1, 2, 3], "amount": [1.0, 2.0, float("nan")]})
        with pyarrow.ipc.new_file(tmp_path / "orders" / f"{number}.arrow", table.schema) as writer:
            writer.write_table(table)
    with opened(tmp_path, said) as db:
        assert round(db.query("SELECT sum(amount) FROM orders", epsilon=90_000).fetchall()[0][0]) == 6


def test_types_of_partitions_and_text_follow_the_policy() -> None:
    said = load_policy(
        policy(columns={"year": {"min": 2020, "max": 2022}, "amount": {"min": 0, "max": 9}, "day": {"min": "2020-01-01", "max": "2020-02-01"},
                        "open": {"values": [True, False]}, "size": {"values": [1, 2]}, "name": {}})
    )  # fmt: skip
    assert column_types(said, "orders", ["year"]) == {
        "year": "BIGINT", "amount": "DOUBLE", "day": "DATE", "open": "BOOLEAN", "size": "BIGINT", "name": "VARCHAR",
        "customer": "VARCHAR",
    }  # fmt: skip
    assert partition_values("/a/year=2024/kind=x%20y/f.parquet") == {"year": "2024", "kind": "x y"}


def test_another_machines_files_need_an_extension_that_is_never_fetched() -> None:
    with pytest.raises(dpsql.InterfaceError, match="httpfs is not installed") as refusal:
        opened({"orders": "https://127.0.0.1:9/orders.parquet", "stores": pa.table({"store": ["a"]})})
    assert "INSTALL httpfs" in (refusal.value.hint or "")


def test_a_pattern_that_fits_nothing_says_so(tmp_path: Path) -> None:
    with pytest.raises(dpsql.InterfaceError, match="no data files"):
        list_files("orders", tmp_path / "none" / "*.parquet")


# the steward ------------------------------------------------------------------------------------------------------------


def test_a_lake_is_checked_prepared_and_asked_on_the_command_line(tmp_path: Path) -> None:
    folder = lake(tmp_path / "lake" if (tmp_path / "lake").mkdir() is None else tmp_path)
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy(prepare="keep")))
    run = CliRunner()
    done = run.invoke(app, ["check", str(folder)])
    assert "the table and its columns exist" in done.output and done.exit_code == 0, done.output
    done = run.invoke(app, ["prepare", str(folder)])
    assert "orders: 300 rows; no unit has more than 5" in done.output, done.output
    done = run.invoke(app, ["query", str(folder), "SELECT count(*) AS n FROM orders", "--epsilon", "90000"])
    assert "300" in done.output and done.exit_code == 0, done.output
    assert "dpsql_prepared" in run.invoke(app, ["explain", str(folder), "--sql", "SELECT count(*) FROM orders"]).output


def test_a_changed_lake_refuses_its_copy(tmp_path: Path) -> None:
    folder, said = lake(tmp_path), policy(prepare="weigh")
    ledger = tmp_path.parent / f"{tmp_path.name}.ledger"
    with opened(folder, said, ledger=ledger, steward=True) as db:
        steward_tasks.prepare(db, lambda *_: None)
    with opened(folder, said, ledger=ledger) as db:
        assert "dpsql_prepared" in db.explain(COUNT).sql
    os.utime(next((folder / "orders" / "year=2020").glob("*.parquet")), ns=(3, 3))
    with opened(folder, said, ledger=ledger) as db, pytest.raises(dpsql.Error, match="another version of the data"):
        db.query(COUNT)


def test_a_policy_is_drafted_from_a_lake(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    folder = lake(tmp_path / "lake")
    done = CliRunner().invoke(app, ["init", str(folder)])
    assert done.exit_code == 0, done.output
    drafted = (tmp_path / "policy.yaml").read_text()
    assert "orders:" in drafted and "stores:" in drafted and "year" in drafted


def test_two_stars_reach_every_depth_and_one_star_reaches_one(tmp_path: Path) -> None:
    deep = [tmp_path / "orders" / "/".join(["x"] * depth) / "data.parquet" for depth in range(4)]
    for each in deep:
        each.parent.mkdir(parents=True, exist_ok=True)
        each.write_bytes(b"")
    assert _listed(tmp_path / "orders/**/*.parquet") == sorted(deep)
    assert _listed(tmp_path / "orders/*/*.parquet") == deep[1:2]
    assert _listed(tmp_path / "orders") == sorted(deep)


def test_an_engine_keeps_only_the_tables_that_it_is_told(tmp_path: Path) -> None:
    lake(tmp_path)
    engine = DuckDBEngine({"orders": tmp_path / "orders", "Stores": tmp_path / "stores.csv"}, Resources(10**9))
    engine.keep_only({"stores", "others"})
    assert list(engine.schema()) == ["stores"]
    engine.close()


def test_a_server_forgets_the_oldest_files_and_reads_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "REMEMBERED", 3)
    monkeypatch.setattr(register_tables, "_DECODED", {})
    monkeypatch.setattr(parquet, "_MEASURED", {})
    for number in [*range(5), 0]:
        path = tmp_path / f"{number}.parquet"
        if not path.exists():
            pyarrow.parquet.write_table(pa.table({"n": [number], "word": ["x"]}), path)
        with duckdb.connect() as data:
            register_tables.register_files(data, list_files("t", path), None)
            assert data.execute("FROM t").fetchall() == [(number, "x")]
    assert len(register_tables._DECODED) == len(parquet._MEASURED) == 3


def test_files_are_read_once_as_they_are_and_those_of_another_machine_always(tmp_path: Path) -> None:
    """What is written while files are read was not read: marked as read, it would fail in some of the queries."""
    path, seen = tmp_path / "t.parquet", []

    def read() -> None:
        seen.append(path.read_bytes())
        if len(seen) == 1:
            path.write_bytes(b"changed meanwhile")

    path.write_bytes(b"first")
    here, far = list_files("t", path), Files("t", ("https://host/t.parquet",), "parquet", remote=True)
    for _ in range(3):
        _once(here, read)
    assert seen == [b"first", b"changed meanwhile"]
    for _ in range(2):
        _once(far, read)
    assert len(seen) == 4


@pytest.mark.parametrize("names", [["x", "x", "x_1"], ["x", "X", "y"]])
def test_files_with_two_columns_of_one_name_are_refused(tmp_path: Path, names: list[str]) -> None:
    """DuckDB calls the second `x_1`: a policy that names a unit of that name would mean another column."""
    pyarrow.parquet.write_table(pa.table([[1], [2], [3]], names=names), tmp_path / "t.parquet")
    said = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 1},
        "tables": {"t": {"unit": names[-1], "max_rows_per_unit": 1}},
    }
    with pytest.raises(InterfaceError, match="two columns of one name"):
        opened({"t": tmp_path / "t.parquet"}, said)


def test_a_partition_hides_a_column_of_its_name_in_any_case(tmp_path: Path) -> None:
    (tmp_path / "orders" / "Year=2021").mkdir(parents=True)
    rows = pa.table({"customer": [1, 2], "year": [1999, 1999], "amount": [1.0, 2.0], "kind": ["a", "b"]})
    pyarrow.parquet.write_table(rows, tmp_path / "orders" / "Year=2021" / "f.parquet")
    said = policy()
    del said["tables"]["stores"]
    with opened({"orders": tmp_path / "orders"}, said, steward=True) as db:
        [counted] = dpsql.audit.trace(db, "SELECT count(*) FROM orders WHERE year = 2021", salt=b"s", epsilon=1)
        assert [value * counted.statistics[0].grid for value in counted.statistics[0].values] == [2]
