"""Every function of the table, over the edge values of every type that it takes.

For each form: wherever DuckDB answers, the emitted SQL gives the same answer; it never raises, whatever is stored; where
DuckDB raises, it is NULL or the answer in a wider type; the answer lies in the inferred domain; and it is a function.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from dpsql.bounds import infer
from dpsql.bounds.domain import Domain, RowDomains, finite, interval, number, of_type
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.sql.sql_types import physical
from dpsql.errors import Error
from dpsql.expressions.expression import Call, Column, Expression
from dpsql.expressions.from_syntax import convert
from dpsql.expressions.functions.conditions import SYNTAX
from dpsql.expressions.functions.datetimes import SHIFTS
from dpsql.expressions.functions.function import Function
from dpsql.expressions.functions.table import FUNCTIONS, SUBJECTS, find
from dpsql.expressions.types import Kind, Type, from_engine

VALUES: dict[str, list[str]] = {
    "TINYINT": ["-128", "-1", "0", "3", "127"],
    "INTEGER": ["-2147483648", "-7", "-1", "0", "1", "2", "12", "29", "97", "55296", "1114112", "2147483647"],
    "BIGINT": ["-9223372036854775808", "-62135596800", "-1", "0", "5", "33", "34", "100", "9223372036854775807"],
    "UTINYINT": ["0", "1", "200", "255"],
    "HUGEINT": ["-170141183460469231731687303715884105728", "0", "6", "170141183460469231731687303715884105727"],
    "DECIMAL(9,2)": ["-9999999.99", "-2.50", "0", "0.01", "2.50", "3.55", "9999999.99"],
    "DECIMAL(18,3)": ["-999999999999999.999", "0.005", "0.5", "1", "999999999999999.999"],
    "DOUBLE": ["'nan'", "'inf'", "'-inf'", "1.7976931348623157e308", "-1.7976931348623157e308", "5e-324", "-0.0", "0",
               "-1", "1", "0.5", "2.5", "-2.5", "3.7", "40", "171", "9223372036854775808", "-1e19", "1700000000.25"],
    "VARCHAR": ["''", "' '", "'abc'", "'ABCabc'", "'a-b-c'", "'abab'", "'-9223372036854775809'", "'1e400'", "'nan'",
                "'2024-02-30'", "'2024-02-29'", "'99999-01-01'", "'é%_\\'", "'🤦🏼‍♂️b'", "'İßΑΣ'", "'e' || chr(769)",
                "repeat('ab', 300)", "chr(0) || 'x'", "'true'", "'a' || chr(10) || 'b'", "'%41%zz%ff'", "'/x/y.tar'",
                "'17'"],
    "BOOLEAN": ["true", "false"],
    "DATE": ["'infinity'", "'-infinity'", "'5877642-06-25 (BC)'", "'5881580-07-10'", "'0001-01-01'",
             "'0001-01-02'", "'0001-01-01 (BC)'", "'9999-12-30'", "'9999-12-31'", "'10000-01-01'", "'1969-12-31'", "'1970-01-01'", "'2024-02-29'",
             "'2020-12-31'"],
    "TIMESTAMP": ["'infinity'", "'-infinity'", "'290309-12-22 (BC) 00:00:00'", "'294247-01-10 04:00:54.775806'",
                  "'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'", "'1969-12-31 23:59:59.999999'",
                  "'2024-02-29 12:34:56.789'", "'1999-12-31 23:59:59'", "'1677-01-01'"],
}  # fmt: skip
PAIRS = [
    *((t, t) for t in VALUES), ("TINYINT", "BIGINT"), ("INTEGER", "UTINYINT"), ("BIGINT", "DOUBLE"),
    ("DOUBLE", "DECIMAL(9,2)"), ("DECIMAL(9,2)", "BIGINT"), ("HUGEINT", "INTEGER"), ("DATE", "TIMESTAMP"),
    ("TIMESTAMP", "DATE"), ("DATE", "INTEGER"), ("DATE", "BIGINT"), ("BOOLEAN", "DOUBLE"), ("BOOLEAN", "VARCHAR"),
]  # fmt: skip
INSIDE: dict[str, tuple[Any, Any]] = {
    "TINYINT": (-1, 3), "INTEGER": (-1, 29), "BIGINT": (0, 34), "UTINYINT": (1, 200), "HUGEINT": (0, 6),
    "DECIMAL(9,2)": (Decimal("-2.5"), Decimal("3.55")), "DECIMAL(18,3)": (Decimal("0.005"), Decimal(1)),
    "DOUBLE": (-2.5, 40.0), "DATE": (date(1969, 12, 31), date(2024, 2, 29)),
    "TIMESTAMP": (datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 2, 29, 12, 34, 56, 789000)),
}  # fmt: skip
"""A part of the values, between two ends: for domains with bounds."""
LONG = 200
"""Longer texts may give NULL."""
DIFFERENT = {("a % b", "HUGEINT", "HUGEINT"), ("mod(a, b)", "HUGEINT", "HUGEINT")}
"""The remainder of numbers of 128 bits is computed as DOUBLE."""


def type_of(name: str) -> Type:
    found = from_engine(name)
    assert found is not None
    return found


@dataclass(frozen=True)
class Row:
    """A resolver for the letters of a form."""

    types: dict[str, Type]

    def column(self, node: exp.Column) -> Expression:
        return Column(self.types[node.name], name=node.name)


@cache
def parsed(form: str) -> exp.Expr:
    return sqlglot.parse_one(f"SELECT {form}", dialect="duckdb").selects[0]


def letters(form: str) -> tuple[str, ...]:
    return tuple(sorted({c.name for c in parsed(form).find_all(exp.Column)}))


def choices(form: str) -> Iterator[tuple[str, ...]]:
    """The types that the letters of a form are tried with."""
    count = len(letters(form))
    if count == 1:
        yield from ((t,) for t in VALUES)
    elif count == 2:
        yield from PAIRS
    else:
        yield from ((t,) * count for t in VALUES) if count else ((),)


def converted(form: str, types: tuple[str, ...]) -> Expression | None:
    """The expression, or None where the types do not fit."""
    try:
        made = convert(parsed(form), Row({a: type_of(t) for a, t in zip(letters(form), types, strict=True)}))
        DUCKDB.sql(made, str)
    except Error:
        return None
    return made


@pytest.fixture(scope="module")
def db() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for type_, values in VALUES.items():
        rows = ", ".join(f"(CAST({v} AS {type_}))" for v in ["NULL", *values])
        connection.execute(f'CREATE TABLE "{type_}" AS SELECT * FROM (VALUES {rows}) AS t(v)')
    return connection


def source(names: tuple[str, ...], types: tuple[str, ...]) -> str:
    parts = [f'(SELECT v AS {a} FROM "{t}") AS _{a}' for a, t in zip(names, types, strict=True)]
    return " CROSS JOIN ".join(parts) or "(SELECT 1) AS _none"


def answers(
    db: duckdb.DuckDBPyConnection, form: str, types: tuple[str, ...], made: Expression
) -> list[tuple[Any, ...]]:
    """For each row: the arguments, what DuckDB answers (NULL where it raises), and what was emitted."""
    names = letters(form)
    original = f"CAST({form} AS TIMESTAMP)" if form.startswith("to_timestamp") else form
    columns = ", ".join([*names, f"TRY({original})" if bindable(db, form, types) else "NULL", DUCKDB.sql(made, str)])
    return db.execute(f"SELECT {columns} FROM {source(names, types)}").fetchall()


def bindable(db: duckdb.DuckDBPyConnection, form: str, types: tuple[str, ...]) -> bool:
    try:
        db.execute(f"EXPLAIN SELECT TRY({form}) FROM {source(letters(form), types)}")
    except (duckdb.BinderException, duckdb.ConversionException, duckdb.ParserException, duckdb.CatalogException):
        return False
    return True


def same(one: Any, two: Any, slack: float = 0.0) -> bool:
    """Equal; numbers that were computed as DOUBLE up to the last digits of what they were computed from."""
    if isinstance(one, datetime) != isinstance(two, datetime) and isinstance(one, date) and isinstance(two, date):
        return datetime.fromisoformat(str(one)) == datetime.fromisoformat(str(two))
    if isinstance(one, datetime) and isinstance(two, datetime):
        return one.replace(tzinfo=None) == two.replace(tzinfo=None)
    if isinstance(one, float | Decimal | int) and isinstance(two, float | Decimal | int):
        if math.isnan(one) or math.isnan(two):
            return math.isnan(one) and math.isnan(two)
        return one == two or math.isclose(one, two, rel_tol=1e-12, abs_tol=max(slack, 1e-300))
    return one == two


ENDLESS = (date.min, date.max, datetime.min, datetime.max)
"""How the client reads ±infinity."""


NULL_IS_ZERO = ("round(a, -15)",)
"""DuckDB gives 0 for a NULL decimal that is rounded so far that no digit is left; dpsql gives NULL."""


def excused(arguments: tuple[Any, ...], types: tuple[str, ...]) -> bool:
    """Moments beyond the years 1 to 9999 (which the client reads as texts) and long texts may give NULL."""
    return any(
        value in ENDLESS or (isinstance(value, str) and (type_ != "VARCHAR" or len(value) > LONG))
        for value, type_ in zip(arguments, types, strict=True)
    )


def check_answers(db: duckdb.DuckDBPyConnection, form: str, types: tuple[str, ...], made: Expression) -> int:
    rows, answered, comparable = answers(db, form, types, made), 0, bindable(db, form, types)
    for *arguments, expected, got in rows:
        place = f"{form} over {dict(zip(letters(form), zip(types, arguments, strict=True), strict=True))}\n{DUCKDB.sql(made, str)}"
        sizes = [abs(a) for a in arguments if isinstance(a, int | Decimal) and made.type.kind is Kind.DOUBLE]
        if expected is not None and not same(expected, got, 1e-12 * float(max(sizes, default=0))):
            beyond = made.type.temporal and (isinstance(expected, str) or expected in ENDLESS)
            beyond = beyond or (arguments == [None] and form in NULL_IS_ZERO)
            assert got is None and (beyond or excused(tuple(arguments), types)), (
                f"{place}: DuckDB gives {expected!r}, dpsql {got!r}"
            )
        if expected is None and got is not None and comparable:
            assert raises(db, form, types, tuple(arguments)), f"{place}: DuckDB gives NULL, dpsql {got!r}"
        answered += got is not None
    return answered


def raises(db: duckdb.DuckDBPyConnection, form: str, types: tuple[str, ...], arguments: tuple[Any, ...]) -> bool:
    """Does DuckDB's own function raise on that very row?"""
    names = letters(form)
    condition = " AND ".join(f"{a} IS NOT DISTINCT FROM CAST(? AS {t})" for a, t in zip(names, types, strict=True))
    try:
        db.execute(f"SELECT {form} FROM {source(names, types)} WHERE {condition or 'true'}", list(arguments)).fetchall()
    except duckdb.Error:
        return True
    return False


