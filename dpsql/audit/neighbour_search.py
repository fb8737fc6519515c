"""Search for a query and a unit that moves its exact totals further than claimed.

The search runs in blocks: a small world, some random queries over it and some of its neighbours. A block depends on
nothing but its number and the seed, so blocks can run in any order, on any machine, and can be repeated.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Protocol

from sqlglot import exp, parse_one

from dpsql.audit.column_values import values_of
from dpsql.audit.comparison import (
    ANSWERED,
    MOVED,
    ORDER,
    SEEN,
    Case,
    answered,
    compare,
    compare_equal,
    differences,
    forget_searches,
    paid,
    prepare,
    refused,
    rules_of,
    vectors,
    visible,
)
from dpsql.audit.counterexample import finding_of
from dpsql.audit.file_writers import writers_of, written_again
from dpsql.audit.grammar.query_writer import Query, Writer
from dpsql.audit.outcome import AuditFinding, Tally
from dpsql.audit.traces import ReleaseTrace
from dpsql.audit.world import Cell, Row, RowUnit, StoredTable, Unit, World, text_of
from dpsql.errors import EngineError, Error, InternalError
from dpsql.expressions.functions.table import find
from dpsql.expressions.types import Kind, from_engine
from dpsql.policy.identifiers import Names
from dpsql.policy.model import DeclaredColumn, ForeignKey
from dpsql.policy.searched_subjects import FoundBounds, Subject
from dpsql.query_draft import PreparedQuery
from dpsql.session import Connection

# pairs of worlds ------------------------------------------------------------------------------------------------------
# The small worlds of a search: a few of the steward's units, one that exceeds every bound, and their neighbours.


FEW_UNITS, FEW_ROWS = 6, 8


def part_of(world: World, rng: random.Random) -> World:
    """A few units of a world, with the rows of nobody; and a unit that goes too far, where one can be made."""
    units = world.units()
    own = [unit for unit in units if not isinstance(unit, RowUnit)]
    rows = [unit for unit in units if isinstance(unit, RowUnit)]
    chosen = {*rng.sample(own, min(len(own), FEW_UNITS)), *rng.sample(rows, min(len(rows), FEW_ROWS))}
    small = world.keeping(lambda owner: owner is None or owner in chosen)
    return with_extreme(small, rng) or small


def settled(world: World, rng: random.Random) -> World:
    """The world with something found wherever the policy leaves bounds to a search: the search itself is apart."""
    subjects = world.policy.searched()
    if not subjects:
        return world
    policy = world.policy.with_found({subject: _found(world, subject, rng) for subject in subjects})
    tables = {
        name: table
        if table.columns is None
        else table.model_copy(update={"columns": Names({c: _declared(s) for c, s in table.columns.items()})})
        for name, table in policy.tables.items()
    }
    return replace(world, policy=policy.model_copy(update={"tables": Names(tables)}))


def _declared(column: DeclaredColumn) -> DeclaredColumn:
    return column.model_copy(update={"bounds": None}) if column.bounds else column


def _found(world: World, subject: Subject, rng: random.Random) -> FoundBounds:
    if subject.column is None:
        return FoundBounds(None, rng.choice((1, 2, 5)))
    stored = next(t for name, t in world.tables.items() if name.casefold() == subject.table.casefold())
    known = from_engine(list(stored.columns.values())[stored.place(subject.column)])
    if known is not None and known.temporal:
        values = values_of("DATE", DeclaredColumn())
        return FoundBounds(*values.edges[:2])  # type: ignore[arg-type]
    return FoundBounds(rng.choice((-5, 0)), rng.choice((1, 10)))


# a unit that goes too far ---------------------------------------------------------------------------------------------


def with_extreme(world: World, rng: random.Random) -> World | None:
    """The world with one more unit: too many rows, at the bounds and beyond, in the groups of others."""
    try:
        return world.adding(_Extreme(world, rng).rows())
    except _CannotBeMade:
        return None


class _CannotBeMade(Exception):
    """A key of a type for which no fresh value is known."""


class _Extreme:
    def __init__(self, world: World, rng: random.Random) -> None:
        self.world, self.rng = world, rng
        self.made: dict[str, list[Row]] = {}

    def rows(self) -> dict[str, list[Row]]:
        for name, stored in self.world.tables.items():
            declared = self.world.policy.tables.get(name)
            if declared is not None and declared.unit_column is not None:
                self.made[name] = self._rows(name, stored)
        return self.made

    def _rows(self, name: str, stored: StoredTable) -> list[Row]:
        declared = self.world.policy.tables[name]
        place = stored.place(declared.unit_column or "")
        if isinstance(declared.unit, ForeignKey):
            parent = self.world.stored_name(declared.unit.table)
            key = self.world.tables[parent].place(declared.unit.key)
            links: list[Cell] = [row[key] for row in self.made.get(parent, ()) if row[key] is not None]
        else:
            links = [self._fresh_unit()]
        if not links:
            return []
        unique = _unique(stored)
        many = 1 if place in unique else self.rng.choice((3, 6, 12))
        rows = [self._row(name, stored, place, self.rng.choice(links), unique, i) for i in range(many)]
        for places in _keys(stored):
            rows = _without_duplicates(rows, places)
        return rows

    def _row(self, name: str, stored: StoredTable, place: int, link: Cell, unique: set[int], number: int) -> Row:
        declared = self.world.policy.tables[name]
        row: list[Cell] = []
        for i, (column, type_) in enumerate(stored.columns.items()):
            others = [each[i] for each in stored.rows[:20]]
            spec = (declared.columns or {}).get(column) or DeclaredColumn()
            if i == place:
                row.append(link)
            elif i in unique:
                row.append(_fresh(type_, [each[i] for each in stored.rows], number))
            elif others and self.rng.random() < 0.4:
                row.append(self.rng.choice(others))
            else:
                row.append(values_of(type_, spec).extreme(self.rng))
        return tuple(row)

    def _fresh_unit(self) -> Cell:
        """A new unit that all unit columns can hold: of another type than text if there is one: text holds it too."""
        types = []
        for name, stored in self.world.tables.items():
            declared = self.world.policy.tables.get(name)
            if declared is not None and declared.unit_column and not isinstance(declared.unit, ForeignKey):
                types.append(list(stored.columns.values())[stored.place(declared.unit_column)])
        if not types:
            raise _CannotBeMade
        taken: list[Cell] = [u for u in self.world.units() if isinstance(u, str)]
        return _fresh(min(types, key=lambda type_: type_.upper() == "VARCHAR"), taken, 0)


_NAME = re.compile(r'"((?:[^"]|"")+)"|([^",\s]+)')


def _keys(stored: StoredTable) -> list[list[int]]:
    """The places of the columns of each unique constraint."""
    found = [re.fullmatch(r"(?:UNIQUE|PRIMARY KEY) \((.+)\)", each) for each in stored.constraints]
    listed = [_NAME.findall(each[1]) for each in found if each]
    return [[stored.place(quoted.replace('""', '"') or plain) for quoted, plain in names] for names in listed]


def _unique(stored: StoredTable) -> set[int]:
    """The places of the columns that are unique by themselves."""
    return {key[0] for key in _keys(stored) if len(key) == 1}


def _without_duplicates(rows: Sequence[Row], key: Sequence[int]) -> list[Row]:
    """The rows without those that repeat a key; a key with a NULL is never repeated."""
    kept: dict[object, Row] = {}
    for number, row in enumerate(rows):
        cells = tuple(text_of(row[place]) for place in key)
        kept.setdefault(number if None in cells else cells, row)
    return list(kept.values())


def _fresh(type_: str, taken: Sequence[Cell], number: int) -> Cell:
    known = from_engine(type_)
    if known is not None and known.kind is Kind.INTEGER:
        return str(max([0, *(int(str(each)) for each in taken if each is not None)]) + 1 + number)
    if type_.upper() == "VARCHAR":
        return f"~{len(taken) + number}"
    raise _CannotBeMade


def neighbours_of(world: World, rng: random.Random, many: int) -> list[tuple[tuple[Unit, ...], World]]:
    """Worlds without one unit, and without one row of each table whose rows are units: such tables never meet."""
    units = world.units()
    own = [unit for unit in units if not isinstance(unit, RowUnit)]
    by_table: dict[str, list[RowUnit]] = {}
    for unit in units:
        if isinstance(unit, RowUnit):
            by_table.setdefault(unit.table, []).append(unit)
    made = []
    for unit in rng.sample(own, min(len(own), many)) if own else [None] * many:
        gone: list[Unit] = [rng.choice(rows) for rows in by_table.values()] + ([unit] if unit is not None else [])
        if gone:
            made.append((tuple(gone), world.lacking(gone).reordered(rng)))
    return made


NEIGHBOURS, QUERIES, SEARCHED = 6, 40, 2
LOOKED_AT = 0.15
"""The share of queries whose plan, text and answer are compared as well."""


class Draws(Protocol):
    """What draws queries."""

    def any(self) -> Query:
        """The next one."""


Drawing = Callable[[World, random.Random], Draws]


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """A world that is open, with neighbours by the units that they lack, and one that dpsql must not tell from it."""

    world: World
    whole: Connection
    neighbours: tuple[tuple[tuple[Unit, ...], Connection], ...]
    same: Connection


def run_block(seed: int, number: int, own: Sequence[World], queries: int = QUERIES) -> Tally:
    """One block over parts of the steward's own worlds."""
    rng = random.Random(f"{seed} {number}")
    return examine_world(written_again(part_of(rng.choice(own), rng), rng), rng, queries)


