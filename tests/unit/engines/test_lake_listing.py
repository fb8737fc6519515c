"""Which files are a table: by their names, formats and partitions; and by what a file is known again."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

import duckdb
import pytest

from dpsql.engines.duckdb import prepare as copies
from dpsql.engines.duckdb.table_files import _FORMATS, Files, is_lake, label_of, list_files, tables_found, tables_in
from dpsql.errors import InterfaceError


def touched(path: Path, content: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def names(files: Files, folder: Path) -> list[str]:
    return [str(Path(path).relative_to(folder)) for path in files.paths]


def test_a_directory_is_all_files_of_data_below_it_in_order_and_nothing_hidden(tmp_path: Path) -> None:
    for name in ("b.parquet", "a/c.parquet", "a/_d/e.parquet", ".f/g.parquet", "_h.parquet", ".i.parquet", "notes.txt"):
        touched(tmp_path / "t" / name)
    (tmp_path / "t" / "folder.parquet").mkdir()
    found = list_files("t", tmp_path / "t")
    assert names(found, tmp_path / "t") == ["a/c.parquet", "b.parquet"]
    assert (found.table, found.format, found.partitions, found.remote) == ("t", "parquet", (), False)
    pattern = list_files("t", tmp_path / "t" / "*.parquet")
    assert names(pattern, tmp_path / "t") == ["b.parquet"]
    deep = list_files("t", tmp_path / "t" / "**" / "*.parquet")
    assert "a/c.parquet" in names(deep, tmp_path / "t") and "b.parquet" in names(deep, tmp_path / "t")
    assert names(list_files("t", tmp_path / "t" / "_h.parquet"), tmp_path / "t") == ["_h.parquet"]


@pytest.mark.parametrize(
    ("name", "format_"),
    [("x.parquet", "parquet"), ("x.PARQ", "parquet"), ("x.csv", "csv"), ("x.tsv", "csv"), ("x.csv.gz", "csv"),
     ("x.TSV.gz", "csv"), ("x.arrow", "arrow"), ("x.ipc", "arrow"), ("x.feather", "arrow")],
)  # fmt: skip
def test_the_format_is_the_ending_of_the_name_and_the_table_is_the_rest(
    tmp_path: Path, name: str, format_: str
) -> None:
    path = touched(tmp_path / name)
    assert list_files("t", path).format == format_
    assert tables_found(tmp_path) == tables_found(path) == {"x": str(path)}
    assert is_lake(path) and is_lake(str(path))


def test_no_ending_ends_in_another() -> None:
    assert not any(one != two and one.endswith(two) for one in _FORMATS for two in _FORMATS)


@pytest.mark.parametrize("where", ["none", "none/*.parquet", "empty", "notes.txt"])
def test_where_there_is_no_data_file_the_table_is_refused(tmp_path: Path, where: str) -> None:
    (tmp_path / "empty").mkdir()
    touched(tmp_path / "notes.txt")
    with pytest.raises(InterfaceError, match="no data files"):
        list_files("t", tmp_path / where)


def test_a_table_has_one_format_and_one_set_of_partitions(tmp_path: Path) -> None:
    touched(tmp_path / "two" / "a.parquet")
    touched(tmp_path / "two" / "b.csv")
    with pytest.raises(InterfaceError, match="several formats: csv, parquet"):
        list_files("t", tmp_path / "two")
    for name in ("year=1/month=2/a.parquet", "year=2/month=1/b.parquet"):
        touched(tmp_path / "parts" / name)
    assert list_files("t", tmp_path / "parts").partitions == ("year", "month")
    touched(tmp_path / "parts" / "year=3" / "c.parquet")
    with pytest.raises(InterfaceError, match="different partitions"):
        list_files("t", tmp_path / "parts")


def test_an_address_is_one_file_of_another_machine_with_no_stamp(tmp_path: Path) -> None:
    for address, format_ in (("s3://a/b.csv", "csv"), ("https://a/b", "parquet"), ("s3://a/b.parquet", "parquet")):
        found = list_files("t", address)
        assert found == Files("t", (address,), format_, (), True) and found.stamp == ()  # type: ignore[arg-type]
        assert not is_lake(address)
    near = list_files("t", touched(tmp_path / "a.csv"))
    assert len(near.stamp) == 1 and near.stamp[0][1] == 1


def test_a_lake_is_a_directory_or_a_file_of_data_and_no_database(tmp_path: Path) -> None:
    assert is_lake(tmp_path) and is_lake(str(tmp_path))
    assert not is_lake(touched(tmp_path / "shop.duckdb")) and not is_lake(tmp_path / "none.parquet")
    assert not is_lake(duckdb.connect()) and not is_lake({"t": tmp_path})


def test_the_tables_of_a_directory_are_its_files_and_directories_by_any_spelling(tmp_path: Path) -> None:
    for name in ("Orders/a.parquet", "stores.csv", "_tmp/a.parquet", ".cache/a.parquet", "notes.txt"):
        touched(tmp_path / "lake" / name)
    (tmp_path / "lake" / "old.parquet").mkdir()
    where = tmp_path / "lake"
    assert tables_found(where) == {name: str(where / file) for name, file in (("Orders", "Orders"), ("old.parquet", "old.parquet"), ("stores", "stores.csv"))}  # fmt: skip
    assert tables_in(where, ["orders", "stores", "others"]) == {
        "orders": str(where / "Orders"), "stores": str(where / "stores.csv")}  # fmt: skip
    assert tables_in(where, ["LAKE"]) == {"LAKE": str(where)}
    assert tables_in(where, ["lake", "orders"]) == {"orders": str(where / "Orders")}
    assert tables_in(where, ["other"]) == {}


def test_the_label_is_a_digest_of_names_sizes_and_times_only(tmp_path: Path) -> None:
    import os

    one, two = touched(tmp_path / "a" / "x.csv", b"1"), touched(tmp_path / "b" / "x.csv", b"2")
    for path in (one, two):
        os.utime(path, ns=(7, 7))
    labels = [label_of([list_files("T", path.parent)]) for path in (one, two)]
    wanted = blake2b(b"t\0x.csv\x001\x007\n", digest_size=16).hexdigest()
    assert labels == [f"files:{wanted}"] * 2
    both = [list_files("t", one), list_files("s", two)]
    assert label_of(both) == label_of(both[::-1]) != labels[0]
    os.utime(one, ns=(8, 8))
    assert label_of([list_files("t", one)]) != labels[0]


def test_a_file_that_is_gone_has_a_stamp_that_no_file_has(tmp_path: Path) -> None:
    path = touched(tmp_path / "a.csv")
    files = list_files("t", path)
    there = path.stat()
    assert files.stamp == ((str(path), 1, there.st_mtime_ns, there.st_ino),)
    path.unlink()
    [(name, *numbers)] = files.stamp
    assert name == str(path) and len(numbers) == 3 and all(number < 0 for number in numbers)


# the file with prepared copies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [None, 4])
def test_the_digest_is_of_the_whole_file_whatever_its_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int | None
) -> None:
    if block is not None:
        monkeypatch.setattr(copies, "BLOCK", block)
    for content in (b"", b"abc", b"abcd", b"abcdefghij"):
        path = touched(tmp_path / "c", content)
        wanted = blake2b(content, digest_size=16).hexdigest()
        assert copies.content_of(path) == copies.content_while(path, copies.stamp_of(path)) == wanted


def test_the_digest_is_nothing_for_a_file_that_is_or_becomes_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = touched(tmp_path / "c", b"abc")
    stamp = copies.stamp_of(path)
    assert copies.content_while(path, "") == copies.content_while(path, stamp + "0") == ""
    assert copies.content_while(tmp_path / "none", "") == "" == copies.stamp_of(tmp_path / "none")
    digest = copies.content_of

    def meanwhile(where: Path) -> str:
        found = digest(where)
        where.write_bytes(b"other")
        return found

    monkeypatch.setattr(copies, "content_of", meanwhile)
    assert copies.content_while(path, stamp) == ""


def test_only_the_file_that_was_there_before_and_after_gives_its_stamp(tmp_path: Path) -> None:
    path = tmp_path / "it's.prepared"
    with duckdb.connect() as data:
        assert copies.attach(data, path) == ""
    touched(path, b"no database")
    with duckdb.connect() as data:
        assert copies.attach(data, path) == "unreadable"
    path.unlink()
    with duckdb.connect(str(path)) as made:
        made.execute("CREATE SCHEMA within")
        made.execute("CREATE TABLE within.t AS SELECT 7 AS x")
    with duckdb.connect() as data:
        assert copies.attach(data, path) == copies.stamp_of(path) != ""
        assert data.execute(f"SELECT x FROM {copies.COPY}.within.t").fetchall() == [(7,)]
        with pytest.raises(duckdb.Error, match="read-only"):
            data.execute(f"INSERT INTO {copies.COPY}.within.t VALUES (8)")


def test_a_file_that_is_put_there_while_it_is_attached_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.prepared"
    duckdb.connect(str(path)).close()
    stamps = iter(["one", "two"])
    monkeypatch.setattr(copies, "stamp_of", lambda _: next(stamps))
    with duckdb.connect() as data:
        assert copies.attach(data, path) == "changed"
