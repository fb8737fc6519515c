"""PostgreSQL's texts as DuckDB's: what each means there, or why it is refused."""

from __future__ import annotations

import datetime as dt

import pandas as pd
import pytest

import dpsql
from dpsql.errors import Error, ParseError, UnsupportedQuery
from dpsql.sql import parse_query

SAME = [
    "a + b", "a - b", "a * b", "a % b", "mod(a, b)", "-a", "abs(a)", "a = b", "a <> b", "a < b", "a >= b", "a AND b", "NOT a",
    "a IS NULL", "a IS NOT NULL", "a IS DISTINCT FROM b", "a IN (1, 2)", "a IN ('x', 'y')", "a BETWEEN 1 AND 2",
    "CASE WHEN a > 1 THEN 'x' ELSE 'y' END", "coalesce(a, b)", "nullif(a, b)", "greatest(a, b)", "least(a, b)",
    "lower(a)", "upper(a)", "length(a)", "char_length(a)", "concat(a, b)", "a || b", "replace(a, 'x', 'y')", "left(a, 2)",
    "right(a, 2)", "strpos(a, 'x')", "split_part(a, '-', 1)", "trim(a)", "ltrim(a)", "rtrim(a, 'x')", "reverse(a)",
    "translate(a, 'x', 'y')", "ascii(a)", "chr(a)", "md5(a)", "lpad(a, 5, 'x')", "a LIKE 'x%'", "a ILIKE '%x'",
    "a NOT LIKE 'x%'", "starts_with(a, 'x')", "ceil(a)", "floor(a)", "sqrt(a)", "ln(a)", "exp(a)", "power(a, 2)",
    "sign(a)", "round(a, 2)", "trunc(a, 2)", "degrees(a)", "sin(a)", "d + INTERVAL '1' MONTH", "d - INTERVAL '3' DAY",
    "EXTRACT(YEAR FROM d)", "EXTRACT(DOW FROM d)", "EXTRACT(EPOCH FROM d)", "DATE_TRUNC('month', d)", "DATE '2024-01-01'",
    "CAST(a AS INT)", "CAST(a AS BIGINT)", "CAST(a AS DECIMAL(10, 2))", "CAST(a AS DATE)", "CAST(a AS BOOLEAN)",
    "COUNT(*) FILTER (WHERE a > 1)", "percentile_cont(0.5) WITHIN GROUP (ORDER BY a)", "stddev(a)", "avg(a)",
    "COUNT(DISTINCT a)", "a & b", "a | b", "a << 2", "pi()", "width_bucket(a, 0, 10, 5)", "\"quoted name\"",
]  # fmt: skip
REWRITTEN = {
    "a::int": "CAST(a AS INT)", "a::text": "CAST(a AS TEXT)", "a::float8": "CAST(a AS DOUBLE)",
    "a::double precision": "CAST(a AS DOUBLE)", "a::numeric": "CAST(a AS DOUBLE)",
    "a::numeric(10,2)": "CAST(a AS DECIMAL(10, 2))", "a::numeric::int": "CAST(ROUND(CAST(a AS DOUBLE)) AS INT)",
    "a::varchar(3)": "LEFT(CAST(a AS TEXT), 3)", "a::timestamptz": "CAST(a AS TIMESTAMPTZ)",
    "5 / 2": "5 // 2", "5.0 / 2": "5.0 / 2", "count(*) / count(a)": "COUNT(*) // COUNT(a)",
    "100.0 * count(*) / 7": "100.0 * COUNT(*) / 7", "a::bigint / 2": "CAST(a AS BIGINT) // 2",
    "a::numeric / b": "CAST(a AS DOUBLE) / b", "avg(a) / 2": "AVG(a) / 2",
    "sum(a)::numeric / count(*)": "CAST(SUM(a) AS DOUBLE) / COUNT(*)",
    "extract(year from d) / 10": "EXTRACT(YEAR FROM d) / 10",
    "round(a::numeric)": "ROUND(CAST(a AS DOUBLE))", "round(count(*))": "ROUND(COUNT(*))",
    "a ~ 'x'": "REGEXP_MATCHES(a, 'x', 's')", "a ~* 'x'": "REGEXP_MATCHES(a, 'x', 'is')",
    "a !~ 'x'": "NOT REGEXP_MATCHES(a, 'x', 's')", "a !~* '^x\\d+'": "NOT REGEXP_MATCHES(a, '^x\\d+', 'is')",
    "a SIMILAR TO 'x%_'": "REGEXP_FULL_MATCH(a, 'x.*.', 's')",
    "a SIMILAR TO '(a|b)*.'": "REGEXP_FULL_MATCH(a, '(a|b)*\\.', 's')",
    "a LIKE 'x\\%'": "a LIKE 'x\\%' ESCAPE '\\'", "a LIKE b": "a LIKE b ESCAPE '\\'",
    "a LIKE 'x$%' ESCAPE '$'": "a LIKE 'x$%' ESCAPE '$'",
    "a # b": "XOR(a, b)", "|/ a": "SQRT(a)", "||/ a": "CBRT(a)", "a ^ 2": "POWER(a, 2)",
    "position('x' in a)": "STRPOS(a, 'x')", "substring(a from 1 for 2)": "SUBSTRING(a, 1, 2)",
    "substr(a, 2)": "SUBSTRING(a, 2)", "btrim(a, 'x')": "TRIM(a, 'x')", "trim(both 'x' from a)": "TRIM(a, 'x')",
    "lpad(a, 5)": "LPAD(a, 5, ' ')", "octet_length(a)": "STRLEN(a)", "to_hex(a)": "LOWER(HEX(a))",
    "to_char(d, 'YYYY-MM')": "STRFTIME(d, '%Y-%m')",
    "to_char(d, 'YYYY-MM-DD HH24:MI:SS')": "STRFTIME(d, '%Y-%m-%d %H:%M:%S')",
    "to_char(d, 'FMMonth FMDD, YYYY')": "STRFTIME(d, '%B %-d, %Y')", "to_char(d, 'IYYY-\"W\"IW')": "STRFTIME(d, '%G-W%V')",
    "to_char(d, 'Dy Mon')": "STRFTIME(d, '%a %b')", "to_date(a, 'YYYY-MM-DD')": "CAST(a AS DATE)",
    "to_timestamp(a)": "TO_TIMESTAMP(a)", "date_part('year', d)": "EXTRACT(YEAR FROM d)",
    "extract(second from d)": "(EXTRACT(MICROSECOND FROM d) / 1000000.0)",
    "extract(milliseconds from d)": "(EXTRACT(MICROSECOND FROM d) / 1000.0)",
    "d + interval '1 month'": "d + INTERVAL '1' MONTH",
    "a between symmetric 1 and 2": "(a BETWEEN 1 AND 2 OR a BETWEEN 2 AND 1)",
    "a = any(array[1, 2])": "a IN (1, 2)", "E'it\\'s'": "'it''s'", "regexp_replace(a, '[^0-9]+', '', 'g')":
    "REGEXP_REPLACE(a, '[^0-9]+', '', 'g')", "regexp_replace(a, '^a+$', 'b')": "REGEXP_REPLACE(a, '^a+$', 'b')",
    "to_timestamp('2024-03-01 10:20:30.500000', 'YYYY-MM-DD HH24:MI:SS.US')": "CAST('2024-03-01 10:20:30.500000' AS TIMESTAMP)",
    "to_date('01.03.2024', 'DD.MM.YYYY')": "CAST('2024-03-01' AS DATE)", '"public"."t"."a"': '"t"."a"',
}  # fmt: skip
QUERIES = {
    "SELECT a FROM t LIMIT ALL": "SELECT a FROM t", "SELECT a FROM t FETCH FIRST 5 ROWS ONLY": "SELECT a FROM t LIMIT 5",
    "SELECT a FROM t FETCH FIRST ROW ONLY": "SELECT a FROM t LIMIT 1",
    "SELECT a FROM public.t LIMIT 5 OFFSET 2": "SELECT a FROM t LIMIT 5 OFFSET 2",
    "SELECT a FROM t ORDER BY a DESC": "SELECT a FROM t ORDER BY a DESC NULLS FIRST",
    "SELECT a FROM t ORDER BY a": "SELECT a FROM t ORDER BY a", 'SELECT "a" AS "x y" FROM "t"': 'SELECT "a" AS "x y" FROM "t"',
    "WITH q AS (SELECT extract(year from d) AS y FROM t) SELECT y / 10 FROM q":
    "WITH q AS (SELECT EXTRACT(YEAR FROM d) AS y FROM t) SELECT y / 10 FROM q",
}  # fmt: skip
REFUSED = {
    "a::real": "32 bits", "a::char(3)": "blanks", "a::interval": "not a supported type", "a::numeric::text": "formats",
    "round(a)": "float or a numeric", "regexp_matches(a, 'x')": "something else", "div(a, b)": "something else",
    "age(a, b)": "something else", "a ~ 'x\\y'": "escape", "a ~ '\\bx'": "escape", "a ~ b": "constant",
    "substring(a from 'x.')": "position", "substring(a from 0 for 2)": "position", "to_char(d, 'Month')": "format",
    "to_char(a, '999')": "format", "to_date(a, 'DD Mon')": "lenient", "to_date('5 Jan', 'DD Mon')": "this format",
    "to_timestamp('2024-01-02 5', 'YYYY-MM-DD HH24')": "this format", "regexp_replace(a, 'a?(ab)?', 'x')": "replace another part",
    "regexp_replace(a, 'x', 'y', 'n')": "flags", "a = any('{1,2}')": "ANY", "a similar to '[x]'": "SIMILAR TO",
}  # fmt: skip


