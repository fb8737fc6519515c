"""Small worlds in which each row is known: DuckDB computes an expression on all of them, and what was inferred is held
against what it gave, for each of many domains of the columns.

Where a domain has no end, FAR and -FAR (or an infinity, where the type has one) stand for all that lies beyond.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from dpsql.bounds import infer, narrow
from dpsql.bounds.domain import Domain, Number, RowDomains, interval, number
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.expressions.expression import Column, Expression, columns_of
from dpsql.expressions.from_syntax import convert
from dpsql.expressions.types import Type, from_engine

FAR = 10**6
BEYOND = FAR // 100
"""A result beyond it comes only of what has no end."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A column: its type, its values, and the domains that are tried."""

    stored: str
    points: tuple[Any, ...]
    domains: tuple[Domain, ...]

    @property
    def type(self) -> Type:
        found = from_engine(self.stored)
        assert found is not None
        return found

    def places(self, domain: Domain) -> list[int]:
        """Which of the points a domain admits."""
        return [place for place, point in enumerate(self.points) if inside(point, domain)]


def axis(stored: str, points: Iterable[Any], ends: Iterable[tuple[Number | None, Number | None]], **said: Any) -> Axis:
    """A column whose domains are intervals, each as said."""
    return Axis(stored, tuple(points), tuple(interval(low, high, nullable=False, **said) for low, high in ends))


class World:
    """Columns and all combinations of their values."""

    def __init__(self, **axes: Axis) -> None:
        self.axes = axes
        self.database = duckdb.connect()
        self.database.execute("SET TimeZone = 'UTC'")
        for name, each in axes.items():
            listed = f"unnest(range({len(each.points)})) AS {name}_at, unnest(?::{each.stored}[]) AS {name}"
            self.database.execute(f"CREATE TABLE {name} AS SELECT {listed}", [each.points])
        self._domains = {name: [(d, each.places(d)) for d in each.domains] for name, each in axes.items()}

    def column(self, node: exp.Column) -> Expression:
        return Column(self.axes[node.name].type, name=node.name)

    def expression(self, text: str) -> Expression:
        return convert(sqlglot.parse_one(f"SELECT {text}", dialect="duckdb").selects[0], self)

    def computed(self, *expressions: Expression) -> tuple[list[str], dict[tuple[int, ...], tuple[Any, ...]]]:
        """The columns that they read, and what they give for each combination of the columns' points."""
        names = sorted(frozenset().union(*map(columns_of, expressions)))
        listed = ", ".join([*(f"{name}_at" for name in names), *(DUCKDB.sql(e, DUCKDB.quote) for e in expressions)])
        rows = self.database.execute(f"SELECT {listed} FROM {', '.join(names)}").fetchall()
        return names, {row[: len(names)]: row[len(names) :] for row in rows}

    def known(self, names: Sequence[str]) -> Iterator[tuple[RowDomains, Iterator[tuple[int, ...]]]]:
        """Each combination of the domains of these columns, and of the points in it."""
        for chosen in product(*(self._domains[name] for name in names)):
            known = RowDomains(dict(zip(names, (domain for domain, _ in chosen), strict=True)))
            yield known, product(*(places for _, places in chosen))

    def answers(self, text: str) -> Iterator[tuple[RowDomains, Domain, list[Any]]]:
        """For each such knowledge the domain that is inferred, and all that DuckDB gives on rows which obey it."""
        asked = self.expression(text)
        names, given = self.computed(asked)
        for known, places in self.known(names):
            yield known, infer(asked, known), list(dict.fromkeys(given[place][0] for place in places))

    def narrowed(self, text: str, holds: bool) -> Iterator[tuple[RowDomains, RowDomains, dict[str, list[Any]]]]:
        """For each such knowledge what a condition adds to it, and what each column has on rows that pass."""
        condition = self.expression(text)
        names, given = self.computed(condition)
        for known, places in self.known(names):
            passed = list(zip(*(place for place in places if (given[place][0] is True) == holds), strict=True))
            points = [dict.fromkeys(column) for column in passed] or [{} for _ in names]
            values = {
                name: [self.axes[name].points[at] for at in found] for name, found in zip(names, points, strict=True)
            }
            yield known, narrow(known, condition, holds), values


def inside(value: Any, domain: Domain) -> bool:
    """Does the domain admit the value?"""
    if value is None:
        return domain.nullable
    if isinstance(value, float) and math.isnan(value):
        return domain.nan
    if domain.values is not None and value not in domain.values:
        return False
    if isinstance(value, str):
        return True
    at = number(value)
    if isinstance(at, float) and math.isinf(at):
        return (domain.upper if at > 0 else domain.lower) is None
    return (domain.lower is None or domain.lower <= at) and (domain.upper is None or at <= domain.upper)


def hull(values: Iterable[Any], beyond: int = BEYOND) -> tuple[Number | None, Number | None]:
    """The ends of what was computed; no end where something far gave it."""
    found = [number(v) for v in values if v is not None and not (isinstance(v, float) and math.isnan(v))]
    low, high = min(found), max(found)
    return None if low < -beyond else low, None if high > beyond else high


def some(values: Iterable[Any]) -> bool:
    """Is there a number?"""
    return any(v is not None and not (isinstance(v, float) and math.isnan(v)) for v in values)


def has_nan(values: Iterable[Any]) -> bool:
    return any(isinstance(v, float) and math.isnan(v) for v in values)
