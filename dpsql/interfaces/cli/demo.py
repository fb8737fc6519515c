"""The demo: questions to a made-up shop, with what each answer cost, and the truth that only a demo may show."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql.answers.number_format import as_precise_as, numeric
from dpsql.errors import Error, InterfaceError
from dpsql.interfaces.cli.output import answer_table, budget_table, cell, column_cells, error_bars, new_table, price
from dpsql.interfaces.cli.terminal import complaint, waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    from rich.console import Console
    from rich.table import Table

    from dpsql.answers.result import Result
    from dpsql.session import Connection

ANALYST = "demo"
PRICE = "5%"
Truth = dict[tuple[Any, ...], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """A query, what it shows, and how many of its first columns tell its rows apart."""

    title: str
    sql: str
    lesson: str
    keys: int = 1


QUESTIONS = (
    DemoQuestion(
        "What sells best?",
        "SELECT category, sum(amount) AS revenue, avg(amount) AS mean\n"
        "FROM orders GROUP BY category ORDER BY revenue DESC",
        "Plain SQL. The noise hides any one customer with all of their orders, not just one order.",
    ),
    DemoQuestion(
        "Where do our customers live?",
        "SELECT city, count(*) AS customers FROM customers\nGROUP BY city ORDER BY customers DESC LIMIT 8",
        "The towns are not known in advance, so a town appears only if enough people live there: a threshold with "
        "noise decides. The small ones stay out, whoever lives in them.",
    ),
    DemoQuestion(
        "What does a customer spend in a year?",
        "SELECT count(*) AS customers, avg(total) AS spent FROM (\n"
        "  SELECT customer_id, sum(amount) AS total FROM orders\n  WHERE status = 'paid' GROUP BY customer_id)",
        "The inner query has one row for each person, so the noise is that of one row each.",
        keys=0,
    ),
    DemoQuestion(
        "Which categories matter, and by what share?",
        "SELECT category, count(*) AS orders,\n       100.0 * count(*) / sum(count(*)) OVER () AS percent\n"
        "FROM orders GROUP BY category HAVING count(*) > 7000 ORDER BY percent DESC",
        "HAVING, windows and arithmetic work on the released numbers: nearly all of SQL, free, with error bars.",
    ),
    DemoQuestion(
        "How long do visitors stay, month by month?",
        "SELECT date_trunc('month', day) AS month, avg(minutes) AS minutes\nFROM visits GROUP BY month ORDER BY month",
        "Months of a bounded date are known in advance: every month appears, also an empty one.",
    ),
)
REPLAY = (
    "SELECT category, round(sum(amount) / 1000) AS thousands\n"
    "FROM orders GROUP BY category HAVING avg(amount) > 40 ORDER BY category"
)
REFUSED = "SELECT customer_id, tip FROM orders\nORDER BY tip DESC LIMIT 3"


def run_demo(console: Console, keep: Path | None = None) -> None:
    """Make the shop, ask, repeat, and be refused."""
    with _folder(keep) as folder:
        with waiting("making up a shop"):
            from dpsql.session import connect

            shop = make_shop(folder)
            truths = _truths(shop)
        with connect(shop.database, policy=shop.policy, ledger=shop.ledger, analyst=ANALYST) as db:
            _introduce(console)
            for number, (question, truth) in enumerate(zip(QUESTIONS, truths, strict=True), 1):
                _ask(console, db, f"{number}. {question.title}", question, truth)
            _repeat(console, db)
            _refuse(console, db)
            _conclude(console, db, shop if keep is not None else None)


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """A temporary folder that is removed afterwards, or a new one that stays."""
    if keep is None:
        with TemporaryDirectory(prefix="dpsql-demo-") as folder:
            yield Path(folder)
        return
    try:
        keep.mkdir(parents=True)
    except OSError as problem:
        raise InterfaceError(
            f"{keep} cannot be created: {problem.strerror}", hint="name a folder that does not exist yet"
        ) from None
    yield keep


def _truths(shop: Shop) -> list[Truth]:
    """The exact answers, by DuckDB itself: the demo owns its data, so it may look."""
    import duckdb

    with duckdb.connect(str(shop.database), read_only=True) as connection:
        return [_truth(connection.execute(each.sql.partition(" LIMIT")[0]).fetchall(), each.keys) for each in QUESTIONS]


def _truth(rows: list[tuple[Any, ...]], keys: int) -> Truth:
    return {_plain_key(row[:keys]): row[keys:] for row in rows}


def _plain_key(key: tuple[Any, ...]) -> tuple[str, ...]:
    """A date and a timestamp at midnight are the same month."""
    return tuple(str(each)[:10] for each in key)


def _introduce(console: Console) -> None:
    from rich.syntax import Syntax

    console.rule("[bold]dpsql demo")
    console.print(
        f"A made-up shop: {CUSTOMERS:,} customers with {ORDERS:,} orders, and anonymous visits. An analyst asks in "
        "plain SQL. Each answer gets enough noise that nobody can tell from it whether any one person is in the data, "
        "and each takes something off a budget. The data steward writes one file, the policy:\n"
    )
    console.print(Syntax(POLICY.rstrip(), "yaml", background_color="default", word_wrap=True))
    console.print(
        "\nIn the tables below, ± is the 95% error bar of the noise. The column “true” is there because this shop is "
        "made up: only a demo can show it."
    )


def _ask(console: Console, db: Connection, title: str, question: DemoQuestion, truth: Truth) -> None:
    _show_sql(console, title, question.sql)
    result = db.query(question.sql, price=PRICE)
    console.print(_compared(result, question.keys, truth))
    console.print(question.lesson, style="italic")
    _account(console, db, result)


def _show_sql(console: Console, title: str, sql: str) -> None:
    from rich.syntax import Syntax

    console.print()
    console.rule(f"[bold]{title}", align="left")
    console.print(Syntax(sql, "sql", background_color="default", word_wrap=True))


def _compared(result: Result, keys: int, truth: Truth) -> Table:
    """The private answer ± its 95% error bar, and in grey the truth beside it."""
    table = new_table()
    rows = result.fetchall()
    texts: list[list[Any]] = []
    for position, (name, ends) in enumerate(zip(result.columns, error_bars(result), strict=True)):
        values = [row[position] for row in rows]
        number = ends is not None or numeric(values)
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
        texts.append([cell(text) for text in column_cells(values, ends)])
        if ends is not None:
            table.add_column("true", justify="right", no_wrap=True, header_style="dim")
            found = [truth.get(_plain_key(row[:keys])) for row in rows]
            texts.append(
                [
                    _true(None if each is None else each[position - keys], end)
                    for each, end in zip(found, ends, strict=True)
                ]
            )
    for row in zip(*texts, strict=True):
        table.add_row(*row)
    return table


def _true(value: Any, end: tuple[float, float]) -> Any:
    return cell("–" if value is None else as_precise_as(value, (end[1] - end[0]) / 2), "dim")


def _account(console: Console, db: Connection, result: Result) -> None:
    account = db.budget().analyst
    assert account is not None
    console.print(f"cost: {price(result)}   left: {account.left_share}", style="bold green")


def _repeat(console: Console, db: Connection) -> None:
    _show_sql(console, "Asked before: free", REPLAY)
    result = db.query(REPLAY, price=PRICE)
    console.print(answer_table(result))
    console.print(
        "The same sums as in question 1, cut and sorted another way: they were released, so they are replayed, with "
        "the same noise. Asking again a thousand times costs nothing and tells nothing new.",
        style="italic",
    )
    _account(console, db, result)


def _refuse(console: Console, db: Connection) -> None:
    _show_sql(console, "Refused, before anything is touched or charged", REFUSED)
    console.print()
    try:
        db.query(REFUSED, price=PRICE)
    except Error as error:
        console.print(complaint(error))


def _conclude(console: Console, db: Connection, kept: Shop | None) -> None:
    console.print()
    console.rule("[bold]What is left", align="left")
    console.print(budget_table(db.budget()))
    console.print(f"{len(QUESTIONS)} questions cost up to {PRICE} of ana's budget each, and add up.", style="italic")
    if kept is None:
        console.print("The shop is gone. `dpsql demo --keep shop` keeps one to play with.")
    else:
        console.print(f"Go on:  dpsql shell {kept.database} --analyst ana", soft_wrap=True, markup=False)


# the shop's data ------------------------------------------------------------------------------------------------------
# The shop of the demo: a database, its policy and its ledger, made up on the spot.


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