def holds(domain: Domain, value: Any, type_: Type) -> bool:
    if value is None:
        return domain.nullable
    if isinstance(value, float) and math.isnan(value):
        return domain.nan
    if isinstance(value, float) and math.isinf(value):
        return (domain.upper if value > 0 else domain.lower) is None and domain.values is None
    if type_.temporal and isinstance(value, str):
        return domain.values is None and (domain.lower is None or domain.upper is None)
    if domain.values is not None and value not in domain.values:
        return False
    if type_.kind is Kind.TEXT:
        return True
    at = number(value)
    return (domain.lower is None or domain.lower <= at) and (domain.upper is None or at <= domain.upper)


def inside(value: Any, name: str) -> bool:
    if value is None or name not in INSIDE:
        return True
    low, high = INSIDE[name]
    plain = not isinstance(value, str) and not (isinstance(value, float) and math.isnan(value))
    return bool(plain and low <= value <= high)


def narrow_domain(name: str) -> Domain:
    if name not in INSIDE:
        return of_type(type_of(name))
    return interval(*map(number, INSIDE[name]))


def check_domains(db: duckdb.DuckDBPyConnection, form: str, types: tuple[str, ...], made: Expression) -> None:
    names, rows = letters(form), answers(db, form, types, made)
    whole = infer(made, RowDomains({a: of_type(type_of(t)) for a, t in zip(names, types, strict=True)}))
    narrow = infer(made, RowDomains({a: narrow_domain(t) for a, t in zip(names, types, strict=True)}))
    listed = infer(made, RowDomains({a: listed_domain(db, t) for a, t in zip(names, types, strict=True)}))
    for *arguments, _, got in rows:
        place = f"{form} over {dict(zip(types, arguments, strict=False))}: {got!r} is not in "
        assert holds(whole, got, made.type), f"{place}{whole}"
        if all(inside(v, t) for v, t in zip(arguments, types, strict=True)):
            assert holds(narrow, got, made.type), f"{place}{narrow}"
            assert holds(listed, got, made.type), f"{place}{listed}"


