"""Which columns hold text of which DuckDB takes several spellings for one: `id VARCHAR COLLATE NOCASE`.

dpsql compares text byte by byte. A person whose id the database knows in several spellings would be several units to
dpsql, and move an answer by several times what it claims. So such a column leads to no owner (`dpsql.plan.ownership`);
as a key or in a condition its spelling is a function of the row alone.

DuckDB tells a column's collation nowhere but in the statement that would make the table again. **Theorem.** A column
that DuckDB does not compare byte by byte is found. **Proof.** The statement is DuckDB's own, so each COLLATE of a
column is a constraint of that column in it, in the syntax that is read here; where it cannot be read, all columns of a
table whose statement has that word count.
**Requires** a session without a default collation (`dpsql.engines.duckdb.open`), which no table's statement would show.
**Checked by** `tests/privacy/test_units_in_several_spellings.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpsql.policy.identifiers import fold

_BY_BYTES = ({"c"}, {"posix"}, {"binary"})
Place = tuple[bool, str, str]
"""Whether a table is temporary; its name and that of the column, folded."""


def columns_of_spellings(connection: duckdb.DuckDBPyConnection) -> set[Place]:
    """The columns of the tables here that are not compared byte by byte."""
    made = connection.execute(
        "SELECT temporary, table_name, sql FROM duckdb_tables() WHERE schema_name = 'main' "
        "AND database_name IN (current_database(), 'temp') AND sql ILIKE '%collate%'"
    ).fetchall()
    names = connection.execute("SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal").fetchall()
    found: set[Place] = set()
    for temporary, table, statement in made:
        all_columns = [column for other, column in names if other == table]
        found |= {(temporary, fold(table), fold(column)) for column in _collated(statement, all_columns)}
    return found


def _collated(statement: str, columns: Iterable[str]) -> Iterable[str]:
    try:
        read = sqlglot.parse_one(statement, dialect="duckdb")
    except SqlglotError:
        return columns
    if not isinstance(read, exp.Create):
        return columns
    return [column.name for column in read.find_all(exp.ColumnDef) if any(map(_mixes, column.constraints))]


def _mixes(constraint: exp.Expression) -> bool:
    """Is it a collation under which different bytes can be equal?"""
    kind = constraint.args.get("kind")
    if not isinstance(kind, exp.CollateColumnConstraint):
        return False
    return {fold(name.name) for name in kind.find_all(exp.Identifier)} not in _BY_BYTES
