"""The check `blackbox`: fresh answers of two neighbours are no easier to tell apart than their price allows.

Noise hides what a unit *may* contribute, so the unit that a question is about is made to contribute all of it: its
values are at a bound, and it has as many rows as are counted. A median is asked of units that lie at both bounds but
for one between them, so that removing one turns the ranks of all values over. A private key is shared by as many units
as its threshold needs, so that one unit decides whether it is shown. Everything else (types, keys, other units, the
policy) is the steward's. Where the database does not accept such rows, the stored unit that moves the exact totals most
is used instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import islice, zip_longest
from time import perf_counter

from dpsql.audit.blackbox.observations import opened
from dpsql.audit.blackbox.rounds import FIRST, LEVEL, Audited, BlackBoxCase, EventTest, audit, refuted
from dpsql.audit.file_writers import writers_of
from dpsql.audit.outcome import AuditCheck, AuditFinding, Outcome, PlotSeries, Progress, Settings
from dpsql.audit.traces import ReleaseTrace, trace
from dpsql.audit.world import Cell, LoadError, Row, Unit, World
from dpsql.errors import Error
from dpsql.policy.database_catalog import quote
from dpsql.policy.model import DeclaredColumn
from dpsql.session import Connection

RUNS, LONG_RUNS = 1_600, 6_400
"""The maximum number of runs of each neighbour; an audit whose outcome is clear ends earlier."""
ON_FILES = ("this check copied the rows of your files into a database; the check `neighbours` reads them as files",)
HALF = 0.5
CANDIDATES = 6
MOST_ROWS, MOST_UNITS = 200, 301
PURE, APPROXIMATE = "/*+ epsilon(1) */", "/*+ epsilon(3) delta(1e-3) */"
"""Prices at which a test has power. The scale of the noise follows from the price, so a wrong rule is wrong at any."""


def check_blackbox(worlds: Sequence[World], settings: Settings, progress: Progress) -> Outcome:
    """Questions about units of the steward's own, in this process and through each door."""
    asked = [case for world in worlds for case in own_cases(world, 20 if settings.long else 4)]
    made = audit_cases(asked, settings, progress)
    copied = ON_FILES if any(map(writers_of, worlds)) else ()
    return replace(made, notes=(*made.notes, *copied))


def audit_cases(asked: Sequence[BlackBoxCase], settings: Settings, progress: Progress) -> Outcome:
    """Audit each case in this process, and the first one through each door."""
    started, runs = perf_counter(), LONG_RUNS if settings.long else RUNS
    level = LEVEL / max(1, 2 * (len(asked) + len(settings.doors)))
    made = [
        audit(case, runs, partial(_advance, progress, number, len(asked), runs), level=level)
        for number, case in enumerate(asked)
    ]
    for name, door in settings.doors.items() if asked else ():
        case = asked[0]
        through = BlackBoxCase(f"{case.name}, through {name}", case.world, case.unit, case.sql)
        made.append(audit(through, FIRST, lambda _: None, door, level))
    progress(len(asked) * runs, len(asked) * runs)
    outcome = report_of(made, perf_counter() - started)
    return replace(outcome, notes=(*outcome.notes, *settings.door_notes))


def _advance(progress: Progress, number: int, of: int, runs: int, done: int) -> None:
    progress(number * runs + done, of * runs)


# questions to the steward's own data ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnQuestion:
    """SQL about a column of a table, and how to make a world in which one of its units shows most."""

    sql: str
    table: str
    column: str
    shown: Callable[[World, Connection, ColumnQuestion], tuple[World, Unit]]

    @property
    def name(self) -> str:
        """The SQL without its price, which is the same in all questions."""
        return self.sql.replace(f"{PURE} ", "").replace(f"{APPROXIMATE} ", "")


def own_cases(world: World, most: int) -> list[BlackBoxCase]:
    """So many questions at most, each with the unit that shows best."""
    with opened(world, steward=True) as db:
        return list(islice((case for each in _questions(world) if (case := _case(world, db, each))), most))