def examine_world(world: World, rng: random.Random, queries: int, draws: Drawing = Writer.over) -> Tally:
    """Compare the policy's private searches, then queries; count the pairs for the writers of the files, if any."""
    tally = examine_searches(world, rng) if world.policy.searched() else Tally()
    if not tally.findings:
        world = settled(world, rng)
        tally = tally.plus(examine(world, rng, queries, writer=draws(world, rng)))
    return tally.counted_for(writers_of(world))


def examine(
    world: World, rng: random.Random, queries: int = QUERIES, neighbours: int = NEIGHBOURS, writer: Draws | None = None
) -> Tally:
    """Random queries over one world and its neighbours; the first finding ends it."""
    tally = Tally()
    writer = writer or Writer.over(world, rng)
    with ExitStack() as stack:
        where = _opened(world, rng, neighbours, stack)
        for _ in range(queries if where.neighbours else 0):
            taken = _taken(writer, where, tally)
            if taken is None or tally.findings:
                break
            _compare(taken[0], taken[1], where, tally, rng)
    return tally


def examine_searches(world: World, rng: random.Random) -> Tally:
    """The private searches for bounds that the policy leaves open: they are releases like any other."""
    tally = Tally()
    with ExitStack() as stack:
        where = _opened(world, rng, SEARCHED, stack)
        for subject in world.policy.searched():
            prepared = PreparedQuery(str(subject), *where.whole.searches.search(subject), ())
            whole, _ = vectors(where.whole, prepared)
            for gone, database in where.neighbours:
                made = compare(whole, vectors(database, prepared)[0])
                tally.add(rules_of(whole), ["private search"], made)
                said = f"a search for {subject}, without {gone}: "
                tally.findings += [AuditFinding(said + each, world.script()) for each in made.violations]
    return tally


