"""On rows that obey the policy, what DuckDB computes lies in the inferred domain: random expressions, random rows."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from zlib import crc32

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from dpsql.bounds import infer, narrow
from dpsql.bounds.domain import Domain, RowDomains, finite, interval, number, of_type
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.errors import Error
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.from_syntax import convert
from dpsql.expressions.types import DATE, TEXT, from_engine

STATUS = ("paid", "open", "Lost", "ß")
DAYS = (date(2019, 11, 3), date(2024, 3, 1))
TIMES = (datetime(1968, 5, 4, 3, 2, 1), datetime(1971, 2, 28, 23, 59, 59))


def rng_float(rng: random.Random, low: float, high: float) -> float:
    return rng.choice(
        [low, high, 0.0 if low <= 0 <= high else low, rng.uniform(low, high), float(round(rng.uniform(low, high)))]
    )


COLUMNS: dict[str, tuple[str, Domain, Callable[[random.Random], object]]] = {
    "i": ("INTEGER", interval(-5, 20, nullable=False), lambda r: r.randint(-5, 20)),
    "j": ("BIGINT", interval(0, 1000), lambda r: r.choice([None, 0, 1, 1000, r.randint(0, 1000)])),
    "k": ("INTEGER", interval(2, 9, nullable=False), lambda r: r.randint(2, 9)),
    "m": (
        "DECIMAL(9,2)",
        interval(Decimal("-10.5"), Decimal("99.99")),
        lambda r: r.choice([None, Decimal("-10.5"), Decimal("99.99"), Decimal(r.randint(-1050, 9999)).scaleb(-2)]),
    ),
    "x": ("DOUBLE", interval(-2.5, 500.0, nullable=False), lambda r: rng_float(r, -2.5, 500.0)),
    "y": ("DOUBLE", interval(0.0, 1.0), lambda r: r.choice([None, rng_float(r, 0.0, 1.0)])),
    "u": (
        "DOUBLE",
        of_type(from_engine("DOUBLE")),
        lambda r: r.choice([None, math.nan, math.inf, -math.inf, 0.0, 1e308, -3.5]),
    ),  # type: ignore[arg-type]
    "q": (
        "DOUBLE",
        interval(0.0, 10.0, nullable=False, nan=True),
        lambda r: r.choice([math.nan, 0.0, 10.0, r.uniform(0, 10)]),
    ),
    "s": ("VARCHAR", finite(STATUS, TEXT, nullable=True), lambda r: r.choice([None, *STATUS])),
    "t": ("VARCHAR", of_type(TEXT), lambda r: r.choice([None, "", "abc", "17", "2020-01-01", "Paid", "nan", "é"])),
    "b": ("BOOLEAN", of_type(from_engine("BOOLEAN")), lambda r: r.choice([None, True, False])),  # type: ignore[arg-type]
    "d": (
        "DATE",
        interval(number(DAYS[0]), number(DAYS[1]), nullable=False),
        lambda r: r.choice([*DAYS, DAYS[0] + timedelta(days=r.randint(0, (DAYS[1] - DAYS[0]).days))]),
    ),
    "e": ("DATE", of_type(DATE), lambda r: r.choice([None, "infinity", "-infinity", date(1, 1, 1), date(2021, 5, 6)])),
    "w": (
        "TIMESTAMP",
        interval(number(TIMES[0]), number(TIMES[1])),
        lambda r: r.choice([None, *TIMES, TIMES[0] + timedelta(seconds=r.uniform(0, 85_000_000))]),
    ),
}
TYPES = {name: from_engine(type_) for name, (type_, _, _) in COLUMNS.items()}
KNOWN = RowDomains({name: domain for name, (_, domain, _) in COLUMNS.items()})
ROWS = 150


class Row:
    def column(self, node: exp.Column) -> Expression:
        type_ = TYPES[node.name]
        assert type_ is not None
        return Column(type_, name=node.name)


def expression(text: str) -> Expression:
    return convert(sqlglot.parse_one(f"SELECT {text}", dialect="duckdb").selects[0], Row())


@pytest.fixture(scope="module")
def db() -> duckdb.DuckDBPyConnection:
    rng = random.Random(7)
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE r ({', '.join(f'{n} {t}' for n, (t, _, _) in COLUMNS.items())})")
    rows = [[draw(rng) for _, _, draw in COLUMNS.values()] for _ in range(ROWS)]
    connection.executemany(f"INSERT INTO r VALUES ({', '.join('?' * len(COLUMNS))})", rows)
    return connection


def pick(rng: random.Random, depth: int, kind: str) -> str:
    """A random expression: n number, b boolean, d moment, a date, s text."""
    leaves = {
        "n": ["i", "j", "k", "m", "x", "y", "u", "q", "q", "i", "x", "1", "-3", "0.5", "2.25", "0", "1e2", "1e400"],
        "b": ["b", "TRUE", "x > 100", "s = 'paid'", "i IS NULL", "j < 7"],
        "d": ["d", "w", "e", "DATE '2021-03-04'", "d"],
        "a": ["d", "e", "d", "DATE '2020-02-29'"],
        "s": ["s", "t", "'x'", "''", "s"],
    }
    if depth == 0:
        return rng.choice(leaves[kind])
    n, b, d, a, s = (lambda k=k: pick(rng, rng.randint(0, depth - 1), k) for k in "nbdas")
    unit = rng.choice(["year", "quarter", "month", "week", "day", "hour", "minute", "second"])
    part = rng.choice(["year", "month", "day", "hour", "quarter", "week", "dow", "isodow", "doy", "decade", "century"])
    sign = rng.choice(["=", "<>", "<", "<=", ">", ">="])
    target = rng.choice(["INTEGER", "BIGINT", "DOUBLE", "DECIMAL(9,2)", "DECIMAL(4,1)", "TINYINT", "BOOLEAN"])
    forms: dict[str, list[Callable[[], str]]] = {
        "n": [
            lambda: f"({n()} + {n()})",
            lambda: f"({n()} - {n()})",
            lambda: f"({n()} * {n()})",
            lambda: f"({n()} / {n()})",
            lambda: f"({n()} // {n()})",
            lambda: f"({n()} % {n()})",
            lambda: f"abs({n()})",
            lambda: f"(- {n()})",
            lambda: f"round({n()}, {rng.randint(-2, 3)})",
            lambda: f"floor({n()})",
            lambda: f"ceil({n()})",
            lambda: f"trunc({n()})",
            lambda: f"sign({n()})",
            lambda: f"sqrt({n()})",
            lambda: f"ln({n()})",
            lambda: f"exp({n()})",
            lambda: f"log10({n()})",
            lambda: f"log2({n()})",
            lambda: f"power({n()}, {rng.choice(['2', '3', '-1', '0.5', '0', 'i'])})",
            lambda: f"CASE WHEN {b()} THEN {n()} WHEN {b()} THEN {n()} ELSE {n()} END",
            lambda: f"CASE WHEN {n()} {sign} {n()} THEN {n()} END",
            lambda: f"coalesce({n()}, {n()})",
            lambda: f"greatest({n()}, {n()})",
            lambda: f"least({n()}, {n()}, {n()})",
            lambda: f"nullif({n()}, {n()})",
            lambda: f"CAST({n()} AS {target})" if target != "BOOLEAN" else f"CAST({s()} AS INTEGER)",
            lambda: f"CAST({b()} AS {target})" if target != "BOOLEAN" else f"CAST({b()} AS INTEGER)",
            lambda: f"length({s()})",
            lambda: f"strpos({s()}, {s()})",
            lambda: f"extract({part} FROM {d()})",
            lambda: f"date_diff('{unit}', {d()}, {d()})",
            lambda: f"({a()} - {a()})",
            lambda: f"CAST({s()} AS DOUBLE)",
            lambda: f"CASE s WHEN 'paid' THEN {n()} WHEN 'open' THEN {n()} END",
        ],
        "b": [
            lambda: f"({n()} {sign} {n()})",
            lambda: f"({n()} {sign} {n()})",
            lambda: f"({d()} {sign} {d()})",
            lambda: f"({s()} {sign} {s()})",
            lambda: f"(NOT {b()})",
            lambda: f"({b()} AND {b()})",
            lambda: f"({b()} OR {b()})",
            lambda: f"({n()} IS NULL)",
            lambda: f"({s()} IS NOT NULL)",
            lambda: f"({n()} BETWEEN {n()} AND {n()})",
            lambda: f"({n()} IN (1, 2, 3.5, 1e400))",
            lambda: "(i IN (1, 2, NULL))",
            lambda: f"({s()} IN ('paid', 'x', NULL))",
            lambda: f"({s()} NOT IN ('paid', 'x'))",
            lambda: f"({s()} LIKE '{rng.choice(['p%', '%a%', '_p%', '%'])}')",
            lambda: f"({s()} NOT ILIKE 'P%')",
            lambda: f"({b()} IS TRUE)",
            lambda: f"({b()} IS NOT FALSE)",
            lambda: f"starts_with({s()}, {s()})",
            lambda: f"({n()} IS NOT DISTINCT FROM {n()})",
            lambda: f"({s()} IS DISTINCT FROM {s()})",
            lambda: f"contains({s()}, 'a')",
            lambda: f"coalesce({b()}, {b()})",
            lambda: f"isnan({n()})",
            lambda: f"(extract(year FROM {d()}) {sign} 2021)",
            lambda: f"(date_trunc('{unit}', {d()}) {sign} DATE '2021-02-01')",
            lambda: f"(i + 3 {sign} 7)",
            lambda: f"CAST({n()} AS BOOLEAN)",
            lambda: f"(CAST(d AS TIMESTAMP) {sign} {d()})",
            lambda: f"(m {sign} {rng.choice(['1e-1', '0.105', '7', '99.99', 'x'])})",
            lambda: f"(b = {b()})",
        ],
        "d": [
            lambda: f"({d()} + INTERVAL {rng.randint(1, 30)} MONTH)",
            lambda: f"({d()} - INTERVAL 30 HOUR)",
            lambda: f"date_trunc('{unit}', {d()})",
            lambda: f"coalesce({d()}, {d()})",
            lambda: f"CAST({d()} AS TIMESTAMP)",
            lambda: f"CASE WHEN {b()} THEN {d()} END",
            lambda: f"greatest({d()}, {d()})",
            lambda: f"least({d()}, {d()})",
            lambda: f"nullif({d()}, {d()})",
            a,
            lambda: f"CAST({s()} AS TIMESTAMP)",
        ],
        "a": [
            lambda: f"({a()} + {rng.choice(['i', 'j', '5', 'CAST(x AS INTEGER)'])})",
            lambda: f"({a()} - i)",
            lambda: f"CAST({d()} AS DATE)",
            lambda: f"CASE WHEN {b()} THEN {a()} ELSE {a()} END",
            lambda: f"CAST({s()} AS DATE)",
        ],
        "s": [
            lambda: f"lower({s()})",
            lambda: f"upper({s()})",
            lambda: f"substring({s()}, {rng.randint(-2, 3)}, 2)",
            lambda: f"({s()} || {s()})",
            lambda: f"concat({s()}, {s()})",
            lambda: f"left({s()}, {rng.randint(-2, 3)})",
            lambda: f"right({s()}, {rng.randint(-2, 3)})",
            lambda: f"replace({s()}, 'a', {s()})",
            lambda: f"trim({s()}, 'p')",
            lambda: f"CAST({rng.choice(['i', 'b', 'd', 'm', 'x', 'w', 'i * 3'])} AS VARCHAR)",
            lambda: f"nullif({s()}, {s()})",
            lambda: f"CASE WHEN {b()} THEN {s()} ELSE {s()} END",
            lambda: f"coalesce({s()}, {s()})",
            lambda: f"ltrim({s()})",
        ],
    }
    return rng.choice(forms[kind])()


def expressions(seed: int, count: int, kinds: str) -> dict[str, Expression]:
    rng, made = random.Random(seed), {}
    while len(made) < count:
        text = pick(rng, rng.randint(1, 4), rng.choice(kinds))
        try:
            made[text] = expression(text)
            DUCKDB.sql(made[text], DUCKDB.quote)
        except Error:
            made.pop(text, None)
    return made


def inside(value: object, domain: Domain) -> bool:
    if value is None:
        return domain.nullable
    if isinstance(value, float) and math.isnan(value):
        return domain.nan
    if isinstance(value, str):
        return (
            domain.values is None
            or value in domain.values
            or (isinstance(value, str) and value[:1].isdigit() and " (BC)" in value)
        )
    at = number(value)  # type: ignore[arg-type]
    if isinstance(at, float) and math.isinf(at):
        return (domain.upper if at > 0 else domain.lower) is None and domain.values is None
    low, high = (domain.lower is None or domain.lower <= at), (domain.upper is None or at <= domain.upper)
    return low and high and (domain.values is None or value in domain.values)


@pytest.mark.parametrize("seed", range(12))
def test_values_lie_in_the_inferred_domain(db: duckdb.DuckDBPyConnection, seed: int) -> None:
    made = expressions(seed, 60, "nnnbdas")
    rows = db.execute(f"SELECT {', '.join(DUCKDB.sql(e, DUCKDB.quote) for e in made.values())} FROM r").fetchall()
    for index, (text, e) in enumerate(made.items()):
        domain = infer(e, KNOWN)
        wrong = [row[index] for row in rows if not inside(row[index], domain)]
        assert not wrong, f"{text} gives {wrong[:3]}, not in {domain}\n{DUCKDB.sql(e, DUCKDB.quote)}"


@pytest.mark.parametrize("seed", range(100, 112))
@pytest.mark.parametrize("holds", [True, False])
def test_rows_lie_in_the_narrowed_domains(db: duckdb.DuckDBPyConnection, seed: int, holds: bool) -> None:
    for text, condition in expressions(seed, 40, "b").items():
        known = narrow(KNOWN, condition, holds)
        others = expressions(seed + crc32(text.encode()) % 97, 2, "nbds")
        where = f"({DUCKDB.sql(condition, DUCKDB.quote)}) IS {'' if holds else 'NOT '}TRUE"
        listed = ", ".join([*map(DUCKDB.quote, COLUMNS), *(DUCKDB.sql(e, DUCKDB.quote) for e in others.values())])
        rows = db.execute(f"SELECT {listed} FROM r WHERE {where}").fetchall()
        domains = [known.columns[name] for name in COLUMNS] + [infer(e, known) for e in others.values()]
        for name, domain, values in zip([*COLUMNS, *others], domains, zip(*rows, strict=True), strict=bool(rows)):
            wrong = [v for v in values if not inside(v, domain) and not (name == "e" and v in (date.min, date.max))]
            assert not wrong, f"WHERE {text} IS {holds}: {name} has {wrong[:3]}, not in {domain}"


@pytest.mark.parametrize("unit", ["year", "quarter", "month", "week", "day", "hour", "minute", "second"])
def test_differences_of_moments_are_exact(unit: str) -> None:
    rng = random.Random(unit)
    for _ in range(60):
        one, two = (datetime(1970, 1, 1) + timedelta(seconds=rng.randint(-(10**6), 10**6)) for _ in "ab")
        text = f"date_diff('{unit}', TIMESTAMP '{one}', TIMESTAMP '{two}')"
        domain = infer(expression(text), KNOWN)
        assert duckdb.sql(f"SELECT {text}").fetchall() == [(domain.lower,)] == [(domain.upper,)]


def test_inference_is_not_trivial() -> None:
    """The property would also hold for domains that know nothing: most of these must be bounded or listed."""
    made = expressions(1, 200, "n")
    known = [infer(e, KNOWN) for e in made.values()]
    assert sum(d.bounded or d.values is not None for d in known) > 60