@cache
def listed_values(db: duckdb.DuckDBPyConnection, name: str) -> tuple[Any, ...]:
    rows = db.execute(f'SELECT v FROM "{name}" WHERE v IS NOT NULL').fetchall()
    return tuple(v for (v,) in rows if inside(v, name) and not (isinstance(v, float) and not math.isfinite(v)))


def listed_domain(db: duckdb.DuckDBPyConnection, name: str) -> Domain:
    return finite(listed_values(db, name), type_of(name), nullable=True)


TABLE = [f for functions in SUBJECTS.values() for f in functions]
GRAMMAR = [*SYNTAX, *SHIFTS]


@pytest.mark.parametrize("function", TABLE, ids=[f.name for f in TABLE])
def test_a_function_is_total_means_what_duckdb_means_and_stays_in_its_domain(
    db: duckdb.DuckDBPyConnection, function: Function
) -> None:
    assert sum(check(db, form) for form in function.written) > 0


@pytest.mark.parametrize("form", GRAMMAR)
def test_a_form_of_the_grammar_does_too(db: duckdb.DuckDBPyConnection, form: str) -> None:
    assert check(db, form) > 0


def check(db: duckdb.DuckDBPyConnection, form: str) -> int:
    answered = tried = 0
    for types in choices(form):
        made = converted(form, types)
        if made is None or (form, *types) in DIFFERENT:
            continue
        tried += 1
        answered += check_answers(db, form, types, made)
        check_domains(db, form, types, made)
    assert tried, f"{form} takes none of the types"
    return answered


