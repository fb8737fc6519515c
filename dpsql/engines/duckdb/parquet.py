"""Parquet files as views, through which DuckDB sees the rows and none of the statistics that writers left in the files.

A Parquet file says of each row group and column the least and the greatest value, how many are NULL, and perhaps which
values may occur (Bloom filters, page indexes). DuckDB skips row groups, folds conditions, answers `min` and `max` and
narrows joins by these statistics. They need not be true in DuckDB's order: writers leave out NaN, which DuckDB puts
above all numbers; 0.0 and -0.0 are equal but have two hashes; a writer may simply be wrong. Then one row, by what it
adds to the statistics, decides whether other rows are read.

**Theorem.** Whether a query reads a row of a Parquet file depends on that row alone, whatever the file says of itself.
**Proof.** (1) The planner's statistics of each column are those that are handed to it here (`column_statistics` takes
the place of the file's): nothing at all, or for whole numbers the range and the number of NULLs that were measured by
a scan of this very view without them. A condition that is folded by a true statement about all rows has for each row
the value that it would have had. (2) No column leaves the view bare, but as a CASE over two columns of the scan. What
the reader itself decides by statistics, Bloom filters and page indexes are conditions on one stored column: those in a
query, those that a join or a sort finds at run time, and totals over a bare column. None of them can be put to the
scan; they are evaluated on rows. (3) The CASE gives the stored value, since no file has the index 2⁶³ − 1. It is
compared once for a batch of rows, not for each. (4) A partition is in the path of a file, so all of
its rows have that value: leaving out a file by its path leaves out rows by their own value.
**Requires** that files stay as they were measured (their stamps are compared before and after each query, and those of
other machines are not measured), and that DuckDB does not look through the CASE: its plan is asked when a view is made.
**Checked by** `tests/privacy/test_rows_read_alone.py`, also with files whose statistics are false.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import duckdb

from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.duckdb.table_files import NOTHING, Files, remember
from dpsql.errors import InterfaceError, InternalError
from dpsql.policy.identifiers import fold

_WHOLE = frozenset({
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
})  # fmt: skip
_BESIDE = ("file_index", "file_row_number", "filename")
"""Columns that the reader adds to a file, unless the file has one of that name."""


@dataclass(frozen=True, slots=True)
class Range:
    """What a scan found in a column of whole numbers."""

    least: int
    greatest: int
    nulls: int


Ranges = Mapping[str, Range]
_MEASURED: dict[object, Ranges] = {}
"""What this process has measured, by the files' stamps."""


def create_view(connection: duckdb.DuckDBPyConnection, files: Files, types: Mapping[str, str] | None) -> None:
    """Make the view; `types`, by folded name, are those of partitions, which come as text."""
    scan = f"read_parquet({paths_sql(files)}{hive_sql(files)})"
    described = connection.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()
    apart = {fold(name) for name in files.partitions}
    stored = {name: type_ for name, type_, *_ in described if fold(name) not in apart}
    _require_own_names(connection, files, stored)
    _create(connection, files, types, stored, {})
    ranges = _measured(connection, files, stored)
    if ranges:
        _create(connection, files, types, stored, ranges)
    _check(connection, files.table, stored)


def _require_own_names(connection: duckdb.DuckDBPyConnection, files: Files, stored: Iterable[str]) -> None:
    """Refuse files with two columns of one name: DuckDB calls the second by another, which the policy may mean."""
    asked = f"SELECT DISTINCT name FROM parquet_schema({paths_sql(files)})"
    written = {name for (name,) in connection.execute(asked).fetchall()}
    if any(name not in written for name in stored):
        raise InterfaceError(
            f"the files of the table {files.table} have two columns of one name (upper and lower case are the same)",
            hint="rename one of these columns",
        )


def _create(
    connection: duckdb.DuckDBPyConnection,
    files: Files,
    types: Mapping[str, str] | None,
    stored: Mapping[str, str],
    ranges: Ranges,
) -> None:
    told = ", ".join(f"{DUCKDB.text(DUCKDB.quote(name))}: {_statistics(ranges.get(name))}" for name in stored)
    never = _never(files, stored)
    listed = [f"{_screened(name, never, ranges.get(name))} AS {DUCKDB.quote(name)}" for name in stored]
    listed += partitions_sql(files, types)
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW {DUCKDB.quote(files.table)} AS SELECT {', '.join(listed)} "
        f"FROM read_parquet({paths_sql(files)}{hive_sql(files)}, column_statistics = MAP {{{told}}})"
    )


