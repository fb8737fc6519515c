"""The DuckDB engine: a locked-down connection that reads private data and never sees the analyst's SQL."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import numpy as np

from dpsql.budget.ledger.reservation import Warrant
from dpsql.budget.pricing import Priced
from dpsql.cancellation import interruptible, run_after
from dpsql.engines.base import Engine, PublicRows, Resources
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.duckdb.open import Placed, open_file, open_frames, open_tables, open_to_copy, settle
from dpsql.engines.duckdb.prepare import Order, Prepared, Told, content_while, write_copies
from dpsql.engines.duckdb.system_catalogue import describe, unique_keys
from dpsql.engines.duckdb.table_files import Files
from dpsql.engines.sealed import Exact
from dpsql.engines.sql.dialect import Site
from dpsql.engines.sql.public_tables import PublicReader
from dpsql.engines.sql.relations import released_name
from dpsql.engines.sql.release_statements import exact, shared_statements, statements, text_notes
from dpsql.engines.sql.sql_types import physical
from dpsql.errors import EngineError, InterfaceError, InternalError
from dpsql.expressions.types import Kind, from_engine
from dpsql.plan.nodes.relation import Relation
from dpsql.plan.nodes.released_scan import Content, ReleasedScan, released_in
from dpsql.policy import Policy, fold
from dpsql.policy.check import constraint_facts
from dpsql.policy.database_catalog import DatabaseReader, DuckDBReader
from dpsql.steward_log import failed

_AS_ARRAYS = frozenset({
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
    "FLOAT", "DOUBLE",
})  # fmt: skip
"""Types that NumPy also has; all others are converted to text."""
Source = str | os.PathLike[str] | duckdb.DuckDBPyConnection | Mapping[str, Any]


class FilesChanged(Exception):
    """Files of these tables have changed or disappeared since they were opened."""


class DuckDBEngine(Engine):
    """A database file (opened read-only), the caller's own connection, or a set of frames and files.

    `still` promises that nobody else writes through a connection. `copies` is the file for prepared copies of tables.
    `policy` gives the types of the columns of text files.
    """

    def __init__(
        self,
        source: Source,
        limits: Resources | None = None,
        *,
        still: bool = False,
        policy: Policy | None = None,
        copies: Path | None = None,
    ) -> None:
        self._still, self._copies, self._stamp = still, copies, None
        self._limits = limits = limits or Resources()
        self._files: tuple[tuple[Files, object], ...] = ()
        self._lasting = False
        self._reopen: Callable[[], Placed] = _nothing
        self._frames, self._lock = isinstance(source, Mapping), threading.Lock()
        if isinstance(source, duckdb.DuckDBPyConnection):
            self._connection, self._label, self._file = source.cursor(), f"connection:{uuid4()}", None
        elif isinstance(source, Mapping):
            placed, self._stamp = open_frames(source, limits, policy, copies)
            self._connection, self._label, self._file = placed.connection, placed.label, None
            self._files, self._lasting = placed.files, placed.lasting
            self._reopen = partial(open_tables, source, limits, policy)
        else:
            self._file = Path(source)
            opened = open_file(self._file, limits, copies)
            self._connection, self._label, self._stamp = opened.connection, opened.label, opened.copies
            self._lasting, self._reopen = True, partial(open_to_copy, self._file)
        settle(self._connection)
        self._schema = describe(self._connection, views=self._frames)
        self._site = Site(self._schema, DUCKDB)
        self._public = self._reader(self._schema)

    def schema(self) -> Mapping[str, Mapping[str, str]]:
        return self._schema

    def version(self) -> str:
        return self._label

    def constraints(self, policy: object) -> frozenset[tuple[str, str]]:
        assert isinstance(policy, Policy)
        return frozenset((fold(table), fact) for table, fact in constraint_facts(self._connection, policy))

    @property
    def verifiable(self) -> bool:
        return self._lasting

    @property
    def live(self) -> bool:
        return self._file is None and not self._frames and not self._still

    def keep_only(self, tables: Collection[str]) -> None:
        """Remove all other tables (by folded name) from the schema."""
        for name in set(self._schema) - set(tables):
            del self._schema[name]

    def public_reader(self, tables: Collection[str]) -> PublicReader:
        """A reader that knows only these tables."""
        return self._reader({name: columns for name, columns in self._schema.items() if name in tables})

    def _reader(self, known: Mapping[str, Mapping[str, str]]) -> PublicReader:
        keys = partial(unique_keys, self._asked, known)
        return PublicReader(self._asked, keys, Site(known, DUCKDB), lasting=self.verifiable)

    def _asked(self, text: str) -> list[Any] | None:
        """The rows of a query about public tables; None where DuckDB or Python cannot read them."""
        try:
            with self._running() as cursor:
                return cursor.execute(text).fetchall()
        except (duckdb.Error, OverflowError, ValueError):
            return None

    @property
    def copies(self) -> str | None:
        return self._stamp

    def copies_content(self) -> str:
        return "" if self._copies is None else content_while(self._copies, self._stamp or "")

    def prepare(self, orders: Sequence[Order], salt: bytes, told: Told) -> Prepared:
        """Write copies of these tables, for the steward; what is open here still reads the copies of before."""
        assert self._copies is not None and self._lasting
        again = self._reopen()
        with again.connection as data:
            if again.label != self._label:
                raise InterfaceError("the data changed since they were opened", hint="run `dpsql prepare` again")
            return write_copies(data, self._site, orders, self._copies, salt, self._limits, told)

    def look_again(self) -> None:
        with self._running() as cursor:
            found = describe(cursor, views=self._frames)
        self._schema.clear()
        self._schema.update(found)
        self._public.forget()

    @property
    def public(self) -> PublicReader:
        return self._public

    def reader(self) -> DatabaseReader:
        return DuckDBReader(self._connection)

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """DuckDB's own."""
        return self._connection

    def statements(self, release: Priced, salt: bytes | None) -> list[str]:
        return statements(release, self._site, salt)

    def run_statements(self, release: Priced, salt: bytes | None) -> list[str]:
        """Rows are kept between the histograms of a release unless the policy limits memory and allows no disk."""
        keep = self._limits.memory is None or self._limits.spill is not None
        return shared_statements(release, self._site, salt, keep=keep)

    def notes(self, releases: Sequence[Priced]) -> tuple[str, ...]:
        return text_notes(releases, self._site)

    def _compute(
        self,
        release: Priced,
        salt: bytes,
        warrant: Warrant,
        contents: Mapping[str, Content],
        seconds: float | None,
    ) -> Exact:
        try:
            with (
                self._unchanged(),
                self._running() as cursor,
                placed(cursor, release.bounded.release.source, contents),
                stopped_after(seconds, cursor),
            ):
                return exact(release, partial(_ask, cursor), self.run_statements(release, salt), warrant)
        except Exception as problem:
            failed("a release failed", problem)
        raise EngineError

    def read_public(self, table: str, columns: Sequence[str]) -> PublicRows:
        stored = self._schema[fold(table)]
        types = {column: "VARCHAR" if _is_text(stored[column]) else stored[column] for column in columns}
        listed = [part for i, c in enumerate(columns) for part in _as_array(DUCKDB.quote(c), types[c], i)]
        try:
            with self._unchanged(), self._running() as cursor:
                read = cursor.execute(f"SELECT {', '.join(listed)} FROM {DUCKDB.quote(table)}").fetchnumpy()
        except (duckdb.Error, FilesChanged) as problem:
            failed("a public table cannot be read", problem)
            read = None
        if read is None:
            raise EngineError
        named = list(enumerate(columns))
        return PublicRows(
            {c: np.ma.getdata(read[f"v{i}"]) for i, c in named},
            {c: np.ma.getdata(read[f"n{i}"]) for i, c in named}, types,
        )  # fmt: skip

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Check before and after that the files are those that were opened; otherwise discard what was read."""
        self._look()
        yield
        self._look()

    def _look(self) -> None:
        changed = [files.table for files, stamp in self._files if files.stamp != stamp]
        if changed:
            raise FilesChanged(", ".join(changed))

    @contextmanager
    def _running(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor of its own for each query; registered frames are seen by one connection only, so they take turns."""
        if self._frames:
            with self._lock:
                yield self._connection
            return
        with self._connection.cursor() as cursor:
            settle(cursor)
            yield cursor


