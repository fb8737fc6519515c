"""The Spark engine: a session of its own, which reads private data and never sees the analyst's SQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from dpsql.budget.ledger.reservation import Warrant
from dpsql.budget.pricing import Priced
from dpsql.cancellation import interruptible
from dpsql.engines.base import Engine, PublicRows, Resources
from dpsql.engines.sealed import Exact
from dpsql.engines.spark.dialect import SPARK
from dpsql.engines.spark.open import Opened
from dpsql.engines.spark.session_settings import quietly, require_running
from dpsql.engines.spark.table_files import unchanged
from dpsql.engines.sql.dialect import Site
from dpsql.engines.sql.public_tables import PublicReader
from dpsql.engines.sql.relations import released_name
from dpsql.engines.sql.release_statements import exact, statements, text_notes
from dpsql.engines.sql.sql_types import physical
from dpsql.errors import EngineError
from dpsql.expressions.types import SPELLINGS
from dpsql.plan.nodes.relation import Relation
from dpsql.plan.nodes.released_scan import Content, ReleasedScan, released_in
from dpsql.policy import Policy, fold
from dpsql.steward_log import failed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_NUMBERS = ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE")
"""Types that NumPy also has; all others are converted to text."""


class SparkEngine(Engine):
    """The tables of a catalogue, or DataFrames and Parquet files.

    Somebody may write to them at any time, and Spark's catalogue checks no key: nothing is believed about them. How
    much memory a query takes is a matter of the cluster's own settings, so `limits` has no say here. `policy` says
    which types partitions have.
    """

    def __init__(self, source: Any, limits: Resources | None = None, policy: Policy | None = None) -> None:
        with quietly():
            self._opened = Opened(source, policy)
            self._schema = self._opened.schema()
        self._label, self._turn = f"spark:{uuid4()}", threading.Lock()
        self._site = Site(self._schema, SPARK)
        self._public = PublicReader(self._asked, frozenset, self._site, lasting=False)

    def schema(self) -> Mapping[str, Mapping[str, str]]:
        return self._schema

    def version(self) -> str:
        return self._label

    def constraints(self, policy: object) -> frozenset[tuple[str, str]]:
        """None: keys in Spark's catalogue are remarks, which nothing enforces."""
        return frozenset()

    @property
    def verifiable(self) -> bool:
        return False

    @property
    def live(self) -> bool:
        """Tables of a catalogue may change; files that were named are those that were found when they were opened."""
        return self._opened.tables is None

    def look_again(self) -> None:
        require_running(self._opened.session)
        with quietly():
            found = self._opened.schema()
        self._schema.clear()
        self._schema.update(found)
        self._public.forget()

    @property
    def public(self) -> PublicReader:
        return self._public

    def statements(self, release: Priced, salt: bytes | None) -> list[str]:
        return statements(release, self._site, salt)

    def emit(self, release: Priced, salt: bytes | None) -> str:
        """Also check that the session still runs if there is a salt, for then the release is about to be charged."""
        if salt is not None:
            require_running(self._opened.session)
        return super().emit(release, salt)

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
        session = self._opened.session
        try:
            with (
                quietly(),
                self._turn,
                unchanged(self._opened.files),
                placed(session, release.bounded.release.source, contents),
                stopped_after(seconds, session),
            ):
                return exact(release, partial(ask, session), self.run_statements(release, salt), warrant)
        except Exception as problem:
            failed("a release failed", problem)
        raise EngineError

    def read_public(self, table: str, columns: Sequence[str]) -> PublicRows:
        stored = self._schema[fold(table)]
        listed = [part for i, c in enumerate(columns) for part in _as_array(SPARK.quote(c), stored[c], i)]
        try:
            with quietly(), self._turn:
                read = ask(self._opened.session, f"SELECT {', '.join(listed)} FROM {SPARK.quote(table)}").fetchnumpy()
        except Exception as problem:
            failed("a public table cannot be read", problem)
            read = None
        if read is None:
            raise EngineError
        named = list(enumerate(columns))
        return PublicRows(
            {c: read[f"v{i}"] for i, c in named}, {c: read[f"n{i}"] for i, c in named},
            {c: _plain_type(stored[c]) for c in columns},
        )  # fmt: skip

    def close(self) -> None:
        self._opened.close()

    def _asked(self, text: str) -> list[Any] | None:
        """The rows of a query about public tables; None where Spark or Python cannot read them."""
        try:
            with quietly(), self._turn:
                return ask(self._opened.session, text).fetchall()
        except Exception:
            return None