def _opened(world: World, rng: random.Random, many: int, stack: ExitStack) -> Neighbourhood:
    def enter(each: World) -> Connection:
        return stack.enter_context(each.open(steward=True))

    near = tuple((gone, enter(each)) for gone, each in neighbours_of(world, rng, many))
    return Neighbourhood(world, enter(world), near, enter(world.without_unowned().reordered(rng)))


def _taken(writer: Draws, where: Neighbourhood, tally: Tally) -> tuple[Query, PreparedQuery] | None:
    """A query that dpsql takes; None if it fails on one otherwise than by refusing it, or refuses all."""
    for _ in range(200):
        query = writer.any()
        try:
            prepared = prepare(where.whole, query)
            for priced in prepared.bill.releases:
                where.whole.engine.emit(priced, None)
        except (InternalError, EngineError) as failure:
            tally.findings.append(AuditFinding(f"planning failed: {failure.message}", query.sql))
            return None
        except Error:
            tally.counted["queries refused"] += 1
            continue
        tally.counted["queries"] += 1
        return query, prepared
    return None


def _compare(query: Query, prepared: PreparedQuery, where: Neighbourhood, tally: Tally, rng: random.Random) -> None:
    whole, inner = vectors(where.whole, prepared)
    constructs = constructs_of(query.sql) | shapes_of(whole or [])
    rules, price = rules_of(whole), paid(query)
    for gone, database in where.neighbours:
        made = compare(whole, vectors(database, prepared, inner)[0], price)
        tally.add(rules, constructs, made)
        if made.violations:
            tally.findings.append(finding_of(Case(MOVED, query, where.world, gone), made.violations[0]))
            return
    if found := compare_equal(whole, vectors(where.same, prepared, inner)[0]):
        tally.findings.append(finding_of(Case(ORDER, query, where.world, ()), found[0]))
        return
    if rng.random() < LOOKED_AT and where.neighbours:
        _look(query, where, *rng.choice(where.neighbours), tally)


