"""A shop: 40,000 customers, about 60,000 orders and 180,000 items, in a database with keys and foreign keys."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hindsight import Output, Ratio, Spread, Total
from made_up_world import Question, World, days, pareto, rows_per_unit, some_missing, zipf

CUSTOMERS = 40_000
REGIONS = ["north", "south", "east", "west", "centre", "coast", "islands", "abroad"]
CHANNELS = ["web", "app", "store", "phone"]
STATUSES = ["delivered", "open", "returned", "lost"]
CATEGORIES = ["books", "toys", "clothes", "shoes", "garden", "kitchen", "music", "games", "tools", "sports", "beauty",
              "food", "pets", "office", "phones", "computers", "cameras", "furniture", "jewels", "boats"]  # fmt: skip
SCHEMAS = {
    "customers": "CREATE TABLE customers (id INTEGER PRIMARY KEY, region VARCHAR, joined DATE, newsletter BOOLEAN)",
    "orders": "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers (id), "
    "placed TIMESTAMP, channel VARCHAR, status VARCHAR)",
    "items": "CREATE TABLE items (order_id INTEGER REFERENCES orders (id), category VARCHAR, quantity INTEGER, "
    "price DECIMAL(10, 2), returned BOOLEAN)",
}


def shop(rows: str = "") -> World:
    """Few customers buy very often (Pareto, 2.5); a sixtieth of the orders are guests'; prices depend on the category."""
    random = np.random.default_rng(202)
    orders = _orders(random, rows)
    return World(
        "shop",
        {"customers": _customers(random), "orders": orders, "items": _items(random, len(orders))},
        {
            "customers": {"region": {"values": REGIONS}, "joined": {"min": "2015-01-01", "max": "2025-12-31"}},
            "orders": {
                "placed": {"min": "2024-01-01", "max": "2025-12-31"},
                "channel": {"values": CHANNELS},
                "status": {"values": STATUSES},
            },
            "items": {
                "category": {"values": CATEGORIES},
                "quantity": {"min": 0, "max": 100},
                "price": {"min": 0, "max": 5_000},
            },
        },
        QUESTIONS,
        SCHEMAS,
    )


def _customers(random: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": np.arange(1, CUSTOMERS + 1),
            "region": some_missing(random, zipf(random, REGIONS, CUSTOMERS, 1.2), 0.02),
            "joined": days(random, "2016-01-01", 3500, CUSTOMERS).dt.date,
            "newsletter": random.random(CUSTOMERS) < 0.3,
        }
    )


def _orders(random: np.random.Generator, rows: str) -> pd.DataFrame:
    heavy = pareto(random, CUSTOMERS, 2.5, 1.4).astype(np.int64)
    often = rows_per_unit(random, rows, CUSTOMERS, 2.3) if rows else heavy
    often[random.random(CUSTOMERS) < 0.15] = 0
    customer = np.repeat(np.arange(1, CUSTOMERS + 1), often)
    size = len(customer)
    placed = days(random, "2024-01-01", 731, size) + pd.to_timedelta(random.integers(6 * 3600, 86_400, size), "s")
    return pd.DataFrame(
        {
            "id": np.arange(1, size + 1),
            "customer_id": some_missing(random, customer, 1 / 60).astype("Int32"),
            "placed": placed,
            "channel": some_missing(random, zipf(random, CHANNELS, size, 1.2), 0.01),
            "status": zipf(random, STATUSES, size, 2.2),
        }
    )


def _items(random: np.random.Generator, orders: int) -> pd.DataFrame:
    order = np.repeat(np.arange(1, orders + 1), np.minimum(random.geometric(0.33, orders), 60))
    size = len(order)
    category = zipf(random, CATEGORIES, size, 0.9)
    level = dict(zip(CATEGORIES, np.geomspace(8, 900, len(CATEGORIES)), strict=True))
    price = np.array([level[each] for each in category]) * random.lognormal(0, 0.6, size)
    return pd.DataFrame(
        {
            "order_id": order,
            "category": some_missing(random, category, 0.01),
            "quantity": np.minimum(random.geometric(0.75, size) * np.where(random.random(size) < 0.01, 10, 1), 100),
            "price": some_missing(random, np.minimum(price, 20_000).round(2), 0.02),
            "returned": random.random(size) < np.where(np.isin(category, ["clothes", "shoes"]), 0.25, 0.05),
        }
    )


ITEMS = "items i JOIN orders o ON i.order_id = o.id"


def _by_category(name: str, sql: str, statistics: dict[str, str], outputs: dict[str, Output]) -> Question:
    return Question(name, sql, ITEMS, "o.customer_id", ("i.category",), statistics, outputs)


