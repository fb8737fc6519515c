"""A private search for bounds, as an ordinary plan: how many units have their least or largest value in which bucket.

**Theorem.** A search is as private as any query. **Proof.** It *is* one: each unit has one row with its own least and
largest value (or its number of rows), counted once in one public bucket; noise, charge and replay are those of every
release. What is found is computed from what was released, so a plan that uses it is a query chosen adaptively.
**Requires** buckets that follow from the column's type and the policy, never from values, and a charge of its own
before it runs (`dpsql.flow.searching`).
**Checked by** the neighbour test of `tests/properties/test_search_neighbours.py`.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from math import isqrt

from sqlglot import exp, parse_one

from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.from_syntax import convert, one_query
from dpsql.expressions.types import Kind, Type
from dpsql.plan.builder.name_scope import scope_of
from dpsql.plan.catalog import Catalog, PrivateTable
from dpsql.plan.nodes.relation import Aggregate, Field, Item, Relation
from dpsql.plan.nodes.unary import projected, unit_grouped
from dpsql.plan.plan import Output, Plan, Release
from dpsql.policy import Bound, fold
from dpsql.policy.searched_subjects import Subject

LEAST, MOST = -60, 124
"""Buckets are half octaves: bucket h holds 2^(h/2) ≤ |x| < 2^((h+1)/2), from about 1e-9 to 4e18."""
OFFSET = 1 - LEAST
YEARS = (1800, 2200)
_MAGNITUDE = f"greatest(least(CAST(floor(2 * log2(abs(x))) AS INTEGER), {MOST}), {LEAST}) + {OFFSET}"
_NUMBER = f"CASE WHEN x > 0 THEN {_MAGNITUDE} WHEN x < 0 THEN -({_MAGNITUDE}) WHEN x = 0 THEN 0 END"
_DATE = f"greatest(least(CAST(extract(year FROM x) AS INTEGER), {YEARS[1]}), {YEARS[0]})"
LOW, HIGH = "_r0", "_r1"


def search_plan(subject: Subject, catalog: Catalog) -> Plan:
    """The releases that a search looks at: `_r0` by the least value of each unit, `_r1` by the largest."""
    table = catalog.find(subject.table)
    assert isinstance(table, PrivateTable)
    scan = table.scan
    if subject.column is None:
        counted = unit_grouped(scan, (), [("x", Aggregate("count", None))])
        releases = [_release(HIGH, table, counted, "x")]
    else:
        field = next(f for f in scan.fields if fold(f.name) == fold(subject.column))
        value = _value(table, field)
        one = projected(scan, [Item("low", value), Item("high", value)])
        if not (scan.single or scan.by_row):
            ends = [("low", Aggregate("min", value)), ("high", Aggregate("max", value))]
            one = unit_grouped(scan, (), ends)
        releases = [_release(LOW, table, one, "low"), _release(HIGH, table, one, "high")]
    sides = [
        f"SELECT '{r.name}' AS side, {r.name}._k0 AS bucket, {r.name}._a0 AS units FROM {r.name}" for r in releases
    ]
    finishing = parse_one(" UNION ALL ".join(sides), read="duckdb")
    assert isinstance(finishing, exp.Query)
    outputs = (Output("side", noisy=False), Output("bucket", noisy=False), Output("units", noisy=True))
    return Plan(tuple(releases), finishing, (), outputs, None)


def _value(table: PrivateTable, field: Field) -> Expression:
    """The column, with NULL for NaN, which compares above every number: a unit with one would have no largest value."""
    column = Column(field.type, name=field.name)
    if not field.domain.nan:
        return column
    read = exp.column(field.name, quoted=True).sql("duckdb")
    with one_query():
        return convert(
            parse_one(f"CASE WHEN NOT isnan({read}) THEN {read} END", read="duckdb"), scope_of(table.scan, table.name)
        )


def _release(name: str, table: PrivateTable, source: Relation, column: str) -> Release:
    renamed = projected(source, [Item("x", Column(source.field(column).type, name=column))])
    text = _DATE if renamed.fields[0].type.kind in (Kind.DATE, Kind.TIMESTAMP) else _NUMBER
    with one_query():
        bucket = convert(parse_one(text, read="duckdb"), scope_of(renamed, table.name))
    return Release(name, table.name, renamed, (Item("_k0", bucket),), (Aggregate("count", None),), 1)


def least_of(bucket: int, type_: Type) -> Bound:
    """The least value in a bucket."""
    if type_.kind in (Kind.DATE, Kind.TIMESTAMP):
        return date(bucket, 1, 1)
    if bucket == 0:
        return 0
    return _end(bucket - OFFSET, up=False) if bucket > 0 else _negative(_end(-bucket - OFFSET + 1, up=True))


def middle_of(bucket: int) -> float:
    """The number in the middle of a bucket."""
    if bucket == 0:
        return 0.0
    size = float(2 ** ((abs(bucket) - OFFSET + 0.5) / 2))
    return size if bucket > 0 else -size


def largest_of(bucket: int, type_: Type) -> Bound:
    """The largest value in a bucket."""
    if type_.kind in (Kind.DATE, Kind.TIMESTAMP):
        return date(bucket, 12, 31)
    if bucket == 0:
        return 0
    return _end(bucket - OFFSET + 1, up=True) if bucket > 0 else _negative(_end(-bucket - OFFSET, up=False))


def _negative(bound: Bound) -> Bound:
    assert isinstance(bound, int | Decimal)
    return -bound


def _end(half_octaves: int, *, up: bool) -> int | Decimal:
    """2^(h/2), rounded outwards to three digits so that it reads well in a policy."""
    scale = 2**80
    root = isqrt(2 ** (160 + half_octaves))
    exact = Decimal(root) / Decimal(scale)
    digits = exact.adjusted() - 2
    step = Decimal(1).scaleb(digits)
    whole = exact // step
    rounded = (whole + (1 if up and whole * step < exact else 0)) * step
    return int(rounded) if rounded == rounded.to_integral_value() else rounded.normalize()