def _questions(world: World) -> Iterator[ColumnQuestion]:
    """A count of each private table; then, in turn, sums, medians and counts by key of the columns."""
    price = APPROXIMATE if world.policy.budget.delta else PURE
    sums, medians, keys = list[ColumnQuestion](), list[ColumnQuestion](), list[ColumnQuestion]()
    for name in (name for name in world.tables if name in world.policy.tables and world.policy.tables[name].private):
        table = quote(name)
        yield ColumnQuestion(f"SELECT {price} count(*) AS n FROM {table}", name, "", _heavy)
        for column, declared in (world.policy.tables[name].columns or {}).items():
            x = quote(column)
            if declared.min is not None and declared.max is not None:
                sql = f"SELECT {price} sum({x}) AS s, avg({x}) AS a FROM {table}"
                sums.append(ColumnQuestion(sql, name, column, _heavy))
                medians.append(ColumnQuestion(f"SELECT {price} median({x}) AS m FROM {table}", name, column, _even))
            elif column.casefold() != (world.policy.tables[name].unit_column or "").casefold():
                if declared.values is None:
                    keys.append(ColumnQuestion(f"SELECT {price} DISTINCT {x} FROM {table}", name, column, _deciding))
                else:
                    sql = f"SELECT {price} {x}, count(*) AS n FROM {table} GROUP BY {x}"
                    keys.append(ColumnQuestion(sql, name, column, _heavy))
    yield from (each for turn in zip_longest(sums, medians, keys) for each in turn if each is not None)


def _case(world: World, db: Connection, question: ColumnQuestion) -> BlackBoxCase | None:
    """The case, or None where the policy refuses the question."""
    try:
        before = trace(db, question.sql, salt=b"audit")
    except Error:
        return None
    try:
        made, unit = question.shown(world, db, question)
        for each in (made, made.without(unit)):
            with opened(each, steward=True) as other:
                trace(other, question.sql, salt=b"audit")
        return BlackBoxCase(question.name, made, unit, question.sql)
    except (Error, LoadError, LookupError):
        moved = {unit: _moved(world.without(unit), question.sql, before) for unit in _heaviest(world)}
    return BlackBoxCase(question.name, world, max(moved, key=lambda unit: moved[unit]), question.sql) if moved else None


# units that show ------------------------------------------------------------------------------------------------------


def _heavy(world: World, _: Connection, question: ColumnQuestion) -> tuple[World, Unit]:
    """A world in which the unit with the most rows has as many as count, with values at the bound further from zero."""
    unit = _by_rows(world, question.table)[0]
    return _filled(_changed(world, question, {unit: _farther(_column(world, question))}), question.table, [unit]), unit


def _even(world: World, _: Connection, question: ColumnQuestion) -> tuple[World, Unit]:
    """Half of the units at each bound, one in the middle: without one of the lower, the median is in the upper half."""
    some = _by_rows(world, question.table)[:MOST_UNITS]
    some = some[: len(some) - (len(some) + 1) % 2]
    small, column = world.keeping(lambda owner: owner is None or owner in some), _column(world, question)
    units = _by_rows(small, question.table)
    assert column is not None
    half, cells = len(units) // 2, dict[Unit, Cell]()
    cells |= dict.fromkeys(units[:half], _text(column.min)) | dict.fromkeys(units[half + 1 :], _text(column.max))
    made = _changed(small, question, cells | {units[half]: _middle(column)})
    return _filled(made, question.table, units), units[0]


def _filled(world: World, table: str, units: Sequence[Unit]) -> World:
    """The world where some units have as many rows as count, if the table takes a row twice."""
    declared, stored = world.policy.tables[table], world.tables[table]
    most = declared.max_rows_per_unit or world.policy.defaults.max_rows_per_unit
    if declared.one_row or declared.by_row or stored.constraints or most == "auto":
        return world
    rows = [world.rows_of(unit)[table] for unit in units]
    return world.adding({table: [row for each in rows for row in each[:1] * (min(most, MOST_ROWS) - len(each))]})


