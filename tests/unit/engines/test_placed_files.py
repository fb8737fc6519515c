"""Frames and files as tables: what they hold is in them as it is, and what no query could read fails at once."""

from __future__ import annotations

import gzip
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.ipc
import pyarrow.parquet
import pytest

from dpsql.engines.duckdb import register_tables as placing
from dpsql.engines.duckdb.register_tables import register_files, register_table
from dpsql.engines.duckdb.table_files import NOTHING, Files, list_files
from dpsql.errors import InterfaceError

NOT_TEXT = pa.StringArray.from_buffers(1, *pa.array([b"\xff\xfe"]).cast(pa.binary()).buffers()[1:])
TOO_LATE = pa.array([2**62], pa.timestamp("s", "UTC"))
"""Whole seconds that no timestamp of microseconds can hold."""


@pytest.fixture
def data() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@pytest.fixture(autouse=True)
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file has been read before."""
    monkeypatch.setattr(placing, "_DECODED", {})


def rows(data: duckdb.DuckDBPyConnection, table: str = "t") -> list[Any]:
    return data.execute(f'SELECT * FROM "{table}" ORDER BY ALL').fetchall()


def types(data: duckdb.DuckDBPyConnection, table: str = "t") -> dict[str, str]:
    return {name: type_ for name, type_, *_ in data.execute(f'DESCRIBE "{table}"').fetchall()}


# frames -----------------------------------------------------------------------------------------------------------------


def test_a_frame_with_objects_is_copied_and_leaves_nothing_else_behind(data: duckdb.DuckDBPyConnection) -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": pd.Series(["x", None], dtype=object)})
    register_table(data, "My t", frame)
    frame.loc[0, "b"] = "changed"
    assert rows(data, "My t") == [(1, "x"), (2, None)]
    with pytest.raises(duckdb.CatalogException):
        data.execute("SELECT * FROM _incoming")


@pytest.mark.parametrize("made", [pd.DataFrame({"a": [1, 2]}), pa.table({"a": [1, 2]}), pa.table({"a": [1, 2]}).to_batches()[0]],
                         ids=["frame", "table", "batch"])  # fmt: skip
def test_other_frames_and_tables_are_read_where_they_are(data: duckdb.DuckDBPyConnection, made: Any) -> None:
    register_table(data, "t", made)
    assert rows(data) == [(1,), (2,)]
    assert data.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]


def test_text_that_is_none_and_moments_out_of_range_fail_when_a_table_is_placed(
    data: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    with pytest.raises(pa.ArrowInvalid):
        register_table(data, "t", pa.table({"a": NOT_TEXT}))
    with pytest.raises(duckdb.Error):
        register_table(data, "t", pa.table({"a": TOO_LATE}))
    fine = pa.table({"a": ["x"]})
    register_table(data, "t", fine)
    assert rows(data) == [("x",)]


class Batches:
    """What has no check of its own, but batches that have."""

    def __init__(self, table: pa.Table) -> None:
        self.table, self.read = table, 0

    def to_batches(self) -> list[Any]:
        self.read += 1
        return self.table.to_batches()

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return self.table.__arrow_c_stream__(schema)


def test_batches_are_checked_one_by_one(data: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(pa.ArrowInvalid):
        register_table(data, "t", Batches(pa.table({"a": NOT_TEXT})))


# Parquet ----------------------------------------------------------------------------------------------------------------


def parquet(path: Path, **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pa.table(columns), path)
    return path


def test_partitions_are_columns_in_the_types_of_the_policy_and_null_where_they_say_so(
    data: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    for year, value in (("2020", 1), ("odd", 2), (NOTHING, 3)):
        parquet(tmp_path / "t" / f"Year={year}" / "a.parquet", x=[value])
    register_files(data, list_files("t", tmp_path / "t"), {"year": "BIGINT", "x": "VARCHAR"})
    assert rows(data) == [(1, 2020), (2, None), (3, None)]
    assert types(data) == {"x": "BIGINT", "Year": "BIGINT"}
    register_files(data, list_files("s", tmp_path / "t"), None)
    assert rows(data, "s") == [(1, "2020"), (2, "odd"), (3, None)]
    assert types(data, "s")["Year"] == "VARCHAR"


def test_directories_are_no_columns_where_there_are_no_partitions(
    data: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    path = parquet(tmp_path / "year=2020" / "a.parquet", x=[1])
    register_files(data, Files("t", (str(path),), "parquet"), None)
    assert types(data) == {"x": "BIGINT"}


@pytest.mark.parametrize(
    "other",
    [{"x": pa.array([1], pa.int32())}, {"y": [1]}, {"x": [1], "y": [1]}, {"x": [1.5]}, {"x": ["a"]}],
    ids=["narrower", "named otherwise", "one more", "fractions", "text"],
)  # fmt: skip
@pytest.mark.parametrize("place_of_other", [1, 2])
def test_files_of_one_table_have_the_same_columns_of_the_same_types(
    data: duckdb.DuckDBPyConnection, tmp_path: Path, other: dict[str, Any], place_of_other: int
) -> None:
    for number in range(3):
        parquet(tmp_path / f"{number}.parquet", **(other if number == place_of_other else {"x": [1]}))
    with pytest.raises(InterfaceError, match=f"different columns: .*{place_of_other}.parquet .* differ in [xy]"):
        register_files(data, list_files("t", tmp_path), None)


def test_writers_that_name_the_same_type_in_the_old_way_or_not_write_one_table(
    data: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """pyarrow also writes the older name of a column's type (TIMESTAMP_MILLIS), and polars does not."""
    table = pa.table({"at": pa.array([0], pa.timestamp("ms")), "x": ["a"]})
    pyarrow.parquet.write_table(table, tmp_path / "0.parquet")
    pl.DataFrame(table).write_parquet(tmp_path / "1.parquet")
    register_files(data, list_files("t", tmp_path), None)
    assert types(data) == {"at": "TIMESTAMP", "x": "VARCHAR"}
    assert rows(data) == [(datetime(1970, 1, 1), "a")] * 2


