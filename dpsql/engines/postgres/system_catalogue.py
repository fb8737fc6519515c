"""What a PostgreSQL database says of itself: tables, column types and constraints, without looking at rows.

**Theorem.** A relation that is listed holds each of its rows once, and shows this role all of them; a key or a link
that is listed holds for the rows of the snapshot in which it was read. **Proof.** Views, materialised views and foreign
tables are left out, and tables of an inheritance tree, since a parent shows the rows of its children, to which its keys
do not extend. Of a partitioned table, whose keys do hold over all partitions, only the whole is listed, and only if no
partition is foreign. Where row-level security would hide rows from this role, the table is left out (and the session
sets `row_security = off`, under which such a query fails rather than shows a part). PostgreSQL checks a constraint
before the statement that writes ends, if it is not deferrable and validated, its index is valid, and its triggers are
not disabled, nor those of a partition: all this is asked for. A link is listed only where no other table of the path
has the name of its parent, which would be taken for it. A virtual column (PostgreSQL 18) is computed when it is read,
and may raise: it is left out, and so is one of an ENUM type with casts of its own, which run somebody's function; a
label is written out by `enum_out`, since such a cast may come and go. A text column whose collation takes different
bytes for the same text is described as such: no unit, and no key. **Requires** that nobody wrote with
`session_replication_role = replica` or while triggers were disabled, made casts of built-in types, or changed
catalogues by hand. **Checked by** `tests/engines/test_postgres_engine.py`.

**Theorem (constant).** Let the tables be locked in ACCESS SHARE mode, described in a snapshot that was taken after the
locks, and described once more, from outside, after the last statement and before the locks are given back. If both
descriptions are equal, each statement in between read the relations that were described, with those columns, and no
others. **Proof.** What a description says of a table changes by ALTER TABLE, DROP, RENAME, TRUNCATE, CREATE POLICY or
CREATE RULE, which need an ACCESS EXCLUSIVE lock on it, and wait; or it is one of these. (1) A child by INHERIT: a plain
table is read, and locked, with ONLY. (2) ATTACH PARTITION: a partitioned table is locked with its partitions, and what
was attached cannot be detached before the query ends; DETACH … CONCURRENTLY marks it at once, but waits before it
removes its row of `pg_inherits`, which stands in the description with its mark and `xmin`. (3) The name of the schema,
the labels of an ENUM: the description has `xmin` of their catalogue rows, which every change replaces for ever, also
one that is undone. (4) Constraints that become weaker without that lock (DISABLE TRIGGER) say nothing of rows that were
visible before. (5) CREATE UNIQUE INDEX: it says that of rows which the snapshot still sees there are no two, and the
planner believes it, and joins each row with one of them. The description has all unique indexes; none can be dropped
before the query ends. (6) Functions, operators and types are looked up in `pg_catalog` and the session's own `pg_temp`;
casts are of built-in types. Rights, statistics, other indexes, comments and storage options change no row that is read;
where a right is missing, or row security would hide rows, the statement fails. **Checked by**
`tests/engines/test_postgres_migrations.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpsql.engines.postgres.dialect import LABELS, UNLIMITED
from dpsql.engines.postgres.syntax import quoted
from dpsql.expressions.types import SPELLINGS
from dpsql.plan.ownership import one_to_one
from dpsql.policy.database_catalog import CatalogRelation, Link
from dpsql.policy.identifiers import Names, fold

_TYPES = {
    "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "float4": "FLOAT", "float8": "DOUBLE", "bool": "BOOLEAN",
    "text": "VARCHAR", "varchar": "VARCHAR", "bpchar": "VARCHAR", "uuid": "UUID", "date": "DATE",
    "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP WITH TIME ZONE",
}  # fmt: skip
_COLUMNS = """
SELECT n.nspname, c.relname, a.attname, t.typname, t.typtype = 'e', a.atttypmod, coalesce(l.collisdeterministic, true),
       c.oid, n.xmin::text, c.relkind = 'r',
       CASE WHEN c.relkind = 'p' THEN ARRAY(
         WITH RECURSIVE parts AS (
           SELECT i.inhrelid, i.xmin, i.inhdetachpending FROM pg_inherits i WHERE i.inhparent = c.oid
           UNION ALL
           SELECT i.inhrelid, i.xmin, i.inhdetachpending FROM pg_inherits i JOIN parts p ON i.inhparent = p.inhrelid)
         SELECT concat_ws(' ', p.inhrelid, p.xmin, p.inhdetachpending) FROM parts p ORDER BY p.inhrelid) END,
       ARRAY(SELECT x.indexrelid::bigint FROM pg_index x WHERE x.indisunique AND (x.indrelid = c.oid OR x.indrelid IN
               (SELECT p.relid FROM pg_partition_tree(c.oid) p WHERE c.relkind = 'p')) ORDER BY 1),
       CASE WHEN t.typtype = 'e' THEN ARRAY(SELECT concat_ws(' ', e.oid, e.xmin, e.enumlabel)
                                            FROM pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.oid) END
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
 AND a.attgenerated IN ('', 's')
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_collation l ON l.oid = a.attcollation
WHERE n.nspname = ANY(%(schemas)s) AND c.relkind IN ('r', 'p') AND NOT c.relispartition
AND (%(tables)s::oid[] IS NULL OR c.oid = ANY(%(tables)s::oid[]))
AND (t.typtype = 'e' AND NOT EXISTS (SELECT FROM pg_cast k WHERE k.castsource = t.oid)
     OR (t.typtype = 'b' AND t.typnamespace = 'pg_catalog'::regnamespace))
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
WHERE n.nspname = ANY(%(schemas)s) AND (%(tables)s::oid[] IS NULL OR c.oid = ANY(%(tables)s::oid[]))
AND k.contype IN ('p', 'u', 'f') AND NOT k.condeferrable AND k.convalidated
AND NOT EXISTS (
  WITH RECURSIVE whole AS (
    SELECT k.oid UNION ALL SELECT d.oid FROM pg_constraint d JOIN whole w ON d.conparentid = w.oid)
  SELECT FROM pg_trigger g JOIN whole w ON g.tgconstraint = w.oid WHERE g.tgenabled <> 'O')
