"""The public PEP 249 compliance suite (`dbapi-compliance` on PyPI) against dpsql.

The suite creates and fills tables through the driver. dpsql only reads, so its `CREATE`, `INSERT` and `DROP` go to the
steward's own DuckDB connection, with dpsql's binding of parameters; every SELECT and every other call is dpsql's. The
tables are public, so that answers are exact.
"""

from __future__ import annotations

import re
from typing import Any, Self

import dbapi20
import duckdb
import pytest
from sqlglot import Dialect

import dpsql
from dpsql.interfaces.dbapi import Cursor
from dpsql.sql.parameters import bind

POLICY = {
    "dataset": "bar", "search": False, "budget": {"epsilon": 1},
    "tables": {"dbapi20test_booze": {"public": True}, "dbapi20test_barflys": {"public": True}},
}  # fmt: skip


class Writing(Cursor):
    """A dpsql cursor beside the steward's connection, which takes what is not a query."""

    def execute(self, operation: str, parameters: Any = None) -> Self:
        if not re.match(r"create|insert|drop", operation):
            return super().execute(operation, parameters)
        self._forget()
        dialect = Dialect.get_or_raise("duckdb")
        [statement] = dialect.parser().parse(bind(dialect.tokenize(operation), parameters), operation)
        OWN.execute(re.sub(r"CREATE TABLE", "CREATE TABLE IF NOT EXISTS", statement.sql("duckdb")))
        return self

    def executemany(self, operation: str, seq_of_parameters: Any) -> Self:
        for parameters in seq_of_parameters:
            self.execute(operation, parameters)
        return self


class ByWriting(dpsql.Connection):
    """A dpsql connection with such cursors."""

    def cursor(self) -> Cursor:
        super().cursor()
        return Writing(self)


OWN: duckdb.DuckDBPyConnection


class TestCompliance(dbapi20.DatabaseAPI20Test):  # type: ignore[misc]
    """All cases of the suite."""

    driver = dpsql
    lower_func = None

    def setUp(self) -> None:
        global OWN  # noqa: PLW0603
        OWN = duckdb.connect()
        OWN.execute(f"{self.ddl1}; {self.ddl2}")
        self.connect_args, self.connect_kw_args = (OWN,), {"policy": POLICY, "ledger": ":memory:"}

    def tearDown(self) -> None:
        OWN.close()

    def _connect(self) -> dpsql.Connection:
        connection: dpsql.Connection = super()._connect()
        assert type(connection.cursor()) is Cursor
        connection.__class__ = ByWriting
        return connection

    def test_nextset(self) -> None:
        con = self._connect()
        cur = con.cursor()
        cur.execute("select 1")
        assert cur.nextset() is None
        Cursor.executemany(cur, "select ? as x from dbapi20test_booze union all select ?", [(1, 2), (3, 4)])
        assert cur.fetchall() == [(2,)]
        assert cur.nextset()
        assert cur.fetchall() == [(4,)]
        assert cur.nextset() is None
        con.close()

    def test_setoutputsize(self) -> None:
        """No value is ever cut, so there is nothing more to see than in the basic case."""
        self.test_setoutputsize_basic()

    def test_non_idempotent_close(self) -> None:
        """The suite's own comment: reasonable persons differ. Here a second close does nothing, as in sqlite3."""
        con = self._connect()
        con.close()
        con.close()
        with pytest.raises(dpsql.Error):
            con.cursor()