def test_the_order_of_columns_does_not_matter(data: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    parquet(tmp_path / "1.parquet", x=[1], y=["a"])
    parquet(tmp_path / "2.parquet", y=["b"], x=[2])
    register_files(data, list_files("t", tmp_path), None)
    assert rows(data) == [(1, "a"), (2, "b")]


def test_files_of_one_table_may_be_written_by_different_programs(
    data: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """Each calls the whole of its columns by another name."""
    parquet(tmp_path / "1.parquet", x=[1.5])
    data.execute(f"COPY (SELECT 2.5::DOUBLE AS x) TO '{tmp_path / '2.parquet'}' (FORMAT parquet)")
    register_files(data, list_files("t", tmp_path), None)
    assert rows(data) == [(1.5,), (2.5,)]


def test_a_file_with_text_that_is_none_fails_when_it_is_placed(data: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    parquet(tmp_path / "t.parquet", x=[1], s=NOT_TEXT)
    with pytest.raises(duckdb.Error):
        register_files(data, list_files("t", tmp_path / "t.parquet"), None)


def test_only_columns_that_may_fail_are_decoded_and_wide_decimals_are(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Listening:
        def execute(self, text: str) -> Any:
            asked.append(text)
            described = [("s", "VARCHAR"), ("n", "BIGINT"), ("d", "DATE"), ("w", "DECIMAL(38,2)"), ("m", "DECIMAL(9,2)"), ("b", "BLOB"), ("f", "DOUBLE")]  # fmt: skip
            return type("Rows", (), {"fetchall": lambda self: described})()

    kinds = placing.Kind
    placing._decode(Listening(), "t", [kinds.TEXT, kinds.DECIMAL])  # type: ignore[arg-type]
    assert asked[1] == 'SELECT count(*) FROM "t" WHERE hash("w", "m", "s") = 0'
    placing._decode(Listening(), "t", [kinds.DATE, kinds.TIMESTAMP])  # type: ignore[arg-type]
    assert asked[3] == 'SELECT count(*) FROM "t" WHERE hash("d") = 0'
    placing._decode(Listening(), "t", [kinds.BOOLEAN])  # type: ignore[arg-type]
    assert len(asked) == 5


# text -------------------------------------------------------------------------------------------------------------------


def text(path: Path, content: str) -> Files:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gz":
        with gzip.open(path, "wt", newline="") as file:
            file.write(content)
    else:
        path.write_text(content, newline="")
    return list_files("t", path)


SAID = {"a": "BIGINT", "b": "VARCHAR", "c": "DATE"}


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.tsv.gz"])
def test_columns_of_text_become_what_the_policy_says_and_null_where_they_cannot(
    data: duckdb.DuckDBPyConnection, tmp_path: Path, name: str
) -> None:
    mark = "\t" if "tsv" in name else ","
    lines = ["\ufeffA,b,note,c", '1,"x, ""y""",n,2024-01-01', "much,,n,2024-02-30", ",NULL,n,"]
    content = (
        "\n".join(lines) if mark == "," else "\n".join(line.replace(", ", ";").replace(",", mark) for line in lines)
    )
    register_files(data, text(tmp_path / name, content + "\n"), SAID)
    wanted = 'x, "y"' if mark == "," else 'x;"y"'
    found = [(a, b, None if c is None else str(c)) for a, b, c in rows(data)]
    assert found == [(1, wanted, "2024-01-01"), (None, "NULL", None), (None, None, None)]
    assert types(data) == {"A": "BIGINT", "b": "VARCHAR", "c": "DATE"}


def test_one_file_with_tabs_makes_a_table_of_tabs(data: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("b\nz\n")
    (tmp_path / "2.tsv").write_text("b\nx,y\n")
    register_files(data, list_files("t", tmp_path), SAID)
    assert rows(data) == [("x,y",), ("z",)]


def test_a_text_file_without_a_policy_is_read_as_duckdb_takes_it_and_to_its_end(
    data: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    files = text(tmp_path / "t.csv", "a,b\n" + "1,2\n" * 30_000 + "x,3\n")
    register_files(data, files, None)
    assert types(data) == {"a": "VARCHAR", "b": "BIGINT"}
    assert data.execute("SELECT count(*), sum(b) FROM t").fetchall() == [(30_001, 60_003)]


def test_a_text_file_has_its_header_even_if_it_looks_like_a_row(
    data: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    register_files(data, text(tmp_path / "t.csv", "1,2\n3,4\n"), None)
    assert rows(data) == [(3, 4)] and list(types(data)) == ["1", "2"]


@pytest.mark.parametrize("said", [None, {"a": "BIGINT", "year": "BIGINT"}])
def test_partitions_of_text_files_are_columns_too(
    data: duckdb.DuckDBPyConnection, tmp_path: Path, said: dict[str, str] | None
) -> None:
    for year, value in (("2020", "1"), (NOTHING, "2")):
        text(tmp_path / "t" / f"year={year}" / "a.csv", f"a\n{value}\n")
    register_files(data, list_files("t", tmp_path / "t"), said)
    assert rows(data) == [(1, 2020 if said else "2020"), (2, None)]


@pytest.mark.parametrize("header", ["", "\n", "a,A\n1,2\n", "a,a\n1,2\n", '"a\n'])
def test_a_file_whose_first_line_does_not_name_each_column_once_is_refused(
    data: duckdb.DuckDBPyConnection, tmp_path: Path, header: str
) -> None:
    with pytest.raises(InterfaceError, match="does not name the columns"):
        register_files(data, text(tmp_path / "t.csv", header), SAID)


@pytest.mark.parametrize("odd", [0, 1, 2])
def test_all_text_files_of_a_table_have_one_header(data: duckdb.DuckDBPyConnection, tmp_path: Path, odd: int) -> None:
    for number in range(3):
        text(tmp_path / f"{number}.csv", "b,a\nx,1\n" if number == odd else "a,b\n1,x\n")
    with pytest.raises(InterfaceError, match=f"{max(odd, 1)}.csv does not name the columns"):
        register_files(data, list_files("t", tmp_path), SAID)


def test_a_file_with_none_of_the_policys_columns_is_refused(data: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    with pytest.raises(InterfaceError, match="none of the policy's columns") as refusal:
        register_files(data, text(tmp_path / "t.csv", "x,y\n1,2\n"), SAID)
    assert "x" in (refusal.value.hint or "")


@pytest.mark.parametrize("row", ["1", "1,x,2024-01-01,more", '1,"x,2024-01-01', '1,"x" y,2024-01-01'])
def test_a_row_of_another_shape_fails_when_the_file_is_placed(
    data: duckdb.DuckDBPyConnection, tmp_path: Path, row: str
) -> None:
    with pytest.raises(duckdb.Error):
        register_files(data, text(tmp_path / "t.csv", f"a,b,c\n1,x,2024-01-01\n{row}\n"), SAID)


# Arrow ------------------------------------------------------------------------------------------------------------------


def arrow(path: Path, **columns: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns)
    with pyarrow.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


def test_arrow_files_are_one_table(data: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    for number in range(2):
        arrow(tmp_path / f"{number}.arrow", x=[number], s=["a"])
    register_files(data, list_files("t", tmp_path), None)
    assert rows(data) == [(0, "a"), (1, "a")]


@pytest.mark.parametrize("odd", [0, 1, 2])
def test_arrow_files_of_different_columns_are_refused(
    data: duckdb.DuckDBPyConnection, tmp_path: Path, odd: int
) -> None:
    for number in range(3):
        arrow(tmp_path / f"{number}.arrow", **({"x": [1.5]} if number == odd else {"x": [1]}))
    with pytest.raises(InterfaceError, match="different columns"):
        register_files(data, list_files("t", tmp_path), None)


def test_without_the_package_that_reads_them_arrow_files_are_refused(
    data: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrow(tmp_path / "a.arrow", x=[1])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InterfaceError, match="are Arrow files") as refusal:
        register_files(data, list_files("t", tmp_path), None)
    assert "dpsql[arrow]" in (refusal.value.hint or "")


def test_arrow_files_in_partitions_are_refused(data: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    arrow(tmp_path / "year=2020" / "a.arrow", x=[1])
    with pytest.raises(InterfaceError, match="are partitioned"):
        register_files(data, list_files("t", tmp_path), None)


@pytest.mark.parametrize("column", [NOT_TEXT, TOO_LATE], ids=["text", "moment"])
def test_arrow_files_that_no_query_could_read_fail_when_they_are_placed(
    data: duckdb.DuckDBPyConnection, tmp_path: Path, column: Any
) -> None:
    arrow(tmp_path / "a.arrow", x=column)
    with pytest.raises((pa.ArrowInvalid, duckdb.Error)):
        register_files(data, list_files("t", tmp_path), None)
