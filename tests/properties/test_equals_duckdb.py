"""Without noise, and on data that obeys the policy, the answer is DuckDB's own."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from property_world import KINDS, SIZES, Database, Row, make_policy, opened, tame_world, world_of

from dpsql.audit.grammar.column_scope import ColumnScope, tables_of
from dpsql.audit.grammar.from_sources import QuerySource
from dpsql.audit.grammar.query_writer import Query, Writer
from dpsql.audit.grammar.scalar_expressions import Expressions
from dpsql.audit.traces import exact_answer
from dpsql.budget.pricing import Priced
from dpsql.errors import Error
from dpsql.expressions.types import Type
from dpsql.query_draft import PreparedQuery

CHUNKS, QUERIES = 10, 40
ROWS = 10
EPSILON = 1e5
"""So much that the noise grid is far finer than any tolerance here."""

Rows = list[tuple[Any, ...]]


def answer(database: Database, prepared: PreparedQuery) -> Rows:
    """The answer of the product's own estimator and finishing SQL, over integers to which no noise was added."""
    rows = exact_answer(database.db, prepared, salt=b"a fixed salt")
    return [row[: len(prepared.plan.outputs)] for row in rows]


# random queries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_queries_equal_duckdb(chunk: int) -> None:
    rng = random.Random(chunk)
    with opened(tame_world(rng, ROWS), make_policy(ROWS, ROWS)) as database:
        for query, prepared in _accepted(database, rng):
            found = differences(database, query, prepared)
            assert not found, f"{query}\n" + "\n".join(found)


class Few(Expressions):
    """Without the table of functions (tests/properties/test_functions.py): some give NaN, which DuckDB counts."""

    def function(self, scope: ColumnScope) -> tuple[str, Type | None]:
        return f"coalesce({self.rng.choice(scope.names)})", None


class Plain(Writer):
    """Counts, sums and means over one table, with nothing above them."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng, tables_of(world_of({})))
        self.words = self.relations.words = Few(rng)
        made = self.relations
        self.sources: list[Callable[[], QuerySource | None]] = [made.plain, made.with_cte, made.derived, made.per_unit]

    def aggregates(self, scope: ColumnScope) -> list[str]:
        drawn = [self.aggregate(scope) for _ in range(self.rng.choice((1, 2, 3)))]
        return drawn if not any(each.startswith("bool_") for each in drawn) else self.aggregates(scope)

    def _above(self, keys: list[str]) -> str:
        return ""


def _accepted(database: Database, rng: random.Random) -> Iterator[tuple[Query, PreparedQuery]]:
    """Queries that both take, and whose groups do not hang on the last bit of a computed double.

    Nor on small totals of what may be as large as 1e200: the sums of a unit lie on one grid.
    """
    made, writer = 0, Plain(rng)
    while made < QUERIES:
        query = writer.query(rng.choice(writer.sources)())
        try:
            prepared = database.db.prepare(query.sql, epsilon=EPSILON, delta=query.delta, mechanism=query.mechanism)
            database.raw.execute(query.sql)
        except (Error, duckdb.Error):
            continue
        coarse = "wide" in query.sql and "total" in query.sql
        if "DOUBLE" not in prepared.types[: query.keys] and not coarse:
            made += 1
            yield query, prepared


def differences(database: Database, query: Query, prepared: PreparedQuery) -> list[str]:
    """Compare by key; a key that DuckDB does not show must have count 0, sum 0 and no average.

    `linear` is what is computed from two statistics, as SUM(2 * x) is.
    """
    wanted = {_key(row[: query.keys]): row[query.keys :] for row in database.raw.execute(query.sql).fetchall()}
    shown = {_key(row[: query.keys]): row[query.keys :] for row in answer(database, prepared)}
    [priced] = prepared.bill.releases
    asked = [output.direct for output in prepared.plan.outputs if output.noisy]
    functions = ["linear" if d is None else priced.bounded.release.aggregates[d[1]].function for d in asked]
    every = [_slack(priced, index) for index in range(len(priced.bounded.sources))]
    slack = [10 * sum(every) if d is None else every[d[1]] for d in asked]
    found = [f"the key {key} is missing" for key in wanted if key not in shown]
    for key, values in shown.items():
        expected = wanted.get(key, (None,) * len(values))
        for function, value, other, slip in zip(functions, values, expected, slack, strict=True):
            if not _equal(function, value, other, slip):
                found.append(f"{function} of {key} is {value}, and {other} in DuckDB")
    return found


def _slack(priced: Priced, index: int) -> float:
    """What rounding each row to the data grid may add up to."""
    source = priced.bounded.sources[index]
    argument = priced.bounded.arguments[priced.bounded.statistics[source.first].part.argument]
    return 0.0 if argument.grid == 1 else 100 * float(argument.grid)


def _equal(function: str, value: Any, other: Any, slack: float) -> bool:
    if other is None:
        return value is None if function == "avg" else value == 0 or (function == "linear" and value is None)
    if value is None:
        return False
    if function == "count" or (isinstance(other, int) and slack == 0):
        return bool(value == other)
    return math.isclose(float(value), float(other), rel_tol=1e-6, abs_tol=max(1e-6, slack))


def _key(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_plain(value) for value in values)


def _plain(value: Any) -> Any:
    """A date and its midnight are one key to SQL; numbers are equal whatever their type."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return float(value) if isinstance(value, Decimal) else value


# what stands above the aggregate ----------------------------------------------------------------------------------------