def _nothing() -> Placed:
    raise InternalError("these tables have no version, so no copies")


def _ask(cursor: duckdb.DuckDBPyConnection, text: str) -> duckdb.DuckDBPyConnection:
    return cursor.execute(text)


def _as_array(column: str, type_: str, number: int) -> tuple[str, str]:
    """The SELECT items that hand a column over without change: its values, and where it is NULL."""
    value = f"coalesce({column}, 0::{type_})" if type_ in _AS_ARRAYS else f"coalesce({column}::VARCHAR, '')"
    return f"{value} AS v{number}", f"{column} IS NULL AS n{number}"


def _is_text(type_: str) -> bool:
    """Whether dpsql treats the type as text."""
    known = from_engine(type_)
    return known is not None and known.kind is Kind.TEXT


@contextmanager
def stopped_after(seconds: float | None, cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Interrupt what runs on the cursor once so many seconds have passed; None: never.

    How long a query takes depends on private data, and so, through the limit, does whether it is answered: the one
    failure that data can cause. It is paid for all the same (the charge comes first, and is kept), has the constant
    text of every failure of the engine, and tells no more than a clock would.
    """
    late = nullcontext() if seconds is None else run_after(seconds, cursor.interrupt)
    with interruptible(cursor.interrupt), late:
        yield


# released tables ------------------------------------------------------------------------------------------------------
# What nested queries released, as temporary tables of one connection, in the types that the planner computes with.


@contextmanager
def placed(cursor: duckdb.DuckDBPyConnection, relation: Relation, contents: Mapping[str, Content]) -> Iterator[None]:
    """The released tables that a relation reads stand beside the stored ones, for as long as this lasts."""
    scans = {released_name(scan): scan for scan in released_in(relation)}
    try:
        for name, scan in scans.items():
            _create(cursor, name, scan, contents[scan.digest or ""])
        yield
    finally:
        for name in scans:
            cursor.execute(f"DROP TABLE IF EXISTS temp.{DUCKDB.quote(name)}")


def _create(cursor: duckdb.DuckDBPyConnection, name: str, scan: ReleasedScan, content: Content) -> None:
    """Values come as text and become what they were: no cast of a type's own text can fail."""
    columns = [f"c{i}" for i in range(len(scan.fields))]
    arrays = {c: np.array([row[i] for row in content.rows], dtype=object) for i, c in enumerate(columns)}
    listed = [
        f"TRY_CAST(CAST({c} AS VARCHAR) AS {physical(f.type)}) AS {c}"
        for c, f in zip(columns, scan.fields, strict=True)
    ]
    cursor.register("_incoming", arrays)
    cursor.execute(f"CREATE TEMP TABLE {DUCKDB.quote(name)} AS SELECT {', '.join(listed)} FROM _incoming")
    cursor.unregister("_incoming")
