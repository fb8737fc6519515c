"""Frames and files as tables of an in-memory database. What cannot be read fails here, in the steward's sight.

**Theorem.** Whether a query on these tables succeeds does not depend on their rows. **Proof.** Parquet files have the
same columns of the same types, and all that is not stored as DuckDB has it in memory was decoded once (text, decimals,
moments: those in seconds or milliseconds overflow microseconds); an Arrow table or file was validated in full, and its
moments were converted once; a CSV file was parsed in full, into a table, by rules that its content does not choose; a
frame with object columns was copied, those of a private frame in the types of the policy
(`dpsql.engines.duckdb.object_columns`). Text becomes another type by TRY_CAST only. **Requires** that the files stay as
they are: their stamps are compared before and after each query. **Checked by** `tests/unit/engines/test_lake.py` and
`tests/privacy/test_found_in_copies_and_sources.py`.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import duckdb

from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.duckdb.object_columns import as_text_columns, is_pandas, object_columns
from dpsql.engines.duckdb.parquet import create_view, hive_sql, partitions_sql, paths_sql
from dpsql.engines.duckdb.table_files import NOTHING, Files, remember
from dpsql.errors import InterfaceError
from dpsql.expressions.types import Kind, from_engine
from dpsql.policy.identifiers import fold

_DECODED: dict[object, None] = {}
"""Files whose text this process has read already, by their stamps."""


def register_table(
    connection: duckdb.DuckDBPyConnection, name: str, table: Any, types: Mapping[str, str | None] | None = None
) -> None:
    """A frame or an Arrow table under a name; `types`, by folded name, are for columns of objects in a private one."""
    if types is not None and is_pandas(table) and object_columns(table):
        return _register_objects(connection, name, table, types)
    if "object" in {str(type_) for type_ in getattr(table, "dtypes", ())}:
        return _copy(connection, name, table, "*")
    if hasattr(table, "validate"):
        table.validate(full=True)
    elif hasattr(table, "to_batches"):
        for batch in table.to_batches():
            batch.validate(full=True)
    connection.register(name, table)
    _decode(connection, name, [Kind.DATE, Kind.TIMESTAMP])
    return None


def require_dtypes(connection: duckdb.DuckDBPyConnection, name: str, table: Any) -> None:
    """Refuse a frame of pandas with a dtype that DuckDB cannot read, by the column's name; no row is looked at.

    Columns of objects and categories are not tried: DuckDB would look at what they hold.
    """
    if not is_pandas(table):
        return
    untyped = set(object_columns(table))
    empty = table.iloc[:0, [place for place, column in enumerate(table.columns) if str(column) not in untyped]]
    if _takes(connection, empty):
        return
    for place, (column, dtype) in enumerate(zip(empty.columns, empty.dtypes, strict=True)):
        if not _takes(connection, empty.iloc[:, [place]]):
            raise InterfaceError(
                f"the column {column} of the frame {name} has dtype {dtype}, which DuckDB cannot read",
                hint=f'convert the column, for example df.astype({{"{column}": "string"}}), or leave it out: '
                f'df.drop(columns="{column}")',
            )


def _takes(connection: duckdb.DuckDBPyConnection, empty: Any) -> bool:
    try:
        connection.register("_empty", empty)
        connection.unregister("_empty")
    except duckdb.Error:
        return False
    return True


def _register_objects(
    connection: duckdb.DuckDBPyConnection, name: str, frame: Any, types: Mapping[str, str | None]
) -> None:
    """A copy of a private frame, in which the columns of objects have the types that the policy states."""
    texts, read = set(object_columns(frame)), as_text_columns(frame, types)
    listed = [
        f"TRY_CAST({DUCKDB.quote(column)} AS {types[fold(column)]}) AS {DUCKDB.quote(column)}"
        if column in texts
        else DUCKDB.quote(column)
        for column in read.columns
    ]
    _copy(connection, name, read, ", ".join(listed))


def _copy(connection: duckdb.DuckDBPyConnection, name: str, frame: Any, columns: str) -> None:
    """A table of its own, with these columns of a frame."""
    connection.register("_incoming", frame)
    connection.execute(f"CREATE TABLE {DUCKDB.quote(name)} AS SELECT {columns} FROM _incoming")
    connection.unregister("_incoming")


def register_files(connection: duckdb.DuckDBPyConnection, files: Files, types: Mapping[str, str] | None) -> None:
    """Files as a table; `types`, by folded name, are of columns that come as text (None: as DuckDB takes them)."""
    if files.format == "arrow":
        return _arrow(connection, files)
    if files.remote:
        _load_remote(connection, files)
    if files.format == "csv":
        return _csv(connection, files, types)
    if not files.remote:
        _same_columns(connection, files)
    create_view(connection, files, types)
    kinds = [Kind.TEXT, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP]
    _once(files, lambda: _decode(connection, files.table, kinds))
    return None


def _cast(files: Files, types: Mapping[str, str] | None, read: str) -> str:
    """The columns of the files, and those in the names of their directories in the types that the policy says."""
    if not files.partitions:
        return f"SELECT * FROM {read}"
    quoted = ", ".join(map(DUCKDB.quote, files.partitions))
    return f"SELECT * EXCLUDE ({quoted}), {', '.join(partitions_sql(files, types))} FROM {read}"


def _same_columns(connection: duckdb.DuckDBPyConnection, files: Files) -> None:
    """Refuse files of one table that have other columns than the first, or other types.

    Of a column with a logical type the older name for it (`converted_type`) says nothing more, and not all write it.
    """
    rows = connection.execute(
        "SELECT file_name, list((name, type, duckdb_type, CASE WHEN logical_type IS NULL THEN converted_type END, "
        "logical_type, scale, precision, num_children)::VARCHAR ORDER BY name), list(name ORDER BY name) "
        f"FROM parquet_schema({paths_sql(files)}) WHERE column_id > 0 GROUP BY file_name"
    ).fetchall()
    columns = {path: list(zip(names, types, strict=True)) for path, types, names in rows}
    first = columns.get(files.paths[0], [])
    for path in files.paths[1:]:
        if (others := columns.get(path, [])) != first:
            differing = sorted({name for name, _ in {*first} ^ {*others}})
            raise InterfaceError(
                f"the files of the table {files.table} have different columns: {path} and {files.paths[0]} "
                f"differ in {', '.join(differing)}",
                hint="write them with the same column names and types, or name those that belong together by a pattern",
            )


def _once(files: Files, read: Callable[[], None]) -> None:
    """Read files that this process has not read as they are now; those of another machine tell nothing, so always.

    The stamp is the one from before: files that are changed meanwhile are read again.
    """
    stamp = files.stamp
    if not stamp or stamp not in _DECODED:
        read()
        remember(_DECODED, stamp, None)


def _decode(connection: duckdb.DuckDBPyConnection, table: str, kinds: Collection[Kind]) -> None:
    """Read columns of some kinds once: what DuckDB cannot take fails now, in the steward's sight, and not in some of
    the queries. (Wide decimals are known as numbers; what dpsql has no type for is never read.)
    """
    described = connection.execute(f"DESCRIBE {DUCKDB.quote(table)}").fetchall()
    known = [(column, type_, from_engine(type_)) for column, type_, *_ in described]
    wide = [column for column, type_, _ in known if Kind.DECIMAL in kinds and type_.startswith("DECIMAL")]
    read = [*wide, *(column for column, _, found in known if found is not None and found.kind in kinds)]
    if read:
        listed = ", ".join(map(DUCKDB.quote, dict.fromkeys(read)))
        connection.execute(f"SELECT count(*) FROM {DUCKDB.quote(table)} WHERE hash({listed}) = 0").fetchall()


# text files -----------------------------------------------------------------------------------------------------------


def _csv(connection: duckdb.DuckDBPyConnection, files: Files, types: Mapping[str, str] | None) -> None:
    """A table of its own, parsed once and in full: a header, commas (tabs in .tsv), quotes doubled inside quotes.

    With `types` only the columns that they name are kept; without, all of them, as DuckDB takes them.
    """
    name = DUCKDB.quote(files.table)
    delimiter = "\t" if any(".tsv" in Path(path).suffixes for path in files.paths) else ","
    settled = f"header = true, delim = {DUCKDB.text(delimiter)}, quote = '\"', escape = '\"', strict_mode = true"
    if types is None:
        read = f"read_csv({paths_sql(files)}, {settled}, sample_size = -1{hive_sql(files)})"
        connection.execute(f"CREATE TABLE {name} AS {_cast(files, types, read)}")
        return
    header = _header(files, delimiter)
    columns = ", ".join(f"{DUCKDB.text(column)}: 'VARCHAR'" for column in header)
    read = f"read_csv({paths_sql(files)}, {settled}, auto_detect = false, columns = {{{columns}}}{hive_sql(files)})"
    kept = [
        f"{_told(column, types[fold(column)], files)} AS {DUCKDB.quote(column)}"
        for column in dict.fromkeys((*header, *files.partitions))
        if fold(column) in types
    ]
    if not kept:
        raise InterfaceError(
            f"the files of the table {files.table} have none of the policy's columns", hint=f"columns: {header}"
        )
    connection.execute(f"CREATE TABLE {name} AS SELECT {', '.join(kept)} FROM {read}")


def _told(column: str, type_: str, files: Files) -> str:
    """A column of text in a type. A bare TRY_CAST would be done by the reader of the file, where it raises."""
    nothing = NOTHING if column in files.partitions else ""
    return f"TRY_CAST(nullif({DUCKDB.quote(column)}, {DUCKDB.text(nothing)}) AS {type_})"


def _header(files: Files, delimiter: str) -> list[str]:
    """The names in the first line, which all files share."""
    headers = {path: _first_line(path, delimiter) for path in files.paths}
    first = headers[files.paths[0]]
    for path, header in headers.items():
        if header != first or len(set(map(fold, header))) != len(header) or not header:
            raise InterfaceError(
                f"the first line of {path} does not name the columns of the table {files.table}, each once",
                hint="give every file the same header line",
            )
    return first


def _first_line(path: str, delimiter: str) -> list[str]:
    opened = gzip.open if path.endswith(".gz") else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as text:
            return next(csv.reader(text, delimiter=delimiter, strict=True), [])
    except (csv.Error, UnicodeDecodeError):
        return []


# other files ----------------------------------------------------------------------------------------------------------


def _arrow(connection: duckdb.DuckDBPyConnection, files: Files) -> None:
    """Arrow files (IPC) as one dataset, read in batches; each batch is validated once."""
    try:
        from pyarrow import dataset
    except ImportError:
        raise InterfaceError(
            f"the files of the table {files.table} are Arrow files", hint="install `dpsql[arrow]`, or write Parquet"
        ) from None
    if files.partitions:
        raise InterfaceError(
            f"the Arrow files of the table {files.table} are partitioned", hint="write Parquet, where partitions work"
        )
    made = dataset.dataset(list(files.paths), format="ipc")
    if any(part.physical_schema != made.schema for part in made.get_fragments()):
        raise InterfaceError(
            f"the files of the table {files.table} have different columns",
            hint="write them with the same column names and types",
        )
    connection.register(files.table, made)

    def read() -> None:
        for batch in made.to_batches():
            batch.validate(full=True)
        _decode(connection, files.table, [Kind.DATE, Kind.TIMESTAMP])

    _once(files, read)


def _load_remote(connection: duckdb.DuckDBPyConnection, files: Files) -> None:
    """DuckDB reads other machines' files by an extension, which is loaded if it is installed, and never fetched."""
    try:
        connection.execute("LOAD httpfs")
    except duckdb.Error:
        raise InterfaceError(
            f"{files.paths[0]} is on another machine, and DuckDB's extension httpfs is not installed here",
            hint="let the steward install it once for this DuckDB (`INSTALL httpfs`), or copy the files here",
        ) from None