FIXED = (
    "SELECT kind, count(*) AS n FROM visits GROUP BY kind HAVING count(*) > 3 ORDER BY n DESC, kind LIMIT 3",
    "SELECT kind, sum(x) AS s FROM orders GROUP BY 1 ORDER BY s, kind NULLS LAST",
    "SELECT kind, sum(x) / count(x) AS mean, avg(x) AS same FROM orders GROUP BY kind ORDER BY kind",
    "SELECT kind, count(*) * 100.0 / sum(count(*)) OVER () AS share FROM visits GROUP BY kind ORDER BY kind",
    "SELECT kind, size, count(*) AS n, rank() OVER (PARTITION BY size ORDER BY sum(n) DESC, kind) AS place FROM orders GROUP BY kind, size ORDER BY 1, 2",
    "WITH a AS (SELECT kind, count(*) AS n FROM visits GROUP BY kind), b AS (SELECT kind, sum(x) AS s FROM orders GROUP BY kind) "
    "SELECT a.kind, n, s, s / n AS ratio FROM a JOIN b ON a.kind = b.kind ORDER BY a.kind",
    "WITH a AS (SELECT kind, count(*) AS n FROM orders GROUP BY kind) SELECT max(n), min(n), count(*), sum(n) FROM a WHERE kind IS NOT NULL",
    "SELECT flag, count(*) AS n FROM visits GROUP BY flag UNION ALL SELECT flag, count(*) FROM orders GROUP BY flag ORDER BY 1, 2",
    "SELECT size FROM visits GROUP BY size UNION SELECT size FROM orders GROUP BY size ORDER BY 1",
    "SELECT DISTINCT size FROM visits ORDER BY size",
    "SELECT CASE WHEN count(*) > 10 THEN 'many' ELSE 'few' END AS much, kind FROM orders GROUP BY kind ORDER BY 2, 1",
    "SELECT size, count(*) FILTER (WHERE flag) AS yes, count(*) FILTER (WHERE NOT flag) AS no FROM orders GROUP BY size ORDER BY size",
    "SELECT count(DISTINCT id), count(*), sum(n), avg(amount) FROM orders",
    "SELECT count(DISTINCT id) AS units, kind FROM orders GROUP BY kind ORDER BY kind",
    "SELECT avg(total), sum(total), count(*) FROM (SELECT id, sum(amount) AS total FROM orders GROUP BY id) AS t",
    "SELECT big, count(*) FROM (SELECT id, count(*) > 4 AS big FROM orders GROUP BY id) AS t GROUP BY big HAVING count(*) > 0 ORDER BY 1",
    "SELECT sum(t) FROM (SELECT id, 5 AS c, sum(x) AS t FROM orders GROUP BY id, c) AS u",
    "SELECT c, sum(t) FROM (SELECT id, 'all' AS c, sum(x) AS t FROM orders GROUP BY ALL) AS u GROUP BY c",
    'SELECT "kind" AS "Kind of", COUNT(*) AS "Count" -- a comment\n FROM "orders" AS "o" GROUP BY 1 ORDER BY "Count" DESC, 1;',
    "SELECT (SELECT count(*) FROM visits) AS v, (SELECT count(*) FROM orders) AS o",
    "SELECT kind, n FROM (SELECT kind, count(*) AS n FROM visits GROUP BY kind) AS r WHERE n >= (SELECT avg(n) FROM (SELECT kind, count(*) AS n "
    "FROM visits GROUP BY kind) AS q) ORDER BY kind",
    "SELECT size, flag, sum(debt) AS s FROM visits GROUP BY size, flag QUALIFY row_number() OVER (PARTITION BY size ORDER BY sum(debt), flag) = 1 ORDER BY size",
    "SELECT note, count(*) AS n FROM orders GROUP BY note ORDER BY n DESC, note LIMIT 2 OFFSET 1",
    "SELECT lower(note) AS l, level, avg(temp) FROM visits WHERE note IS NOT NULL GROUP BY ALL ORDER BY ALL",
    "SELECT extract(month FROM day) AS m, count(*) AS n FROM orders WHERE day IS NOT NULL GROUP BY m HAVING n > 0 ORDER BY m",
    "SELECT date_trunc('month', day) AS m, sum(n), sum(fine), avg(temp) FROM visits WHERE day IS NOT NULL GROUP BY 1 ORDER BY 1",
)  # fmt: skip


def full_world(rng: random.Random) -> dict[str, list[Row]]:
    """A tame world in which every declared key occurs, so that no group is there only because it was declared."""
    tables = tame_world(rng, ROWS)
    cells = [(kind, size, flag) for kind in (*KINDS, None) for size in SIZES for flag in (True, False, None)]
    pattern = tame_world(rng, ROWS, nulls=False)["visits"]
    rows = [
        {**pattern[i % len(pattern)], "kind": kind, "size": size, "flag": flag}
        for i, (kind, size, flag) in enumerate(cells)
    ]
    tables["visits"] = rows
    tables["orders"] = [{**row, "id": 1 + i % 9} for i, row in enumerate(rows)]
    return tables


@pytest.fixture(scope="module")
def full() -> Iterator[Database]:
    with opened(full_world(random.Random(3)), make_policy(ROWS, ROWS)) as database:
        yield database


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("sql", FIXED)
def test_the_finished_answer_equals_duckdb(sql: str, mechanism: str, full: Database) -> None:
    """Row by row, in the same order."""
    shown = answer(full, full.db.prepare(sql, epsilon=EPSILON, delta=1e-6, mechanism=mechanism))
    wanted = full.raw.execute(sql).fetchall()
    assert len(shown) == len(wanted)
    for one, two in zip(shown, wanted, strict=True):
        assert len(one) == len(two)
        assert all(_close(a, b) for a, b in zip(one, two, strict=True)), f"{one} is not {two}"


def _close(one: Any, two: Any) -> bool:
    if isinstance(two, float | Decimal) and one is not None:
        return math.isclose(float(one), float(two), rel_tol=1e-6, abs_tol=1e-6)
    return bool(_plain(one) == _plain(two))
