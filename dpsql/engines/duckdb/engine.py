"""DuckDB as an engine: a locked-down connection that sees private data, and nothing of the analyst's text."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import numpy as np

from dpsql.budget.allocate import Priced
from dpsql.engines.base import Engine, Exact, PublicRows, Weights
from dpsql.engines.duckdb.emit import emit
from dpsql.engines.duckdb.histogram import emit_histogram
from dpsql.engines.duckdb.literals import quote
from dpsql.engines.duckdb.public import PublicReader
from dpsql.engines.duckdb.released import placed
from dpsql.engines.duckdb.stop import stopped_after
from dpsql.errors import EngineError, InterfaceError
from dpsql.expressions.types import Kind, from_engine
from dpsql.plan.released import Content
from dpsql.policy import Policy, fold
from dpsql.policy.check import constraint_facts
from dpsql.sensitivity.bound import Bounded

log = logging.getLogger("dpsql.steward")

LOCKED: dict[str, str | bool | int | float | list[str]] = {
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
}
_AS_ARRAYS = {
    "BOOLEAN": "false", "TINYINT": "0", "SMALLINT": "0", "INTEGER": "0", "BIGINT": "0", "UTINYINT": "0",
    "USMALLINT": "0", "UINTEGER": "0", "UBIGINT": "0", "FLOAT": "0", "DOUBLE": "0",
}  # fmt: skip
"""Types that NumPy has too, with what stands where the value is NULL; all others are handed over as text."""
Source = str | os.PathLike[str] | duckdb.DuckDBPyConnection | Mapping[str, Any]


class DuckDBEngine(Engine):
    """A database file (opened read-only), the caller's own connection, or a set of frames and files."""

    def __init__(self, source: Source) -> None:
        self._frames, self._lock = isinstance(source, Mapping), threading.Lock()
        if isinstance(source, duckdb.DuckDBPyConnection):
            self._connection, self._label, self._file = source.cursor(), f"connection:{uuid4()}", None
        elif isinstance(source, Mapping):
            self._connection, self._label, self._file = _frames(source), f"frames:{uuid4()}", None
        else:
            self._file = Path(source)
            self._connection, self._label = _open(self._file)
        _settle(self._connection)
        self._schema = _describe(self._connection, views=self._frames)
        self._public = PublicReader(self._running, self._schema, lasting=self.verifiable)

    def schema(self) -> Mapping[str, Mapping[str, str]]:
        return self._schema

    def version(self) -> str:
        return self._label

    def constraints(self, policy: object) -> frozenset[tuple[str, str]]:
        assert isinstance(policy, Policy)
        return frozenset((fold(table), fact) for table, fact in constraint_facts(self._connection, policy))

    @property
    def verifiable(self) -> bool:
        return self._file is not None

    @property
    def live(self) -> bool:
        return self._file is None and not self._frames

    def look_again(self) -> None:
        with self._running() as cursor:
            found = _describe(cursor, views=self._frames)
        self._schema.clear()
        self._schema.update(found)
        self._public.forget()

    @property
    def public(self) -> PublicReader:
        return self._public

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """For the steward's own commands, such as `dpsql check`."""
        return self._connection

    def emit(self, release: Priced, salt: bytes | None) -> str:
        return ";\n".join(self._statements(release, "<secret salt>" if salt is None else salt.hex()))

    def _statements(self, release: Priced, salt: str) -> list[str]:
        """The query of the statistics and of the selection, if there are any, and one for each histogram."""
        totals = [emit(release, self._schema, salt)] if release.noised or release.selection is not None else []
        return totals + [emit_histogram(release.bounded, h, self._schema) for h in release.bounded.histograms]

    def run(
        self,
        release: Priced,
        salt: bytes,
        contents: Mapping[str, Content] | None = None,
        seconds: float | None = None,
    ) -> Exact:
        statements = self._statements(release, salt.hex())
        try:
            with (
                self._running() as cursor,
                placed(cursor, release.bounded.release.source, contents or {}),
                stopped_after(seconds, cursor),
            ):
                return _exact(release, cursor, statements)
        except Exception as problem:
            log.error("a release failed: %s", type(problem).__name__)
            log.debug("the engine said: %s", problem)
        raise EngineError

    def read_public(self, table: str, columns: Sequence[str]) -> PublicRows:
        stored = self._schema[fold(table)]
        types = {column: "VARCHAR" if _is_text(stored[column]) else stored[column] for column in columns}
        listed = [part for i, c in enumerate(columns) for part in _as_array(quote(c), types[c], i)]
        with self._running() as cursor:
            read = cursor.execute(f"SELECT {', '.join(listed)} FROM {quote(table)}").fetchnumpy()
        named = list(enumerate(columns))
        return PublicRows(
            {c: np.ma.getdata(read[f"v{i}"]) for i, c in named},
            {c: np.ma.getdata(read[f"n{i}"]) for i, c in named}, types,
        )  # fmt: skip

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _running(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor of its own for each query; registered frames are seen by one connection only, so they take turns."""
        if self._frames:
            with self._lock:
                yield self._connection
            return
        with self._connection.cursor() as cursor:
            _settle(cursor)
            yield cursor


def _as_array(column: str, type_: str, number: int) -> tuple[str, str]:
    """The SELECT items that hand a column over without change: its values, and where it is NULL."""
    blank = _AS_ARRAYS.get(type_)
    value = f"coalesce({column}::VARCHAR, '')" if blank is None else f"coalesce({column}, {blank}::{type_})"
    return f"{value} AS v{number}", f"{column} IS NULL AS n{number}"


def _is_text(type_: str) -> bool:
    """What dpsql takes for text, whatever the database takes it for."""
    known = from_engine(type_)
    return known is not None and known.kind is Kind.TEXT


SETTINGS = {"TimeZone": "Etc/UTC", "ieee_floating_point_ops": True, "integer_division": False, "default_collation": ""}
"""What the emitted SQL relies on: dates in UTC, arithmetic that does not raise, text compared byte by byte."""


def _settle(connection: duckdb.DuckDBPyConnection) -> None:
    """Put the settings of this session, and of no other, to what the emitted SQL relies on."""
    asked = ", ".join(f"current_setting('{name}')" for name in SETTINGS)
    found = connection.execute(f"SELECT {asked}").fetchall()[0]
    for (name, value), now in zip(SETTINGS.items(), found, strict=True):
        if now != value:
            try:
                connection.execute(f"SET SESSION {name} = '{value}'")
            except duckdb.Error as problem:
                raise InterfaceError(
                    f"the database's setting {name} is locked to a value under which answers are not safe",
                    hint=f"set it to {value!r} before the configuration is locked",
                ) from problem


def _open(path: Path) -> tuple[duckdb.DuckDBPyConnection, str]:
    """The file, and the label of the version that was opened: its time stamp, which a swapped-in file changes."""
    if not path.is_file():
        raise InterfaceError(f"there is no database file {path}", hint="check the path; it is never created here")
    config = {**LOCKED, "enable_external_access": "false", "lock_configuration": "false"}
    try:
        before = path.stat()
        connection = duckdb.connect(str(path), read_only=True, config=config)
        after = path.stat()
    except duckdb.Error as problem:
        shared = "different configuration" in str(problem)
        who = "this process has it open already, with other settings" if shared else type(problem).__name__
        raise InterfaceError(
            f"the database {path} cannot be opened read-only: {who}",
            hint=f"close {'that connection' if shared else 'other connections that write to it'}, or pass your own: "
            "dpsql.connect(connection, …)",
        ) from problem
    if (before.st_mtime_ns, before.st_ino) != (after.st_mtime_ns, after.st_ino):
        connection.close()
        raise InterfaceError(f"the database {path} changed while it was opened", hint="connect again")
    return connection, f"file:{after.st_mtime_ns}:{after.st_size}"


def _frames(tables: Mapping[str, Any]) -> duckdb.DuckDBPyConnection:
    """An in-memory database over data frames, Arrow tables and Parquet files, one table each.

    What cannot be read fails here, in the steward's sight, and not in a query: a frame with object columns is copied,
    an Arrow table validated, the text of a file decoded.
    """
    connection = duckdb.connect(":memory:", config=LOCKED)
    files = [str(t) for t in tables.values() if isinstance(t, str | os.PathLike)]
    for name, table in tables.items():
        try:
            if isinstance(table, str | os.PathLike):
                path = str(table).replace("'", "''")
                connection.execute(f"CREATE VIEW {quote(name)} AS SELECT * FROM read_parquet('{path}')")
                _decode(connection, name)
            elif "object" in {str(type_) for type_ in getattr(table, "dtypes", ())}:
                connection.register("_incoming", table)
                connection.execute(f"CREATE TABLE {quote(name)} AS SELECT * FROM _incoming")
                connection.unregister("_incoming")
            else:
                if hasattr(table, "validate"):
                    table.validate(full=True)
                connection.register(name, table)
        except (duckdb.Error, ValueError) as problem:
            what = f"the file {table}" if isinstance(table, str | os.PathLike) else f"the frame {name}"
            raise InterfaceError(
                f"{what} cannot be read as a table",
                hint="give Parquet files, Arrow tables, or frames whose columns each hold one type",
            ) from problem
    if files:
        listed = ", ".join("'" + f.replace("'", "''") + "'" for f in files)
        connection.execute(f"SET allowed_paths = [{listed}]")
    connection.execute("SET enable_external_access = false")
    return connection


def _decode(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Read all text once: bytes that are no text fail now, in the steward's sight, and not in some of the queries."""
    described = connection.execute(f"DESCRIBE {quote(name)}").fetchall()
    text = [quote(column) for column, type_, *_ in described if type_ == "VARCHAR"]
    if text:
        connection.execute(f"SELECT count(*) FROM {quote(name)} WHERE hash({', '.join(text)}) = 0").fetchall()


def _describe(connection: duckdb.DuckDBPyConnection, *, views: bool) -> dict[str, dict[str, str]]:
    """Columns and types of the tables that a bare name means here.

    A view may mix the rows of different units, so it is no table; only those that `_frames` made itself are.
    """
    kinds = "('BASE TABLE', 'LOCAL TEMPORARY', 'VIEW')" if views else "('BASE TABLE', 'LOCAL TEMPORARY')"
    rows = connection.execute(
        "SELECT c.table_catalog = 'temp', c.table_name, c.column_name, c.data_type FROM information_schema.columns c "
        "JOIN information_schema.tables t USING (table_catalog, table_schema, table_name) "
        "WHERE c.table_schema = 'main' AND c.table_catalog IN (current_database(), 'temp') "
        f"AND t.table_type IN {kinds} ORDER BY c.table_name, c.ordinal_position"
    ).fetchall()
    hidden = {fold(table) for temporary, table, _, _ in rows if temporary}
    schema: dict[str, dict[str, str]] = {}
    for temporary, table, column, type_ in rows:
        if temporary or fold(table) not in hidden:
            schema.setdefault(fold(table), {})[column] = type_
    return schema


def _exact(release: Priced, cursor: duckdb.DuckDBPyConnection, statements: Sequence[str]) -> Exact:
    """The results as integers."""
    bounded = release.bounded
    split = len(statements) - len(bounded.histograms)
    totals = cursor.execute(statements[0]) if split else None
    if bounded.public:
        exact = _public(bounded, totals)
    else:
        assert totals is not None
        exact = _private(release, totals)
    places = {_identity(key): i for i, key in enumerate(exact.keys)} if bounded.histograms else {}
    histograms = [_weights(bounded, cursor.execute(text), places) for text in statements[split:]]
    return replace(exact, histograms=tuple(histograms))


def _public(bounded: Bounded, cursor: duckdb.DuckDBPyConnection | None) -> Exact:
    """Every public key is there, with zero where the engine had no row."""
    keys = tuple(product(*(key.values or () for key in bounded.keys)))
    if cursor is None:
        return Exact(keys, (), None)
    size = len(keys)
    columns = cursor.fetchnumpy()
    codes = np.asarray(columns["g"], dtype=np.int64) if bounded.keys else np.zeros(1, dtype=np.int64)
    values = []
    for number in range(len(bounded.statistics)):
        total = np.zeros(size, dtype=np.int64)
        total[codes] = np.asarray(columns[f"z{number}"], dtype=np.int64)
        values.append(total)
    return Exact(keys, tuple(values), None)


def _weights(bounded: Bounded, cursor: duckdb.DuckDBPyConnection, places: Mapping[tuple[str, ...], int]) -> Weights:
    """A histogram, sorted by group and cell; private keys that are no candidates are left out."""
    if bounded.public:
        columns = cursor.fetchnumpy()
        cells, weights = (np.asarray(columns[name], dtype=np.int64) for name in ("cell", "h"))
        groups = np.asarray(columns["g"], dtype=np.int64) if bounded.keys else np.zeros(len(cells), dtype=np.int64)
    else:
        rows = [(places.get(_identity(row[:-2])), *row[-2:]) for row in cursor.fetchall()]
        found = np.array([row for row in rows if row[0] is not None], dtype=np.int64).reshape(-1, 3)
        groups, cells, weights = found[:, 0], found[:, 1], found[:, 2]
    order = np.lexsort((cells, groups))
    return Weights(groups[order], cells[order], weights[order])


def _identity(key: Sequence[Any]) -> tuple[str, ...]:
    """A key by which it is found again: NaN is equal to itself here."""
    return tuple(f"{type(value).__name__} {value!r}" for value in key)


def _private(release: Priced, cursor: duckdb.DuckDBPyConnection) -> Exact:
    """Keys to which nobody gives weight are no candidates: a unit over its cap would only make the answer late."""
    width = len(release.bounded.keys)
    rows = [row for row in cursor.fetchall() if row[width] > 0]
    rows.sort(key=lambda row: tuple((v is None, v != v, 0 if v != v else v) for v in row[:width]))
    keys = tuple(row[:width] for row in rows)
    statistics = len(release.bounded.statistics)
    numbers = np.array([row[width:] for row in rows], dtype=np.int64).reshape(len(rows), 1 + statistics)
    values = tuple(numbers[:, 1 + i] for i in range(statistics))
    return Exact(keys, values, numbers[:, 0])
