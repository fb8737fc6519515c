"""Spark as an engine: a session of dpsql's own, which sees private data and nothing of the analyst's text."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from dpsql.budget.allocate import Priced
from dpsql.budget.reservation import Warrant
from dpsql.engines.base import Engine, PublicRows, Resources
from dpsql.engines.exact import Exact
from dpsql.engines.spark.dialect import SPARK
from dpsql.engines.spark.files import unchanged
from dpsql.engines.spark.open import Opened
from dpsql.engines.spark.released import placed
from dpsql.engines.spark.results import ask
from dpsql.engines.spark.settings import quietly, require_running
from dpsql.engines.spark.stop import stopped_after
from dpsql.engines.sql.dialect import Site
from dpsql.engines.sql.public import PublicReader
from dpsql.engines.sql.results import exact, statements, text_notes
from dpsql.errors import EngineError
from dpsql.expressions.types import SPELLINGS
from dpsql.plan.nodes.released_scan import Content
from dpsql.policy import Policy, fold
from dpsql.steward_log import failed

_NUMBERS = ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE")
"""Types that NumPy has too; all others are handed over as text."""


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
        """With a salt it is about to run: a session that is gone is noticed here, before the charge."""
        if salt is not None:
            require_running(self._opened.session)
        return super().emit(release, salt)

    def notes(self, releases: Sequence[Priced]) -> tuple[str, ...]:
        return text_notes(releases, self._site)

    def _compute(
        self,
        release: Priced,
        salt: bytes,
        written: Sequence[str],
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
                return exact(release, partial(ask, session), written, warrant)
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
