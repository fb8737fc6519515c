"""Queries as tools and analysts write them, word for word in their style, compared with DuckDB at a huge price.

The data has NULLs, rows without an owner, and ties. A row without an owner belongs to nobody and is never counted, so
DuckDB is asked over the rows that have one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.plan.clock import bind_clock
from dpsql.sql import parse_query

NOON = datetime(2026, 7, 15, 12, 34, 56, 789)
EPSILON = 1e7
POLICY = {
    "dataset": "d",
    "search": False,
    "budget": {"epsilon": 1e12},
    "limits": {"epsilon": 1e9},
    "tables": {
        "orders": {
            "unit": "customer_id",
            "max_rows_per_unit": 60,
            "columns": {
                "amount": {"min": 0, "max": 100},
                "qty": {"min": 1, "max": 5},
                "product": {"values": ["a", "b", "c"]},
                "placed": {"min": "2026-01-01", "max": "2026-12-31"},
                "day": {"min": "2026-01-01", "max": "2026-12-31"},
            },
        },
        "customers": {
            "unit": "id",
            "unique": True,
            "columns": {"region": {"values": ["n", "s", "e"]}, "born": {"min": "1950-01-01", "max": "2000-12-31"}},
        },
    },
}
CREATE = """
    CREATE TABLE customers AS SELECT i AS id, ['n', 's', 'e', NULL][i % 4 + 1] AS region,
        DATE '1950-01-01' + (i * 97 % 15000)::INTEGER AS born FROM range(60) r(i);
    CREATE TABLE orders AS SELECT CASE WHEN i % 31 = 0 THEN NULL ELSE (i * 7 % 60)::INTEGER END AS customer_id,
        CASE WHEN i % 19 = 0 THEN NULL ELSE i * 37 % 400 / 4.0 END::DOUBLE AS amount,
        CASE WHEN i % 11 = 0 THEN NULL ELSE i % 5 + 1 END::INTEGER AS qty,
        CASE WHEN i % 13 = 0 THEN NULL ELSE ['a', 'b', 'c'][i * 5 % 3 + 1] END AS product,
        CASE WHEN i % 23 = 0 THEN NULL ELSE TIMESTAMP '2026-01-01' + INTERVAL (i * 7001 % 280) DAY
            + INTERVAL (i % 24) HOUR END AS placed,
        (DATE '2026-01-01' + (i * 7001 % 280)::INTEGER) AS day
    FROM range(1500) r(i)