def _plain_type(stored: str) -> str:
    return {"TIMESTAMP WITH TIME ZONE": "TIMESTAMP", SPELLINGS: "VARCHAR"}.get(stored, stored)


def _as_array(column: str, stored: str, number: int) -> tuple[str, str]:
    """The SELECT items that hand a column over without change: its values, and where it is NULL."""
    read = SPARK.read(column, stored)
    if stored in _NUMBERS:
        value = f"coalesce({read}, {SPARK.cast('0', stored)})"
    else:
        value = f"coalesce(CAST({read} AS STRING), '')"
    return f"{value} AS v{number}", f"({read}) IS NULL AS n{number}"


# running a statement --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ArrowResult:
    """All rows of a result, handed over in columns."""

    table: pa.Table

    def fetchnumpy(self) -> Mapping[str, Any]:
        """All rows: an array for each column, by its name."""
        names = self.table.column_names
        return {name: self.table.column(i).to_numpy() for i, name in enumerate(names)}

    def fetchall(self) -> list[Any]:
        """All rows; a decimal without places is a whole number."""
        return list(zip(*map(_values, self.table.columns), strict=True)) if self.table.num_columns else []


def _values(column: pa.ChunkedArray) -> list[Any]:
    import pyarrow as pa

    values: list[Any] = column.to_pylist()
    if pa.types.is_decimal(column.type) and column.type.scale == 0:
        return [None if v is None else int(v) for v in values]
    return values


def ask(session: SparkSession, text: str) -> ArrowResult:
    """Run a statement and fetch what it gives."""
    return ArrowResult(session.sql(text).toArrow())


AGAIN = 0.2
"""Seconds between two attempts: between the jobs of a query there is nothing to stop."""


@contextmanager
def stopped_after(seconds: float | None, session: SparkSession) -> Iterator[None]:
    """Stop whatever dpsql's own session runs, and what follows, once so many seconds have passed; None: never.

    Queries of one engine take turns, so there is nothing else. (Tags of a thread do not reach the thread in which
    results are handed over as Arrow.) As on DuckDB, this is the one failure that data can cause: it is paid for, and
    has the constant text.
    """
    with interruptible(session.interruptAll), nullcontext() if seconds is None else _watched(seconds, session):
        yield


@contextmanager
def _watched(seconds: float, session: SparkSession) -> Iterator[None]:
    done = threading.Event()

    def watch() -> None:
        late = not done.wait(seconds)
        while late and not done.is_set():
            with suppress(Exception):
                session.interruptAll()
            done.wait(AGAIN)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


# released tables ------------------------------------------------------------------------------------------------------
# What nested queries released, as temporary views of dpsql's own session, in the types that the planner has.


@contextmanager
def placed(session: SparkSession, relation: Relation, contents: Mapping[str, Content]) -> Iterator[None]:
    """The released tables that a relation reads stand beside the stored ones, for as long as this lasts."""
    scans = {released_name(scan): scan for scan in released_in(relation)}
    try:
        for name, scan in scans.items():
            written = _rows(scan, contents[scan.digest or ""])
            session.sql(f"CREATE OR REPLACE TEMPORARY VIEW {SPARK.quote(name)} AS {written}")
        yield
    finally:
        for name in scans:
            with suppress(Exception):
                session.catalog.dropTempView(name)


def _rows(scan: ReleasedScan, content: Content) -> str:
    """Values come as text and become what they were; the rows are written out, so the SQL has them all."""
    listed = [f"{SPARK.cast(f'c{i}', physical(field.type))} AS c{i}" for i, field in enumerate(scan.fields)]
    names = ", ".join(f"c{i}" for i in range(len(scan.fields)))
    rows = ", ".join(f"({', '.join(map(_text, row))})" for row in content.rows or [[None] * len(scan.fields)])
    return f"SELECT {', '.join(listed)} FROM VALUES {rows} AS t({names}){'' if content.rows else ' WHERE FALSE'}"


def _text(value: object) -> str:
    return "CAST(NULL AS STRING)" if value is None else SPARK.text(str(value))
