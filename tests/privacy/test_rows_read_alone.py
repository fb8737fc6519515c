"""Whether a row is read depends on that row alone: neither on the statistics of a file nor on anybody else's rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest
from false_parquet import write_false, write_false_filters

import dpsql
from dpsql.audit.traces import ReleaseTrace, StatisticTrace, traced
from dpsql.engines.duckdb import parquet
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.register_tables import register_files
from dpsql.engines.duckdb.system_catalogue import require_own_storage
from dpsql.engines.duckdb.table_files import list_files
from dpsql.errors import InterfaceError, InternalError

NAN = float("nan")
Column = Sequence[float | None]
BASES: dict[str, tuple[Column, float]] = {
    "half are NaN": ([NAN if i % 2 else i / 2 % 10 for i in range(1000)], 11.0),
    "one value and NaN": ([NAN, 5.0] * 500, 6.0),
    "all are NaN": ([NAN] * 1000, 5.0),
    "NULL and NaN": ([*[NAN, None] * 500, 5.0], 6.0),
    "zeros of two signs": ([-0.0, 5.0] * 500, 0.0),
    "infinite": ([NAN, float("-inf")] * 500, float("inf")),
}
"""The values of some units, and that of the one who is added."""

FORMS = (
    "SELECT count(*) FROM t WHERE x > 10",
    "SELECT count(*) FROM t WHERE f > 10",
    "SELECT count(*) FROM t WHERE x >= 5.5",
    "SELECT count(*) FROM t WHERE x <> 5",
    "SELECT count(*) FROM t WHERE x = 5",
    "SELECT count(*) FROM t WHERE x = 0",
    "SELECT count(*) FROM t WHERE x IN (0, 5, 11)",
    "SELECT count(*) FROM t WHERE NOT (x <= 9)",
    "SELECT count(*) FROM t WHERE isnan(x)",
    "SELECT count(*) FROM t WHERE NOT isnan(f)",
    "SELECT count(*) FROM t WHERE isfinite(x)",
    "SELECT count(*) FROM t WHERE abs(x) > 10",
    "SELECT count(*) FROM t WHERE x IS NULL",
    "SELECT count(x), sum(x) FROM t",
    "SELECT count(*), sum(f) FROM t WHERE f < 100",
    "SELECT count(*) FILTER (WHERE x > 10) FROM t",
    "SELECT sum(CASE WHEN x > 10 THEN 1 ELSE 0 END) FROM t",
    "SELECT median(x) FROM t",
    "SELECT count(DISTINCT x) FROM t",
    "SELECT count(DISTINCT id) FROM t WHERE x > 10",
    "SELECT kind, count(*) FROM t WHERE x > 10 GROUP BY kind",
    "SELECT count(*) FROM (SELECT id, max(x) AS m FROM t GROUP BY id) AS u WHERE m > 10",
    "SELECT count(*) FROM (SELECT id, x, row_number() OVER (PARTITION BY id ORDER BY x) AS r FROM t) AS w WHERE x > 10",
    "SELECT count(*) FROM t JOIN p ON t.x = p.x",
    "SELECT count(*) FROM t JOIN p ON t.x > p.x AND p.n = 3",
    "SELECT count(*) FROM t WHERE x IN (SELECT x FROM p)",
    "SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM p WHERE p.x = t.x)",
    "SELECT count(*) FROM t WHERE x NOT IN (SELECT x FROM p WHERE x < 9)",
    "SELECT count(*) FROM t JOIN v ON t.id = v.id AND t.x = v.x",
    "SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM v WHERE v.id = t.id AND v.x >= t.x)",
)


def frame(values: Column, more: Sequence[float]) -> pa.Table:
    """Unit, the value as a double and as a float, and a kind."""
    x = [*values, *more]
    wide = pa.array(x, pa.float64())
    return pa.table({"id": list(range(len(x))), "x": wide, "f": wide.cast(pa.float32()), "kind": ["a"] * len(x)})


def public() -> pa.Table:
    """More rows than there are units, so that joins build on the private side."""
    return pa.table({"n": list(range(3000)), "x": pa.array([NAN, *(i / 300 for i in range(2999))], pa.float64())})


def by_pyarrow(table: pa.Table, path: Path, **options: Any) -> Path:
    pyarrow.parquet.write_table(table, path.with_suffix(".parquet"), **options)
    return path.with_suffix(".parquet")


def by_duckdb(table: pa.Table, path: Path) -> Path:
    """DuckDB adds Bloom filters to columns of few values."""
    with duckdb.connect() as data:
        data.register("rows", table)
        data.execute(f"COPY rows TO '{path}.parquet' (ROW_GROUP_SIZE 2048)")
    return path.with_suffix(".parquet")


def by_polars(table: pa.Table, path: Path) -> Path:
    polars = pytest.importorskip("polars")
    polars.from_arrow(table).write_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def as_ipc(table: pa.Table, path: Path) -> Path:
    with pa.ipc.new_file(path.with_suffix(".arrow"), table.schema) as file:
        file.write_table(table)
    return path.with_suffix(".arrow")


def in_memory(table: pa.Table, _: Path) -> pa.Table:
    return table


def as_pandas(table: pa.Table, _: Path) -> pd.DataFrame:
    made: pd.DataFrame = table.to_pandas().astype({"kind": "string"} if "kind" in table.column_names else {})
    return made


BLOOM: dict[str, Any] = {"bloom_filter_options": {"x": {"ndv": 100}, "f": {"ndv": 100}}}
Writer = Callable[[pa.Table, Path], Any]
SOURCES: dict[str, tuple[Writer, Writer]] = {
    "pyarrow": (by_pyarrow, by_pyarrow),
    "pyarrow, Bloom filters": (partial(by_pyarrow, **BLOOM), by_pyarrow),
    "pyarrow, several row groups": (partial(by_pyarrow, row_group_size=100, write_page_index=True), by_pyarrow),
    "polars": (by_polars, by_polars),
    "duckdb": (by_duckdb, by_duckdb),
    "arrow and public parquet": (in_memory, by_pyarrow),
    "arrow": (in_memory, in_memory),
    "ipc": (as_ipc, as_ipc),
    "pandas": (as_pandas, in_memory),
}

UNPRUNED = {"arrow", "ipc", "pandas"}
"""Sources without statistics of their own."""


def policy() -> dict[str, Any]:
    bounded = {"min": 0, "max": 100}
    columns = {"x": bounded, "f": bounded, "kind": {"values": ["a", "b"]}}
    private = {"unit": "id", "max_rows_per_unit": 1, "columns": columns}
    return {
        "dataset": "reading",
        "search": False,
        "budget": {"epsilon": 10**6, "delta": "1e-6"},
        "tables": {"t": private, "v": private, "p": {"public": True}},
    }


def opened(folder: Path, source: tuple[Writer, Writer], values: Column, more: Sequence[float]) -> dpsql.Connection:
    folder.mkdir(exist_ok=True)
    write, write_public = source
    rows = frame(values, more)
    tables = {"t": write(rows, folder / "t"), "v": write(rows, folder / "v")}
    tables["p"] = write_public(public(), folder / "p")
    return dpsql.connect(tables, policy=policy(), ledger=":memory:", steward=True)


def moves(one: dpsql.Connection, other: dpsql.Connection, prepared: Any) -> list[str]:
    """The statistics that moved by more than they claim."""
    found = []
    before, after = (traced(db, prepared, salt=b"s")[0] for db in (one, other))
    for a, b in zip(before, after, strict=True):
        for first, second in zip(a.statistics, b.statistics, strict=True):
            left, right = _by_key(a, first), _by_key(b, second)
            moved = sum(abs(left.get(key, 0) - right.get(key, 0)) for key in left | right)
            if first.l1 is not None and moved > first.l1:
                found.append(f"{first.name} moved {moved} for a claim of {first.l1}")
    return found


def _by_key(release: ReleaseTrace, statistic: StatisticTrace) -> dict[Any, int]:
    """Scores of an exponential mechanism have no claim in L1; they are compared by the audit."""
    if statistic.l1 is None:
        return {}
    keys: Sequence[Any] = release.keys if len(release.keys) == len(statistic.values) else range(len(statistic.values))
    return dict(zip(keys, statistic.values, strict=True))


@pytest.mark.parametrize("source", SOURCES)
def test_one_unit_decides_about_no_others_row(tmp_path: Path, source: str) -> None:
    """One plan serves all databases: it depends on their schema only."""
    prepared: dict[str, Any] = {}
    found = []
    for number, (base, (values, added)) in enumerate(BASES.items()):
        if source in UNPRUNED and number > 2:
            continue
        with (
            opened(tmp_path / f"{number} without", SOURCES[source], values, []) as one,
            opened(tmp_path / f"{number} with", SOURCES[source], values, [added]) as other,
        ):
            prepared = prepared or {sql: one.prepare(sql) for sql in FORMS}
            found += [f"{base}: {sql}: {text}" for sql in FORMS for text in moves(one, other, prepared[sql])]
    assert found == []


# Bloom filters and old timestamps ---------------------------------------------------------------------------------------

SEARCHED: dict[str, tuple[pa.DataType, list[Any], Any, str, str]] = {
    "whole numbers": (pa.int64(), [10, 20, 60, 90], 50, "50", "70"),
    "doubles": (pa.float64(), [0.0, -0.0, NAN, 9.5], 5.5, "5.5", "7.5"),
    "zeros of two signs": (pa.float64(), [-0.0, -3.0, 9.5], 0.0, "0", "7.5"),
    "texts": (pa.string(), ["a", "b", "y", "z "], "m", "'m'", "'n'"),
    "dates": (pa.date32(), [date(2024, 1, 1), date(2024, 3, 1)], date(2024, 2, 1), "DATE '2024-02-01'", "DATE '2024-02-02'"),
}  # fmt: skip
"""A type, the values of some units, that of the one who is added (inside their range), and it and another one in SQL."""
POINTS = (
    "c = {0}",
    "c = {1}",
    "c IN ({0}, {1})",
    "NOT (c = {0})",
    "c <> {1}",
    "c NOT IN ({0}, {1})",
    "c = {0} OR c IS NULL",
    "c IS NOT DISTINCT FROM {0}",
    "c BETWEEN {0} AND {0}",
    "c >= {0} AND c < {1}",
    "coalesce(c, {0}) = {0}",
    "c IN (SELECT c FROM p)",
    "c NOT IN (SELECT c FROM p)",
    "EXISTS (SELECT 1 FROM p WHERE p.c = t.c)",
)


def bloom_by_pyarrow(table: pa.Table, path: Path) -> Path:
    return by_pyarrow(table, path, bloom_filter_options={"c": {"ndv": 100}}, row_group_size=2000)


def as_int96(table: pa.Table, path: Path) -> Path:
    return by_pyarrow(table, path, use_deprecated_int96_timestamps=True, row_group_size=2000)


def moved(
    folder: Path, write: Writer, rows: tuple[pa.Table, pa.Table], asked: pa.Table, points: list[str]
) -> list[str]:
    """The conditions under which a count, or a count by group, moved by more than it claims between two tables."""
    private = {"unit": "id", "max_rows_per_unit": 1, "columns": {"c": {}, "kind": {"values": ["a", "b"]}}}
    budget = {"epsilon": 10**6, "delta": "1e-6"}
    text = {"dataset": "points", "budget": budget, "tables": {"t": private, "p": {"public": True}}}
    public = by_pyarrow(asked, folder / "p")
    one, other = (
        dpsql.connect({"t": write(each, folder / name), "p": public}, policy=text, ledger=":memory:", steward=True)
        for name, each in zip(("without", "with"), rows, strict=True)
    )
    found = []
    with one, other:
        for point in points:
            for sql in (
                f"SELECT count(*) FROM t WHERE {point}",
                f"SELECT kind, count(*) FROM t WHERE {point} GROUP BY kind",
            ):
                found += [f"{sql}: {text}" for text in moves(one, other, one.prepare(sql))]
    return found


def neighbours(type_: pa.DataType, values: list[Any], added: Any) -> tuple[pa.Table, pa.Table]:
    """Many units with these values or none, and the same with one more."""
    column = [None if i % 7 == 0 else values[i % len(values)] for i in range(3000)]
    rows = [*column, added]
    table = pa.table({"id": list(range(3001)), "c": pa.array(rows, type_), "kind": ["a", "b", "a"] * 1000 + ["a"]})
    return table.slice(0, 3000), table


@pytest.mark.parametrize("write", [bloom_by_pyarrow, by_duckdb])
@pytest.mark.parametrize("kind", SEARCHED)
def test_a_bloom_filter_decides_about_no_row(tmp_path: Path, kind: str, write: Writer) -> None:
    """The value of one unit is in the filter or not; all other rows of its group count the same."""
    type_, values, added, own, never = SEARCHED[kind]
    rows = neighbours(type_, values, added)
    with duckdb.connect() as data:
        asked = f"FROM parquet_metadata('{write(rows[1], tmp_path / 'looked at')}') WHERE path_in_schema = 'c'"
        assert data.execute(f"SELECT bool_and(bloom_filter_offset IS NOT NULL) {asked}").fetchall() == [(True,)]
    public = pa.table({"c": pa.array([added, values[0]], type_)})
    points = [point.format(own, never) for point in POINTS]
    assert moved(tmp_path, write, rows, public, points) == []


@pytest.mark.parametrize(
    "added", ["2024-02-01", "2024-02-01 00:00:00.000001", "1700-01-01", "2262-01-01", "1969-12-31"]
)
def test_an_old_timestamp_decides_about_no_other_row(tmp_path: Path, added: str) -> None:
    """Timestamps of 96 bits have statistics that order them wrongly; they are read one by one."""
    values = [datetime(2024, 1, 1), datetime(2024, 3, 1), datetime(1970, 1, 1), datetime(1850, 6, 1, 23, 59, 59)]
    mine = datetime.fromisoformat(added)
    rows = neighbours(pa.timestamp("ns"), values, mine)
    with duckdb.connect() as data:
        asked = f"FROM parquet_metadata('{as_int96(rows[1], tmp_path / 'looked at')}') WHERE path_in_schema = 'c'"
        assert data.execute(f"SELECT DISTINCT type {asked}").fetchall() == [("INT96",)]
    own, never = f"'{added}'", "'2300-01-01'"
    points = [point.format(own, never) for point in (*POINTS, "c < {0}", "c > {0}", "NOT (c <= {0})", "year(c) = 2024")]
    public = pa.table({"c": pa.array([mine, values[0]], pa.timestamp("us"))})
    assert moved(tmp_path, as_int96, rows, public, points) == []


# files whose statistics are false ---------------------------------------------------------------------------------------

ROWS = 3000
LIES: dict[str, tuple[pa.DataType, list[Any], list[Any], str]] = {
    "bigint": (pa.int64(), [1, 2, 50], [1, 2, 3], "c = 50"),
    "tinyint": (pa.int8(), [1, 2, -50], [1, 2, 3], "c < 0"),
    "unsigned": (pa.uint64(), [1, 2, 2**63], [1, 2, 3], "c > 9"),
    "double": (pa.float64(), [1.0, 2.0, 50.0], [1.0, 2.0, 3.0], "c > 9"),
    "double, NaN": (pa.float64(), [1.0, 2.0, NAN], [1.0, 2.0, 3.0], "isnan(c)"),
    "float": (pa.float32(), [1.0, 2.0, NAN], [1.0, 2.0, 3.0], "c > 9"),
    "text": (pa.string(), ["aa", "bb", "zz"], ["aa", "bb", "cc"], "c = 'zz'"),
    "date": (pa.date32(), [date(2024, 1, 1), date(2024, 2, 1)], [date(2024, 1, 1)], "c > DATE '2024-01-15'"),
    "timestamp": (
        pa.timestamp("us"), [datetime(2024, 1, 1), datetime(2024, 2, 1)], [datetime(2024, 1, 1)], "c > DATE '2024-01-15'"
    ),
    "decimal": (pa.decimal128(9, 2), [Decimal("1.00"), Decimal("50.00")], [Decimal("1.00")], "c > 9"),
    "wide decimal": (pa.decimal128(38, 2), [Decimal("1.00"), Decimal("50.00")], [Decimal("1.00")], "c > 9"),
    "boolean": (pa.bool_(), [True, False], [True], "NOT c"),
}  # fmt: skip
"""A type, the values that a file has, those that its statistics are about, and a condition that only the former meet."""


QUESTIONS = (
    "SELECT count(*) FROM t WHERE {}",
    "SELECT count(*) FILTER (WHERE {}) FROM t",
    "SELECT count(c), count(DISTINCT c), min(c)::VARCHAR, max(c)::VARCHAR FROM t",
    "SELECT c::VARCHAR, count(*) FROM t GROUP BY c ORDER BY ALL",
    "SELECT max(c)::VARCHAR FROM t GROUP BY id % 3 ORDER BY ALL",
    "SELECT count(*) FROM t WHERE c IN (SELECT c FROM t WHERE {})",
    "SELECT count(*) FROM t AS a JOIN (SELECT DISTINCT c FROM t WHERE {}) AS b ON a.c = b.c",
    "SELECT count(*) FROM t AS a WHERE EXISTS (SELECT 1 FROM few AS b WHERE a.c = b.c)",
    "WITH k AS MATERIALIZED (SELECT * FROM t) SELECT count(*) FROM k WHERE {}",
    "SELECT c::VARCHAR FROM t ORDER BY c DESC LIMIT 3",
    "SELECT c::VARCHAR FROM t ORDER BY c LIMIT 3",
    "SELECT count(*) FROM t WHERE c IS NULL OR {}",
)


@pytest.mark.parametrize("kind", LIES)
def test_what_a_file_says_of_its_rows_does_not_matter(tmp_path: Path, kind: str) -> None:
    type_, values, claimed, condition = LIES[kind]
    stored, other = (pa.array([each[i % len(each)] for i in range(ROWS)], type_) for each in (values, claimed))
    stored_rows, claimed_rows = (pa.table({"id": list(range(ROWS)), "c": column}) for column in (stored, other))
    path = write_false(tmp_path / "t.parquet", stored_rows, claimed_rows)
    with duckdb.connect() as files, duckdb.connect() as rows:
        register_files(files, list_files("t", path), None)
        rows.register("given", stored_rows)
        rows.execute("CREATE TABLE t AS FROM given")
        for each in (files, rows):
            each.execute(f"CREATE TEMP TABLE few AS SELECT DISTINCT c FROM t WHERE {condition}")
        for question in QUESTIONS:
            asked = question.format(condition)
            assert files.execute(asked).fetchall() == rows.execute(asked).fetchall(), asked


@pytest.mark.parametrize("kind", SEARCHED)
def test_what_a_bloom_filter_says_does_not_matter(tmp_path: Path, kind: str) -> None:
    """DuckDB itself is misled by these files, but for zeros, which it does not look up."""
    type_, values, added, own, never = SEARCHED[kind]
    rows, claimed = ([each[i % len(each)] for i in range(ROWS)] for each in ([*values, added], [*values, values[0]]))
    stored, other = (pa.table({"id": list(range(ROWS)), "c": pa.array(each, type_)}) for each in (rows, claimed))
    path = write_false_filters(tmp_path / "t.parquet", stored, other, "c")
    wanted = sum(each == added for each in rows)
    with duckdb.connect() as data:
        misled = data.execute(f"SELECT count(*) FROM read_parquet('{path}') WHERE c = {own}").fetchall()
        assert misled == [(wanted if kind == "zeros of two signs" else 0,)]
        register_files(data, list_files("t", path), None)
        for condition in (f"c = {own}", f"c IN ({own}, {never})", f"c IS NOT DISTINCT FROM {own}"):
            assert data.execute(f"SELECT count(*) FROM t WHERE {condition}").fetchall() == [(wanted,)], condition


# the view ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [("file_index",), ("FILENAME", "File_Index"), ("file_index", "file_row_number")])
def test_columns_that_are_named_like_the_readers_own_are_read_as_they_are(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    by_pyarrow(pa.table({name: pa.array([None, 2**63 - 1], pa.int64()) for name in names}), tmp_path / "t")
    with duckdb.connect() as data:
        register_files(data, list_files("t", tmp_path / "t.parquet"), None)
        assert data.execute("FROM t ORDER BY ALL").fetchall() == [(2**63 - 1,) * len(names), (None,) * len(names)]


def test_a_file_that_leaves_no_name_is_refused(tmp_path: Path) -> None:
    by_pyarrow(pa.table({name: [1] for name in ("file_index", "filename", "file_row_number")}), tmp_path / "t")
    with duckdb.connect() as data, pytest.raises(InterfaceError, match="rename one of these columns"):
        register_files(data, list_files("t", tmp_path / "t.parquet"), None)


def test_the_types_of_columns_stay_as_they_are(tmp_path: Path) -> None:
    """Also of those that are nested, empty or all NULL; and nothing is believed of a range that was not found."""
    table = pa.table({
        "s": pa.array([{"a": 1}, None]), "l": pa.array([[1.5], None]), "n": pa.array([None, None], pa.int16()),
        "b": pa.array([b"x", None]), "t": pa.array([1, None], pa.time64("us")), "q": pa.array([True, None]),
        "it's": pa.array([2**64 - 1, None], pa.uint64()), "s.a": pa.array([3, 4]),
        'a"b': pa.array([-(2**63), 2**63 - 1], pa.int64()),
    })  # fmt: skip
    for name, rows in (("t", table), ("none", table.slice(0, 0))):
        path = by_pyarrow(rows, tmp_path / name)
        with duckdb.connect() as data:
            register_files(data, list_files("t", path), None)
            found, wanted = (
                data.execute(f"DESCRIBE {source}").fetchall() for source in ("t", f"FROM read_parquet('{path}')")
            )
            assert [row[:2] for row in found] == [row[:2] for row in wanted]
            assert data.execute("FROM t").fetchall() == data.execute(f"FROM read_parquet('{path}')").fetchall()


def test_a_duckdb_that_looks_through_the_view_is_not_read_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = by_pyarrow(pa.table({"id": [1, 2], "x": [1.5, NAN]}), tmp_path / "t")
    monkeypatch.setattr(parquet, "_screened", lambda name, *_: f'"{name}"')
    with duckdb.connect() as data, pytest.raises(InternalError, match="uses the statistics"):
        register_files(data, list_files("t", path), None)


def test_partitions_still_leave_out_whole_files(tmp_path: Path) -> None:
    for year in (2020, 2021, 2022):
        (tmp_path / f"year={year}").mkdir()
        by_pyarrow(pa.table({"id": [year], "x": [1.5]}), tmp_path / f"year={year}" / "a")
    with duckdb.connect() as data:
        register_files(data, list_files("t", tmp_path), {"year": "BIGINT"})
        [(_, plan)] = data.execute("EXPLAIN ANALYZE SELECT sum(x) FROM t WHERE year = 2021").fetchall()
        assert "Total Files Read: 1" in plan


@pytest.mark.parametrize("kind", ["ducklake", "iceberg", "sqlite", "postgres"])
def test_a_database_that_another_system_stores_is_refused(kind: str) -> None:
    """Its extension is not installed where these tests run: the answer that DuckDB gives for one is judged."""
    with pytest.raises(InterfaceError, match="not stored by DuckDB"):
        require_own_storage([(kind,)])
    with duckdb.connect() as own:
        assert DuckDBEngine(own).schema() == {}
