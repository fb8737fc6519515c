"""Tables of expressions and the domains that must be inferred for them."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from itertools import product

import pytest
import sqlglot
from sqlglot import exp

from dpsql.bounds import infer, narrow, predicates
from dpsql.bounds.casts import _within
from dpsql.bounds.domain import Domain, RowDomains, finite, intersect, interval, number, of_type, union, value_at
from dpsql.bounds.infer import MOST_PRODUCTS
from dpsql.bounds.predicates import limited
from dpsql.engines.sql.sql_types import shared
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.from_syntax import convert
from dpsql.expressions.types import BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, Kind, Type, from_engine, integer


def stored(name: str) -> Type:
    found = from_engine(name)
    assert found is not None
    return found


COLUMNS: dict[str, tuple[Type, Domain]] = {
    "age": (stored("INTEGER"), interval(18, 110, nullable=False, origin=("policy age",))),
    "qty": (stored("BIGINT"), interval(0, 1000)),
    "step": (stored("INTEGER"), interval(2, 9, nullable=False)),
    "near": (stored("INTEGER"), interval(-5, 5, nullable=False)),
    "price": (stored("DECIMAL(9,2)"), interval(Decimal("-1.50"), Decimal("99.99"), nullable=False)),
    "amount": (DOUBLE, interval(0.0, 500.0, nullable=False, origin=("policy amount",))),
    "ratio": (DOUBLE, interval(-1.0, 1.0)),
    "loose": (DOUBLE, of_type(DOUBLE)),
    "huge": (stored("BIGINT"), of_type(stored("BIGINT"))),
    "region": (TEXT, finite(("north", "south", "east"), TEXT, nullable=False, origin=("policy region",))),
    "status": (TEXT, finite(("paid", "open"), TEXT, nullable=True)),
    "note": (TEXT, of_type(TEXT)),
    "vip": (BOOLEAN, of_type(BOOLEAN)),
    "placed": (DATE, interval(number(date(2023, 11, 15)), number(date(2024, 2, 10)), nullable=False)),
    "born": (DATE, of_type(DATE)),
    "ever": (DATE, replace(of_type(DATE), nullable=False)),
    "seen": (TIMESTAMP, interval(number(datetime(2024, 1, 1, 6)), number(datetime(2024, 1, 1, 9, 30)), nullable=False)),
}
KNOWN = RowDomains({name: domain for name, (_, domain) in COLUMNS.items()})


class Row:
    def column(self, node: exp.Column) -> Expression:
        return Column(COLUMNS[node.name][0], name=node.name)


class Texts:
    def column(self, node: exp.Column) -> Expression:
        return Column(TEXT, name=node.name)


def expression(text: str) -> Expression:
    return convert(sqlglot.parse_one(f"SELECT {text}", dialect="duckdb").selects[0], Row())


def days(*texts: str) -> list[int]:
    return [int(number(date.fromisoformat(t))) for t in texts]


def moments(*texts: str) -> list[int]:
    return [int(number(datetime.fromisoformat(t))) for t in texts]


INTERVALS: list[tuple[str, object, object]] = [
    ("age + 1", 19, 111),
    ("age - qty", -982, 110),
    ("age * near", -550, 550),
    ("near * near", 0, 25),
    ("-age", -110, -18),
    ("abs(near)", 0, 5),
    ("abs(age)", 18, 110),
    ("age / 2", 9.0, 55.0),
    ("amount / step", 0.0, 250.0),
    ("amount / near", None, None),
    ("age / near", None, None),
    ("age // 10", 1, 11),
    ("near // step", -2, 2),
    ("age // near", -110, 110),
    ("age % 7", 0, 6),
    ("near % 3", -2, 2),
    ("near % age", -5, 5),
    ("huge % 10", -9, 9),
    ("price + 1", Decimal("-0.50"), Decimal("100.99")),
    ("price * 2", -3, Decimal("199.98")),
    ("round(price)", -2, 100),
    ("floor(price)", -2, 99),
    ("ceil(price)", -1, 100),
    ("trunc(price)", -1, 99),
    ("round(price, 1)", Decimal("-1.5"), 100),
    ("round(amount, 2)", 0.0, 500.0),
    ("power(near, 2)", 0.0, 25.0),
    ("power(near, 3)", -125.0, 125.0),
    ("power(near, -1)", None, None),
    ("power(step, -1)", 1 / 9, 0.5),
    ("power(ratio, 0.5)", None, None),
    ("power(loose, 0)", 0.0, 1.0),
    ("power(loose, -2)", None, None),
    ("power(amount, 400)", 0.0, None),
    ("power(amount - 400, 400)", None, None),
    ("sqrt(amount + 400)", 20.0, 30.0),
    ("sqrt(ratio)", 0.0, 1.0),
    ("ln(age)", 2.890371757, 4.700480366),
    ("exp(ratio)", 0.367879441, 2.718281829),
    ("log10(step * 5 + 55)", 1.812913357, 2.0),
    ("sign(amount)", 0, 1),
    ("sign(age)", 1, 1),
    ("sign(-age)", -1, -1),
    ("sign(near)", -1, 1),
    ("sign(loose)", -1, 1),
    ("huge + 1", None, None),
    ("huge * 0", 0, 0),
    ("loose + 1", None, None),
    ("loose * loose", 0.0, None),
    ("greatest(huge, 0)", 0, None),
    ("least(greatest(huge, 0), 99)", 0, 99),
    ("least(loose, amount)", None, 500.0),
    ("coalesce(qty, 2000)", 0, 2000),
    ("nullif(age, 5)", 18, 110),
    ("CASE WHEN vip THEN age END", 18, 110),
    ("CASE WHEN amount > 100 THEN 100 ELSE amount END", 0.0, 100.0),
    ("CASE WHEN age >= 65 THEN age ELSE 0 END", 0, 110),
    ("CASE WHEN huge BETWEEN 0 AND 10 THEN huge ELSE 0 END", 0, 10),
    ("CASE WHEN huge < 5 THEN 5 ELSE huge END", 5, None),
    ("CASE WHEN huge IS NULL THEN 0 WHEN huge < 0 THEN 0 WHEN huge > 9 THEN 9 ELSE huge END", 0, 9),
    ("CAST(amount AS INTEGER)", 0, 500),
    ("CAST(amount / 200 AS INTEGER)", 0, 2),
    ("greatest(huge, 0) * qty", 0, None),
    ("qty * least(huge, 0)", None, 0),
    ("CAST(price AS INTEGER)", -2, 100),
    ("CAST(age AS DOUBLE)", 18.0, 110.0),
    ("CAST(qty AS TINYINT)", 0, 127),
    ("CAST(amount AS DECIMAL(9,1))", 0, 500),
    ("CAST(note AS INTEGER)", None, None),
    ("CAST(amount AS VARCHAR)", None, None),
    ("CAST(price AS VARCHAR)", None, None),
    ("CAST(amount AS BOOLEAN)", 0, 1),
    ("CAST(note AS TINYINT)", -128, 127),
    ("CAST(loose AS TINYINT)", -128, 127),
    ("length(note)", 0, None),
    ("strpos(note, 'x')", 0, None),
    ("length(region)", 4, 5),
    ("year(placed)", 2023, 2024),
    ("month(placed)", 1, 12),
    ("year(born)", None, None),
    ("month(born)", 1, 12),
    ("hour(seen)", 6, 9),
    ("day(seen)", 1, 1),
    ("hour(placed)", 0, 0),
    ("dayofweek(placed)", 0, 6),
    ("quarter(seen)", 1, 1),
    ("placed - DATE '2024-01-01'", -47, 40),
    ("date_diff('month', placed, DATE '2024-03-01')", 1, 4),
    ("date_diff('day', placed, placed)", -87, 87),
    ("date_sub('month', placed, DATE '2024-03-01')", 0, 4),
    ("date_sub('month', DATE '2024-03-01', placed)", -4, 0),
    ("date_sub('day', placed, placed)", -87, 87),
    ("date_diff('week', placed, DATE '2024-03-01')", 2, 15),
    ("placed + 10", *days("2023-11-25", "2024-02-20")),
    ("placed - age", *days("2023-07-28", "2024-01-23")),
    ("placed + INTERVAL 1 MONTH", *moments("2023-12-15", "2024-03-10")),
    ("CAST(seen AS DATE)", *days("2024-01-01", "2024-01-01")),
    ("CAST(placed AS TIMESTAMP)", *moments("2023-11-15", "2024-02-10")),
    ("date_trunc('year', seen)", *moments("2024-01-01", "2024-01-01")),
    ("born + INTERVAL 1 DAY", None, None),
    ("age // 0", 0, 0),
]


@pytest.mark.parametrize(("text", "low", "high"), INTERVALS, ids=[t for t, _, _ in INTERVALS])
def test_interval(text: str, low: object, high: object) -> None:
    domain = infer(expression(text), KNOWN)
    assert domain.lower == (pytest.approx(low, rel=1e-9) if isinstance(low, float) else low)
    assert domain.upper == (pytest.approx(high, rel=1e-9) if isinstance(high, float) else high)


VALUES: list[tuple[str, tuple[object, ...] | None]] = [
    ("upper(region)", ("NORTH", "SOUTH", "EAST")),
    ("left(region, 1)", ("n", "s", "e")),
    ("region || '!'", ("north!", "south!", "east!")),
    ("region || status", tuple(r + s for r in ("north", "south", "east") for s in ("paid", "open"))),
    ("concat(status, 'x')", ("paidx", "openx", "x")),
    ("substring(region, 2, 2)", ("or", "ou", "as")),
    ("replace(region, 'th', '')", ("nor", "sou", "east")),
    ("right(region, -1)", ("orth", "outh", "ast")),
    ("region = 'north'", (False, True)),
    ("region = 'moon'", (False,)),
    ("region LIKE '%h'", (False, True)),
    ("region IN ('north', 'south', 'east')", (True,)),
    ("amount > 600", (False,)),
    ("note IN (NULL, 'x')", (True,)),
    ("amount >= 0", (True,)),
    ("age IS NULL", (False,)),
    ("qty IS NULL", (False, True)),
    ("vip", (False, True)),
    ("NOT vip", (False, True)),
    ("amount >= 0 OR note = 'x'", (True,)),
    ("amount < 0 AND vip", (False,)),
    ("isnan(amount)", (False,)),
    ("CASE WHEN amount < 10 THEN 'low' WHEN amount < 600 THEN 'mid' ELSE 'never' END", ("low", "mid")),
    ("CASE region WHEN 'north' THEN 1 WHEN 'south' THEN 2 WHEN 'east' THEN 3 END", (1, 2, 3)),
    ("CASE WHEN vip THEN 1 ELSE 0 END", (1, 0)),
    ("CAST(vip AS INTEGER)", (0, 1)),
    ("CAST(vip AS VARCHAR)", ("false", "true")),
    ("age // 20 * 20", (0, 20, 40, 60, 80, 100)),
    ("CASE WHEN vip THEN 7 ELSE -7 END // 2", (-3, 3)),
    ("CASE WHEN vip THEN 7 ELSE -7 END % 4", (-3, 3)),
    ("floor(amount / 100) * 100", (0.0, 100.0, 200.0, 300.0, 400.0, 500.0)),
    ("round(age, -1)", (20, 30, 40, 50, 60, 70, 80, 90, 100, 110)),
    ("round(ratio)", (-1.0, 0.0, 1.0)),
    ("round(ratio, 1)", None),
    ("trunc(ratio)", (-1.0, 0.0, 1.0)),
    ("CAST(near AS VARCHAR)", tuple(str(i) for i in range(-5, 6))),
    ("coalesce(status, 'none')", ("paid", "open", "none")),
    ("nullif(region, 'east')", ("north", "south")),
    (
        "date_trunc('month', placed)",
        tuple(datetime(y, m, 1) for y, m in ((2023, 11), (2023, 12), (2024, 1), (2024, 2))),
    ),
    ("date_trunc('hour', seen)", tuple(datetime(2024, 1, 1, h) for h in range(6, 10))),
    ("date_trunc('month', born)", None),
    ("lower(note)", None),
    ("age + 1", None),
    ("note || region", None),
    ("date_trunc('week', seen)", (datetime(2024, 1, 1),)),
    ("greatest(CASE WHEN vip THEN 1 ELSE 5 END, 3)", (5, 3)),
    ("region < 'o'", (False, True)),
    ("age = 500", (False,)),
    ("age <> 500", (True,)),
    ("age = 18", (False, True)),
    ("amount = 600", (False,)),
    ("amount <> 500", (False, True)),
    ("seen = TIMESTAMP '2024-01-01 06:00:00'", (False, True)),
    ("seen = TIMESTAMP '2024-01-01 05:59:59.999999'", (False,)),
    ("placed IS DISTINCT FROM DATE '2024-02-11'", (True,)),
    ("qty IS NOT DISTINCT FROM 1001", (False,)),
    ("note = 'x'", (False, True)),
    *((f"age {op} {end}", (True,)) for op, end in (("<", 111), ("<=", 110), (">", 17), (">=", 18))),
    *((f"age {op} {end}", (False,)) for op, end in (("<", 18), ("<=", 17), (">", 110), (">=", 111))),
    *((f"age {op} {end}", (False, True)) for op, end in (("<", 110), ("<=", 109), (">", 18), (">=", 19))),
    *((f"{end} {op} age", (True,)) for op, end in ((">", 111), (">=", 110), ("<", 17), ("<=", 18))),
    ("loose < 5 OR TRUE", (True,)),
]


@pytest.mark.parametrize(("text", "values"), VALUES, ids=[t for t, _ in VALUES])
def test_values(text: str, values: tuple[object, ...] | None) -> None:
    assert infer(expression(text), KNOWN).values == values


@pytest.mark.parametrize(
    ("text", "nullable", "nan"),
    [
        ("age + 1", False, False),
        ("qty + 1", True, False),
        ("age // near", True, False),
        ("age % step", False, False),
        ("ratio / ratio", True, True),
        ("age / step", False, False),
        ("sqrt(ratio)", True, True),
        ("sqrt(amount)", False, False),
        ("loose + amount", True, True),
        ("huge + 0.5", True, False),
        ("amount - amount", False, False),
        ("ln(amount)", False, False),
        ("amount / amount", False, True),
        ("loose - loose", True, True),
        ("CASE WHEN vip THEN age END", True, False),
        ("CASE WHEN vip THEN age ELSE 0 END", False, False),
        ("coalesce(qty, 0)", False, False),
        ("nullif(age, 20)", True, False),
        ("nullif(age, 5)", True, False),
        ("nullif(region, 'moon')", False, False),
        ("nullif(region, 'north')", True, False),
        ("nullif(region, note)", True, False),
        ("nullif(region, NULL)", False, False),
        ("CAST(note AS DOUBLE)", True, True),
        ("CAST(note AS INTEGER)", True, False),
        ("CAST(amount AS TINYINT)", True, False),
        ("CAST(amount AS INTEGER)", False, False),
        ("greatest(qty, 0)", False, False),
        ("concat(note, 'x')", False, False),
        ("note || 'x'", True, False),
        ("starts_with(region, note)", True, False),
        ("region LIKE 'n%'", False, False),
        ("lower(note)", True, False),
        ("time_bucket(INTERVAL 1 HOUR, seen)", False, False),
        ("time_bucket(INTERVAL 1 DAY, ever)", True, False),
        ("epoch_ms(seen)", True, False),
        ("placed + 1", False, False),
        ("born + 1", True, False),
        ("year(born)", True, False),
        ("ever + 1", True, False),
        ("ever + INTERVAL 1 DAY", True, False),
        ("year(ever)", True, False),
        ("hour(ever)", True, False),
        ("date_trunc('month', ever)", True, False),
        ("date_diff('day', ever, placed)", True, False),
        ("CAST(ever AS TIMESTAMP)", True, False),
        ("CAST(placed AS TIMESTAMP)", False, False),
        ("placed + 9999999", False, False),
        ("placed + 10000000", True, False),
        ("placed - 10000000", True, False),
        ("CASE region WHEN 'north' THEN 1 WHEN 'south' THEN 2 WHEN 'east' THEN 3 END", False, False),
        ("least(greatest(loose, 0), 5)", False, False),
        ("age IS DISTINCT FROM qty", False, False),
        ("qty > 5", True, False),
        ("age IN (20, 30)", False, False),
        ("age IN (20, NULL)", True, False),
        ("age IN (NULL, 20)", True, False),
        ("region IN ('north', 'south', 'east', NULL)", False, False),
        ("vip IS TRUE", False, False),
        ("NULL + age", True, False),
        ("power(amount, 0.5)", False, False),
        ("loose * 0", True, True),
    ],
)
def test_null_and_nan(text: str, nullable: bool, nan: bool) -> None:
    domain = infer(expression(text), KNOWN)
    assert (domain.nullable, domain.nan) == (nullable, nan)


NARROWED: list[tuple[str, str, object, object, bool]] = [
    ("amount < 100", "amount", 0.0, 100.0, False),
    ("100 > amount", "amount", 0.0, 100.0, False),
    ("age > 20 AND age <= 30", "age", 21, 30, False),
    ("age BETWEEN 20 AND 30.5", "age", 20, 30, False),
    ("age = 40", "age", 40, 40, False),
    ("age <> 18", "age", 19, 110, False),
    ("NOT age <> 18", "age", 18, 18, False),
    ("NOT (age < 30)", "age", 30, 110, False),
    ("age < 30 OR age < 40", "age", 18, 39, False),
    ("NOT (age < 30 OR age > 40)", "age", 30, 40, False),
    ("NOT (age >= 30 AND age >= 20)", "age", 18, 29, False),
    ("qty > 5", "qty", 6, 1000, False),
    ("qty IS NOT NULL", "qty", 0, 1000, False),
    ("qty + age > 30", "qty", 0, 1000, False),
    ("(qty > 5) IS NOT TRUE", "qty", 0, 5, True),
    ("(qty > age) IS NOT TRUE", "qty", 0, 110, True),
    ("(age > qty) IS NOT TRUE", "age", 18, 110, False),
    ("(qty > 5) IS TRUE", "qty", 6, 1000, False),
    ("price < 10", "price", Decimal("-1.50"), Decimal("9.99"), False),
    ("price >= 0.005", "price", Decimal("0.01"), Decimal("99.99"), False),
    ("age <= step + 15", "age", 18, 24, False),
    ("huge > age AND huge < qty", "huge", 19, 999, False),
    ("age < amount AND amount < 50", "age", 18, 49, False),
    ("huge IN (3, 7, 5)", "huge", 3, 7, False),
    ("huge NOT IN (3)", "huge", None, None, False),
    ("huge * 2 BETWEEN 4 AND 8", "huge * 2", 4, 8, False),
    ("huge + 3 BETWEEN 4 AND 8", "huge", 1, 5, False),
    ("loose < 5", "loose", None, 5.0, False),
    ("loose BETWEEN 0 AND 1", "loose", 0.0, 1.0, False),
    ("loose <= age", "loose", None, 110.0, False),
    ("age <= loose", "age", 18, 110, False),
    ("year(born) = 2020", "born", *days("2020-01-01", "2020-12-31"), False),
    ("year(born) = 1", "born", *days("0001-01-01", "0001-12-31"), False),
    ("year(born) >= 1990", "born", *days("1990-01-01"), None, False),
    ("date_trunc('month', born) = DATE '2024-02-01'", "born", *days("2024-02-01", "2024-02-29"), False),
    ("placed >= '2024-01-01'", "placed", *days("2024-01-01", "2024-02-10"), False),
    ("placed > '2024-01-01'", "placed", *days("2024-01-02", "2024-02-10"), False),
    ("placed < TIMESTAMP '2024-01-01 12:00:00'", "placed", *days("2023-11-15", "2024-01-01"), False),
    ("placed >= '2024-01-01'", "month(placed)", 1, 2, False),
    ("seen < placed", "seen", *moments("2024-01-01 06:00", "2024-01-01 09:30"), False),
    ("qty IS NOT DISTINCT FROM 5", "qty", 5, 5, False),
    ("qty IS DISTINCT FROM 0", "qty", 1, 1000, True),
    ("age > 5", "age", 18, 110, False),
    ("age < 30 OR region = 'moon'", "age", 18, 29, False),
    ("region = 'moon' OR age < 30", "age", 18, 29, False),
    ("price >= 1e-1", "price", Decimal("0.10"), Decimal("99.99"), False),
    ("huge IN (3, 7, NULL)", "huge", 3, 7, False),
    ("(huge IN (3, 7)) IS NOT FALSE", "huge", 3, 7, True),
    ("(huge IN (3, 7, NULL)) IS NOT FALSE", "huge", None, None, True),
    ("(huge IN (3, 7)) IS NOT TRUE", "huge", None, None, True),
    ("age // near IS NOT NULL", "age // near", -110, 110, False),
    ("(year(born) = 2020) IS NOT FALSE", "born", None, None, True),
    ("(year(born) = 2020) IS NOT FALSE", "year(born)", 2020, 2020, True),
    ("(huge + 3 = 5) IS NOT FALSE", "huge", None, None, True),
    ("huge - 3 BETWEEN 4 AND 8", "huge", 7, 11, False),
    ("CAST(born AS TIMESTAMP) <= TIMESTAMP '2024-02-10 12:00:00'", "born", None, *days("2024-02-10"), False),
    ("CAST(born AS TIMESTAMP) >= TIMESTAMP '2024-02-10 12:00:00'", "born", *days("2024-02-11"), None, False),
]


@pytest.mark.parametrize(
    ("where", "text", "low", "high", "nullable"), NARROWED, ids=[f"{w}: {t}" for w, t, *_ in NARROWED]
)
def test_narrowed_interval(where: str, text: str, low: object, high: object, nullable: bool) -> None:
    domain = infer(expression(text), narrow(KNOWN, expression(where)))
    assert (domain.lower, domain.upper, domain.nullable) == (low, high, nullable)


@pytest.mark.parametrize(
    ("where", "text", "values", "nullable"),
    [
        ("region = 'north'", "region", ("north",), False),
        ("region <> 'north'", "region", ("south", "east"), False),
        ("region IN ('east', 'north', 'moon')", "region", ("north", "east"), False),
        ("region LIKE '%th'", "region", ("north", "south"), False),
        ("region NOT LIKE '%th'", "region", ("east",), False),
        ("starts_with(region, 'n') OR region = 'east'", "region", ("north", "east"), False),
        ("region > 'o'", "region", ("south",), False),
        ("length(region) = 4", "region", ("east",), False),
        ("upper(region) = 'EAST'", "region", ("east",), False),
        ("status <> 'paid'", "status", ("open",), False),
        ("(status = 'paid') IS NOT TRUE", "status", ("open",), True),
        ("status IS NOT NULL", "status", ("paid", "open"), False),
        ("status IS NULL", "status", (), True),
        ("vip", "vip", (True,), False),
        ("NOT vip", "vip", (False,), False),
        ("vip IS NOT TRUE", "vip", (False,), True),
        ("vip = FALSE", "vip", (False,), False),
        ("coalesce(vip, FALSE)", "vip", (True,), False),
        ("CASE region WHEN 'north' THEN 1 ELSE 2 END = 1", "region", ("north",), False),
        ("note = 'x'", "note", ("x",), False),
        ("note IN ('x', 'y')", "upper(note)", ("X", "Y"), False),
        ("age IN (20, 30)", "age * 2", (40, 60), False),
        ("status IN ('paid', NULL)", "status", ("paid",), False),
        ("status NOT IN ('paid', NULL)", "status", (), False),
        ("(status IN ('paid')) IS NOT FALSE", "status", ("paid",), True),
        ("(status IN ('paid', NULL)) IS NOT FALSE", "status", ("paid", "open"), True),
        ("age IN (20.5, 30)", "age", None, False),
        ("placed IN (TIMESTAMP '2024-01-01 12:00:00')", "placed", None, False),
    ],
)
def test_narrowed_values(where: str, text: str, values: tuple[object, ...] | None, nullable: bool) -> None:
    domain = infer(expression(text), narrow(KNOWN, expression(where)))
    assert (domain.values, domain.nullable) == (values, nullable)


def test_a_condition_that_did_not_hold_admits_null() -> None:
    known = narrow(KNOWN, expression("qty < 10"), holds=False)
    assert known.columns["qty"].lower == 10
    assert known.columns["qty"].nullable
    both = narrow(KNOWN, expression("near < qty"), holds=False)
    assert both.columns["near"].lower == -5, "qty may have been NULL, which says nothing of near"


def test_nan_is_above_every_number() -> None:
    assert narrow(KNOWN, expression("loose > 5")).columns["loose"].nan
    assert not narrow(KNOWN, expression("loose < 5")).columns["loose"].nan
    assert narrow(KNOWN, expression("NOT (loose < 5)")).columns["loose"].nan
    assert not narrow(KNOWN, expression("NOT isnan(loose)")).columns["loose"].nan
    assert narrow(KNOWN, expression("amount < loose")).columns["amount"].upper == 500.0


@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge", "eq"])
def test_what_a_comparison_leaves_of_nan(op: str, other: bool) -> None:
    """It is above all numbers and equal to itself, so it is below or at nothing but another."""
    one, two = Column(DOUBLE, name="x"), Column(DOUBLE, name="y")
    made = limited(op, one, two, interval(1.0, 2.0, nan=other))
    assert made.nan == (op in ("gt", "ge") or (other and op in ("le", "eq")))
    assert made.lower == (1.0 if op in ("gt", "ge", "eq") else None)
    assert made.upper == (2.0 if op in ("lt", "le", "eq") and not (other and op != "eq") else None)


@pytest.mark.parametrize(
    ("where", "text", "origin"),
    [
        (None, "amount * 2", ("policy amount",)),
        ("amount < 100", "amount", ("policy amount", "WHERE amount < 100")),
        ("amount < 900", "amount", ("policy amount",)),
        ("NOT (amount >= 100) AND vip", "amount", ("policy amount", "WHERE NOT (amount >= 100)")),
        ("year(born) = 2020", "born", ("WHERE year(born) = 2020",)),
        (None, "CASE WHEN huge BETWEEN 0 AND 9 THEN huge ELSE 0 END", ("CASE huge >= 0", "CASE huge <= 9")),
        ("region LIKE 'n%'", "region", ("policy region", "WHERE region LIKE 'n%'")),
    ],
)
def test_origins_name_what_gave_the_bound(where: str | None, text: str, origin: tuple[str, ...]) -> None:
    known = KNOWN if where is None else narrow(KNOWN, expression(where))
    assert infer(expression(text), known).origin == origin


def test_a_contradiction_leaves_a_usable_domain() -> None:
    domain = infer(expression("age"), narrow(KNOWN, expression("age > 50 AND age < 20")))
    assert domain.bounded and domain.lower is not None and domain.upper is not None and domain.lower <= domain.upper


def test_union_passes_over_a_branch_that_is_only_null() -> None:
    assert union((interval(1, 2), Domain(values=()))).upper == 2
    assert union((interval(1, 2, nullable=False), Domain(values=()))).nullable


def test_intersection_of_a_list_tightens_the_interval() -> None:
    made = intersect(finite((1, 5, 9), stored("INTEGER"), nullable=False), interval(2, 8))
    assert (made.values, made.lower, made.upper) == ((5,), 5, 5)
    assert value_at(made.lower or 0, DATE) == date(1970, 1, 6)


SMALL = [None, *(tuple(v for v in (1, 2, 3) if chosen >> v & 1) for chosen in range(0, 16, 2))]


@pytest.mark.parametrize("listed", SMALL)
def test_an_intersection_has_just_the_values_of_both_and_their_ends(listed: tuple[int, ...] | None) -> None:
    """Also where a list comes without its ends, as that of the values which were tried does."""
    whole = stored("INTEGER")
    one = interval(1, 3) if listed is None else finite(listed, whole, nullable=False)
    ways = [(low, high) for low, high in product((None, 1, 2, 3), repeat=2) if (low or 1) <= (high or 3)]
    for other, (low, high) in product(SMALL, ways):
        made = intersect(one, Domain(low, high, other, False))
        held = [
            v
            for v in ((1, 2, 3) if listed is None else listed)
            if (other is None or v in other) and (low or 1) <= v <= (high or 3)
        ]
        if held:
            assert made.values == (None if listed is None and other is None else tuple(held))
            assert (made.lower, made.upper) == (held[0], held[-1])
        assert made.nullable is made.nan is False


@pytest.mark.parametrize(
    ("type_", "low", "high", "values", "nan"),
    [
        (BOOLEAN, 0, 1, (False, True), False),
        (TEXT, None, None, None, False),
        (DOUBLE, None, None, None, True),
        (DATE, None, None, None, False),
        (TIMESTAMP, None, None, None, False),
        (stored("UTINYINT"), 0, 255, None, False),
        (stored("SMALLINT"), -(2**15), 2**15 - 1, None, False),
        (stored("USMALLINT"), 0, 2**16 - 1, None, False),
        (integer(0, 2**16), None, None, None, False),
        (stored("DECIMAL(4,2)"), Decimal("-99.99"), Decimal("99.99"), None, False),
        (stored("DECIMAL(4,0)"), -9999, 9999, None, False),
        (stored("DECIMAL(5,2)"), None, None, None, False),
    ],
)
def test_what_a_type_alone_says(type_: Type, low: object, high: object, values: object, nan: bool) -> None:
    made = of_type(type_)
    assert (made.lower, made.upper, made.values, made.nan, made.nullable) == (low, high, values, nan, True)
    assert bool(made.origin) == (made.lower is not None), "what bounds a column is named"


@pytest.mark.parametrize("text", ["date_trunc('hour', seen)", "time_bucket(INTERVAL 1 HOUR, seen)"])
@pytest.mark.parametrize("over", [0, 1])
def test_so_many_periods_are_listed_and_not_one_more(text: str, over: int) -> None:
    """A moment that is listed may be truncated by up to one period, so there one more has its place."""
    most = 100_001 if text.startswith("date_trunc") else 100_000
    last = datetime(2001, 1, 1) + timedelta(hours=most - 1, microseconds=over)
    last += timedelta(hours=over) if most == 100_000 else timedelta(0)
    values = infer(expression(text), RowDomains({"seen": interval(number(datetime(2001, 1, 1)), number(last))})).values
    assert (None if values is None else len(values)) == (None if over else most)


def test_deeply_nested_cases_take_bounded_time() -> None:
    text = "age"
    for level in range(25):
        text = f"CASE WHEN {text} > {level} AND region = 'north' THEN age + {level} ELSE qty END"
    started = time.process_time()
    infer(expression(text), KNOWN)
    narrow(KNOWN, expression(f"{text} > 3"))
    assert time.process_time() - started < 60


@pytest.mark.parametrize("scale", [16, 17, 18])
@pytest.mark.parametrize("over", [-1, 0, 9 * 10**20])
def test_a_decimal_beside_a_wide_whole_number_has_a_margin_just_where_both_are_compared_as_double(
    scale: int, over: int
) -> None:
    """Beyond 38 digits the engine rounds before it compares, so that a bound without a margin might not hold."""
    one, two = (
        Column(Type(Kind.DECIMAL, -(10**18) + 1, 10**18 - 1, scale), name="d"),
        Column(integer(-5, 10 ** (38 - scale) + over), name="w"),
    )
    bound = limited("ge", one, two, interval(Decimal("0.5"), None)).lower
    assert bound is not None and bound <= Decimal("0.5")
    assert (bound < Decimal("0.5")) == (shared([one.type, two.type]) == "DOUBLE") == (over >= 0)


@pytest.mark.parametrize("kind", ["DECIMAL(18,2)", "DECIMAL(18,1)", "DECIMAL(18,0)", "BIGINT", "HUGEINT"])
@pytest.mark.parametrize("end", [0.1, 7.0, 2.0**53 - 1, 2.0**53, 2.0**53 + 2, 1e17])
def test_what_is_compared_as_double_keeps_each_value_that_may_have_been_rounded_to_the_end(
    kind: str, end: float
) -> None:
    """On either side of zero: the margin leads away from the values, whatever their sign."""
    one, two = Column(stored(kind), name="x"), Column(DOUBLE, name="y")
    step = Decimal(1).scaleb(-one.type.scale)
    for sign, place in product((-1, 1), range(-20, 21)):
        near = Decimal(round(Decimal(end) / step) + place) * step * sign
        at_least, at_most = (limited(op, one, two, interval(sign * end, sign * end)) for op in ("ge", "le"))
        assert at_least.lower is not None and at_most.upper is not None
        assert float(near) < sign * end or near >= at_least.lower
        assert float(near) > sign * end or near <= at_most.upper
        strict = limited("gt", one, two, interval(sign * end, sign * end)).lower
        assert strict is not None and (float(near) <= sign * end or near >= strict)


@pytest.mark.parametrize("kind", ["DECIMAL(18,2)", "BIGINT"])
@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge", "eq"])
@pytest.mark.parametrize("end", [0.0, 0.1, 7.0, 2.0**53 - 1, 2.0**53, 1e17])
def test_a_bound_is_the_mirror_of_that_on_the_other_side_of_zero(kind: str, op: str, end: float) -> None:
    one, two = Column(stored(kind), name="x"), Column(DOUBLE, name="y")
    here = limited(op, one, two, interval(end, end))
    there = limited({"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}.get(op, op), one, two, interval(-end, -end))
    for mine, its in ((here.lower, there.upper), (here.upper, there.lower)):
        assert (mine is None) == (its is None) and (mine is None or its is None or mine == -its)


@pytest.mark.parametrize("text", ["floor(amount)", "ceil(amount)", "qty * 2", "CAST(placed AS VARCHAR)"])
@pytest.mark.parametrize(("places", "listed"), [(1, True), (10_000, True), (10_001, False)])
def test_so_many_whole_numbers_are_listed(text: str, places: int, listed: bool) -> None:
    """Of a floor as of a product that leaves gaps, and of days as of numbers."""
    bounds = interval(3, places + 2, nullable=False)
    known = RowDomains(dict.fromkeys(("amount", "qty", "placed"), bounds))
    values = infer(expression(text), known).values
    assert (None if values is None else len(values)) == (places if listed else None)


@pytest.mark.parametrize(("values", "tried"), [(1_000, True), (1_001, False)])
def test_so_many_listed_values_are_tried_one_by_one(values: int, tried: bool) -> None:
    known = RowDomains({"near": finite(tuple(range(values)), COLUMNS["near"][0], nullable=False)})
    kept = narrow(known, expression("near % 2 = 1")).columns["near"].values
    assert kept is not None and len(kept) == (values // 2 if tried else values)


@pytest.mark.parametrize(("pairs", "passes"), [(1, 4), (2, 8), (3, 12), (9, 12)])
def test_a_condition_that_never_settles_is_read_so_often_and_no_more(
    pairs: int, passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    times, plain = [], predicates.narrowed
    module = import_module("dpsql.bounds.infer")
    monkeypatch.setattr(module, "narrowed", lambda *args: (times.append(1), plain(*args))[1])
    narrow(KNOWN, expression(" AND ".join(["qty < huge AND huge < qty"] * pairs)))
    assert len(times) == passes


@pytest.mark.parametrize(
    ("text", "values", "listed"),
    [
        ("upper(a)", 10_000, True),
        ("upper(a)", 10_001, False),
        ("a || b", 1_000, True),
        ("a || b", 1_002, False),
        ("starts_with(a, 'v')", 1_000, True),
        ("starts_with(a, 'v')", 1_001, False),
    ],
)
def test_so_many_combinations_of_listed_values_are_listed(text: str, values: int, listed: bool) -> None:
    """Of one operand as many as a list may have; of several, and where the answer is only yes or no, fewer."""
    many = values // 2 if "b" in text else values
    known = RowDomains({"a": finite([f"v{i:06}" for i in range(many)], TEXT, nullable=False)})
    known = known.with_column("b", finite(("x", "y"), TEXT, nullable=False))
    made = infer(convert(sqlglot.parse_one(text, dialect="duckdb"), Texts()), known)
    if made.values is not None and "starts" in text:
        assert made.values == ((True,) if listed else (False, True))
    else:
        assert (made.values is not None and len(made.values) == values) == listed


@pytest.mark.parametrize(
    ("source", "target", "fits"),
    [
        (integer(-5, 7), integer(-5, 7), True),
        (integer(-6, 7), integer(-5, 7), False),
        (integer(-5, 8), integer(-5, 7), False),
        (integer(-5, 7), Type(Kind.DECIMAL, -500, 700, 2), True),
        (integer(-5, 7), Type(Kind.DECIMAL, -499, 700, 2), False),
        (integer(-5, 7), Type(Kind.DECIMAL, -500, 699, 2), False),
        (Type(Kind.DECIMAL, -500, 700, 2), integer(-50, 70), False),
        (Type(Kind.DECIMAL, -500, 700, 1), Type(Kind.DECIMAL, -5000, 7000, 2), True),
        (Type(Kind.DECIMAL, -500, 700, 1), Type(Kind.DECIMAL, -4999, 7000, 2), False),
    ],
)
def test_a_cast_cannot_fail_where_the_whole_hard_range_fits(source: Type, target: Type, fits: bool) -> None:
    assert _within(source, target) == fits


@pytest.mark.parametrize(
    ("text", "values"), [("a = 'other'", (False,)), ("a <> 'other'", (True,)), ("a = 'v000007'", (False, True))]
)
def test_long_lists_are_compared_as_sets(text: str, values: tuple[object, ...]) -> None:
    known = RowDomains({"a": finite([f"v{i:06}" for i in range(MOST_PRODUCTS + 1)], TEXT, nullable=False)})
    assert infer(convert(sqlglot.parse_one(text, dialect="duckdb"), Texts()), known).values == values