"""

SUPERSET = """
SELECT DATE_TRUNC('day', placed) AS placed, COUNT(*) AS count FROM public.orders WHERE placed >= TO_TIMESTAMP('2026-03-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') AND placed < TO_TIMESTAMP('2026-03-20 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') GROUP BY DATE_TRUNC('day', placed) ORDER BY count DESC LIMIT 1000
SELECT product AS product, SUM(amount) AS "SUM(amount)" FROM public.orders WHERE product IN ('a', 'b') GROUP BY product ORDER BY "SUM(amount)" DESC LIMIT 100
SELECT COUNT(*) AS count FROM public.orders WHERE day >= TO_DATE('2026-03-01', 'YYYY-MM-DD') AND day < TO_DATE('2026-04-01', 'YYYY-MM-DD') LIMIT 50000
SELECT DATE_TRUNC('month', placed) AS __timestamp, AVG(amount) AS "AVG(amount)" FROM public.orders WHERE placed >= TO_TIMESTAMP('2026-02-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') AND placed < TO_TIMESTAMP('2026-06-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') GROUP BY DATE_TRUNC('month', placed)
SELECT COUNT(DISTINCT customer_id) AS "COUNT_DISTINCT(customer_id)" FROM public.orders
SELECT product AS product, COUNT(*) AS count FROM (SELECT * FROM orders WHERE qty > 2) AS virtual_table WHERE product IS NOT NULL GROUP BY product ORDER BY count DESC LIMIT 10
SELECT SUM(CASE WHEN product = 'a' THEN 1 ELSE 0 END)::float / COUNT(*) AS share FROM public.orders
SELECT sum(amount) / count(*) AS mean FROM public.orders
"""
METABASE = """
SELECT "public"."orders"."product" AS "product", COUNT(*) AS "count" FROM "public"."orders" WHERE "public"."orders"."product" IS NOT NULL GROUP BY "public"."orders"."product" ORDER BY "public"."orders"."product" ASC
SELECT "source"."product" AS "product", SUM("source"."qty") AS "sum" FROM (SELECT "public"."orders"."product" AS "product", "public"."orders"."qty" AS "qty" FROM "public"."orders") AS "source" WHERE "source"."product" = 'a' GROUP BY "source"."product"
SELECT COUNT(*) AS "count" FROM "public"."orders" WHERE ("public"."orders"."placed" >= DATE_TRUNC('day', CAST((CAST(now() AS timestamp) + (INTERVAL '-30 day')) AS timestamp))) AND ("public"."orders"."placed" < DATE_TRUNC('day', CAST(now() AS timestamp)))
SELECT CAST(DATE_TRUNC('month', "public"."orders"."placed") AS date) AS "placed", AVG("public"."orders"."amount") AS "avg" FROM "public"."orders" WHERE "public"."orders"."placed" < timestamp '2026-05-01 00:00:00.000' AND "public"."orders"."placed" >= timestamp '2026-02-01 00:00:00.000' GROUP BY CAST(DATE_TRUNC('month', "public"."orders"."placed") AS date) ORDER BY 1 ASC
SELECT COUNT(*) AS "count" FROM "public"."orders" WHERE "public"."orders"."day" = CAST(now() AS date)
SELECT SUM(CASE WHEN "public"."orders"."qty" > 3 THEN 1 ELSE 0.0 END) AS "sum_where" FROM "public"."orders"
SELECT COUNT(DISTINCT "public"."orders"."customer_id") AS "count" FROM "public"."orders" WHERE "public"."orders"."amount" BETWEEN 20 AND 60
SELECT "Customers"."region" AS "region", COUNT(*) AS "count" FROM "public"."orders" INNER JOIN "public"."customers" AS "Customers" ON "public"."orders"."customer_id" = "Customers"."id" WHERE "Customers"."region" IN ('n', 's') GROUP BY "Customers"."region"
SELECT EXTRACT(hour FROM "public"."orders"."placed") AS "hour", COUNT(*) AS "count" FROM "public"."orders" WHERE "public"."orders"."placed" IS NOT NULL GROUP BY EXTRACT(hour FROM "public"."orders"."placed") ORDER BY 1
"""
TABLEAU = """
SELECT "Custom SQL Query"."product" AS "product", SUM("Custom SQL Query"."amount") AS "sum:amount:ok" FROM ( SELECT * FROM orders ) "Custom SQL Query" WHERE "Custom SQL Query"."product" = 'b' GROUP BY 1
SELECT COUNT(1) AS "n" FROM "public"."orders" "orders" HAVING (COUNT(1) > 0)
SELECT AVG(CAST("orders"."qty" AS FLOAT)) AS "avg:qty:ok" FROM "public"."orders" "orders"
SELECT CAST(DATE_TRUNC('MONTH', CAST("orders"."day" AS TIMESTAMP)) AS DATE) AS "tmn:day:ok", COUNT(1) AS "cnt" FROM "public"."orders" "orders" WHERE "orders"."day" >= DATE '2026-02-01' AND "orders"."day" < DATE '2026-06-01' GROUP BY 1
SELECT SUM("t0"."x") AS "s" FROM (SELECT "orders"."customer_id" AS "c", MAX("orders"."qty") AS "x" FROM "public"."orders" "orders" GROUP BY 1) "t0"
SELECT COUNT(*) AS "n" FROM (SELECT "orders"."customer_id" AS "c", "orders"."qty" AS "q" FROM "public"."orders" "orders") "t0" INNER JOIN (SELECT "orders"."customer_id" AS "c", MAX("orders"."qty") AS "m" FROM "public"."orders" "orders" GROUP BY 1) "t1" ON ("t0"."c" IS NOT DISTINCT FROM "t1"."c") WHERE "t0"."q" = "t1"."m"
"""
LOOKER = """
SELECT TO_CHAR(DATE_TRUNC('month', orders.placed), 'YYYY-MM') AS "orders.placed_month", COUNT(*) AS "orders.count" FROM public.orders AS orders WHERE orders.placed >= TIMESTAMP '2026-02-01' AND orders.placed < TIMESTAMP '2026-05-01' GROUP BY 1 ORDER BY 1 DESC FETCH NEXT 500 ROWS ONLY
SELECT COUNT(DISTINCT customers.id) AS "customers.count", COALESCE(SUM(orders.amount), 0) AS "total" FROM public.orders AS orders LEFT JOIN public.customers AS customers ON orders.customer_id = customers.id WHERE (customers.region = 'n')
SELECT orders.product AS "orders.product", AVG(orders.amount) AS "orders.average" FROM public.orders AS orders WHERE ((( orders.placed ) >= ((DATE_TRUNC('day', CURRENT_TIMESTAMP) + (-89 || ' day')::INTERVAL)))) AND orders.product = 'a' GROUP BY 1
SELECT COUNT(*) AS "n" FROM public.orders AS orders WHERE orders.placed >= (DATE_TRUNC('day', CURRENT_TIMESTAMP) - INTERVAL '6 day') AND orders.placed < (DATE_TRUNC('day', CURRENT_TIMESTAMP) + INTERVAL '1 day')
"""
GRAFANA = """
SELECT date_trunc('hour', placed) AS "time", avg(amount) AS value FROM orders WHERE placed BETWEEN '2026-03-01T00:00:00Z' AND '2026-03-02T00:00:00Z' GROUP BY 1 HAVING count(amount) > 0 ORDER BY 1
SELECT count(*) AS value FROM orders WHERE placed BETWEEN '2026-03-01T00:00:00Z' AND '2026-04-02T00:00:00Z'
SELECT count(*) AS value FROM orders WHERE placed >= now() - interval '24 hours' * 30
SELECT product AS metric, max(qty) AS value FROM orders WHERE product = 'c' GROUP BY 1
"""
POWER_BI = """
select "rows"."product" as "product", sum("rows"."amount") as "a0" from ( select "product", "amount" from "public"."orders" "$Table" where "product" is not null ) "rows" group by "product"
select count(*) as "a0" from ( select "_"."product" from "public"."orders" "_" where "_"."placed" >= timestamp '2026-03-01 00:00:00' and "_"."placed" < timestamp '2026-04-01 00:00:00' ) "rows"
select "basetable0"."region" as "c0", count("basetable1"."customer_id") as "a0" from "public"."customers" "basetable0" inner join "public"."orders" "basetable1" on ("basetable0"."id" = "basetable1"."customer_id") where "basetable0"."region" = 's' group by "basetable0"."region" limit 1000001
"""
ANALYSTS = """
SELECT count(*) FROM orders WHERE qty IN (1, 1 + 2)
SELECT count(*) FROM orders WHERE placed >= current_date - INTERVAL 30 DAY
SELECT count(*) FROM orders WHERE day >= current_date - 90 AND day < current_date
SELECT count(*) FROM orders WHERE placed >= date_trunc('month', now()) - INTERVAL 3 MONTH
SELECT count(*) FROM orders WHERE year(day) = year(current_date) AND month(day) IN (month(current_date) - 1, month(current_date))
SELECT product, count(*) AS n FROM orders WHERE product IS NOT NULL GROUP BY product ORDER BY n DESC LIMIT 1 + 1
SELECT avg(m) FROM (SELECT customer_id, median(amount) AS m FROM orders GROUP BY customer_id)
SELECT count(*) FROM (SELECT customer_id FROM orders GROUP BY customer_id HAVING bool_or(product = 'a') AND bool_and(qty < 6))
SELECT avg(sd) FROM (SELECT customer_id, stddev(amount) AS sd FROM orders GROUP BY customer_id)
SELECT count(*) FROM (SELECT customer_id, arg_max(product, placed) AS latest FROM orders GROUP BY customer_id) WHERE latest = 'a'
SELECT last, count(*) FROM (SELECT customer_id, last(qty ORDER BY placed, amount, qty) AS last FROM orders GROUP BY customer_id) WHERE last = 3 GROUP BY last
SELECT count(*) FROM (SELECT customer_id, mode(qty) AS m FROM orders GROUP BY customer_id) WHERE m IS NOT NULL
SELECT avg(q) FROM (SELECT customer_id, quantile_cont(amount, 0.9) AS q FROM orders GROUP BY customer_id)
SELECT avg(n) FROM (SELECT customer_id, len(list(amount)) AS n FROM orders GROUP BY customer_id)
SELECT sum(CASE WHEN big THEN 1 ELSE 0 END) FROM (SELECT amount > avg(amount) OVER (PARTITION BY customer_id) AS big FROM orders)
SELECT count(*) FROM (SELECT customer_id, placed, lag(placed) OVER (PARTITION BY customer_id ORDER BY placed) AS p FROM orders) WHERE date_diff('day', p, placed) <= 3
SELECT v.p, g.n FROM (VALUES ('a'), ('b'), ('z')) v(p) LEFT JOIN (SELECT product, count(*) AS n FROM orders GROUP BY product) g ON g.product = v.p
SELECT s.d, g.n FROM generate_series(DATE '2026-03-01', DATE '2026-03-07', INTERVAL 1 DAY) AS s(d) LEFT JOIN (SELECT day, count(*) AS n FROM orders GROUP BY day) g ON g.day = s.d
SELECT count(*) FROM orders WHERE placed BETWEEN TIMESTAMP '2026-03-01' AND TIMESTAMP '2026-03-01' + INTERVAL '10 days 05:00:00'
SELECT c.region, avg(o.amount) FROM customers c JOIN orders o ON o.customer_id = c.id WHERE c.region = 'e' GROUP BY c.region
SELECT count(*) FROM customers WHERE date_diff('year', born, current_date) >= 18 + 22
SELECT count(*) FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id AND o.qty > 4)
SELECT avg(amount), stddev(amount) FROM orders
SELECT count(*) FILTER (WHERE product = 'a') AS a, count(*) FILTER (WHERE product = 'b') AS b FROM orders
SELECT avg(CASE WHEN NOT isnan(r) THEN r END) FROM (SELECT customer_id, corr(amount, qty) AS r FROM orders GROUP BY customer_id)
SELECT max(n) - 1 FROM (SELECT count(*) AS n FROM orders)
SELECT count(*) FROM orders WHERE strftime(day, '%Y-%m') = strftime(DATE '2026-04-15' - INTERVAL 1 MONTH, '%Y-%m')
SELECT round(avg(amount), 1 + 0) AS mean FROM orders
"""
TOOLS = {
    "superset": SUPERSET,
    "metabase": METABASE,
    "tableau": TABLEAU,
    "looker": LOOKER,
    "grafana": GRAFANA,
    "power bi": POWER_BI,
}
ASKED = [("postgres", q) for text in TOOLS.values() for q in text.strip().split("\n")]
ASKED += [("duckdb", q) for q in ANALYSTS.strip().split("\n")]


@pytest.fixture(name="raw", scope="module")
def _raw() -> duckdb.DuckDBPyConnection:
    raw = duckdb.connect()
    raw.execute("SET TimeZone = 'UTC'")
    raw.execute(CREATE)
    raw.execute(
        "CREATE SCHEMA owned; CREATE VIEW owned.orders AS SELECT * FROM main.orders WHERE customer_id IS NOT NULL"
    )
    return raw


@pytest.fixture(name="db", scope="module")
def _db(raw: duckdb.DuckDBPyConnection) -> Iterator[dpsql.Connection]:
    with dpsql.connect(raw, policy=POLICY, ledger=":memory:") as opened:
        opened.clock = lambda: NOON
        yield opened


def plain(rows: list[tuple[Any, ...]]) -> list[list[Any]]:
    return sorted(([_value(x) for x in row] for row in rows), key=str)


def _value(value: Any) -> Any:
    if isinstance(value, date) and not isinstance(value, datetime):
        return str(datetime(value.year, value.month, value.day))
    return float(value) if isinstance(value, int | float | Decimal) else value if value is None else str(value)


@pytest.mark.parametrize(("dialect", "sql"), ASKED)
def test_a_query_from_outside_means_what_it_says(
    db: dpsql.Connection, raw: duckdb.DuckDBPyConnection, dialect: str, sql: str
) -> None:
    meant = bind_clock(parse_query(sql, None, dialect), NOON)
    cursor = raw.cursor()
    cursor.execute("SET search_path = 'owned,main'")
    wanted = plain(cursor.execute(meant.sql("duckdb")).fetchall())
    got = plain(db.query(sql, epsilon=EPSILON if "max(qty) AS value" not in sql else 1e4, dialect=dialect).fetchall())
    for one, two in zip(got, wanted, strict=True):
        assert [x for x in one if not isinstance(x, float)] == [x for x in two if not isinstance(x, float)]
        assert [x for x in one if isinstance(x, float)] == pytest.approx(
            [x for x in two if isinstance(x, float)], abs=0.06
        )


def test_there_are_enough_of_them() -> None:
    assert len(ASKED) >= 60
