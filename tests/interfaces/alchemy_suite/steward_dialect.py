"""The dialect under test, beside a steward who creates and fills the tables that the suite needs.

dpsql only reads. So what is not a query goes to a DuckDB database of the steward's; its tables are declared public, so
that answers are exact; and every query, every reflection and every type goes through dpsql and its dialect.
"""

from __future__ import annotations

import re
from typing import Any

import duckdb
from sqlalchemy.sql.compiler import GenericTypeCompiler
from sqlalchemy.testing import provision

import dpsql
from dpsql.expressions.types import from_engine
from dpsql.interfaces.dbapi import Cursor
from dpsql.interfaces.sqlalchemy_dialect import DpsqlDialect

OWN = duckdb.connect()
OWN.execute("CREATE TABLE nothing (x INTEGER)")
WRITES = re.compile(r"\s*(create|insert|drop|update|delete|alter|comment|truncate)\b", re.IGNORECASE)


def policy() -> dict[str, Any]:
    """All tables of the moment that have a column of a type that dpsql knows."""
    rows = OWN.execute(
        "SELECT table_name, data_type FROM duckdb_columns() JOIN duckdb_tables() USING (database_name, table_name) "
        "WHERE NOT temporary AND table_name <> 'nothing'"
    ).fetchall()
    names = {table for table, type_ in rows if from_engine(type_) is not None} or {"nothing"}
    return {
        "dataset": "suite",
        "search": False,
        "budget": {"epsilon": 1},
        "tables": {name: {"public": True} for name in names},
    }


def settled(operation: str) -> str:
    """A statement of the steward's: tables may be made and dropped twice, and have no constraints to mind."""
    operation = re.sub(r"^\s*CREATE TABLE", "CREATE OR REPLACE TABLE", operation)
    operation = re.sub(r"^\s*DROP TABLE", "DROP TABLE IF EXISTS", operation)
    operation = re.sub(r"\n\t(?:CONSTRAINT|PRIMARY KEY|FOREIGN KEY|UNIQUE|CHECK)\b[^\n]*", "", operation)
    return re.sub(r",\s*\n\)", "\n)", operation)


class StewardCursor(Cursor):
    """A dpsql cursor that hands on what is not a query."""

    rowcount: Any = -1

    def execute(self, operation: str, parameters: Any = None, **price: Any) -> Any:
        if not WRITES.match(operation):
            done = super().execute(operation, parameters, **price)
            self.rowcount = len(self.result) if self.result is not None else -1
            return done
        self._forget()
        try:
            found = OWN.execute(settled(operation), parameters or None).fetchall()
        except duckdb.Error as problem:
            raise dpsql.ProgrammingError(str(problem)) from None
        self.rowcount = found[0][0] if found and isinstance(found[0][0], int) else -1
        self.connection.look()  # type: ignore[attr-defined]
        return self

    def executemany(self, operation: str, seq_of_parameters: Any) -> Any:
        for parameters in seq_of_parameters:
            self.execute(operation, parameters)
        return self


class StewardConnection(dpsql.Connection):
    """A dpsql connection whose policy follows the tables."""

    def cursor(self) -> Cursor:
        super().cursor()
        self.look()
        return StewardCursor(self)

    seen = ""

    def look(self) -> None:
        """Declare the tables of the moment, where they are not those of the last look."""
        tables = repr(OWN.execute("SELECT table_oid, sql FROM duckdb_tables()").fetchall())
        if tables == self.seen:
            return
        self.seen = tables
        asked = self.asked
        self.release()
        self.__dict__.pop("_answerer", None)
        self.__dict__.update(vars(dpsql.connect(OWN, policy=policy(), ledger=":memory:")), asked=asked)


def connect(**_: Any) -> dpsql.Connection:
    made = dpsql.connect(OWN, policy=policy(), ledger=":memory:")
    made.__class__ = StewardConnection
    return made


class StewardTypes(GenericTypeCompiler):
    """Column types of the suite's tables, as DuckDB names them."""

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:
        return "DOUBLE"


class StewardDialect(DpsqlDialect):
    """The dialect, for tables that a steward makes."""

    driver = "steward"
    type_compiler_cls = StewardTypes
    supports_statement_cache = True
    supports_multivalues_insert = True
    supports_sane_rowcount = True

    def connect(self, *cargs: Any, **cparams: Any) -> Any:
        return connect()

    def has_table(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        connection.connection.dbapi_connection.look()
        return super().has_table(connection, table_name, schema, **kw)


@provision.temp_table_keyword_args.for_db("dpsql")
def _temporary(cfg: Any, eng: Any) -> dict[str, list[str]]:
    return {"prefixes": ["TEMPORARY"]}