QUESTIONS = (
    Question(
        "orders by month",
        "SELECT date_trunc('month', placed) AS month, count(*) AS n FROM orders GROUP BY month ORDER BY month",
        "orders", "customer_id", ("date_trunc('month', placed)",), {"n": "count(*)"}, {"n": Total("n")},
    ),
    _by_category(
        "revenue by category",
        "SELECT category, sum(quantity * price) AS revenue FROM items GROUP BY category ORDER BY revenue DESC",
        {"s": "sum(quantity * price)"}, {"revenue": Total("s")},
    ),
    _by_category(
        "average price and items by category",
        "SELECT category, count(*) AS items, avg(price) AS price FROM items GROUP BY category ORDER BY category",
        {"a": "count(*)", "s": "sum(price)", "n": "count(price)"},
        {"items": Total("a"), "price": Ratio("s", "n")},
    ),
    _by_category(
        "items returned per 100 by category",
        "SELECT category, 100.0 * sum(CASE WHEN returned THEN 1 ELSE 0 END) / count(*) AS returned FROM items "
        "GROUP BY category ORDER BY returned DESC",
        {"r": "count_if(returned)", "n": "count(*)"},
        {"returned": Ratio("r", "n", 100)},
    ),
    Question(
        "customers by region",
        "SELECT region, count(*) AS customers FROM customers GROUP BY region ORDER BY customers DESC",
        "customers", "id", ("region",), {"n": "count(*)"}, {"customers": Total("n")},
    ),
    Question(
        "different buyers by month",
        "SELECT date_trunc('month', placed) AS month, count(DISTINCT customer_id) AS buyers FROM orders "
        "GROUP BY month ORDER BY month",
        "orders", "customer_id", ("date_trunc('month', placed)",), {"n": "count(DISTINCT customer_id)"},
        {"buyers": Total("n")},
    ),
    Question(
        "orders by channel and status",
        "SELECT channel, status, count(*) AS n FROM orders GROUP BY channel, status ORDER BY channel, status",
        "orders", "customer_id", ("channel", "status"), {"n": "count(*)"}, {"n": Total("n")},
    ),
    Question(
        "revenue by region (join of three)",
        "SELECT c.region, sum(i.quantity * i.price) AS revenue FROM customers c JOIN orders o ON o.customer_id = c.id "
        "JOIN items i ON i.order_id = o.id GROUP BY c.region",
        f"{ITEMS} JOIN customers c ON o.customer_id = c.id", "c.id", ("c.region",), {"s": "sum(i.quantity * i.price)"},
        {"revenue": Total("s")},
    ),
    Question(
        "mean spending per customer (per unit)",
        "SELECT avg(total) AS spending, count(*) AS buyers FROM (SELECT o.customer_id, sum(i.quantity * i.price) AS total "
        "FROM orders o JOIN items i ON i.order_id = o.id GROUP BY o.customer_id)",
        f"(SELECT o.customer_id, sum(i.quantity * i.price) AS total FROM {ITEMS} GROUP BY o.customer_id)", "customer_id",
        (), {"s": "sum(total)", "n": "count(total)", "a": "count(*)"}, {"spending": Ratio("s", "n"), "buyers": Total("a")},
    ),
    Question(
        "delivered web orders of 2025 by day of the week (WHERE)",
        "SELECT dayofweek(placed) AS day, count(*) AS n FROM orders WHERE channel = 'web' AND status = 'delivered' "
        "AND placed >= DATE '2025-01-01' GROUP BY day ORDER BY day",
        "orders WHERE channel = 'web' AND status = 'delivered' AND placed >= DATE '2025-01-01'", "customer_id",
        ("dayofweek(placed)",), {"n": "count(*)"}, {"n": Total("n")},
    ),
    _by_category(
        "spread of prices by category",
        "SELECT category, stddev(price) AS spread FROM items GROUP BY category",
        {"s": "sum(price)", "q": "sum(price::DOUBLE * price)", "n": "count(price)"},
        {"spread": Spread("s", "q", "n")},
    ),
    Question(
        "repeat buyers per 100 by region (per unit, join)",
        "SELECT c.region, 100.0 * count(*) FILTER (WHERE b.orders > 1) / count(*) AS repeats FROM customers c JOIN "
        "(SELECT customer_id, count(*) AS orders FROM orders GROUP BY customer_id) b ON b.customer_id = c.id "
        "GROUP BY c.region",
        "customers c JOIN (SELECT customer_id, count(*) AS orders FROM orders GROUP BY customer_id) b "
        "ON b.customer_id = c.id", "c.id", ("c.region",), {"r": "count_if(b.orders > 1)", "n": "count(*)"},
        {"repeats": Ratio("r", "n", 100)},
    ),
    Question(
        "median price by category",
        "SELECT category, median(price) AS middle FROM items GROUP BY category ORDER BY category",
        chosen=("middle",),
    ),
)  # fmt: skip
