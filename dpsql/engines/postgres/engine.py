"""The PostgreSQL engine: read-only sessions, which never see the analyst's SQL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
import psycopg

from dpsql.budget.ledger.reservation import Warrant
from dpsql.budget.pricing import Priced
from dpsql.engines.base import Engine, PublicRows, Resources
from dpsql.engines.postgres.dialect import LABELS, UNLIMITED, Postgres
from dpsql.engines.postgres.server_session import Session, open_session, stopped_after
from dpsql.engines.postgres.syntax import quoted, type_name
from dpsql.engines.postgres.system_catalogue import DescribedTable, describe
from dpsql.engines.sealed import Exact
from dpsql.engines.sql.dialect import Dialect, Site
from dpsql.engines.sql.public_tables import Keys, PublicReader
from dpsql.engines.sql.relations import released_name
from dpsql.engines.sql.release_statements import exact, shared_statements, statements, text_notes
from dpsql.engines.sql.sql_types import physical
from dpsql.errors import EngineError, InterfaceError
from dpsql.expressions.types import SPELLINGS
from dpsql.plan.nodes.relation import JoinSide, PublicScan, Relation, Scan
from dpsql.plan.nodes.released_scan import Content, ReleasedScan, released_in
from dpsql.policy import Policy, fold
from dpsql.policy.check import facts_of
from dpsql.policy.database_catalog import CatalogRelation, DatabaseReader, UnreadableDatabase
from dpsql.policy.identifiers import Names
from dpsql.server_address import ServerAddress
from dpsql.steward_log import failed

LOCKED = 30
"""Seconds to wait for the locks on the tables of a query."""
SNAPSHOT = "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
_AS_ARRAYS: Mapping[str, tuple[type, Any]] = {
    "BOOLEAN": (np.bool_, False), "SMALLINT": (np.int16, 0), "INTEGER": (np.int32, 0), "BIGINT": (np.int64, 0),
    "FLOAT": (np.float32, 0.0), "DOUBLE": (np.float64, 0.0),
}  # fmt: skip
"""Types that NumPy also has, with the value that stands for NULL; all others are converted to text."""


class PostgresEngine(Engine):
    """A database on a PostgreSQL server."""

    def __init__(self, address: ServerAddress, limits: Resources | None = None) -> None:
        self._address, self._limits = address, limits or Resources()
        self._idle: list[Session] = []
        self._turn, self._own = threading.Lock(), threading.local()
        session, self._schemas = open_session(address, self._limits)
        self._idle.append(session)
        self._places: dict[str, str] = {}
        self._schema: dict[str, Mapping[str, str]] = {}
        self._tables: Mapping[str, DescribedTable] = {}
        self._site = Site(self._schema, Postgres(self._places))
        self._public = PublicReader(self._asked, self._keys, self._site, lasting=False)
        self.look_again()

    def schema(self) -> Mapping[str, Mapping[str, str]]:
        return self._schema

    def version(self) -> str:
        """The address. It stays the same when data is written, until the steward runs `dpsql data bump`."""
        return self._address.place

    def constraints(self, policy: object) -> frozenset[tuple[str, str]]:
        assert isinstance(policy, Policy)
        return frozenset((fold(table), fact) for table, fact in facts_of(self.reader().catalog(), policy))

    def reader(self) -> PostgresReader:
        return PostgresReader(self._tables, self._snapshot)

    @property
    def verifiable(self) -> bool:
        return False

    @property
    def live(self) -> bool:
        return True

    def look_again(self) -> None:
        try:
            with self._snapshot() as session:
                self._tables = describe(session, self._schemas)
        except (psycopg.Error, InterfaceError) as problem:
            failed("the catalogue cannot be read", problem)
            raise EngineError from None
        for mine, found in (
            (self._schema, {name: dict(table.columns) for name, table in self._tables.items()}),
            (self._places, {name: table.place for name, table in self._tables.items()}),
        ):
            mine.clear()
            mine.update(found)  # type: ignore[arg-type]
        self._public.forget()

    @property
    def public(self) -> PublicReader:
        return self._public

    def statements(self, release: Priced, salt: bytes | None) -> list[str]:
        return statements(release, self._site, salt)

    def run_statements(self, release: Priced, salt: bytes | None) -> list[str]:
        return shared_statements(release, self._site, salt, keep=True)

    def notes(self, releases: Sequence[Priced]) -> tuple[str, ...]:
        return text_notes(releases, self._site)

    @contextmanager
    def together(self, releases: Sequence[Priced] = ()) -> Iterator[None]:
        """All that runs inside sees one snapshot, which is taken with the first, after all their tables were locked."""
        sources = [priced.bounded.release.source for priced in releases]
        self._own.shared, self._own.session = {table for source in sources for table in _tables_of(source)}, None
        try:
            yield
        finally:
            session, self._own.shared, self._own.session = self._own.session, None, None
            if session is not None:
                self._let_go(session)

    def _compute(
        self,
        release: Priced,
        salt: bytes,
        warrant: Warrant,
        contents: Mapping[str, Content],
        seconds: float | None,
    ) -> Exact:
        source = release.bounded.release.source
        reads = set(_tables_of(source))
        written = self.run_statements(release, salt)
        try:
            with self._snapshot(reads, seconds) as session, stopped_after(seconds, session):
                before = with_released(source, contents, self._site.dialect)
                made = exact(release, partial(_ask, session, before), written, warrant)
                self._check(reads)
            return made
        except Exception as problem:
            failed("a release failed", problem)
        raise EngineError

    def read_public(self, table: str, columns: Sequence[str]) -> PublicRows:
        stored = self._schema[fold(table)]
        types = {column: _shown_type(stored[column]) for column in columns}
        dialect = self._site.dialect
        read = [dialect.read(dialect.quote(column), stored[column]) for column in columns]
        listed = [r if types[c] in _AS_ARRAYS else f"CAST({r} AS text)" for r, c in zip(read, columns, strict=True)]
        rows = self._asked(f"SELECT {', '.join(listed) or '1'} FROM {dialect.table(table)}")
        if rows is None:
            raise EngineError
        values: dict[str, Any] = {}
        nulls: dict[str, Any] = {}
        for i, column in enumerate(columns):
            kind, blank = _AS_ARRAYS.get(types[column], (object, ""))
            nulls[column] = np.array([row[i] is None for row in rows], dtype=np.bool_)
            values[column] = np.array([blank if row[i] is None else row[i] for row in rows], dtype=kind)
        return PublicRows(values, nulls, types)

    def close(self) -> None:
        with self._turn:
            sessions, self._idle = self._idle, []
        for session in sessions:
            session.close()

    # sessions ---------------------------------------------------------------------------------------------------------

    @contextmanager
    def _snapshot(self, reads: Collection[str] = (), seconds: float | None = None) -> Iterator[Session]:
        """A session in a transaction that reads one state of the data, in which these tables are unchanged.

        The order is what makes it one state: the tables are locked, as long as that takes within so many seconds; then
        the first SELECT takes the snapshot, and describes the tables, which are compared with what was planned for.
        """
        shared: set[str] | None = getattr(self._own, "shared", None)
        common: Session | None = getattr(self._own, "session", None)
        if common is not None:
            self._lock(common, set(reads) - (shared or set()), seconds)
            yield common
            return
        session = self._begun()
        try:
            self._lock(session, {*reads, *(shared or ())}, seconds)
            if shared is not None:
                self._own.session = session
            yield session
        finally:
            if shared is None or self._own.session is not session:
                self._let_go(session)

    def _lock(self, session: Session, reads: Collection[str], seconds: float | None) -> None:
        """Lock tables against changes, and refuse those that have changed."""
        if not reads:
            return
        session.execute(f"SET LOCAL statement_timeout = {int(1000 * min(seconds or LOCKED, LOCKED)) or 1}")
        session.execute(f"LOCK TABLE {', '.join(sorted(self._places[name] for name in reads))} IN ACCESS SHARE MODE")
        session.execute("SET LOCAL statement_timeout = 0")
        self._same(session, reads)

    def _same(self, session: Session, reads: Collection[str]) -> None:
        """Refuse tables that have changed since the query was planned."""
        now = describe(session, self._schemas, [self._tables[name].oid for name in reads])
        if any(now.get(name) != self._tables[name] for name in reads):
            raise EngineError

    def _check(self, reads: Collection[str]) -> None:
        """Describe the tables once more, from outside: what was read is released only if they are still the same."""
        session = self._begun()
        try:
            self._same(session, reads)
        finally:
            self._let_go(session)

    def _begun(self) -> Session:
        """An idle session, or where the server closed it in the meantime, a new one, in a transaction."""
        while True:
            with self._turn:
                session = self._idle.pop() if self._idle else None
            if session is None:
                break
            with suppress(psycopg.Error):
                session.execute(SNAPSHOT)
                return session
            session.close()
        session, _ = open_session(self._address, self._limits)
        session.execute(SNAPSHOT)
        return session

    def _let_go(self, session: Session) -> None:
        """End the transaction and keep the session; close it if it is broken."""
        try:
            session.execute("ROLLBACK")
        except psycopg.Error:
            session.close()
            return
        with self._turn:
            self._idle.append(session)

    def _asked(self, text: str) -> list[Any] | None:
        """The rows of a query about public tables; None where the server or Python cannot read them.

        They are checked as private ones are: a view of private rows may have taken the place of one of them.
        """
        reads = [name for name, place in self._places.items() if place in text]
        try:
            with self._snapshot(reads) as session:
                rows = session.execute(text.encode()).fetchall()
                self._check(reads)
            return rows
        except (psycopg.Error, EngineError, InterfaceError, OverflowError, ValueError):
            return None

    def _keys(self) -> Keys:
        return {(name, frozenset(map(fold, key))) for name, table in self._tables.items() for key in table.keys}


@dataclass(frozen=True, slots=True)
class FetchedRows:
    """The result of a statement."""

    names: tuple[str, ...]
    rows: list[Any]

    def fetchall(self) -> list[Any]:
        """All rows."""
        return self.rows

    def fetchnumpy(self) -> Mapping[str, Any]:
        """All rows: an array for each column, by its name."""
        return {name: np.array([row[i] for row in self.rows]) for i, name in enumerate(self.names)}


def _ask(session: Session, before: str, text: str) -> FetchedRows:
    """The result of a statement, as a subquery after a WITH clause: it may have a WITH of its own."""
    cursor = session.execute((f"{before}SELECT * FROM ({text}) AS t" if before else text).encode())
    return FetchedRows(tuple(column.name for column in cursor.description or ()), cursor.fetchall())


def _shown_type(stored: str) -> str:
    """The type in which a public column is handed over: that in which it is read."""
    if stored == "TIMESTAMP WITH TIME ZONE":
        return "TIMESTAMP"
    return {UNLIMITED: "DOUBLE", "UUID": "VARCHAR", LABELS: "VARCHAR", SPELLINGS: "VARCHAR", "FLOAT": "DOUBLE"}.get(
        stored, stored
    )


def _tables_of(node: object) -> Iterator[str]:
    """The folded names of the stored tables that a relation reads, at any depth."""
    if isinstance(node, Scan):
        yield fold(node.table)
        yield from (fold(step.table) for step in node.path)
    elif isinstance(node, PublicScan):
        yield fold(node.table)
    elif isinstance(node, Relation | JoinSide):
        for each in fields(node):
            yield from _tables_of(getattr(node, each.name))
    elif isinstance(node, tuple):
        for item in node:
            yield from _tables_of(item)


# released tables ------------------------------------------------------------------------------------------------------
# What nested queries released, as tables of a WITH clause before the statement that reads them.


def with_released(relation: Relation, contents: Mapping[str, Content], dialect: Dialect) -> str:
    """The WITH clause, or nothing. The values are released ones, in the texts of their own types."""
    scans = {released_name(scan): scan for scan in released_in(relation)}
    made = [_table(name, scan, contents[scan.digest or ""], dialect) for name, scan in scans.items()]
    return f"WITH {', '.join(made)} " if made else ""


def _table(name: str, scan: ReleasedScan, content: Content, dialect: Dialect) -> str:
    columns = [f"c{i}" for i in range(len(scan.fields))]
    cells = [["NULL" if v is None else dialect.text(v) for v in column] for column in _columns(content, len(columns))]
    arrays = [f"CAST(ARRAY[{', '.join(column)}] AS text[])" for column in cells]
    read = [
        f"{dialect.cast(f'r.{column}', physical(field.type))} AS {column}"
        for column, field in zip(columns, scan.fields, strict=True)
    ]
    rows = f"unnest({', '.join(arrays)}) AS r({', '.join(columns)})"
    return f"{dialect.quote(name)} AS MATERIALIZED (SELECT {', '.join(read)} FROM {rows})"


def _columns(content: Content, width: int) -> list[list[str | None]]:
    return [[row[i] for row in content.rows] for i in range(width)]


# what the steward's commands read -------------------------------------------------------------------------------------
# How the steward's commands read a PostgreSQL database: exactly, in a read-only transaction.


_NAMES = {
    UNLIMITED: "numeric",
    SPELLINGS: "text",
    LABELS: "text",
    "FLOAT": "real",
    "UUID": "uuid",
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
}


class PostgresReader(DatabaseReader):
    """The tables that were described, and sessions in which to read them."""

    def __init__(
        self, tables: Mapping[str, DescribedTable], snapshot: Callable[[], AbstractContextManager[Session]]
    ) -> None:
        self._tables, self._snapshot = tables, snapshot

    def catalog(self) -> Names[CatalogRelation]:
        return Names({name: table.relation(name) for name, table in self._tables.items()})

    def rows(self, sql: str, parameters: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._snapshot() as session:
                return session.execute(sql.replace("%", "%%").replace("?", "%s").encode(), parameters).fetchall()
        except psycopg.Error as problem:
            raise UnreadableDatabase(str(problem)) from None

    def table(self, name: str) -> str:
        found = self._tables.get(fold(name))
        return quoted(name) if found is None else found.place

    def type(self, data_type: str) -> str:
        return _NAMES.get(data_type) or type_name(data_type)
