"""Verifies for the steward what a policy declares of a database: what exists, and what rules rely on.

Everything here reads private data and answers exactly: it is for the steward's eyes only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from dpsql.policy.column_types import literal, misfits
from dpsql.policy.database_catalog import (
    CatalogRelation,
    DatabaseReader,
    UnreadableDatabase,
    family,
    quote,
    read_catalog,
    reader_of,
)
from dpsql.policy.identifiers import Names, fold, nearest
from dpsql.policy.model import OWNED, DeclaredColumn, DeclaredTable, ForeignKey, Policy, key_fact
from dpsql.policy.searched_subjects import UNSEARCHED

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class PolicyFinding:
    """One thing that was looked at.

    `fact` names it within its table: `unique:…`, `key:…` and `foreign_key:…` are the facts that rules may rely on once
    they are verified. `ok` is false for what the steward has to mend.
    """

    table: str
    fact: str
    ok: bool
    kind: Literal["verified", "violated", "information", "error"]
    text: str


def check_facts(source: DatabaseReader | duckdb.DuckDBPyConnection, policy: Policy) -> list[PolicyFinding]:
    """Compare the policy with the database; facts first, then what the bounds will clip.

    **Theorem.** A fact that is found `verified` holds for the rows that the reader sees: each unit has at most one row
    (`unique`), each value of a key one row (`key`), and so has each value of a foreign key in the parent table, and
    each row of the child its parent (`foreign_key`). A key of several columns has no value where one of them is NULL.
    **Proof.** `unique`: no owner that is not NULL occurs twice, where owners are found along the path by which queries
    find them; a parent that stands twice doubles the rows of its children, so it can only be found violated. A key: no
    values of its columns, none of them NULL, occur twice together. A foreign key: types are the same, no key that is
    not NULL occurs twice, and no child points to a key that is not there. What the database cannot count is an error,
    and leaves nothing of the table verified.
    **Requires** a reader whose rows do not change while it counts and are those that queries will read (one version, by
    `dpsql.dataset`), and an equality under which two ids are one wherever dpsql takes them for one.
    **Checked by** `tests/unit/policy/test_policy_check.py`, and the planted bugs "a check finds no unit with two rows",
    "a check forgets the orphans", "a check looks at half of a key" and "a repeated parent key is no violation".
    """
    reader = reader_of(source)
    checker = _Checker(reader, policy, reader.catalog())
    return [*(finding for name in policy.tables for finding in _guarded(checker, name)), *_windows(policy)]


def _windows(policy: Policy) -> list[PolicyFinding]:
    """A reminder for every account that starts afresh: it promises less than it seems to."""
    text = (
        "epsilon {} resets every {}: what the analyst learns over many windows adds up, and only the dataset's"
        " cap of epsilon {} bounds it"
    )
    found = []
    for analyst, purpose in policy.accounts():
        caps = policy.caps(analyst, purpose)
        if caps.every is not None:
            whose = f"{analyst} for {purpose}" if purpose else f"{analyst}"
            said = text.format(caps.epsilon, caps.every, policy.budget.epsilon)
            found.append(PolicyFinding("budget", whose, ok=True, kind="information", text=said))
    return found


def constraint_facts(connection: duckdb.DuckDBPyConnection, policy: Policy) -> frozenset[tuple[str, str]]:
    """The facts, as (table, fact), that constraints of a DuckDB database guarantee whatever its rows are."""
    return facts_of(read_catalog(connection), policy)


def facts_of(catalog: Names[CatalogRelation], policy: Policy) -> frozenset[tuple[str, str]]:
    """The facts, as (table, fact), that a database's constraints guarantee.

    `unique` needs PRIMARY KEY or UNIQUE on exactly the column that holds the unit itself; a foreign key needs
    the very constraint, and a unique parent key; a key needs a constraint on its columns, or on some of them. A table
    is `OWNED` if the column that leads to the unit is NOT NULL or the PRIMARY KEY.
    Constraints that a collation weakens do not count.
    """
    facts = set[tuple[str, str]]()
    for name, table in policy.tables.items():
        relation = catalog.get(name)
        if relation is None:
            continue
        facts |= {(name, key_fact(key)) for key in table.keys if relation.is_key(*key)}
        if table.public or table.unit_column is None:
            continue
        if fold(table.unit_column) in relation.required:
            facts.add((name, OWNED))
        if relation.is_key(table.unit_column) and _holds_unit(policy, table):
            facts.add((name, policy.unique_fact(name)))
        if isinstance(table.unit, ForeignKey) and _constrained(relation, table.unit, catalog):
            facts.add((name, table.unit.fact))
    return frozenset(facts)


def _guarded(checker: _Checker, name: str) -> list[PolicyFinding]:
    """A failure of the engine is a finding too, and leaves nothing of its table verified."""
    try:
        return list(checker.table(name))
    except UnreadableDatabase as error:
        return [_error(name, "table", f"the database could not check it: {error}")]


def _holds_unit(policy: Policy, table: DeclaredTable) -> bool:
    """Whether the unit column holds units, not merely keys of rows that belong to them."""
    while isinstance(table.unit, ForeignKey):
        parent = policy.tables[table.unit.table]
        if parent.unit_column is None or fold(parent.unit_column) != fold(table.unit.key):
            return False
        table = parent
    return True


def _constrained(relation: CatalogRelation, link: ForeignKey, catalog: Names[CatalogRelation]) -> bool:
    parent = catalog.get(link.table)
    if parent is None or parent.database != relation.database or not parent.is_key(link.key):
        return False
    wanted = (fold(link.column), fold(link.table), fold(link.key))
    return any((fold(each.column), fold(each.table), fold(each.key)) == wanted for each in relation.links)


@dataclass(frozen=True, slots=True)
class _Checker:
    """One check: a database, a policy, and what the database says of itself."""

    reader: DatabaseReader
    policy: Policy
    catalog: Names[CatalogRelation]

    def table(self, name: str) -> Iterator[PolicyFinding]:
        table = self.policy.tables[name]
        errors = list(self.errors(name, table))
        yield from errors
        if errors:
            return
        yield PolicyFinding(name, "table", True, "verified", "the table and its columns exist, with usable types")
        yield from self.hidden(name, table)
        if isinstance(table.unit, ForeignKey):
            yield self.foreign_key(name, table.unit)
        for key in table.keys:
            yield self.key(name, key)
        if self.reaches_unit(name, table):
            yield from self.ownership(name, table)
        for column, declared in (table.columns or {}).items():
            yield from self.outside(name, column, declared)

    def errors(self, name: str, table: DeclaredTable) -> Iterator[PolicyFinding]:
        """What keeps the table from being used at all."""
        relation = self.catalog.get(name)
        if relation is None:
            guess = nearest(name, self.catalog)
            text = "there is no such table in the database" + (f"; did you mean {guess}?" if guess else "")
            yield _error(name, "table", text)
            return
        if relation.view:
            yield _error(name, "table", "it is a view: declare the tables behind it instead")
        columns = dict(table.columns or {})
        if table.unit_column is not None and table.unit_column not in (table.columns or {}):
            columns = {table.unit_column: DeclaredColumn(), **columns}
        for column, declared in columns.items():
            yield from self.column_errors(relation, name, column, declared)

    def hidden(self, name: str, table: DeclaredTable) -> Iterator[PolicyFinding]:
        """The columns of a public table that nobody sees, since dpsql does not know their types."""
        if table.public and table.columns is None:
            for column, data_type in self.catalog[name].columns.items():
                if family(data_type) is None:
                    text = f"hidden from analysts: its type {data_type} is not supported"
                    yield PolicyFinding(name, f"column:{column}", True, "information", text)

    def column_errors(
        self, relation: CatalogRelation, name: str, column: str, declared: DeclaredColumn
    ) -> Iterator[PolicyFinding]:
        if column not in relation.columns:
            guess = nearest(column, relation.columns)
            text = f"there is no column {column}" + (f"; did you mean {guess}?" if guess else "")
            yield _error(name, f"column:{column}", text)
            return
        reasons = list(misfits(declared, relation.columns[column]))
        if reasons:
            yield _error(name, f"column:{column}", f"{column}: {'; '.join(reasons)}")

    def foreign_key(self, name: str, link: ForeignKey) -> PolicyFinding:
        """Holds if the parent's key is unique and every child that points somewhere has its parent."""
        parent = self.catalog.get(link.table)
        if parent is None or parent.view or link.key not in parent.columns:
            return _error(name, link.fact, f"there is no {link.references} in the database")
        types = self.catalog[name].columns[link.column], parent.columns[link.key]
        if types[0] != types[1]:
            text = f"{link.column} is {types[0]} and {link.references} is {types[1]}: give both the same type"
            return _error(name, link.fact, text)
        twice = self.repeated(self.reader.table(link.table), quote(link.key))
        orphans = self.orphans(name, link)
        if twice or orphans:
            text = f"{twice:,} keys of {link.references} occur more than once; {orphans:,} rows have no parent"
            return PolicyFinding(name, link.fact, False, "violated", text)
        text = f"each {link.column} has exactly one {link.references}"
        return PolicyFinding(name, link.fact, True, "verified", text)

    def orphans(self, name: str, link: ForeignKey) -> int:
        child, key = quote(link.column), quote(link.key)
        return self.count(
            f"SELECT count(*) FROM {self.reader.table(name)} AS child WHERE child.{child} IS NOT NULL AND NOT EXISTS "
            f"(SELECT 1 FROM {self.reader.table(link.table)} AS parent WHERE parent.{key} = child.{child})"
        )

    def reaches_unit(self, name: str, table: DeclaredTable) -> bool:
        """Whether every column on the way to the unit is there, and can be compared without a cast."""
        while isinstance(table.unit, ForeignKey):
            own, parent = (
                self.type_of(name, table.unit.column),
                self.type_of(table.unit.table, table.unit.key),
            )
            if own is None or own != parent:
                return False
            name, table = table.unit.table, self.policy.tables[table.unit.table]
        return table.unit_column is not None and self.type_of(name, table.unit_column) is not None

    def type_of(self, table: str, column: str) -> str | None:
        relation = self.catalog.get(table)
        return None if relation is None else relation.columns.get(column)

    def ownership(self, name: str, table: DeclaredTable) -> Iterator[PolicyFinding]:
        owners = f"({self.owners(name)}) AS o"
        if table.one_row:
            yield self.unique(name, owners)
        else:
            yield self.over_cap(name, owners)
        lost = self.count(f"SELECT count(*) FROM {owners} WHERE owner IS NULL")
        text = f"{lost:,} rows have no owner and are ignored" if lost else "every row has an owner"
        yield _information(name, "owner", text)

    def owners(self, name: str) -> str:
        """SQL for the owner of each row, along the path of foreign keys."""
        joins, table, depth = f"{self.reader.table(name)} AS t0", self.policy.tables[name], 0
        while isinstance(table.unit, ForeignKey):
            link, depth = table.unit, depth + 1
            joins += (
                f" LEFT JOIN {self.reader.table(link.table)} AS t{depth}"
                f" ON t{depth - 1}.{quote(link.column)} = t{depth}.{quote(link.key)}"
            )
            table = self.policy.tables[link.table]
        return f"SELECT t{depth}.{quote(table.unit_column or '')} AS owner FROM {joins}"

    def unique(self, name: str, owners: str) -> PolicyFinding:
        twice, fact = self.repeated(owners, "owner"), self.policy.unique_fact(name)
        if twice:
            text = f"{twice:,} units have more than one row: delete `unique: true` or fix the data"
            return PolicyFinding(name, fact, False, "violated", text)
        return PolicyFinding(name, fact, True, "verified", "each unit has at most one row")

    def key(self, name: str, key: Sequence[str]) -> PolicyFinding:
        """Holds if no two rows agree on all columns of the key; NULL agrees with nothing."""
        fact, listed = key_fact(key), ", ".join(key)
        missing = [column for column in key if column not in self.catalog[name].columns]
        if missing:
            return _error(name, fact, f"there is no column {missing[0]}")
        twice = self.repeated(self.reader.table(name), *map(quote, key))
        if twice:
            text = f"{twice:,} values of ({listed}) occur more than once: delete the key from `unique` or fix the data"
            return PolicyFinding(name, fact, False, "violated", text)
        return PolicyFinding(name, fact, True, "verified", f"({listed}) names at most one row")

    def over_cap(self, name: str, owners: str) -> PolicyFinding:
        cap = self.policy.rows_per_unit(name)
        if cap == UNSEARCHED:
            return _information(name, "max_rows_per_unit", "left to a private search: `dpsql bounds` shows it")
        if self.policy.searches and not self.policy.capped(name):
            text = "not declared: private searches find how much one unit may add to each query"
            return _information(name, "max_rows_per_unit", text)
        over = self.count(
            f"SELECT count(*) FROM (SELECT owner FROM {owners} WHERE owner IS NOT NULL "
            f"GROUP BY owner HAVING count(*) > {cap}) AS c"
        )
        text = f"{over:,} units have more than {cap:,} rows and are down-weighted to {cap:,}"
        text = text if over else f"no unit has more than {cap:,} rows"
        return _information(name, "max_rows_per_unit", text)

    def outside(self, name: str, column: str, declared: DeclaredColumn) -> Iterator[PolicyFinding]:
        """How many rows the declaration will change."""
        data_type = self.catalog[name].columns[column]
        quoted, named = quote(column), self.reader.type(data_type)
        tests = [
            (f"{quoted} {sign} CAST(? AS {named})", literal(bound, data_type))
            for sign, bound in (("<", declared.min), (">", declared.max))
            if bound is not None
        ]
        if tests:
            condition = " OR ".join(test for test, _ in tests)
            rows = self.rows_where(name, condition, [text for _, text in tests])
            yield _information(name, f"bounds:{column}", f"{rows:,} rows are outside min and max of {column}")
        if declared.values is not None:
            rows = self.rows_where(name, *_not_among(quoted, data_type, named, declared))
            yield _information(name, f"values:{column}", f"{rows:,} rows are outside the values of {column}")
        if declared.values_from is not None:
            table, _, key = declared.values_from.rpartition(".")
            listed = f"(SELECT {quote(key)} FROM {self.reader.table(table)} WHERE {quote(key)} IS NOT NULL)"
            rows = self.rows_where(name, f"{quoted} NOT IN {listed}", [])
            yield _information(name, f"values:{column}", f"{rows:,} rows of {column} are not in {declared.values_from}")
        if not declared.nulls:
            rows = self.rows_where(name, f"{quoted} IS NULL", [])
            yield _information(name, f"nulls:{column}", f"{rows:,} rows are NULL in {column} despite `nulls: false`")

    def rows_where(self, name: str, condition: str, parameters: Sequence[str]) -> int:
        return self.count(f"SELECT count(*) FROM {self.reader.table(name)} WHERE {condition}", parameters)

    def repeated(self, source: str, *columns: str) -> int:
        """How many values of a column, or of several together, occur more than once, NULL left out."""
        known, listed = " AND ".join(f"{column} IS NOT NULL" for column in columns), ", ".join(columns)
        return self.count(
            f"SELECT count(*) FROM (SELECT {listed} FROM {source} WHERE {known} "
            f"GROUP BY {listed} HAVING count(*) > 1) AS r"
        )

    def count(self, sql: str, parameters: Sequence[str] = ()) -> int:
        [(number,)] = self.reader.rows(sql, parameters)
        return int(number)


def _not_among(quoted: str, data_type: str, named: str, declared: DeclaredColumn) -> tuple[str, list[Any]]:
    values = [literal(value, data_type) for value in declared.values or ()]
    slots = ", ".join([f"CAST(? AS {named})"] * len(values))
    return f"{quoted} NOT IN ({slots})", values


def _information(table: str, fact: str, text: str) -> PolicyFinding:
    return PolicyFinding(table, fact, True, "information", text)


def _error(table: str, fact: str, text: str) -> PolicyFinding:
    return PolicyFinding(table, fact, False, "error", text)
