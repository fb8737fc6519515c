"""One world and one list of queries for all engines.

`tables` is the world: every stored type with its odd values, each kind of ownership, a path to the owner, public tables
to join. In `orders` and `lines` nobody exceeds a bound, so that an engine has no choice: its integers are DuckDB's.
In `logs` most people do, and which of their groups they keep is up to an engine's own hash: there an engine has to be
the same twice and to keep within its claims.

`QUERIES` are answered, `REFUSED` are refused, each by every engine in the same words; what an engine alone does not
compute is listed in its store (`stores.Store.missing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dpsql.audit.world import StoredTable

REGIONS = ("north", "south", "east", "west")
ODD = (
    "",
    " ",
    "Ärger",
    "a'b",
    'say "hi"',
    "50% off_",
    "tab\there",
    "back\\slash",
    "𝄞 clef",
    "e\u0301",
    "İstanbul",
    "ß",
)
"""Texts that engines like to change: empty, blank, quotes, signs of patterns, beyond the first plane, composed."""
DOUBLES = ("nan", "inf", "-inf", "-0.0", "0.0", "1.5", "-2.25", "499.999", "500.0", "501.0", "1e300", "5e-324", "0.1")
DECIMALS = ("0.00", "-0.01", "12.34", "99.99", "100.00", "7654321.99", "-7654321.99", "0.05", "2.50", "3.55")
DATES = ("2024-01-01", "2024-02-29", "2024-12-31", "1969-12-31", "2023-07-04", "2024-03-10", "0001-01-01", "9999-12-31")
MOMENTS = (
    "2024-01-01 00:00:00", "2024-02-29 12:34:56.789012", "2024-12-31 23:59:59.999999", "1969-12-31 23:59:59",
    "2024-06-15 08:00:00", "2023-03-26 02:30:00",
)  # fmt: skip
WHOLES = ("0", "1", "-1", "12", "9223372036854775807", "-9223372036854775808", "2147483648", "7")


def _pick(values: tuple[str, ...], number: int, every: int = 9) -> str | None:
    """The values in turn, and NULL once in a while."""
    return None if number % every == every - 1 else values[number % len(values)]


def _customers() -> StoredTable:
    columns = {
        "id": "INTEGER", "age": "INTEGER", "region": "VARCHAR", "income": "DOUBLE", "vip": "BOOLEAN", "city": "VARCHAR",
        "joined": "DATE", "seen": "TIMESTAMP", "score": "DECIMAL(9,2)", "small": "SMALLINT", "big": "BIGINT",
        "temp": "FLOAT",
    }  # fmt: skip
    rows = [
        (i, None if i % 7 == 3 else 15 + (i * 37) % 100, _pick((*REGIONS, "nowhere"), i), _pick(DOUBLES, i, 11),
         (None, "true", "false")[i % 3], _pick(("Bonn", "bonn", "Ulm", *ODD), i // 2), _pick(DATES, i),
         _pick(MOMENTS, i), _pick(DECIMALS, i), (i * 7919) % 65536 - 32768, _pick(WHOLES, i), _pick(DOUBLES[3:10], i))
        for i in range(1, 41)
    ]  # fmt: skip
    return StoredTable(columns, tuple(rows), ("PRIMARY KEY (id)",))


_ORDERS = {
    "customer_id": "INTEGER", "number": "BIGINT", "amount": "DOUBLE", "fee": "DECIMAL(10,2)", "qty": "INTEGER",
    "status": "VARCHAR", "placed": "DATE", "paid": "TIMESTAMP", "note": "VARCHAR", "store": "VARCHAR",
    "flag": "BOOLEAN", "big": "BIGINT", "wide": "DECIMAL(30,4)",
}  # fmt: skip


def _order(owner: int | None, i: int) -> tuple[object, ...]:
    return (
        owner, 1000 + i, _pick((*DOUBLES, "17.25", "250", "3.125"), i, 13), _pick(DECIMALS, i), None if i % 8 == 5 else i % 15 - 1,
        _pick(("paid", "open", "lost", "Paid"), i * 5 // 3), _pick(DATES[:6], i), _pick(MOMENTS, i, 10),
        _pick(ODD, i), _pick(("one", "two", "three", "none"), i // 3), (None, "true", "false")[i % 3], _pick(WHOLES, i),
        _pick(("0.0001", "-5.5", "12345678901234567890.1234", "3"), i),
    )  # fmt: skip


def _orders() -> StoredTable:
    """At most six rows of a person, in at most three groups of any key; some rows have no owner."""
    owned = [(owner, 10 * owner + k) for owner in range(1, 31) for k in range(owner % 5)]
    rows = [_order(owner, i) for owner, i in owned] + [_order(None, 900 + k) for k in range(4)]
    return StoredTable(_ORDERS, tuple(rows), ("PRIMARY KEY (number)",))


def _logs() -> StoredTable:
    """Up to forty rows of a person, in many groups."""
    owned = [(owner, 50 * owner + k) for owner in range(1, 16) for k in range(owner * owner % 41)]
    return StoredTable(_ORDERS, tuple(_order(owner, i) for owner, i in owned), ("PRIMARY KEY (number)",))


def _many() -> StoredTable:
    """Ninety rows of a person, at the bounds: totals that need more than 64 bits on the way, and nobody exceeds."""
    columns = {"person": "INTEGER", "amount": "DOUBLE", "fee": "DECIMAL(12,2)", "big": "BIGINT", "qty": "INTEGER"}
    rows = [
        (person, "500", ("-1000000000.00", "1000000000.00")[i % 2], ("-2305843009213693952", "2305843009213693952")[i % 3 % 2], 2000000000)
        for person in range(5)
        for i in range(90)
    ]  # fmt: skip
    return StoredTable(columns, tuple(rows))


def _lines() -> StoredTable:
    columns = {"invoice": "BIGINT", "qty": "INTEGER", "price": "DECIMAL(9,2)", "area": "VARCHAR"}
    numbers = [row[1] for row in _orders().rows]
    rows = [(n, i % 12, _pick(DECIMALS, i), _pick(REGIONS, i)) for i, n in enumerate(sorted(map(str, numbers)))]
    rows += [(None, 3, "1.00", "north")]
    return StoredTable(columns, tuple(rows), ("FOREIGN KEY (invoice) REFERENCES orders (number)",))


def _visits() -> StoredTable:
    columns = {"duration": "DOUBLE", "page": "VARCHAR", "agent": "VARCHAR", "started": "TIMESTAMP", "hits": "INTEGER"}
    rows = [
        (_pick((*DOUBLES, "12", "59.5", "3600"), i, 12), _pick(("home", "shop", "help"), i),
         _pick(("one", "two", *ODD), i), _pick(MOMENTS, i), i % 23 - 2)
        for i in range(60)
    ]  # fmt: skip
    return StoredTable(columns, tuple(rows))


def _stores() -> StoredTable:
    columns = {"name": "VARCHAR", "region": "VARCHAR", "size": "INTEGER", "opened": "DATE", "area": "DOUBLE"}
    rows = (
        ("one", "north", 10, "2020-01-01", "1.5"), ("two", "south", 20, "2021-06-30", "2.5"),
        ("three", "east", None, "2022-02-02", "40"), ("four", "west", 5, None, None),
    )  # fmt: skip
    return StoredTable(columns, rows, ("PRIMARY KEY (name)",))


def _regions() -> StoredTable:
    rows = (("north", "here", 3), ("south", "here", 2), ("east", "there", 5), ("west", "there", None))
    return StoredTable({"name": "VARCHAR", "country": "VARCHAR", "size": "INTEGER"}, rows, ("PRIMARY KEY (name)",))


def tables(*, constraints: bool = True) -> dict[str, StoredTable]:
    """The world, parents first; without constraints for engines that have none."""
    made = {
        "customers": _customers(), "orders": _orders(), "logs": _logs(), "lines": _lines(), "visits": _visits(),
        "stores": _stores(), "regions": _regions(), "many": _many(),
    }  # fmt: skip
    return made if constraints else {name: replace(table, constraints=()) for name, table in made.items()}


_BOUGHT: Mapping[str, Any] = {
    "number": {}, "amount": {"min": 0, "max": 500}, "fee": {"min": -5, "max": 100}, "qty": {"min": 0, "max": 12},
    "status": {"values": ["paid", "open", "lost"]}, "placed": {"min": "2023-01-01", "max": "2024-12-31"},
    "paid": {"min": "2023-01-01", "max": "2024-12-31"}, "note": {}, "store": {"values": {"from": "stores.name"}},
    "flag": {}, "big": {"min": -(2**40), "max": 2**40}, "wide": {"min": -10, "max": 10},
}  # fmt: skip
POLICY: Mapping[str, Any] = {
    "dataset": "suite", "search": False, "budget": {"epsilon": 10**6, "delta": "1e-3"},
    "limits": {"epsilon": 100, "delta": "1e-4", "max_public_keys": 2000},
    "defaults": {"epsilon": 1, "delta": "1e-8"},
    "tables": {
        "customers": {
            "unit": "id", "unique": True,
            "columns": {
                "age": {"min": 18, "max": 110}, "region": {"values": list(REGIONS)}, "income": {"min": 0, "max": 500},
                "vip": {}, "city": {}, "joined": {"min": "2023-01-01", "max": "2024-12-31"},
                "seen": {"min": "2023-01-01", "max": "2024-12-31"}, "score": {"min": -100, "max": 100},
                "small": {"min": -1000, "max": 1000}, "big": {"min": -(2**61), "max": 2**61},
                "temp": {"min": -20, "max": 40},
            },
        },
        "orders": {"unit": "customer_id", "max_rows_per_unit": 6, "max_groups_per_unit": 6, "columns": dict(_BOUGHT)},
        "logs": {"unit": "customer_id", "max_rows_per_unit": 5, "max_groups_per_unit": 2, "columns": dict(_BOUGHT)},
        "lines": {
            "unit": {"invoice": "orders.number"}, "max_rows_per_unit": 8, "max_groups_per_unit": 8,
            "columns": {
                "qty": {"min": 0, "max": 12}, "price": {"min": 0, "max": 100},
                "area": {"values": {"from": "regions.name"}},
            },
        },
        "visits": {
            "unit": "row",
            "columns": {
                "duration": {"min": 0, "max": 3600}, "page": {"values": ["home", "shop", "help"]}, "agent": {},
                "started": {"min": "2023-01-01", "max": "2024-12-31"}, "hits": {"min": 0, "max": 20},
            },
        },
        "many": {
            "unit": "person", "max_rows_per_unit": 100, "max_groups_per_unit": 5,
            "columns": {
                "amount": {"min": 0, "max": 500}, "fee": {"min": -(10**9), "max": 10**9},
                "big": {"min": -(2**61), "max": 2**61}, "qty": {"min": 0, "max": 2 * 10**9},
            },
        },
        "stores": {"public": True},
        "regions": {"public": True},
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """A query of the suite: its section, its number there, its text, and the noise that is asked for."""

    section: str
    number: int
    sql: str
    mechanism: str | None = None

    @property
    def name(self) -> str:
        """How a test calls it."""
        return f"{self.section}-{self.number}"

    @property
    def chosen(self) -> bool:
        """Does an engine's own hash decide what people keep? Then integers may differ between engines."""
        return self.section == "chosen"