def _deciding(world: World, db: Connection, question: ColumnQuestion) -> tuple[World, Unit]:
    """A world in which exactly as many units as the threshold needs share a key."""
    priced = db.prepare(question.sql).bill.releases[0]
    assert priced.selection is not None and priced.threshold is not None
    needed = -(-priced.threshold // (priced.selection.claim.linf or 1))
    units = _by_rows(world, question.table)
    if needed > len(units):
        raise LookupError("too few units")
    return _changed(world, question, dict.fromkeys(units[:needed], "shared")), units[0]


def _by_rows(world: World, table: str) -> list[Unit]:
    """The units of a table, those with the most rows first."""
    return [unit for unit, _ in Counter(o for o in world.owners[table] if o is not None).most_common()]


def _changed(world: World, question: ColumnQuestion, cells: Mapping[Unit, Cell]) -> World:
    """The world with other cells in the column, for all rows of some units; None leaves them."""
    stored, owners = world.tables[question.table], world.owners[question.table]
    place = stored.place(question.column) if question.column else -1

    def row_of(row: Row, owner: Unit | None) -> Row:
        cell = cells.get(owner)
        return row if cell is None or place < 0 else (*row[:place], cell, *row[place + 1 :])

    rows = tuple(row_of(row, owner) for row, owner in zip(stored.rows, owners, strict=True))
    return replace(world, tables={**world.tables, question.table: replace(stored, rows=rows)})


def _column(world: World, question: ColumnQuestion) -> DeclaredColumn | None:
    return (world.policy.tables[question.table].columns or {}).get(question.column)


def _farther(column: DeclaredColumn | None) -> Cell:
    if column is None or column.min is None or column.max is None:
        return None
    low, high = column.min, column.max
    if isinstance(low, int | Decimal) and isinstance(high, int | Decimal) and abs(Decimal(low)) > abs(Decimal(high)):
        return _text(low)
    return _text(column.max)


def _middle(column: DeclaredColumn) -> str:
    low, high = column.min, column.max
    if isinstance(low, int) and isinstance(high, int):
        return str((low + high) // 2)
    return _text(low + (high - low) / 2)  # type: ignore[operator]


def _text(bound: object) -> str:
    return format(bound, "f") if isinstance(bound, Decimal) else str(bound)


# units as they are ----------------------------------------------------------------------------------------------------


def _heaviest(world: World) -> list[Unit]:
    """The units with the most rows."""
    rows = {unit: sum(map(len, world.rows_of(unit).values())) for unit in list(world.units())[:2000]}
    return sorted(rows, key=lambda unit: -rows[unit])[:CANDIDATES]


def _moved(without: World, sql: str, before: list[ReleaseTrace]) -> float:
    """How far the traced vectors move, as a share of what is claimed, summed up."""
    with opened(without, steward=True) as db:
        after = trace(db, sql, salt=b"audit")
    total = 0.0
    for one, two in zip(before, after, strict=True):
        for first, second in zip(one.statistics, two.statistics, strict=True):
            claim = first.l1 or first.linf
            if claim and len(first.values) == len(second.values):
                total += sum(abs(a - b) for a, b in zip(first.values, second.values, strict=True)) / claim
    return total


# outcomes -------------------------------------------------------------------------------------------------------------


def report_of(made: Sequence[Audited], seconds: float) -> Outcome:
    """What all audits together show: which queries are flagged, and with how little noise each would have been."""
    tests = [test for each in made for test in each.tests]
    level = LEVEL / max(1, len(tests))
    factors = [(each.case.name, each.factor(level)) for each in made]
    weak = [f"{name} ({factor:.2f}×)" for name, factor in factors if factor < HALF]
    figures = (
        ("queries audited", len(made)),
        ("runs", sum(2 * each.runs for each in made)),
        ("flagged", len({test.case for test in refuted(tests)})),
        ("queries in which half the right noise would have been flagged", len(made) - len(weak)),
        ("share of the right noise that every query would have flagged", min((f for _, f in factors), default=0.0)),
    )
    title = "Power: noise up to this share of the right noise would have been flagged (more is better)"
    series = PlotSeries(title, "query", "share of the right noise", tuple(factors))
    findings = [AuditFinding(_described(test, level), _sql(made, test)) for test in refuted(tests)]
    notes = (
        (f"half the right noise might have gone unnoticed here; --long makes more runs: {'; '.join(weak)}",)
        if weak
        else ()
    )
    return Outcome("blackbox", figures, tuple(findings), (series,), notes, seconds=seconds, incomplete=_refused(made))


def _refused(made: Sequence[Audited]) -> str:
    """The cases in which a side was refused: two sides that refuse alike test nothing."""
    if not made:
        return "there was no question that the policy answers"
    names = [
        f"{each.case.name} ({each.runs - each.answered} of {each.runs})" for each in made if each.answered < each.runs
    ]
    return f"runs were refused: {'; '.join(names)}" if names else ""


def _described(test: EventTest, level: float) -> str:
    counts, limit = test.counts, test.limit
    name = {"epsilon": "ε", "rho": "ρ"}[limit.kind]
    return (
        f"{test.case}: charged {name} = {limit.value:.4g}, costs at least {test.lower(level):.4g}: “{test.event}” was "
        f"seen {counts.hits} times in {counts.runs} runs {test.direction}, {counts.misses} in {counts.others} otherwise"
    )


def _sql(made: Sequence[Audited], test: EventTest) -> str:
    return next(each.case.sql for each in made if each.case.name == test.case)


BLACKBOX = AuditCheck(
    "Fresh answers of two neighbours are no easier to tell apart than their price allows.", check_blackbox
)
