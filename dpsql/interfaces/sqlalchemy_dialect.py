"""The SQLAlchemy dialect `dpsql://`: a read-only database of aggregates, whose tables are those of the policy.

`create_engine("dpsql:///shop.duckdb?policy=policy.yaml&analyst=ana")`. The price of a statement is an execution option
(`price`, `epsilon`, `delta`, `mechanism`, `accuracy`) or a hint: `statement.with_statement_hint("price(2%)")`. The
answer with its error bars and cost is `result.context.answer`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import exc, types
from sqlalchemy.engine import default, reflection
from sqlalchemy.engine.interfaces import ReflectedColumn
from sqlalchemy.engine.url import URL
from sqlalchemy.sql.compiler import SQLCompiler

import dpsql
from dpsql.interfaces.visible_tables import ColumnInfo, TableInfo, visible_tables
from dpsql.options import QueryKeywords
from dpsql.policy import fold
from dpsql.policy.model import ForeignKey

if TYPE_CHECKING:
    from dpsql.session import Connection


def primary_key(db: Connection, table: TableInfo) -> list[str]:
    """The unit column, where the policy declares one row for each unit and the analyst may see it."""
    declared = db.policy.tables[table.name]
    return _seen(table, declared.unit_column) if declared.one_row and not isinstance(declared.unit, ForeignKey) else []


def foreign_keys(db: Connection, table: TableInfo, tables: Sequence[TableInfo]) -> list[tuple[str, str, str]]:
    """Columns that refer to a column of another table, where the analyst may see both: (column, table, column)."""
    declared = db.policy.tables[table.name]
    refers = [(c, spec.values_from) for c, spec in (declared.columns or {}).items() if spec.values_from is not None]
    if isinstance(declared.unit, ForeignKey):
        refers.insert(0, (declared.unit.column, declared.unit.references))
    found = []
    for column, to in refers:
        parent, _, key = to.rpartition(".")
        other = next((each for each in tables if fold(each.name) == fold(parent)), None)
        if other is not None and (pair := _seen(table, column) + _seen(other, key))[1:]:
            found.append((pair[0], other.name, pair[1]))
    return found


def _seen(table: TableInfo, column: str | None) -> list[str]:
    return [each.name for each in table.columns if column is not None and fold(each.name) == fold(column)]


# the dialect ---------------------------------------------------------------------------------------------------------

OPTIONS = tuple(QueryKeywords.__annotations__)
ARGUMENTS = ("policy", "analyst", "ledger", "purpose")
HOW = "dpsql:///shop.duckdb?policy=policy.yaml&analyst=ana"

_TYPES: dict[str, Callable[[], types.TypeEngine[Any]]] = {
    "boolean": types.BOOLEAN, "tinyint": types.SMALLINT, "utinyint": types.SMALLINT, "smallint": types.SMALLINT,
    "usmallint": types.INTEGER, "integer": types.INTEGER, "uinteger": types.BIGINT, "bigint": types.BIGINT,
    "ubigint": types.NUMERIC, "hugeint": types.NUMERIC, "float": types.FLOAT, "double": types.DOUBLE,
    "varchar": types.VARCHAR, "enum": types.VARCHAR, "uuid": types.VARCHAR, "date": types.DATE,
}  # fmt: skip


class DpsqlCompiler(SQLCompiler):
    """DuckDB's words where they differ."""

    def limit_clause(self, select: Any, **kw: Any) -> str:
        """LIMIT and OFFSET; either may come without the other."""
        parts = (("LIMIT", select._limit_clause), ("OFFSET", select._offset_clause))  # noqa: SLF001 - how SQLAlchemy passes them to a compiler
        return "".join(f"\n {word} {self.process(clause, **kw)}" for word, clause in parts if clause is not None)

    def get_statement_hint_text(self, hint_texts: Sequence[str]) -> str:
        """The price of a statement as dpsql reads it."""
        return f"/*+ {' '.join(hint_texts)} */"


class DpsqlExecutionContext(default.DefaultExecutionContext):
    """One execution; it keeps the whole answer when SQLAlchemy lets go of the cursor."""

    answer: dpsql.Result | None = None

    def post_exec(self) -> None:
        """Keep the answer: its error bars and cost."""
        self.answer = self.cursor.result


class DpsqlNumeric(types.Numeric[Any]):
    """Decimals as they come; noise makes floats of sums, which become decimals where the statement says so."""

    def result_processor(self, dialect: Any, coltype: object) -> Callable[[Any], Any]:
        """Decimals or floats, as the type says."""
        kind = Decimal if self.asdecimal else float

        def process(value: Any) -> Any:
            if value is None or isinstance(value, kind):
                return value
            return kind(repr(value)) if isinstance(value, float) else kind(value)

        return process

    def bind_processor(self, dialect: Any) -> None:
        """Values are bound as they are."""