def _look(query: Query, where: Neighbourhood, gone: tuple[Unit, ...], database: Connection, tally: Tally) -> None:
    for each in (where.whole, database):
        forget_searches(each, f"look {tally.counted['looks']}")
    tally.counted["looks"] += 1
    for kind, look in ((SEEN, visible), (ANSWERED, answered)):
        one, two = look(where.whole, query), look(database, query)
        tally.counted["pairs refused" if refused(one) else f"pairs {kind}"] += 1
        if found := differences(one, two):
            tally.findings.append(finding_of(Case(kind, query, where.world, gone), found[0]))
            return


# constructs -----------------------------------------------------------------------------------------------------------

CLAUSES: dict[type[exp.Expr], str] = {
    exp.CTE: "WITH", exp.Exists: "EXISTS", exp.Case: "CASE", exp.Rollup: "ROLLUP", exp.Cube: "CUBE",
    exp.GroupingSets: "GROUPING SETS", exp.Having: "HAVING", exp.Qualify: "QUALIFY", exp.Order: "ORDER BY",
    exp.Limit: "LIMIT", exp.Filter: "FILTER", exp.Between: "BETWEEN", exp.Like: "LIKE", exp.Cast: "CAST",
    exp.Where: "WHERE", exp.Or: "OR", exp.Interval: "INTERVAL", exp.IgnoreNulls: "IGNORE NULLS",
    exp.WithinGroup: "WITHIN GROUP",
}  # fmt: skip


def constructs_of(sql: str) -> frozenset[str]:
    """Names of clauses, joins, sets, windows, aggregates and functions."""
    return frozenset(name for node in parse_one(sql, dialect="duckdb").walk() for name in _named(node))


def shapes_of(releases: list[ReleaseTrace]) -> frozenset[str]:
    """What the planner made of it: rules, private keys, trees, choices, and the noise."""
    statistics = [statistic for release in releases for statistic in release.statistics]
    kinds = {f"{s.mechanism} noise" for s in statistics if s.mechanism != "exponential"}
    kinds |= {"private keys" for s in statistics if s.name == "selection"}
    return frozenset(kinds | ({"several releases"} if len(releases) > 1 else set()))


def _named(node: exp.Expr) -> Iterator[str]:
    if type(node) in CLAUSES:
        yield CLAUSES[type(node)]
    elif isinstance(node, exp.Join):
        words = [str(node.args.get(part) or "") for part in ("method", "side", "kind")]
        yield " ".join([*(word for word in words if word), "JOIN"]) + (" USING" if node.args.get("using") else "")
    elif isinstance(node, exp.SetOperation):
        yield type(node).__name__.upper() + ("" if node.args.get("distinct") else " ALL")
    elif isinstance(node, exp.Window):
        yield f"{_word(node.this)} OVER"
    elif isinstance(node, exp.In):
        yield "IN (subquery)" if node.args.get("query") else "IN (list)"
    elif isinstance(node, exp.Select) and node.args.get("distinct"):
        yield "SELECT DISTINCT"
    elif isinstance(node, exp.Subquery):
        yield "derived table" if isinstance(node.parent, exp.From | exp.Join) else "scalar subquery"
    elif isinstance(node, exp.AggFunc):
        yield f"{_word(node)}(DISTINCT)" if isinstance(node.this, exp.Distinct) else _word(node)
    elif isinstance(node, exp.Func | exp.Binary | exp.Unary) and (found := find(node)) is not None:
        yield f"{found[0].name}()"


def _word(node: exp.Expr) -> str:
    """An aggregate's own name."""
    inner = node.this if isinstance(node, exp.IgnoreNulls | exp.Filter | exp.WithinGroup) else node
    return inner.sql_name().lower() if isinstance(inner, exp.Func) else type(inner).__name__.lower()
