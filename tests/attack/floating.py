"""Released numbers lie on their declared grid, on both neighbours alike, and none is NaN, infinite or minus zero.

The attacks are those on floating-point noise (Mironov 2012), on sums whose rounding depends on the order of rows and
on one unit more (Casacuberta and others 2022), and on gaps between representable answers (Haney and others 2022).
Here every total is an exact integer before noise, so the order of rows, their sizes and threads cannot matter, and an
answer is an integer times a power of two that the plan fixes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from time import perf_counter

from attack.blackbox_cases import HEAVY, QUERIES, cases
from dpsql.answers.result import Result
from dpsql.audit.blackbox.observations import opened, remember_integers
from dpsql.audit.blackbox.rounds import BlackBoxCase
from dpsql.audit.outcome import AuditCheck, AuditFinding, Outcome, Progress, Settings
from dpsql.audit.traces import trace
from dpsql.audit.world import StoredTable, World
from dpsql.budget.pricing import Priced
from dpsql.session import Connection

RUNS, LONG_RUNS, ORDERS = 8, 100, 6
PLAIN = ("count", "units", "distinct", "sum")
EMPTY_QUERIES = (  # a quotient by a noisy 0 is infinite, as in DuckDB: the analyst's own arithmetic, above the noise
    "SELECT avg(income) AS a, stddev(income) AS s, variance(income) AS v FROM people",
    "SELECT sum(income) / nullif(count(income), 0) AS r FROM people",
    "SELECT kind, avg(income) AS a, stddev(income) AS s FROM people GROUP BY kind",
    "SELECT kind, sum(amount) AS s, avg(amount) AS a FROM orders GROUP BY ROLLUP (kind)",
    "SELECT median(score) AS m, quantile_disc(score, 0.9) AS q FROM people",
)


def check(worlds: Sequence[World], settings: Settings, progress: Progress) -> Outcome:
    """Grids, types and special values of fresh answers; then exact totals of rows in other orders."""
    started, runs = perf_counter(), LONG_RUNS if settings.long else RUNS
    asked = [*cases(), *(BlackBoxCase(f"nobody: {sql}", cases()[0].world, HEAVY, sql) for sql in EMPTY_QUERIES)]
    found: list[AuditFinding] = []
    values = 0
    for number, case in enumerate(asked):
        progress(number, len(asked) + len(MIXES))
        some, seen = _answers(case, runs)
        found += some
        values += seen
    for number, sql in enumerate(MIXES):
        progress(len(asked) + number, len(asked) + len(MIXES))
        found += reordered(mixed(), sql, random.Random(settings.seed))
    figures = (("queries", len(asked)), ("values looked at", values), ("orders of rows compared", ORDERS * len(MIXES)))
    unseen = "" if values else "no answer had a value"
    return Outcome("floating", figures, tuple(found), seconds=perf_counter() - started, incomplete=unseen)


# answers ------------------------------------------------------------------------------------------------------------


def _answers(case: BlackBoxCase, runs: int) -> tuple[list[AuditFinding], int]:
    """Fresh answers of the world, of its neighbour and of the empty one."""
    found: list[AuditFinding] = []
    shapes: dict[str, set[str]] = {}
    count = 0
    for world in (case.world, case.world.without(case.unit), case.world.keeping(lambda owner: owner is None)):
        with opened(world) as db:
            remember_integers(db)
            for result in (db.query(case.sql) for _ in range(runs)):
                found += [AuditFinding(f"{case.name}: {said}", case.sql) for said in unfit(result)]
                shapes.setdefault(repr((result.columns, result.types, grids(db, case.sql))), set()).add(world.name)
                count += sum(map(len, result.fetchall()))
    if len(shapes) > 1:
        found.append(AuditFinding(f"{case.name}: names, types or grids differ between neighbours", case.sql))
    return list(dict.fromkeys(found)), count


def grids(db: Connection, sql: str) -> tuple[Fraction | None, ...]:
    """The grid of each column that is a plain count or sum; None for what is computed from several."""
    prepared = db.prepare(sql)
    priced = {each.bounded.release.name: each for each in prepared.bill.releases}
    found: list[Fraction | None] = []
    for output in prepared.plan.outputs:
        release = priced.get(output.direct[0]) if output.direct else None
        source = release.bounded.sources[output.direct[1]] if release is not None and output.direct else None
        plain = release is not None and source is not None and not source.chosen and source.form in PLAIN
        found.append(_grid(release, source.first) if plain and release and source else None)
    return tuple(found)


def _grid(priced: Priced, first: int) -> Fraction:
    return Fraction(priced.bounded.statistics[first].grid) * Fraction(2) ** priced.noised[first].shift


def unfit(result: Result) -> Iterator[str]:
    """What no released value may be."""
    listed = _grids_of(result)
    for row in result.fetchall():
        for name, value, grid in zip(result.columns, row, listed, strict=True):
            if isinstance(value, float) and (not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0)):
                yield f"{name} is {value!r}"
            elif grid is not None and isinstance(value, int | float | Decimal) and not on_grid(value, grid):
                yield f"{name} = {value!r} is no multiple of {grid}"


def _grids_of(result: Result) -> list[Fraction | None]:
    """The grids, from what the answer itself carries."""
    found: list[Fraction | None] = []
    for output, type_ in zip(result.plan.outputs, result.types, strict=True):
        release = result.released.get(output.direct[0]) if output.direct else None
        if release is None or output.direct is None or type_ == "BIGINT" or release.spread:
            found.append(None)
            continue
        source = release.priced.bounded.sources[output.direct[1]]
        plain = not source.chosen and source.form in PLAIN
        found.append(_grid(release.priced, source.first) if plain else None)
    return found


def on_grid(value: float | Decimal, grid: Fraction) -> bool:
    """Is the value a multiple of the grid, or the nearest double of one?"""
    steps = round(Fraction(value) / grid)
    return Fraction(value) == steps * grid or float(steps * grid) == value


# orders -------------------------------------------------------------------------------------------------------------

VALUES = (1e16, -1e16, 1.0, 0.1, -0.1, 2.0**-60, 5e-324, 1e15 + 0.3, -0.0, 3.0, 1 / 3, 2.0**53, 2.0**53 + 2, -1e9)
MIXES = tuple(
    QUERIES["count, Laplace"].split(" count")[0] + f" {what} FROM mixed"
    for what in ("sum(x) AS s", "avg(x) AS a, sum(x * x) AS q", "sum(x / 3) AS t", "stddev(x) AS d")
)


def mixed() -> World:
    """Huge and tiny numbers, of both signs, that cancel: floating-point sums of them depend on their order."""
    rows = [(unit, repr(VALUES[(unit * 5 + i) % len(VALUES)])) for unit in range(60) for i in range(3)]
    tables = {"mixed": StoredTable({"id": "INTEGER", "x": "DOUBLE"}, tuple(rows))}
    columns = {"x": {"min": -1e16, "max": 1e16}}
    policy = {
        "dataset": "mixed",
        "search": False,
        "budget": {"epsilon": 10**6, "delta": "1e-3"},
        "tables": {"mixed": {"unit": "id", "max_rows_per_unit": 3, "columns": columns}},
    }
    return World.made("mixed", policy, tables)


def reordered(world: World, sql: str, rng: random.Random) -> list[AuditFinding]:
    """The same rows in other orders, and in several threads, have the same exact totals."""
    totals = {_totals(world, sql, 1)}
    for _ in range(ORDERS):
        totals.add(_totals(world.reordered(rng), sql, rng.choice((1, 4))))
    return [AuditFinding("the same rows in another order have other totals", sql)] if len(totals) > 1 else []


def _totals(world: World, sql: str, threads: int) -> str:
    with world.open(steward=True) as db:
        db.engine.connection.execute(f"SET threads = {threads}")  # type: ignore[attr-defined]
        return repr([[(s.name, s.values) for s in release.statistics] for release in trace(db, sql, salt=b"order")])


FLOATING = AuditCheck(
    "Released numbers lie on their declared grid, on both neighbours alike, and none is NaN, infinite or minus zero.",
    check,
)