def read(text: str, dialect: str) -> str:
    return parse_query(f"SELECT {text}", dialect=dialect).sql("duckdb")


@pytest.mark.parametrize("text", SAME)
def test_what_means_the_same_stays(text: str) -> None:
    assert read(text, "postgres") == read(text, "duckdb")


@pytest.mark.parametrize(("text", "expected"), REWRITTEN.items())
def test_what_differs_is_rewritten(text: str, expected: str) -> None:
    assert read(text, "postgres") == f"SELECT {expected}"


@pytest.mark.parametrize(("text", "expected"), QUERIES.items())
def test_clauses_are_rewritten(text: str, expected: str) -> None:
    assert parse_query(text, dialect="postgres").sql("duckdb") == expected


@pytest.mark.parametrize(("text", "said"), REFUSED.items())
def test_what_has_no_equal_is_refused_with_a_way_out(text: str, said: str) -> None:
    with pytest.raises(UnsupportedQuery, match=said) as refused:
        read(text, "postgres")
    assert refused.value.hint is not None and refused.value.hint.startswith("write ")


@pytest.fixture(scope="module")
def db() -> dpsql.Connection:
    days = pd.to_datetime(["2024-01-31 10:20:30.5", "2024-02-29 00:00:00.0", "2023-12-31 00:00:00.0"] * 200)
    frame = pd.DataFrame({"id": range(600), "n": [5, 8, -7] * 200, "x": [2.5, -2.5, 0.5] * 200,
                          "name": ["a%b", "axb", None] * 200, "d": days})  # fmt: skip
    policy = {
        "dataset": "p", "search": False, "budget": {"epsilon": 10**6, "delta": 1e-6}, "limits": {"epsilon": 10**5, "delta": 1e-8},
        "tables": {"t": {"unit": "id", "unique": True, "columns": {
            "n": {"min": -10, "max": 10}, "x": {"min": -3, "max": 3}, "name": {"values": ["a%b", "axb"]},
            "d": {"min": dt.date(2023, 1, 1), "max": dt.date(2024, 12, 31)}}}},
    }  # fmt: skip
    return dpsql.connect({"t": frame}, policy=policy, ledger=":memory:", analyst="ana", dialect="postgres")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sum(n / 2)", 200 * (2 + 4 - 3)), ("sum(n / 2.0)", 200 * 3.0), ("sum(x::int)", 200 * (2 - 2 + 0)),
        ("sum(x::numeric::int)", 200 * (3 - 3 + 1)), ("count(*) FILTER (WHERE name LIKE 'a\\%b')", 200),
        ("count(*) FILTER (WHERE name ~ '^a.b$')", 400), ("sum(length(name || 'x'))", 200 * 8),
        ("count(*) FILTER (WHERE to_char(d, 'YYYY-MM') = '2024-02')", 200), ("sum(n % 3)", 200 * (2 + 2 - 1)),
        ("count(*) FILTER (WHERE extract(second from d) = 30.5)", 200), ("sum(extract(year from d) / 1000)", 200 * 6.071),
        ("count(*) FILTER (WHERE d + interval '1 month' >= date '2024-02-29')", 400), ('sum("public"."t"."n")', 1200),
        ("sum(n) / (count(*) + 200)", 1.5), ("sum(x) / count(*)", 0.5 / 3), ("max(n) / 3", 2),
        ("count(*) FILTER (WHERE n > 0) * 100 / count(*)", 66), ("sum(n::int) / 599", 2), ("sum(n::bigint) / 599", 1200 / 599),
        ("count(*) FILTER (WHERE d >= to_timestamp('2024-01-31 10:20:30.500000', 'YYYY-MM-DD HH24:MI:SS.US'))", 400),
    ],
)  # fmt: skip
def test_the_answer_is_that_of_postgres(db: dpsql.Connection, text: str, expected: float) -> None:
    """At this price the scale of the noise is at most 0.001: a tenth is a hundred times that."""
    [(got,)] = db.query(f'SELECT {text} AS v FROM public."t"', epsilon=50_000, mechanism="laplace").fetchall()
    assert float(got) == pytest.approx(expected, abs=0.1)


