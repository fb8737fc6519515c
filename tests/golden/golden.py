"""Golden cases: a file of queries, and what dpsql says of each (plan, SQL, refusal). One file a rule."""

from __future__ import annotations

from pathlib import Path

import duckdb

import dpsql

CASES = Path(__file__).parent / "cases"
POLICY = """
dataset: shop
search: false
budget: {epsilon: 10, delta: 1e-6}
limits: {max_public_keys: 1000}
defaults: {epsilon: 1, delta: 1e-8}
tables:
  customers:
    unit: id
    unique: true
    columns:
      age: {min: 18, max: 110}
      region: {values: [north, south, east, west]}
      income: {min: 0, max: 200000}
      vip: {nulls: false}
      city: {}
  members:
    unit: id
    unique: true
    columns: {age: {min: 18, max: 110, nulls: false}, region: {values: [north, south, east, west], nulls: false}}
  orders:
    unit: customer_id
    max_rows_per_unit: 20
    max_groups_per_unit: 4
    columns:
      amount: {min: 0, max: 500}
      fee: {min: -5, max: 5, nulls: false}
      price: {min: 0.00, max: 99.99}
      qty: {min: 1, max: 12}
      status: {values: [paid, open, lost]}
      placed: {min: 2024-01-01, max: 2024-12-31}
      note: {}
      weight: {}
  visits: {unit: row, columns: {duration: {min: 0, max: 3600}, page: {values: [home, shop, help]}, agent: {}}}
  invoices: {unit: customer_id, max_rows_per_unit: 20, columns: {number: {}, total: {min: 0, max: 500}, store: {}}}
  lines:
    unit: {invoice: invoices.number}
    max_rows_per_unit: 60
    columns: {qty: {min: 1, max: 12, nulls: false}, area: {values: {from: areas.name}}}
  stores: {public: true}
  areas: {public: true}
"""
TABLES = """
CREATE TABLE customers (id INTEGER, age INTEGER, region VARCHAR, income DOUBLE, vip BOOLEAN, city VARCHAR, secret VARCHAR);
CREATE TABLE members (id INTEGER PRIMARY KEY, age INTEGER, region VARCHAR);
CREATE TABLE orders (customer_id INTEGER, amount DOUBLE, fee DOUBLE, price DECIMAL(9,2), qty INTEGER, status VARCHAR,
                     placed DATE, note VARCHAR, weight DOUBLE);
CREATE TABLE visits (duration DOUBLE, page VARCHAR, agent VARCHAR);
CREATE TABLE stores (name VARCHAR, region VARCHAR, area INTEGER);
CREATE TABLE areas (name VARCHAR PRIMARY KEY, country VARCHAR, size INTEGER);
CREATE TABLE invoices (customer_id INTEGER, number BIGINT PRIMARY KEY, total DOUBLE, store VARCHAR);
CREATE TABLE lines (invoice BIGINT REFERENCES invoices (number), qty INTEGER, area VARCHAR);
INSERT INTO areas VALUES ('north', 'here', 3), ('south', 'here', 2), ('east', 'there', 5), ('west', 'there', NULL);
INSERT INTO stores VALUES ('one', 'north', 10), ('two', 'south', 20);
"""


def connect(*, search: bool = False) -> dpsql.Connection:
    """The shop with empty private tables: what is compared here never depends on rows."""
    database = duckdb.connect()
    database.execute(TABLES)
    import yaml

    policy = yaml.safe_load(POLICY.replace("1e-6", "1.0e-6").replace("1e-8", "1.0e-8")) | {"search": search}
    return dpsql.connect(database, policy=policy, ledger=":memory:")


def queries(name: str) -> list[str]:
    """The queries of a case file; `---` stands between them."""
    return [text.strip() for text in (CASES / f"{name}.sql").read_text().split("\n---\n") if text.strip()]


def describe(db: dpsql.Connection, sql: str) -> str:
    """What dpsql says of a query: the explanation with the engine's and the finishing SQL, or the refusal."""
    mechanism = "laplace" if sql.startswith("-- laplace") else None
    try:
        plan = db.explain(sql, mechanism=mechanism)
    except dpsql.Error as error:
        return f"{type(error).__name__}: {error}"
    parts = [
        str(plan),
        *(f"engine:\n{release.sql}" for release in plan.releases if release.sql),
        f"finish: {plan.finishing}",
    ]
    return "\n".join(parts)


def render(db: dpsql.Connection, name: str) -> str:
    """The whole golden file of a case file."""
    return "".join(f"{sql}\n\n{describe(db, sql)}\n\n{'=' * 100}\n\n" for sql in queries(name))
