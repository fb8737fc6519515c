"""A counter-example made small: fewer rows, fewer values, a shorter query, as long as it still breaks the promise."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from sqlglot import exp, parse_one

from dpsql.audit.comparison import ORDER, Case, violations
from dpsql.audit.outcome import AuditFinding
from dpsql.audit.world import StoredTable, World

SECONDS, ORDERS = 45.0, 8
DROPPED = ("where", "having", "order", "limit", "qualify", "distinct", "windows", "filter")


def finding_of(case: Case, seen: str, seconds: float = SECONDS) -> AuditFinding:
    """The smallest case that was found in that time, as a script that reproduces it.

    Where an engine reads a row by the rows beside it, the violation may need another order of the neighbour's rows. If
    none reproduces it, the finding says what was `seen`.
    """
    orders = (replace(case, order=order) for order in range(1, ORDERS + 1))
    small = shrink(next(filter(_breaks, orders), case), seconds)
    found = violations(small)
    return AuditFinding(
        found[0] if found else f"{seen} (the script below did not reproduce it: another order of the rows may)",
        script(small),
    )


def shrink(case: Case, seconds: float = SECONDS) -> Case:
    """Drop rows, then parts of the query, then values, again and again until nothing can go."""
    ends = time.monotonic() + seconds

    def bad(candidate: Case) -> bool:
        return time.monotonic() < ends and _breaks(candidate)

    if not _breaks(case):
        return case
    while time.monotonic() < ends:
        before = case
        for step in (_fewer_units, _fewer_rows, _shorter, _fewer_values):
            case = step(case, bad)
        if case == before:
            break
    return case


def _breaks(case: Case) -> bool:
    try:
        return bool(violations(case))
    except Exception:
        return False


Bad = Callable[[Case], bool]


def _fewer_units(case: Case, bad: Bad) -> Case:
    """Try to drop all other units at once, then each of them."""
    kept = set(case.gone)
    for wanted in (lambda owner: owner in kept, lambda owner: owner is not None):
        smaller = replace(case, world=case.world.keeping(wanted))
        if case.kind != ORDER and smaller.world != case.world and bad(smaller):
            return smaller
    for unit in case.world.units():
        if unit not in kept and isinstance(unit, str):
            smaller = replace(case, world=case.world.without(unit))
            case = smaller if bad(smaller) else case
    return case


def _fewer_rows(case: Case, bad: Bad) -> Case:
    """Try to drop halves of each table, then quarters, then single rows; rows that are units keep their places."""
    for name in case.world.owners:
        if case.world.policy.tables[name].by_row:
            continue
        size = max(1, len(case.world.tables[name].rows) // 2)
        while size >= 1:
            at = 0
            while at < len(case.world.tables[name].rows):
                rows = case.world.tables[name].rows
                smaller = replace(case, world=_with(case.world, name, rows=(*rows[:at], *rows[at + size :])))
                if bad(smaller):
                    case = smaller
                else:
                    at += size
            size //= 2
    return case


def _fewer_values(case: Case, bad: Bad) -> Case:
    """Try NULL in every row of a column."""
    for name in case.world.owners:
        for place in range(len(case.world.tables[name].columns)):
            rows = case.world.tables[name].rows
            if any(row[place] is not None for row in rows):
                blank = tuple((*row[:place], None, *row[place + 1 :]) for row in rows)
                smaller = replace(case, world=_with(case.world, name, rows=blank))
                case = smaller if bad(smaller) else case
    return case


def _with(world: World, name: str, *, rows: tuple[tuple[object, ...], ...]) -> World:
    stored = world.tables[name]
    return replace(world, tables={**world.tables, name: StoredTable(stored.columns, rows, stored.constraints)})


# the query ------------------------------------------------------------------------------------------------------------


def _shorter(case: Case, bad: Bad) -> Case:
    """Drop clauses and items, put an argument in the place of a call, a table in the place of a subquery."""
    going = True
    while going:
        going = False
        for sql in _simpler(case.query.sql):
            smaller = replace(case, query=replace(case.query, sql=sql, keys=0))
            if len(sql) < len(case.query.sql) and bad(smaller):
                case, going = smaller, True
                break
    if case.query.clipped and bad(smaller := replace(case, query=replace(case.query, clipped=False))):
        case = smaller
    return case


def _simpler(sql: str) -> Iterator[str]:
    """Every query that is one step shorter."""
    tree = parse_one(sql, dialect="duckdb")
    for number, node in enumerate(tree.walk()):
        for change in _changes(node):
            copy = tree.copy()
            twin = next(each for i, each in enumerate(copy.walk()) if i == number)
            if change(twin):
                yield copy.sql("duckdb")


Change = Callable[[exp.Expr], bool]


@dataclass(frozen=True, slots=True)
class _Drop:
    """Take a clause away."""

    part: str

    def __call__(self, node: exp.Expr) -> bool:
        node.set(self.part, None)
        return True


@dataclass(frozen=True, slots=True)
class _DropItem:
    """Take one of several items away."""

    part: str
    place: int

    def __call__(self, node: exp.Expr) -> bool:
        items = list(node.args[self.part])
        del items[self.place]
        node.set(self.part, items)
        return True


@dataclass(frozen=True, slots=True)
class _Inner:
    """Put a part of an expression in its place."""

    part: str

    def __call__(self, node: exp.Expr) -> bool:
        inner = node.args[self.part]
        if isinstance(inner, exp.Expr) and node.parent is not None:
            node.replace(inner.copy())
            return True
        return False


def _changes(node: exp.Expr) -> Iterator[Change]:
    if isinstance(node, exp.Select):
        yield from (_Drop(part) for part in DROPPED if node.args.get(part))
        yield from (_DropItem("expressions", i) for i in range(len(node.expressions)) if len(node.expressions) > 1)
        yield from (_DropItem("joins", i) for i in range(len(node.args.get("joins") or ())))
        yield from (_Drop(part) for part in ("group",) if node.args.get(part))
    elif isinstance(node, exp.Group):
        yield from (_DropItem("expressions", i) for i in range(len(node.expressions)) if len(node.expressions) > 1)
    elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
        yield _put_table
    elif isinstance(node, exp.Case):
        yield _Inner("default")
        yield _branch
    elif isinstance(node, exp.Filter | exp.Paren | exp.Not | exp.Alias | exp.Cast | exp.Neg | exp.Window):
        yield _Inner("this")
    elif isinstance(node, exp.Binary | exp.Func | exp.SetOperation) and not isinstance(node, exp.Dot):
        yield from (_Inner(part) for part in ("this", "expression") if isinstance(node.args.get(part), exp.Expr))


def _put_table(node: exp.Expr) -> bool:
    """The first table of a derived one, under its name."""
    table = node.this.find(exp.Table)
    if table is None or node.parent is None:
        return False
    plain = table.copy()
    alias = node.args.get("alias")
    plain.set("alias", alias.copy() if alias is not None else None)
    node.replace(plain)
    return True


def _branch(node: exp.Expr) -> bool:
    node.replace(node.args["ifs"][0].args["true"].copy())
    return True


# the report -----------------------------------------------------------------------------------------------------------


def script(case: Case) -> str:
    """Rows and query as SQL, with what the neighbour lacks."""
    query, named = case.query, case.query.sql.casefold()
    tables = {
        n: t for n, t in case.world.tables.items() if t.rows and (n in case.world.owners or n.casefold() in named)
    }
    rows = ";\n".join(_insert(name, table) for name, table in tables.items())
    lacks = "other order, no rows of nobody" if case.kind == ORDER else f"the neighbour lacks {_units(case)}"
    clipped = ", clipped" if query.clipped else ""
    price = f"{query.mechanism}, epsilon {query.epsilon:g}, delta {query.delta:g}{clipped}"
    return f"-- world {case.world.name}; {lacks}\n{rows};\n-- {price}\n{query.sql};"


def _units(case: Case) -> str:
    return ", ".join(f"unit {u}" if isinstance(u, str) else f"row {u[1]} of {u[0]}" for u in case.gone)  # type: ignore[index]


def _insert(name: str, table: StoredTable) -> str:
    """Only the columns that hold something."""
    used = [i for i in range(len(table.columns)) if any(row[i] is not None for row in table.rows)] or [0]
    columns = {c: t for i, (c, t) in enumerate(table.columns.items()) if i in used}
    shown = StoredTable(columns, tuple(tuple(row[i] for i in used) for row in table.rows))
    listed = ", ".join(columns)
    return shown.insert(name).replace(" VALUES", f" ({listed}) VALUES", 1)