_SECTIONS: Mapping[str, str] = {
    "aggregates": """
        SELECT count(*) FROM customers
        SELECT count(*), count(income), sum(income), avg(income) FROM customers
        SELECT sum(age), avg(age), count(age) FROM customers
        SELECT sum(score), avg(score) FROM customers
        SELECT sum(small), sum(big) FROM customers
        SELECT sum(temp), avg(temp) FROM customers
        SELECT count(*), sum(amount), avg(amount) FROM orders
        SELECT sum(fee), sum(qty), sum(big), sum(wide) FROM orders
        SELECT count(*), sum(duration), sum(hits), avg(hits) FROM visits
        SELECT var_pop(age), stddev_samp(age) FROM customers
        SELECT covar_pop(age, income), corr(age, income) FROM customers
        SELECT count(DISTINCT city) FROM customers
        SELECT count(DISTINCT note), count(DISTINCT amount) FROM orders
        SELECT count(DISTINCT status), count(*) FROM orders
        SELECT count(DISTINCT customer_id) FROM orders
        SELECT count(*) FILTER (WHERE qty > 3), sum(amount) FILTER (WHERE flag) FROM orders
        SELECT sum(CASE WHEN status = 'paid' THEN amount ELSE 0 END) FROM orders
        SELECT count(DISTINCT agent) FROM visits
        SELECT bool_or(vip), bool_and(vip) FROM customers
        SELECT sum(amount * qty), avg(amount + fee) FROM orders
        SELECT count(fee), count(placed), count(paid), count(flag) FROM orders
    """,
    "laplace": """
        SELECT count(*), sum(amount) FROM orders
        SELECT status, count(*), sum(fee) FROM orders GROUP BY status
        SELECT region, avg(income) FROM customers GROUP BY region
        SELECT page, count(*) FROM visits GROUP BY page
    """,
    "keys": """
        SELECT region, count(*) FROM customers GROUP BY region
        SELECT vip, count(*) FROM customers GROUP BY vip
        SELECT status, count(*), sum(amount) FROM orders GROUP BY status
        SELECT status, flag, count(*) FROM orders GROUP BY status, flag
        SELECT store, sum(fee) FROM orders GROUP BY store
        SELECT qty, count(*) FROM orders GROUP BY qty
        SELECT year(placed) AS y, month(placed) AS m, count(*) FROM orders GROUP BY y, m
        SELECT placed, count(*) FROM orders WHERE placed BETWEEN DATE '2024-01-01' AND DATE '2024-03-31' GROUP BY placed
        SELECT date_trunc('month', placed) AS m, count(*) FROM orders GROUP BY m
        SELECT extract(dow FROM joined) AS d, count(*) FROM customers GROUP BY d
        SELECT page, count(*), sum(hits) FROM visits GROUP BY page
        SELECT age // 10 AS decade, count(*) FROM customers GROUP BY decade
        SELECT city, count(*) FROM customers GROUP BY city
        SELECT income, count(*) FROM customers GROUP BY income
        SELECT score, count(*) FROM customers GROUP BY score
        SELECT joined, count(*) FROM customers GROUP BY joined
        SELECT seen, count(*) FROM customers GROUP BY seen
        SELECT big, count(*) FROM customers GROUP BY big
        SELECT note, count(*), sum(amount) FROM orders GROUP BY note
        SELECT agent, count(*) FROM visits GROUP BY agent
        SELECT note, status, count(*) FROM orders GROUP BY note, status
        SELECT area, sum(qty), avg(price) FROM lines GROUP BY area
        SELECT status, qty, grouping_id(status, qty) AS level, count(*) FROM orders GROUP BY ROLLUP (status, qty)
        SELECT region, vip, count(*) FROM customers GROUP BY GROUPING SETS ((region, vip), (region), ())
        SELECT upper(status) AS s, count(*) FROM orders GROUP BY s
        SELECT length(city) AS n, count(*) FROM customers GROUP BY n
    """,
    "filters": """
        SELECT count(*) FROM orders WHERE amount > 10
        SELECT count(*) FROM orders WHERE amount = 'nan'::DOUBLE
        SELECT count(*) FROM customers WHERE income <= 500 AND income >= 0
        SELECT count(*) FROM customers WHERE income IS NULL OR vip IS NOT TRUE
        SELECT count(*) FROM customers WHERE city IN ('Bonn', 'Ulm', '', 'say "hi"')
        SELECT count(*) FROM customers WHERE city = 'e' || chr(769)
        SELECT count(*) FROM customers WHERE city < 'a'
        SELECT count(*) FROM customers WHERE city LIKE '%\\%' OR city LIKE '50!% o%' ESCAPE '!'
        SELECT count(*) FROM customers WHERE city LIKE 'B_n%'
        SELECT count(*) FROM customers WHERE city NOT LIKE '%n'
        SELECT count(*) FROM customers WHERE region BETWEEN 'a' AND 'o'
        SELECT count(*) FROM orders WHERE placed >= DATE '2024-02-29' AND paid < TIMESTAMP '2024-06-15 08:00:01'
        SELECT count(*) FROM orders WHERE placed = paid
        SELECT count(*) FROM orders WHERE (flag AND qty > 2) OR NOT flag
        SELECT count(*) FROM orders WHERE status IS DISTINCT FROM 'paid'
        SELECT count(*) FROM orders WHERE coalesce(qty, 99) = 99
        SELECT count(*) FROM orders WHERE nullif(qty, 3) IS NULL
        SELECT count(*) FROM orders WHERE big > 0 AND big + 1 > 0
        SELECT count(*) FROM orders WHERE wide > 0
        SELECT count(*) FROM orders WHERE fee = 12.34 OR fee > qty
        SELECT count(*) FROM visits WHERE started > '2024-01-01' AND page <> 'home'
        SELECT count(*) FROM customers WHERE score IN (2.5, 3.55) OR small % 7 = 3
        SELECT count(*) FROM customers WHERE upper(city) = 'ẞ' OR lower(city) = 'istanbul'
        SELECT count(*) FROM customers WHERE city ILIKE '_STANBUL' OR length(upper(city)) = 1
        SELECT count(*) FROM orders WHERE epoch_ms(paid) % 1000 = 0
        SELECT count(*) FROM orders WHERE CAST(CAST(big AS DOUBLE) AS BIGINT) < -5
        SELECT count(round(fee, -9)), count(CAST(flag AS DECIMAL(3, 3))) FROM orders
    """,
    "expressions": """
        SELECT sum(abs(fee)), sum(-qty), sum(qty % 5) FROM orders
        SELECT sum(round(amount)), sum(round(fee, 1)), sum(floor(amount)), sum(ceil(fee)) FROM orders WHERE amount < 100
        SELECT sum(trunc(fee)), sum(sign(fee)) FROM orders
        SELECT sum(greatest(qty, 3)), sum(least(fee, 10)) FROM orders
        SELECT sum(qty // 3), sum(qty / 4) FROM orders
        SELECT sum(sqrt(amount)), sum(ln(amount + 1)) FROM orders
        SELECT sum(exp(qty / 10)), sum(power(qty, 2)) FROM orders
        SELECT sum(least(length(note), 9)), count(trim(note)), sum(least(strpos(note, 'a'), 9)) FROM orders
        SELECT count(*) FROM orders WHERE substring(note, 2, 3) = 'tab' OR left(note, 1) = 'a' OR right(note, 2) = 'f_'
        SELECT count(*) FROM orders WHERE upper(status) = 'PAID' AND lower(status) = 'paid'
        SELECT count(*) FROM orders WHERE concat(status, '-', store) = 'paid-one'
        SELECT count(*) FROM orders WHERE status || store = 'paidone' OR replace(status, 'p', 'q') = 'qaid'
        SELECT count(*) FROM orders WHERE starts_with(status, 'p') OR ends_with(status, 't') OR contains(note, 'a')
        SELECT sum(year(placed) - 2020), sum(month(paid)), sum(hour(paid)) FROM orders
        SELECT sum(date_diff('day', DATE '2024-01-01', placed)) FROM orders
        SELECT count(*) FROM orders WHERE placed + 30 > DATE '2024-12-31' OR placed + INTERVAL 1 MONTH < DATE '2024-02-02'
        SELECT count(*) FROM orders WHERE date_trunc('quarter', paid) = TIMESTAMP '2024-04-01'
        SELECT sum(CAST(fee AS INTEGER)), sum(CAST(amount AS INTEGER)) FROM orders WHERE amount < 1000
        SELECT sum(greatest(least(CAST(qty AS DOUBLE) / nullif(qty, 0), 5), 0)), count(qty / 0) FROM orders
        SELECT sum(TRY_CAST(big AS INTEGER)), count(TRY_CAST(note AS INTEGER)) FROM orders
        SELECT count(*) FROM orders WHERE amount * 1e300 * 1e300 > 1e308 OR amount * 1e-300 * 1e-300 = 0 OR amount + amount > 1e307
        SELECT sum(greatest(least(amount / (qty - 3), 10), -10)), count(*) FILTER (WHERE 1 / amount > 0.5) FROM orders
        SELECT sum(CASE WHEN qty > 5 THEN fee WHEN qty > 2 THEN 1.5 END) FROM orders
        SELECT count(*) FROM customers WHERE CAST(age AS VARCHAR) LIKE '3%' OR CAST(joined AS VARCHAR) = '2024-02-29'
        SELECT sum(quarter(placed)), sum(dayofyear(placed)), sum(week(placed)) FROM orders
    """,
    "joins": """
        SELECT count(*) FROM orders o JOIN customers c ON o.customer_id = c.id
        SELECT c.region, count(*), avg(o.amount) FROM orders o, customers c WHERE o.customer_id = c.id AND c.age > 30 GROUP BY c.region
        SELECT o.status, c.region, sum(o.amount) FROM customers c JOIN orders o ON c.id = o.customer_id GROUP BY ALL
        SELECT sum(qty) FROM lines
        SELECT avg(l.qty), avg(o.amount) FROM lines l JOIN orders o ON l.invoice = o.number
        SELECT l.area, sum(l.qty) FROM lines l, orders o, customers c WHERE l.invoice = o.number AND o.customer_id = c.id GROUP BY l.area
        SELECT r.country, count(*) FROM customers c JOIN regions r ON c.region = r.name GROUP BY r.country
        SELECT s.name, sum(o.amount) FROM orders o JOIN stores s ON o.store = s.name JOIN regions r ON s.region = r.name WHERE r.country = 'here' GROUP BY s.name
        SELECT count(*), count(o.amount), avg(o.amount) FROM customers c LEFT JOIN orders o ON c.id = o.customer_id AND o.amount > 10
        SELECT s.region, count(*) FROM orders o LEFT JOIN stores s ON o.store = s.name GROUP BY s.region
        SELECT count(id) FROM customers FULL JOIN (SELECT customer_id AS id, amount FROM orders) AS o USING (id)
        SELECT count(*) FROM orders SEMI JOIN lines ON invoice = number AND lines.qty > 3
        SELECT count(*) FROM orders o WHERE amount > 10 AND NOT EXISTS (SELECT * FROM lines l WHERE l.invoice = o.number AND l.qty > 3)
        SELECT count(*) FROM orders WHERE customer_id IN (SELECT id FROM customers WHERE age > 40)
        SELECT count(*) FROM orders WHERE number IN (SELECT invoice FROM lines GROUP BY invoice HAVING sum(qty) > 5)
        SELECT count(*) FROM orders WHERE store NOT IN (SELECT name FROM stores WHERE size > 10)
        SELECT count(*) FROM orders o WHERE o.qty > 10 OR o.customer_id IN (SELECT id FROM customers WHERE age > 60)
        SELECT sum(amount) FILTER (WHERE store IN (SELECT name FROM stores)) FROM orders
        SELECT v.page, count(*) FROM visits v JOIN stores s ON v.agent = s.name GROUP BY v.page
        SELECT count(*) FROM orders o JOIN stores s ON o.amount < s.area
        SELECT count(*) FROM customers c WHERE c.age > 90 OR EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id)
    """,
    "subqueries": """
        SELECT avg(n) FROM (SELECT invoice, sum(qty) AS n FROM lines GROUP BY invoice)
        SELECT n, count(*) FROM (SELECT c.id, count(o.qty) AS n FROM customers c LEFT JOIN orders o ON c.id = o.customer_id GROUP BY c.id) GROUP BY n
        SELECT avg(s), avg(a), avg(m) FROM (SELECT customer_id, sum(amount) AS s, avg(amount) AS a, max(fee) AS m FROM orders GROUP BY customer_id)
        SELECT count(*) FROM (SELECT DISTINCT customer_id, status FROM orders)
        SELECT status, count(*) FROM (SELECT customer_id, status, count(*) AS n FROM orders GROUP BY customer_id, status) WHERE n > 1 GROUP BY status
        SELECT count(*), sum(x) FROM (SELECT customer_id, amount AS x FROM orders UNION ALL SELECT id, income FROM customers)
        SELECT region, count(*) FROM (SELECT id, region FROM customers UNION SELECT id, region FROM customers WHERE vip) GROUP BY region
        SELECT count(*) FROM (SELECT customer_id FROM orders EXCEPT SELECT id FROM customers WHERE age > 60)
        SELECT count(*) FROM (SELECT customer_id, qty FROM orders INTERSECT SELECT customer_id, qty FROM orders WHERE status = 'paid')
        WITH big AS (SELECT * FROM orders WHERE amount > 10) SELECT status, count(*) FROM big GROUP BY status
        SELECT avg(d) FROM (SELECT customer_id, min(placed) AS a, max(placed) AS b, max(placed) - min(placed) AS d FROM orders GROUP BY customer_id)
        SELECT avg(age) FROM customers c WHERE 100 < (SELECT max(amount) FROM orders o WHERE o.customer_id = c.id)
        SELECT count(*) FROM customers c WHERE 0 = (SELECT count(*) FROM orders o WHERE o.customer_id = c.id AND o.status = 'lost')
        SELECT count(*) FROM orders WHERE qty > (SELECT max(size) FROM regions)
        SELECT sum(x) FROM (SELECT customer_id, count(DISTINCT status) AS x, sum(wide) AS w FROM orders GROUP BY customer_id)
        SELECT sum(b) FROM (SELECT customer_id, sum(big) AS b FROM orders GROUP BY customer_id)
    """,
    "windows": """
        SELECT avg(amount) FROM (SELECT amount FROM orders QUALIFY row_number() OVER (PARTITION BY customer_id ORDER BY placed DESC) = 1)
        SELECT r, count(*) FROM (SELECT row_number() OVER (PARTITION BY customer_id ORDER BY placed) AS r FROM orders) WHERE r <= 3 GROUP BY r
        SELECT avg(date_diff('day', before, placed)) FROM (SELECT placed, lag(placed) OVER (PARTITION BY customer_id ORDER BY placed) AS before FROM orders)
        SELECT n, count(*) FROM (SELECT count(*) OVER (PARTITION BY customer_id) AS n FROM orders) GROUP BY n
        SELECT sum(amount) FROM (SELECT amount, sum(amount) OVER (PARTITION BY customer_id ORDER BY placed ROWS UNBOUNDED PRECEDING) AS so_far FROM orders) WHERE so_far < 100
        SELECT status, count(*) FROM (SELECT customer_id, status FROM orders GROUP BY customer_id, status QUALIFY rank() OVER (PARTITION BY customer_id ORDER BY count(*) DESC) = 1) GROUP BY status
        SELECT sum(w) FROM (SELECT last_value(amount) OVER (PARTITION BY customer_id ORDER BY placed, number ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS w FROM orders)
        SELECT sum(w) FROM (SELECT first_value(fee) OVER (PARTITION BY customer_id ORDER BY amount DESC NULLS LAST) AS w FROM orders)
        SELECT sum(w) FROM (SELECT dense_rank() OVER (PARTITION BY customer_id ORDER BY note) AS w FROM orders)
        SELECT sum(w) FROM (SELECT lead(qty, 1, 0) OVER (PARTITION BY customer_id ORDER BY paid) AS w FROM orders)
        SELECT sum(w) FROM (SELECT avg(qty) OVER (PARTITION BY customer_id ORDER BY placed ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS w FROM orders)
        SELECT sum(w) FROM (SELECT ntile(2) OVER (PARTITION BY customer_id ORDER BY number) AS w FROM orders)
    """,
    "choices": """
        SELECT median(duration), min(duration), max(duration), count(*) FROM visits
        SELECT page, quantile_disc(duration, 0.9) AS p90 FROM visits GROUP BY page
        SELECT quantile_cont(amount, [0.25, 0.75]) AS quartiles FROM orders
        SELECT region, min(age), max(age), mode(age) FROM customers GROUP BY region
        SELECT mode(status), min(placed), max(qty) FROM orders
        SELECT median(fee), median(paid), max(placed) FROM orders
        SELECT region, quantile_disc(age, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]) AS q FROM customers GROUP BY region
        SELECT max(most) FROM (SELECT customer_id, max(amount) AS most FROM orders GROUP BY customer_id)
        SELECT city, median(income) FROM customers GROUP BY city
        SELECT min(score), max(joined), mode(vip) FROM customers
    """,
    "nested": """
        SELECT count(*) FROM customers WHERE income > (SELECT avg(income) FROM customers)
        SELECT count(*) FROM orders o WHERE amount > (SELECT avg(amount) FROM orders p WHERE p.status = o.status)
        SELECT count(*) FROM orders WHERE status IN (SELECT status FROM orders GROUP BY status HAVING count(*) > 10)
        SELECT r.kept, count(*) FROM orders JOIN (SELECT status, round(avg(amount)) AS kept FROM orders GROUP BY status) AS r USING (status) GROUP BY r.kept
        WITH a AS (SELECT region, avg(age) AS m FROM customers GROUP BY region) SELECT count(*) FROM customers c JOIN a ON a.region = c.region WHERE c.age > a.m
    """,
    "totals": """
        SELECT sum(amount), count(*) FROM many
        SELECT sum(fee), avg(fee) FROM many
        SELECT sum(big) FROM many
        SELECT sum(qty), avg(qty) FROM many
        SELECT fee > 0 AS up, sum(amount), sum(big), sum(qty) FROM many GROUP BY up
        SELECT fee, sum(amount), sum(qty) FROM many GROUP BY fee
        SELECT sum(s), sum(b) FROM (SELECT person, sum(qty) AS s, sum(big) AS b FROM many GROUP BY person)
        SELECT median(amount), max(qty) FROM many
        SELECT sum(w) FROM (SELECT least(sum(qty) OVER (PARTITION BY person), 1000) AS w FROM many)
    """,
    "above": """
        SELECT status, count(*) AS n FROM orders GROUP BY status HAVING count(*) > 10 ORDER BY n DESC LIMIT 2
        SELECT status, count(*) * 1.0 / sum(count(*)) OVER () AS share FROM orders GROUP BY status
        SELECT s.name, s.size, t.n FROM stores s JOIN (SELECT store, count(*) AS n FROM orders GROUP BY store) AS t ON t.store = s.name
        SELECT count(*) FROM customers UNION ALL SELECT count(*) FROM visits
    """,
    "chosen": """
        SELECT count(*), sum(amount) FROM logs
        SELECT status, count(*), sum(fee) FROM logs GROUP BY status
        SELECT note, count(*), sum(amount) FROM logs GROUP BY note
        SELECT note, status, count(*) FROM logs GROUP BY note, status
        SELECT count(DISTINCT note), count(DISTINCT amount) FROM logs
        SELECT number, count(*) FROM logs GROUP BY number
        SELECT store, count(DISTINCT note) FROM logs GROUP BY store
        SELECT paid, sum(qty) FROM logs GROUP BY paid
    """,
}  # fmt: skip
_REFUSED = """
    SELECT sum(length(note)) FROM orders
    SELECT sum(1 / amount) FROM orders
    SELECT sum(w) FROM (SELECT last_value(amount) OVER (PARTITION BY customer_id ORDER BY placed) AS w FROM orders)
    SELECT * FROM orders
    SELECT amount FROM orders LIMIT 1
    SELECT sum(number) FROM orders
    SELECT count(*) FROM nowhere
    SELECT sum(nothing) FROM orders
    SELECT min(note) FROM orders
    SELECT count(*) FROM orders o JOIN customers c ON o.qty = c.age
    SELECT count(*) FROM (SELECT status FROM orders UNION SELECT region FROM customers)
    SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY amount) AS r FROM orders) WHERE r = 1
    SELECT count(*) FROM orders WHERE random() < 0.5
    SELECT count(*) FROM orders TABLESAMPLE 10%
    DELETE FROM orders
    SELECT count(*) FROM pg_catalog.pg_class
    SELECT sum(amount) OVER () FROM orders
    SELECT count(*) FROM visits v JOIN orders o ON v.hits = o.qty
    SELECT count(*) FROM orders WHERE note = 5
"""


def _listed(section: str, text: str) -> list[Asked]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [Asked(section, i, line, "laplace" if section == "laplace" else None) for i, line in enumerate(lines)]


QUERIES: tuple[Asked, ...] = tuple(each for section, text in _SECTIONS.items() for each in _listed(section, text))
REFUSED: tuple[Asked, ...] = tuple(_listed("refused", _REFUSED))