class DpsqlDialect(default.DefaultDialect):
    """SQLAlchemy's view of dpsql."""

    name = "dpsql"
    driver = "dpsql"
    default_paramstyle = "qmark"
    statement_compiler = DpsqlCompiler
    execution_ctx_cls = DpsqlExecutionContext
    colspecs = {types.Numeric: DpsqlNumeric}  # noqa: RUF012 - SQLAlchemy's own form
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    div_is_floordiv = False
    supports_native_enum = False
    supports_alter = False
    supports_default_values = False
    supports_empty_insert = False
    supports_multivalues_insert = False
    supports_sane_rowcount = False
    supports_sane_multi_rowcount = False
    supports_comments = False
    insert_returning = update_returning = delete_returning = False
    use_insertmanyvalues = False
    postfetch_lastrowid = False
    preexecute_autoincrement_sequences = False
    requires_name_normalize = False
    max_identifier_length = 1000

    @classmethod
    def import_dbapi(cls) -> Any:
        """The DB-API module is dpsql itself."""
        return dpsql

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """The file from the path, the rest from the query; the policy stands beside the file unless it is named."""
        given = dict(url.query)
        unknown = [name for name in given if name not in ARGUMENTS]
        if unknown:
            raise exc.ArgumentError(f"dpsql:// has no argument {unknown[0]}; there are {', '.join(ARGUMENTS)}: {HOW}")
        if url.host:
            raise exc.ArgumentError(f"dpsql:// names a file, with three slashes: {HOW}")
        if not url.database:
            return [], {}
        policy = given.pop("policy", None) or Path(url.database).with_name("policy.yaml")
        return [url.database], {"policy": policy, **given}

    def connect(self, *cargs: Any, **cparams: Any) -> Any:
        """A connection of its own for each in the pool."""
        if not cargs:
            raise exc.ArgumentError(f"dpsql:// needs a database file, {HOW}; or create_engine('dpsql://', creator=…)")
        return self.loaded_dbapi.connect(*cargs, **cparams)

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        """Run a statement at the price of its execution options."""
        options = {} if context is None else context.execution_options
        cursor.execute(statement, parameters, **{name: options[name] for name in OPTIONS if name in options})

    def do_ping(self, dbapi_connection: Any) -> bool:
        """A connection in this process is there until it is closed."""
        return not dbapi_connection.closed

    def is_disconnect(self, e: Exception, connection: Any, cursor: Any) -> bool:
        """Whether the pool should throw the connection away."""
        return connection is not None and getattr(connection, "closed", False)

    def _get_server_version_info(self, connection: Any) -> tuple[int, ...]:
        return tuple(int(part) for part in dpsql.__version__.split(".") if part.isdigit())

    def _get_default_schema_name(self, connection: Any) -> str:
        return "main"

    # reflection: the policy and nothing else --------------------------------------------------------------------------

    @reflection.cache
    def get_schema_names(self, connection: Any, **kw: Any) -> list[str]:
        """One schema."""
        return ["main"]

    @reflection.cache
    def get_table_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        """The tables that the analyst may name in a query."""
        return [table.name for table in _tables(connection, schema)]

    @reflection.cache
    def get_view_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        """None: views are not listed as tables."""
        return []

    @reflection.cache
    def has_table(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        """Does the table exist for this analyst?"""
        return any(table.name.lower() == table_name.lower() for table in _tables(connection, schema))

    @reflection.cache
    def get_columns(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedColumn]:
        """Names, types, and as a comment what the policy says of each."""
        return [_column(column) for column in _table(connection, table_name, schema).columns]

    @reflection.cache
    def get_pk_constraint(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """The unit of a table that the policy declares to have one row for each."""
        table = _table(connection, table_name, schema)
        return {"constrained_columns": primary_key(_db(connection), table), "name": None}

    @reflection.cache
    def get_foreign_keys(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """The paths to owners, and columns whose values are another table's."""
        db = _db(connection)
        keys = foreign_keys(db, _table(connection, table_name, schema), _tables(connection, schema))
        return [
            {"name": None, "constrained_columns": [column], "referred_schema": schema, "referred_table": table,
             "referred_columns": [key], "options": {}}
            for column, table, key in keys
        ]  # fmt: skip

    @reflection.cache
    def get_table_comment(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """Who owns the rows."""
        return {"text": _table(connection, table_name, schema).owner}

    def get_indexes(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """None."""
        _table(connection, table_name, schema)
        return []

    def get_unique_constraints(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """None but the primary key."""
        return self.get_indexes(connection, table_name, schema)

    def get_check_constraints(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """None: values outside bounds are clamped, not refused."""
        return self.get_indexes(connection, table_name, schema)


def _column(column: ColumnInfo) -> ReflectedColumn:
    found: ReflectedColumn = {
        "name": column.name, "type": sql_type(column.type), "nullable": column.nullable, "default": None,
    }  # fmt: skip
    if column.note:
        found["comment"] = column.note
    return found


def sql_type(name: str) -> types.TypeEngine[Any]:
    """SQLAlchemy's type for a column of the policy."""
    if found := re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", name):
        return types.NUMERIC(int(found[1]), int(found[2]))
    if name.startswith("timestamp"):
        return types.TIMESTAMP()
    return _TYPES.get(name, types.NullType)()


def _db(connection: Any) -> dpsql.Connection:
    found: dpsql.Connection = connection.connection.dbapi_connection
    return found


def _tables(connection: Any, schema: str | None) -> list[TableInfo]:
    if schema not in (None, "main"):
        return []
    return [table for table in visible_tables(_db(connection)) if table.columns]


def _table(connection: Any, name: str, schema: str | None) -> TableInfo:
    found = [table for table in _tables(connection, schema) if table.name.lower() == name.lower()]
    if not found:
        raise exc.NoSuchTableError(name)
    return found[0]