def test_a_division_above_the_aggregate_must_be_evident(db: dpsql.Connection) -> None:
    with pytest.raises(UnsupportedQuery, match="truncates integer division") as refused:
        db.explain("SELECT s / c FROM (SELECT sum(n) AS s, count(*) AS c FROM t) AS q")
    assert "x::numeric / y" in str(refused.value.hint)
    assert db.explain("SELECT sum(n)::numeric / count(*) FROM t").sql
    assert db.explain("SELECT sum(n) / count(*) FROM t", dialect="duckdb").sql


def test_the_dialect_can_be_set_and_hinted(db: dpsql.Connection) -> None:
    sql = "SELECT count(*) FROM t WHERE n # 1 > 0"
    assert db.explain(sql).sql
    with pytest.raises(ParseError, match=r"another dialect: SET dpsql\.dialect = 'postgres'"):
        db.explain(sql, dialect="duckdb")
    assert db.settle("SET dpsql.dialect = 'duckdb'")
    try:
        with pytest.raises(ParseError):
            db.explain(sql)
        assert db.explain(sql.replace("SELECT", "SELECT /*+ dialect(postgres) */")).sql
    finally:
        assert db.settle("RESET dpsql.dialect")
    assert db.explain(sql).sql
    for wrong in (lambda: db.settle("SET dpsql.dialect = 'oracle'"), lambda: db.explain(sql, dialect="oracle")):
        with pytest.raises(Error, match="no dialect oracle"):
            wrong()


def test_there_are_enough_texts() -> None:
    assert len(SAME) + len(REWRITTEN) + len(QUERIES) >= 80
