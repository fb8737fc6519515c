"""Units that use up their claim: as many rows as are allowed, all at a bound, all where it hurts most."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby

from property_world import FIRST_DAY, TABLES, Database, Row, make_policy, opened, traced, without_unit

from dpsql.audit.comparison import Comparison, compare, rules_of
from dpsql.audit.grammar.query_writer import Query

UNIT = 1


@dataclass(frozen=True, slots=True)
class Case:
    """A query, the rows of the unit that is removed, and the rule that is meant to bound it (empty: any)."""

    rule: str
    sql: str
    table: str
    rows: tuple[Row, ...]
    mechanism: str = "laplace"
    epsilon: float = 1.0


def run_cases(cases: Sequence[Case]) -> Iterator[tuple[Case, Comparison]]:
    """Each case's unit among others, and without it; cases over the same rows share their two databases."""
    for (table, rows), same in groupby(cases, key=lambda case: (case.table, case.rows)):
        tables: dict[str, list[Row]] = {name: [] for name in TABLES}
        tables[table] = [*({"id": UNIT, **row} for row in rows), *_others(table, rows)]
        smaller = without_unit(tables, UNIT, 0, random.Random(0))
        with opened(tables, make_policy()) as one, opened(smaller, make_policy()) as two:
            yield from [(case, _run(case, one, two)) for case in same]


def _run(case: Case, one: Database, two: Database) -> Comparison:
    query = Query(case.sql, 0, case.mechanism, case.epsilon)
    larger = traced(one, query)
    if larger is not None and case.rule and case.rule not in rules_of(larger):
        return Comparison([f"{case.sql} is bounded by {rules_of(larger)}, not by {case.rule}"])
    return compare(larger, traced(two, query))


def _others(table: str, rows: Sequence[Row]) -> list[Row]:
    """Two other units in each of the groups, and a row without owner where a table can hold one."""
    unowned = [] if table == "people" else [{**rows[0], "id": None}]
    return [{**row, "id": unit, "x": 3.3} for row in rows for unit in (2, 3)] + unowned


def unit_rows(count: int, groups: Sequence[str] = "a", *, by_day: bool = False, **values: object) -> tuple[Row, ...]:
    """The rows of one unit, at the bounds, dealt to its groups in turn (and to days, one each)."""
    common: Row = {"x": 20.0, "debt": -30.0, "n": 8, "level": 1, "size": "s", "flag": True, **values}
    groups = [groups[i % len(groups)] for i in range(count)]
    days = [FIRST_DAY + timedelta(days=i if by_day else 0) for i in range(count)]
    return tuple({**common, "kind": group, "note": group, "day": day} for group, day in zip(groups, days, strict=True))


_AGGREGATES = ("count(*)", "sum(x)", "sum(debt)", "avg(x)", "count(x), sum(x)", "sum(n), count(*)")
_LETTERS = "abcdef"
_UNITS_BY_KIND = "SELECT kind, count(DISTINCT id) FROM orders GROUP BY kind"
_UNITS_BY_NOTE = "SELECT note, count(DISTINCT id) FROM orders GROUP BY note"

CASES: tuple[Case, ...] = (
    *(Case("row", f"SELECT kind, {a} FROM visits GROUP BY kind", "visits", unit_rows(1)) for a in _AGGREGATES),
    *(Case("single_row", f"SELECT kind, {a} FROM people GROUP BY kind", "people", unit_rows(1)) for a in _AGGREGATES),
    Case("single_row", "SELECT sum(t) FROM (SELECT id, sum(x) AS t FROM orders GROUP BY id)", "orders", unit_rows(4)),
    *(Case("one_group", f"SELECT {a} FROM orders", "orders", unit_rows(4)) for a in _AGGREGATES),
    *(Case("one_group", f"SELECT id % 3, {a} FROM orders GROUP BY 1", "orders", unit_rows(30)) for a in _AGGREGATES),
    Case("one_group", "SELECT count(*) FROM members", "members", unit_rows(5)),
    *(Case("clip", f"SELECT kind, {a} FROM orders GROUP BY kind", "orders", unit_rows(4)) for a in _AGGREGATES),
    *(
        Case("clip", f"SELECT kind, {a} FROM orders GROUP BY kind", "orders", unit_rows(30, _LETTERS))
        for a in _AGGREGATES
    ),
    Case("clip", "SELECT kind, count(DISTINCT id) FROM orders GROUP BY kind", "orders", unit_rows(6, _LETTERS)),
    Case("clip", _UNITS_BY_KIND, "orders", unit_rows(6, _LETTERS), "gaussian"),
    Case("clip", _UNITS_BY_NOTE, "orders", unit_rows(6, _LETTERS), "gaussian"),
    Case("clip", "SELECT note, count(*) FROM orders GROUP BY note", "orders", unit_rows(30, _LETTERS)),
    Case("clip", "SELECT kind, sum(x) FROM members GROUP BY kind", "members", unit_rows(5)),
    Case("selection", "SELECT note, count(*) FROM orders GROUP BY note", "orders", unit_rows(4)),
    Case("selection", "SELECT note, count(*) FROM orders GROUP BY note", "orders", unit_rows(3, _LETTERS)),
    Case("selection", "SELECT note, sum(x) FROM orders GROUP BY note", "orders", unit_rows(30, _LETTERS)),
    Case("selection", "SELECT note, count(*) FROM visits GROUP BY note", "visits", unit_rows(1)),
)