def test_the_table_has_at_least_165_functions() -> None:
    assert len(FUNCTIONS) + len(GRAMMAR) >= 165
    assert len(FUNCTIONS) == sum(map(len, SUBJECTS.values())), "two functions have one name"


@pytest.mark.parametrize("function", TABLE, ids=[f.name for f in TABLE])
def test_a_function_has_a_type_bounds_and_sql(function: Function) -> None:
    """The three may stand in three packages; a line without one of them is found here."""
    from dpsql.bounds import infer as module  # noqa: F401 - the package must be loaded
    from dpsql.bounds.function_bounds import rule_of
    from dpsql.bounds.infer import _RULES as BOUNDS

    for form in function.written:
        made = [e for types in choices(form) if (e := converted(form, types)) is not None]
        assert made, form
        for node in (n for e in made for n in e.walk() if isinstance(n, Call)):
            assert node.op == "case" or BOUNDS.get(node.op) or rule_of(node.op), f"{node.op} has no bounds"
            assert DUCKDB.rule(node)
            assert physical(node.type)


def test_every_name_means_the_function_that_it_is_listed_under(db: duckdb.DuckDBPyConnection) -> None:
    for function in TABLE:
        for alias in function.aliases:
            assert FUNCTIONS.get(alias) is None or FUNCTIONS[alias] is function, alias
        for form in function.written:
            found = find(parsed(form)) if not isinstance(parsed(form), exp.Mul) else None
            if found is not None and function.name not in ("log10", "log2"):
                assert found[0] is function, form


def test_no_function_of_the_table_is_volatile(db: duckdb.DuckDBPyConnection) -> None:
    rows = db.execute("SELECT DISTINCT function_name, stability FROM duckdb_functions()").fetchall()
    volatile = {name for name, stability in rows if stability not in (None, "CONSISTENT")}
    names = {name for f in TABLE for name in (f.name, *f.aliases)}
    assert not names & (volatile - {"to_timestamp", "strptime"}), names & volatile