def _screened(name: str, never: str, found: Range | None) -> str:
    """A column behind a condition that never holds; the value of that branch lies within the range of the column."""
    other = "NULL" if found is None else str(found.least)
    return f"CASE WHEN {never} THEN {other} ELSE {DUCKDB.quote(name)} END"


def _statistics(found: Range | None) -> str:
    """A column's statistics for the planner; an empty map means that nothing is known."""
    if found is None:
        return "MAP {}"
    return f"MAP {{'min': '{found.least}', 'max': '{found.greatest}', 'null_count': '{found.nulls}'}}"


def _never(files: Files, stored: Iterable[str]) -> str:
    taken = {fold(name) for name in (*stored, *files.partitions)}
    beside = next((name for name in _BESIDE if name not in taken), None)
    if beside is None:
        raise InterfaceError(
            f"the files of the table {files.table} have columns named {', '.join(_BESIDE)}",
            hint="rename one of these columns",
        )
    return f"{beside} = {DUCKDB.text('') if beside == 'filename' else 2**63 - 1}"


def _measured(connection: duckdb.DuckDBPyConnection, files: Files, stored: Mapping[str, str]) -> Ranges:
    """The ranges of columns of whole numbers, by a scan of the view without statistics; for files that have a stamp.

    The stamp is the one from before: files that change meanwhile are measured again.
    """
    stamp = files.stamp
    if stamp and stamp not in _MEASURED:
        whole = [name for name in stored if stored[name] in _WHOLE]
        remember(_MEASURED, stamp, _measure(connection, files.table, whole))
    return _MEASURED.get(stamp, {})


def _measure(connection: duckdb.DuckDBPyConnection, table: str, columns: list[str]) -> Ranges:
    if not columns:
        return {}
    asked = ", ".join(f"min({c}), max({c}), count(*) - count({c})" for c in map(DUCKDB.quote, columns))
    [found] = connection.execute(f"SELECT {asked} FROM {DUCKDB.quote(table)}").fetchall()
    triples = zip(columns, found[::3], found[1::3], found[2::3], strict=True)
    return {name: Range(least, greatest, nulls) for name, least, greatest, nulls in triples if least is not None}


def _check(connection: duckdb.DuckDBPyConnection, table: str, stored: Mapping[str, str]) -> None:
    """Refuse to go on if DuckDB's plans for a column of each type show that it uses the statistics of the files."""
    for name in {type_: name for name, type_ in stored.items()}.values():
        column = DUCKDB.quote(name)
        asked = f"SELECT max({column}) FROM {DUCKDB.quote(table)} WHERE {column} IS NOT NULL"
        [(_, plan)] = connection.execute(f"EXPLAIN (FORMAT json) {asked}").fetchall()
        if '"Filters"' in plan or "READ_PARQUET" not in plan:
            raise InternalError("this version of DuckDB uses the statistics of Parquet files through dpsql's views")


# parts of the text, shared with text files ----------------------------------------------------------------------------


def paths_sql(files: Files) -> str:
    """The files as a list."""
    return f"[{', '.join(map(DUCKDB.text, files.paths))}]"


def hive_sql(files: Files) -> str:
    """The option by which the names of directories are columns or not; their values stay text."""
    return f", hive_partitioning = {str(bool(files.partitions)).lower()}, hive_types_autocast = false"


def partitions_sql(files: Files, types: Mapping[str, str] | None) -> list[str]:
    """The columns in the names of directories, in the types that the policy says."""
    quoted = [DUCKDB.quote(name) for name in files.partitions]
    wanted = [(types or {}).get(fold(name), "VARCHAR") for name in files.partitions]
    return [
        f"TRY_CAST(nullif({name}, {DUCKDB.text(NOTHING)}) AS {type_}) AS {name}"
        for name, type_ in zip(quoted, wanted, strict=True)
    ]
