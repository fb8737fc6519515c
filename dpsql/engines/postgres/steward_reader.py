"""How the steward's commands read a PostgreSQL database: exactly, in a read-only transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import psycopg

from dpsql.engines.postgres.dialect import LABELS, UNLIMITED
from dpsql.engines.postgres.server_session import Session
from dpsql.engines.postgres.syntax import quoted, type_name
from dpsql.engines.postgres.system_catalogue import DescribedTable
from dpsql.expressions.types import SPELLINGS
from dpsql.policy.database_catalog import CatalogRelation, DatabaseReader, UnreadableDatabase
from dpsql.policy.identifiers import Names, fold

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
