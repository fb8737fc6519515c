"""What must hold for choices between two neighbouring databases, and between scores and DuckDB's own answer.

Each check returns the violations it found, as text; an empty list is a pass.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
from property_world import Database, make_policy, opened, reordered, tame_world, traced, wild_world, without_unit

from dpsql.audit import ReleaseTrace, StatisticTrace
from dpsql.audit.comparison import compare, compare_equal, paid
from dpsql.audit.grammar.query_writer import Query

AGGREGATES = (
    "median(n)", "quantile_disc(n, 0.9)", "quantile_cont(amount, 0.25)", "median(day)", "min(n)", "max(level)",
    "mode(kind)", "mode(n)", "min(size)", "max(flag)", "quantile_disc(kind, 0.3)", "max(day)", "min(mood)",
    "median(n) FILTER (WHERE flag)", "max(amount)", "mode() WITHIN GROUP (ORDER BY day)",
    "percentile_cont(0.75) WITHIN GROUP (ORDER BY n DESC)", "median(level + n)", "min(x)", "median(seen)",
)  # fmt: skip
KEYS = ("", "kind", "size", "flag", "level, flag", "note", "n", "day")


def queries(rng: random.Random, many: int) -> Iterator[Query]:
    """Random choices over all four kinds of table, by public and private keys or none."""
    for _ in range(many):
        table, keys = rng.choice(("visits", "orders", "orders", "people", "members")), rng.choice(KEYS)
        asked = ", ".join(rng.sample(AGGREGATES[:-2] if keys else AGGREGATES, rng.randint(1, 3)))
        source = f"(SELECT id, max(n) AS n, min(level) AS level, min(day) AS day FROM {table} GROUP BY id)"
        if table != "visits" and rng.random() < 0.15:
            sql = f"SELECT median(n), min(level), mode(level) FROM {source}"
        else:
            sql = f"SELECT {keys}{', ' if keys else ''}{asked} FROM {table}{f' GROUP BY {keys}' if keys else ''}"
        yield Query(sql, 0, rng.choice(("laplace", "gaussian")), rng.choice((0.1, 1.0, 3.0)))


def worlds(rng: random.Random, neighbours: int) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]:
    """A world, some without one unit each, and the same rows in another order."""
    tables = wild_world(rng) if rng.random() < 0.8 else tame_world(rng, 8)
    units = rng.sample(range(1, 8), neighbours)
    less = [without_unit(tables, unit, rng.randrange(len(tables["visits"])), rng) for unit in units]
    return tables, less, reordered(tables, rng)


def search(seed: int, many: int, neighbours: int = 3) -> tuple[list[str], float]:
    """Random neighbours under random choices: the violations, and the largest part of a claim that was used."""
    rng = random.Random(seed)
    tables, less, same = worlds(rng, neighbours)
    found, used = list[str](), 0.0
    with opened(tables, make_policy()) as one, opened(same, make_policy()) as other:
        asked = list(queries(rng, many))
        whole = [traced(one, query) for query in asked]
        for query, larger in zip(asked, whole, strict=True):
            found += [f"{query}: the order of the rows shows" for _ in compare_equal(larger, traced(other, query))]
        for chosen in less:
            with opened(chosen, make_policy()) as two:
                for query, larger in zip(asked, whole, strict=True):
                    violations, ratio = compare_choices(larger, traced(two, query), query)
                    found, used = found + violations, max(used, ratio)
    return found, used


def compare_choices(
    larger: list[ReleaseTrace] | None, smaller: list[ReleaseTrace] | None, query: Query
) -> tuple[list[str], float]:
    """What is wrong, and the largest part of a claim about choices that was used."""
    made = compare(larger, smaller, paid(query))
    return made.violations, made.ratios.get(("choice", "linf"), 0.0)


def _chosen(release: ReleaseTrace) -> list[StatisticTrace]:
    return [s for s in release.statistics if s.mechanism == "exponential"]


# DuckDB's own answer ----------------------------------------------------------------------------------------------------


def best_values(database: Database, query: Query, rows: int = 0) -> list[tuple[tuple[Any, ...], list[list[Any]]]]:
    """For each key of the only release, and each choice, the values of the cells with the least score.

    With `rows`, also of those whose rank is off by no more than so many rows.
    """
    prepared = database.db.prepare(query.sql, epsilon=query.epsilon, delta=query.delta, mechanism=query.mechanism)
    [release], bounded = traced(database, query) or [], prepared.bill.releases[0].bounded
    made = []
    for number, key in enumerate(release.keys):
        columns = []
        for choice, statistic in zip(bounded.choices, _chosen(release), strict=True):
            grid = bounded.histograms[choice.histogram].grid
            scores = np.array(statistic.values[number * grid.cells : (number + 1) * grid.cells], dtype=object)
            slack = rows * choice.parts * bounded.histograms[choice.histogram].one
            columns.append([grid.value(int(cell)) for cell in np.flatnonzero(scores <= scores.min() + slack)])
        made.append((key, columns))
    return made


def within(value: Any, best: Sequence[Any], step: Any = 0) -> bool:
    """Does DuckDB's value lie between the best cells' values, give or take half a cell?"""
    if isinstance(value, str | bool):
        return value in best
    low, high = (_number(v) for v in (best[0], best[-1]))
    return low - step <= _number(value) <= high + step


def _number(value: Any) -> float:
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    return (value - datetime(2024, 1, 1)) / timedelta(days=1) if isinstance(value, datetime) else float(value)
