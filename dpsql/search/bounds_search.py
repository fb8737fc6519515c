"""A private search for bounds: an ordinary plan that counts units in public buckets, and the bounds that follow.

Each unit is counted once in the bucket of its least value and once in that of its largest one (or in that of its number
of rows). What is found are the outermost buckets with more units than noise alone would show.

**Theorem.** A search is as private as any query. **Proof.** It *is* one: each unit has one row with its own least and
largest value (or its number of rows), counted once in one public bucket; noise, charge and replay are those of every
release. What is found is computed from what was released, so a plan that uses it is a query chosen adaptively.
**Requires** buckets that follow from the column's type and the policy, never from values, and a charge of its own
before it runs (`dpsql.session`).
**Checked by** the neighbour test of `tests/properties/test_search_neighbours.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal
from math import copysign, isqrt, sqrt

from sqlglot import exp, parse_one

from dpsql.answers.noise_stage import Released
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.from_syntax import convert, one_query
from dpsql.expressions.types import Kind, Type
from dpsql.plan.builder.name_scope import scope_of
from dpsql.plan.catalog import Catalog, PrivateTable
from dpsql.plan.nodes.relation import Aggregate, Field, Item, Relation
from dpsql.plan.nodes.unary import projected, unit_grouped
from dpsql.plan.plan import Output, Plan, Release
from dpsql.policy import Bound, fold
from dpsql.policy.searched_subjects import FoundBounds, Subject

LEAST, MOST = -60, 124
"""Buckets are half octaves: bucket h holds 2^(h/2) ≤ |x| < 2^((h+1)/2), from about 1e-9 to 4e18."""
OFFSET = 1 - LEAST
YEARS = (1800, 2200)
MOST_BUCKETS = 1_024
"""More than any search has: its keys are public, whatever the policy's limit on the keys of queries is."""
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


def lower_edge(bucket: int, type_: Type) -> Bound:
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


# what a search found --------------------------------------------------------------------------------------------------


COARSE = 0.2
"""A bucket of half an octave tells where a value lies to about so much of it."""
NEXT_TO_NOTHING = 1e-3
"""A mean that is smaller beside another counts as that much of it."""
DOUBT = 0.001
"""The chance that the noise of an empty bucket widens the bounds."""
TRIMMED = 0.02
"""The part of the units at either end that says nothing of what is usual: noise far out would decide a mean."""


def bounds_from_histogram(subject: Subject, type_: Type, released: Mapping[str, Released]) -> FoundBounds | None:
    """The bounds, or the rows of a unit, that all but a few units keep to; None if no bucket stands out."""
    high = _outermost(released[HIGH], 1)
    if high is None:
        return None
    if subject.column is None:
        upper = largest_of(high, type_)
        return FoundBounds(None, max(1, int(upper)))  # type: ignore[arg-type]
    low = _outermost(released[LOW], -1)
    if low is None or low > high:
        return None
    found = _rounded(lower_edge(low, type_), largest_of(high, type_))
    return replace(found, usual=_usual(released, low, high, type_))


def _usual(released: Mapping[str, Released], low: int, high: int, type_: Type) -> tuple[float, float] | None:
    """A value between the means of the units' least and largest values, and the lesser of their distances from it.

    Of numbers with one sign it is the geometric mean of the two: the usual value of a unit with many rows lies between
    its extremes, however large its largest one is. Only buckets between the bounds count, without what noise alone may
    well reach and without the outermost few units: noise in one far out would decide the rest.
    """
    if type_.temporal:
        return None
    sides = [_inside(released[side], low, high) for side in (LOW, HIGH)]
    sizes = [sum(each.values()) for each in sides]
    if min(sizes) <= 0:
        return None
    means = [sum(middle_of(b) * n for b, n in each.items()) / size for each, size in zip(sides, sizes, strict=True)]
    centre = _between(*means)
    distances = [
        sum(n * abs(middle_of(bucket) - centre) for bucket, n in each.items()) / size
        for each, size in zip(sides, sizes, strict=True)
    ]
    return centre, max(min(distances), COARSE * abs(centre))


def _between(least: float, largest: float) -> float:
    if least < 0 < largest:
        return (least + largest) / 2
    near, far = sorted((abs(least), abs(largest)))
    return copysign(sqrt(max(near, far * NEXT_TO_NOTHING) * far), least + largest)


def _inside(table: Released, low: int, high: int) -> dict[int, float]:
    """The counts of the buckets between two that noise does not explain, without a few units at either end."""
    likely = table.priced.noised[0].noise.half_width(0.9)
    counted = zip(table.keys, table.noisy[0].tolist(), strict=True)
    kept = dict(sorted((b, n) for (b,), n in counted if isinstance(b, int) and low <= b <= high and n > likely))
    trimmed = TRIMMED * sum(kept.values())
    for end in (list(kept), list(kept)[::-1]):
        left = trimmed
        for bucket in end:
            kept[bucket], left = max(0.0, kept[bucket] - left), max(0.0, left - kept[bucket])
    return kept


def _rounded(lower: Bound, upper: Bound) -> FoundBounds:
    """Zero in place of an end that is small beside the other: it costs next to nothing and cuts nothing off there."""
    if isinstance(lower, int | Decimal) and isinstance(upper, int | Decimal):
        lower = 0 if 0 < 10 * lower < upper else lower
        upper = 0 if lower < 10 * upper < 0 else upper
    return FoundBounds(lower, upper)


def _outermost(released: Released, outwards: int) -> int | None:
    """The last bucket that stands out, and from there on those in a row that seem to have somebody.

    A bucket stands out where its noisy count is above what the noise of all empty ones together reaches with chance
    `DOUBT`: an empty one far away would make the bounds useless. Next to one that does, a wrong guess costs a bucket.
    """
    [noised], [noisy] = released.priced.noised, released.noisy
    counts = {bucket: n for (bucket,), n in zip(released.keys, noisy.tolist(), strict=True) if isinstance(bucket, int)}
    sure = noised.noise.half_width((1 - DOUBT) ** (1 / max(1, len(counts))))
    likely = noised.noise.half_width(0.9)
    standing = [bucket for bucket, count in counts.items() if count > sure]
    if not standing:
        return None
    end = max(standing, key=lambda bucket: bucket * outwards)
    while counts.get(end + outwards, 0) > likely:
        end += outwards
    return end
