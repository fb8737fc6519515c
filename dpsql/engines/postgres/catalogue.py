"""What a PostgreSQL database says of itself: tables, column types and constraints, without looking at rows.

**Theorem.** A relation that is listed holds each of its rows once, and shows this role all of them; a key or a link
that is listed holds for the rows of the snapshot in which it was read. **Proof.** Views, materialised views and foreign
tables are left out, and tables of an inheritance tree, since a parent shows the rows of its children, to which its keys
do not extend. Of a partitioned table, whose keys do hold over all partitions, only the whole is listed, and only if no
partition is foreign. Where row-level security would hide rows from this role, the table is left out (and the session
sets `row_security = off`, under which such a query fails rather than shows a part). PostgreSQL checks a constraint
before the statement that writes ends, if it is not deferrable and validated, its index is valid, and its triggers are
not disabled: all this is asked for. A virtual column (PostgreSQL 18) is computed when it is read, and may raise: it is
left out. **Checked by** `tests/engines/test_postgres_engine.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dpsql.engines.postgres.dialect import UNLIMITED
from dpsql.engines.postgres.words import quoted
from dpsql.expressions.types import DOUBLE, from_engine
from dpsql.policy.catalog import Link, Relation
from dpsql.policy.names import Names, fold

_TYPES = {
    "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "float4": "FLOAT", "float8": "DOUBLE", "bool": "BOOLEAN",
    "text": "VARCHAR", "varchar": "VARCHAR", "bpchar": "VARCHAR", "uuid": "UUID", "date": "DATE",
    "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP WITH TIME ZONE",
}  # fmt: skip
_COLUMNS = """
SELECT n.nspname, c.relname, a.attname, t.typname, t.typtype = 'e', a.atttypmod, coalesce(l.collisdeterministic, true)
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
 AND a.attgenerated IN ('', 's')
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_collation l ON l.oid = a.attcollation
WHERE n.nspname = ANY(%(schemas)s) AND c.relkind IN ('r', 'p') AND NOT c.relispartition
AND (t.typtype = 'e' OR (t.typtype = 'b' AND t.typnamespace = 'pg_catalog'::regnamespace))
AND has_table_privilege(c.oid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE') AND NOT row_security_active(c.oid)
AND NOT EXISTS (SELECT FROM pg_inherits i WHERE c.relkind = 'r' AND c.oid IN (i.inhparent, i.inhrelid))
AND NOT EXISTS (SELECT FROM pg_partition_tree(c.oid) p JOIN pg_class f ON f.oid = p.relid
                WHERE c.relkind = 'p' AND f.relkind NOT IN ('r', 'p'))
ORDER BY array_position(%(schemas)s, n.nspname), c.relname, a.attnum
"""
_CONSTRAINTS = """
SELECT n.nspname, c.relname, k.contype,
       ARRAY(SELECT a.attname FROM unnest(k.conkey) WITH ORDINALITY AS u(n, i)
             JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.n ORDER BY u.i)::text[],
       m.nspname, p.relname,
       ARRAY(SELECT a.attname FROM unnest(k.confkey) WITH ORDINALITY AS u(n, i)
             JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.n ORDER BY u.i)::text[]
FROM pg_constraint k
JOIN pg_class c ON c.oid = k.conrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_index x ON x.indexrelid = k.conindid AND x.indisvalid AND x.indisready AND x.indimmediate
LEFT JOIN pg_class p ON p.oid = nullif(k.confrelid, 0)
LEFT JOIN pg_namespace m ON m.oid = p.relnamespace
WHERE n.nspname = ANY(%(schemas)s) AND k.contype IN ('p', 'u', 'f') AND NOT k.condeferrable AND k.convalidated
AND NOT EXISTS (SELECT FROM pg_trigger g WHERE g.tgconstraint = k.oid AND g.tgenabled <> 'O')
"""


@dataclass(frozen=True, slots=True)
class Table:
    """One table: where it is, its columns with DuckDB's names for their types, and what constraints say of it.

    `keys` are sets of columns that name at most one row, also in the types in which they are read.
    """

    place: str
    columns: Mapping[str, str]
    keys: frozenset[frozenset[str]]
    links: frozenset[tuple[str, str, str]]
    primary: str | None

    def relation(self, name: str) -> Relation:
        """The table as `dpsql check` and `dpsql init` see it."""
        single = [column for column in self.columns if frozenset({column}) in self.keys]
        links = [Link(column, table, key) for column, table, key in sorted(self.links)]
        return Relation(name, "", False, Names(dict(self.columns)), tuple(single), self.primary, tuple(links))


def describe(cursor: Any, schemas: list[str]) -> dict[str, Table]:
    """The tables of these schemas by folded name; of two names that differ in case only, neither."""
    columns: dict[tuple[str, str], dict[str, tuple[str, bool]]] = {}
    for schema, table, column, type_, enum, modifier, plain in _rows(cursor, _COLUMNS, schemas):
        known = "VARCHAR" if enum else _type(type_, modifier)
        columns.setdefault((schema, table), {})[column] = (known, plain)
    constraints: dict[tuple[str, str], list[Any]] = {}
    for schema, table, *rest in _rows(cursor, _CONSTRAINTS, schemas):
        constraints.setdefault((schema, table), []).append(rest)
    found = {place: _table(place, known, constraints.get(place, ())) for place, known in columns.items()}
    return _by_name(found, schemas)


def _rows(cursor: Any, text: str, schemas: list[str]) -> Iterable[Any]:
    return cursor.execute(text, {"schemas": schemas}).fetchall()  # type: ignore[no-any-return]


def _by_name(found: Mapping[tuple[str, str], Table], schemas: list[str]) -> dict[str, Table]:
    """A name means the table of the first schema on the path that has it."""
    named: dict[str, Table] = {}
    for schema in schemas:
        here = [(fold(name), table) for (where, name), table in found.items() if where == schema]
        twice = {name for name, _ in here if [other for other, _ in here].count(name) > 1}
        named |= {name: table for name, table in here if name not in twice and name not in named}
    return named


def _table(place: tuple[str, str], known: Mapping[str, tuple[str, bool]], constraints: Iterable[Any]) -> Table:
    folded = [fold(column) for column in known]
    columns = {column: type_ for column, (type_, _) in known.items() if folded.count(fold(column)) == 1}
    plain = {column for column, (type_, as_bytes) in known.items() if as_bytes and _as_stored(type_)}
    keys, links, primary = set(), set(), None
    for kind, own, schema, parent, other in constraints:
        if not set(own) <= plain & set(columns):
            continue
        if kind != "f":
            keys.add(frozenset(own))
            primary = own[0] if kind == "p" and len(own) == 1 else primary
        elif len(own) == 1 and schema == place[0]:
            links.add((own[0], parent, other[0]))
    where = f"{quoted(place[0])}.{quoted(place[1])}"
    return Table(where, columns, frozenset(keys), frozenset(links), primary)


def _as_stored(type_: str) -> bool:
    """Are different values still different when they are read? Long decimals are not, as DOUBLE."""
    return not (type_.startswith("DECIMAL") and from_engine(type_) == DOUBLE)


def _type(name: str, modifier: int) -> str:
    """DuckDB's name for a type; what it has no name for is described by its own, which nobody knows."""
    if name != "numeric":
        return _TYPES.get(name, name)
    if modifier < 4:
        return UNLIMITED
    precision, scale = ((modifier - 4) >> 16) & 0xFFFF, (((modifier - 4) & 0x7FF) ^ 1024) - 1024
    return f"DECIMAL({precision},{scale})" if 0 <= scale <= precision <= 38 else UNLIMITED
