"""The shop of the demo: a database, its policy and its ledger, made up on the spot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import duckdb

SEED = 20_240_229
CUSTOMERS, ORDERS, VISITS = 5_000, 60_000, 40_000
MOST_ORDERS = 16
TOWNS = 60

POLICY = """\
dataset: shop
budget:
  epsilon: 10                         # for all answers to all analysts, ever
  delta: 1e-6
  analysts: {demo: {epsilon: 5}, ana: {epsilon: 5}}
limits: {epsilon: 2}                  # the most that one query may ask for
defaults: {epsilon: 0.5}
tables:
  customers:
    unit: id                          # one person
    unique: true                      # one row each, by the primary key
    columns:
      age: {min: 18, max: 100}
      region: {values: [north, south, east, west]}
      city: {}                        # free text: a threshold protects it
      income: {min: 0, max: 200000}
  orders:
    unit: customer_id                 # all orders of a customer: one person
    max_rows_per_unit: 16             # a customer with more counts as 16
    columns:
      category: {values: [books, food, garden, music, toys], nulls: false}
      status: {values: [paid, open, lost], nulls: false}
      amount: {min: 0, max: 200, nulls: false}
      placed: {min: 2024-01-01, max: 2024-12-31, nulls: false}
      tip: {}                         # no bounds: a private search finds them
  visits:
    unit: row                         # each row is its own unit
    columns:
      store_id: {min: 1, max: 4, nulls: false}
      day: {min: 2024-01-01, max: 2024-12-31, nulls: false}
      minutes: {min: 0, max: 120}
  stores: {public: true}
"""

_TABLES = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, age INTEGER, region VARCHAR, city VARCHAR, income DOUBLE);
INSERT INTO customers
  SELECT id, age, ['north', 'south', 'east', 'west'][region + 1], format('town {:02d}', city + 1), income
  FROM _customers;
CREATE TABLE orders AS
  SELECT id::INTEGER AS id, customer_id::INTEGER AS customer_id,
         ['books', 'food', 'garden', 'music', 'toys'][category + 1] AS category,
         ['paid', 'open', 'lost'][status + 1] AS status, amount, DATE '2024-01-01' + day::INTEGER AS placed, tip
  FROM _orders;
CREATE TABLE visits AS
  SELECT store_id::INTEGER AS store_id, DATE '2024-01-01' + day::INTEGER AS day, minutes FROM _visits;
CREATE TABLE stores (id INTEGER, city VARCHAR, size INTEGER);
INSERT INTO stores VALUES (1, 'town 01', 900), (2, 'town 02', 450), (3, 'town 03', 600), (4, 'town 04', 300);
"""


@dataclass(frozen=True, slots=True)
class Shop:
    """Where the shop's three files are."""

    database: Path
    policy: Path
    ledger: Path


def make_shop(folder: Path) -> Shop:
    """Write the shop into a folder that has none yet."""
    import duckdb

    shop = Shop(folder / "shop.duckdb", folder / "policy.yaml", folder / "shop.ledger")
    with duckdb.connect(str(shop.database)) as connection:
        _fill(connection, np.random.default_rng(SEED))
    shop.policy.write_text(POLICY, encoding="utf-8")
    return shop


def _fill(connection: duckdb.DuckDBPyConnection, rng: np.random.Generator) -> None:
    for name, columns in (("_customers", _customers(rng)), ("_orders", _orders(rng)), ("_visits", _visits(rng))):
        connection.register(name, columns)
    connection.execute(_TABLES)


def _customers(rng: np.random.Generator) -> dict[str, np.ndarray]:
    sizes = 1 / np.arange(1, TOWNS + 1) ** 1.3
    return {
        "id": np.arange(1, CUSTOMERS + 1),
        "age": np.clip(rng.normal(46, 15, CUSTOMERS), 18, 100).astype(np.int64),
        "region": rng.choice(4, CUSTOMERS, p=[0.4, 0.3, 0.2, 0.1]),
        "city": rng.choice(TOWNS, CUSTOMERS, p=sizes / sizes.sum()),
        "income": np.round(np.minimum(rng.lognormal(10.4, 0.5, CUSTOMERS), 200_000), 2),
    }


def _orders(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Nine to sixteen orders for each customer; prices depend on the category, and rise towards the year's end."""
    each = rng.integers(9, MOST_ORDERS, CUSTOMERS, endpoint=True)
    owner = np.repeat(np.arange(1, CUSTOMERS + 1), each)
    owner = owner[rng.permutation(len(owner))[:ORDERS]]
    category = rng.choice(5, len(owner), p=[0.3, 0.28, 0.18, 0.14, 0.1])
    day = rng.integers(0, 366, len(owner))
    level = np.array([28.0, 46.0, 74.0, 33.0, 52.0])[category] * (1 + day / 1500)
    amount = np.round(np.minimum(rng.gamma(4, level / 4), 200), 2)
    return {
        "id": np.arange(1, len(owner) + 1),
        "customer_id": owner,
        "category": category,
        "status": rng.choice(3, len(owner), p=[0.85, 0.1, 0.05]),
        "amount": amount,
        "day": day,
        "tip": np.round(amount * rng.uniform(0, 0.1, len(owner)), 2),
    }


def _visits(rng: np.random.Generator) -> dict[str, np.ndarray]:
    day = rng.integers(0, 366, VISITS)
    season = 35 + 10 * np.cos((day - 350) / 58)
    return {
        "store_id": rng.choice(4, VISITS, p=[0.4, 0.2, 0.25, 0.15]) + 1,
        "day": day,
        "minutes": np.round(np.minimum(rng.gamma(3, season / 3), 120), 1),
    }