AND NOT EXISTS (
  SELECT FROM pg_class o JOIN pg_namespace b ON b.oid = o.relnamespace
  WHERE o.oid <> p.oid AND o.relkind IN ('r', 'p') AND b.nspname = ANY(%(schemas)s)
  AND lower(o.relname::text COLLATE "C") = lower(p.relname::text COLLATE "C"))
"""


@dataclass(frozen=True, slots=True)
class DescribedTable:
    """One table: where it is, its columns with DuckDB's names for their types, and what constraints say of it.

    `keys` are sets of columns that name at most one row, also in the types in which they are read; `identity` is what
    else must stay the same while a query reads the table.
    """

    place: str
    columns: Mapping[str, str]
    keys: frozenset[frozenset[str]]
    links: frozenset[tuple[str, str, str]]
    primary: str | None
    oid: int
    identity: tuple[object, ...]

    def relation(self, name: str) -> CatalogRelation:
        """The table as `dpsql check` and `dpsql init` see it."""
        keys = sorted(tuple(sorted(key)) for key in self.keys)
        links = [Link(column, table, key) for column, table, key in sorted(self.links)]
        return CatalogRelation(name, "", False, Names(dict(self.columns)), tuple(keys), self.primary, tuple(links))


def describe(cursor: Any, schemas: list[str], tables: Sequence[int] | None = None) -> dict[str, DescribedTable]:
    """The tables of these schemas, or some of them by their oid, by folded name.

    Of two names that differ in case only, there is neither.
    """
    asked = {"schemas": schemas, "tables": None if tables is None else list(tables)}
    columns: dict[tuple[str, str], list[Any]] = {}
    for schema, table, *rest in cursor.execute(_COLUMNS, asked).fetchall():
        columns.setdefault((schema, table), []).append(rest)
    constraints: dict[tuple[str, str], list[Any]] = {}
    for schema, table, *rest in cursor.execute(_CONSTRAINTS, asked).fetchall():
        constraints.setdefault((schema, table), []).append(rest)
    found = {place: _table(place, rows, constraints.get(place, ())) for place, rows in columns.items()}
    return _by_name(found, schemas)


def _by_name(found: Mapping[tuple[str, str], DescribedTable], schemas: list[str]) -> dict[str, DescribedTable]:
    """A name means the table of the first schema on the path that has it."""
    named: dict[str, DescribedTable] = {}
    for schema in schemas:
        here = [(fold(name), table) for (where, name), table in found.items() if where == schema]
        twice = {name for name, _ in here if [other for other, _ in here].count(name) > 1}
        named |= {name: table for name, table in here if name not in twice and name not in named}
    return named


def _table(place: tuple[str, str], rows: Sequence[Any], constraints: Iterable[Any]) -> DescribedTable:
    known = {column: _described(*described) for column, *described in (row[:5] for row in rows)}
    folded = [fold(column) for column in known]
    columns = {column: type_ for column, type_ in known.items() if folded.count(fold(column)) == 1}
    plain = {column for column, type_ in known.items() if one_to_one(type_)}
    keys, links, primary = set(), set(), None
    for kind, own, schema, parent, other in constraints:
        if not set(own) <= plain & set(columns):
            continue
        if kind != "f":
            keys.add(frozenset(own))
            primary = own[0] if kind == "p" and len(own) == 1 else primary
        elif len(own) == 1 and schema == place[0]:
            links.add((own[0], parent, other[0]))
    oid, schema_version, whole, partitions, unique, _ = rows[0][5:]
    where = f"{'ONLY ' if whole else ''}{quoted(place[0])}.{quoted(place[1])}"
    labels = [tuple(row[-1]) for row in rows if row[-1] is not None]
    identity = (schema_version, tuple(partitions or ()), tuple(unique), *labels)
    return DescribedTable(where, columns, frozenset(keys), frozenset(links), primary, oid, identity)


def _described(type_: str, enum: bool, modifier: int, as_bytes: bool) -> str:
    """DuckDB's name for the type of a column, and whether texts of it have several spellings."""
    if enum:
        return LABELS
    known = _type(type_, modifier)
    return known if as_bytes or known != "VARCHAR" else SPELLINGS


def _type(name: str, modifier: int) -> str:
    """DuckDB's name for a type; what it has no name for is described by its own, which nobody knows."""
    if name != "numeric":
        return _TYPES.get(name, name)
    if modifier < 4:
        return UNLIMITED
    precision, scale = ((modifier - 4) >> 16) & 0xFFFF, (((modifier - 4) & 0x7FF) ^ 1024) - 1024
    return f"DECIMAL({precision},{scale})" if 0 <= scale <= precision <= 38 else UNLIMITED
