"""Without noise, and on data that obeys the policy, an answer is DuckDB's own."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import sqlglot
from sqlglot import exp

from attack.fuzz.canaries import ROWS, opened, world
from dpsql.audit.traces import exact_answer
from dpsql.audit.world import load
from dpsql.expressions.types import sql_type
from dpsql.plan.builder.selection_aggregates import chooses
from dpsql.query_draft import PreparedQuery
from dpsql.sensitivity.bound import Bounded

EPSILON = 1e5
"""So much that the noise grid is far finer than any tolerance here."""
KEY, SUM = 1e-9, 1e-4
"""How far keys and sums may differ: each row is rounded to the data grid before it is added."""
_UNORDERED = re.compile(
    r"\b(LIMIT|OFFSET|FETCH|TOP|OVER|QUALIFY|DISTINCT\s+ON|stddev\w*|var\w*|covar\w*|corr|regr_\w+|dp_\w+|any_value|arbitrary|"
    r"first|last|mode|approx\w*|median|quantile\w*|percentile\w*|min|max|mad|random|hash|skewness|kurtosis\w*)\b", re.I
)  # fmt: skip
"""What DuckDB answers in any order, or dpsql by another estimator than the plain one."""
Row = tuple[Any, ...]


class Unequal(Exception):
    """The two answers, where they differ."""


class Reference:
    """The steward's connection to the canaries, and a database of the columns that exist for the analyst."""

    def __init__(self, path: Path) -> None:
        whole = world()
        self.db = opened(path, steward=True)
        tables = {name: each for name, each in whole.tables.items() if name != "ghosts"}
        people = tables["people"]
        seen = {column: type_ for column, type_ in people.columns.items() if column != "secret"}
        tables["people"] = replace(people, columns=seen, rows=tuple(row[: len(seen)] for row in people.rows))
        self.raw = load(tables)

    def close(self) -> None:
        """Let go of both."""
        self.db.close()
        self.raw.close()

    def agrees(self, sql: str) -> bool:
        """Whether there was something to compare; raises where it differs."""
        if _UNORDERED.search(sql):
            return False
        prepared = self.db.prepare(sql, epsilon=EPSILON, delta=1e-6, mechanism="laplace")
        if (
            "DOUBLE" in _key_types(prepared)
            or not prepared.plan.releases
            or any(chooses(a) for r in prepared.plan.releases for a in r.aggregates)
            or any(_may_clip(priced.bounded) for priced in prepared.bill.releases)
        ):
            return False
        wanted = self._rows(sql)
        if wanted is None:
            return False
        try:
            self._compare(prepared, wanted)
        except Unequal:
            again = self._rows(with_zeros(sql))
            if again is None:
                raise
            self._compare(prepared, again)
        return True

    def _rows(self, sql: str) -> list[Row] | None:
        """DuckDB's own answer, if it has one."""
        try:
            with self.raw.cursor() as cursor:
                return cursor.execute(sql).fetchall()
        except Exception:
            return None

    def _compare(self, prepared: PreparedQuery, wanted: Sequence[Row]) -> None:
        outputs = prepared.plan.outputs
        shown = [row[: len(outputs)] for row in exact_answer(self.db, prepared, salt=b"a fixed salt")]
        keys = [i for i, output in enumerate(outputs) if not output.noisy]
        if any(len(row) != len(outputs) for row in wanted):
            raise Unequal(f"{len(outputs)} columns, not {len(wanted[0])}")
        if len(wanted) != len(shown):
            if filled_in(prepared):
                return
            raise Unequal(f"{len(shown)} rows, not {len(wanted)}")
        left = [list(row) for row in shown]
        for row in wanted:
            near = [i for i, other in enumerate(left) if all(_close(other[k], row[k], KEY) for k in keys)]
            match = next((i for i in near if _same(left[i], row)), None)
            if match is None:
                if filled_in(prepared):
                    return
                raise Unequal(f"{_brief(left[near[0]]) if near else 'nothing'} for {_brief(row)}")
            del left[match]


def _may_clip(bounded: Bounded) -> bool:
    """Is a unit down-weighted although it obeys the policy? One row beside several of a public table counts as one."""
    return bounded.weight is not None and bool(bounded.weight.terms) and bounded.release.source.rows_per_unit < ROWS


def with_zeros(sql: str) -> str:
    """The same question where the sum of nothing is 0, as it is in dpsql, and not NULL."""
    tree = sqlglot.parse_one(sql, dialect="duckdb")
    for each in reversed(list(tree.find_all(exp.Sum))):
        outer: exp.Expr = each
        while isinstance(outer.parent, exp.Filter | exp.Window):
            outer = outer.parent
        outer.replace(exp.Coalesce(this=outer.copy(), expressions=[exp.Literal.number(0)]))
    return tree.sql("duckdb")


def _key_types(prepared: PreparedQuery) -> list[str]:
    """A group that hangs on the last bit of a computed double is not compared."""
    return [sql_type(key.expression.type) for release in prepared.plan.releases for key in release.keys]


def filled_in(prepared: PreparedQuery) -> bool:
    """Are there groups that are shown although nobody is in them? DuckDB does not show these."""
    return any(priced.bounded.public and priced.bounded.keys for priced in prepared.bill.releases)


def _same(one: Sequence[Any], two: Sequence[Any]) -> bool:
    return all(_close(a, b) for a, b in zip(one, two, strict=True))


def _close(one: Any, two: Any, slack: float = SUM) -> bool:
    one, two = _plain(one), _plain(two)
    if isinstance(one, float) and isinstance(two, float):
        return one == two or math.isclose(one, two, rel_tol=slack, abs_tol=100 * slack)
    return bool(one == two)


def _plain(value: Any) -> Any:
    """Numbers are equal whatever their type; the sum of nothing is 0, and 0 / 0 is nothing; a date is its midnight."""
    if value is None or value != value:
        return 0.0
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return float(value) if isinstance(value, Decimal | int | bool) else value


def _brief(row: Sequence[Any]) -> str:
    return str(tuple(row))[:200]
