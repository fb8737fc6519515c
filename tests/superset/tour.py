"""What a person does with Superset, step by step: what has to be on the page, and what the ledger has to say."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import tiles
from browser import Traffic, rest, seen
from playwright.sync_api import Page, expect
from shop import Shop, Spent

NAME = "the shop"
TABLES = ("customers", "orders", "stores", "visits")
COLUMNS = {
    "customer_id": "INTEGER", "category": "TEXT", "status": "TEXT", "amount": "DOUBLE_PRECISION", "placed": "DATE",
    "tip": "DOUBLE_PRECISION",
}  # fmt: skip
QUESTION = "SELECT region, count(*) AS n, round(avg(age), 1) AS age FROM customers GROUP BY region ORDER BY n DESC"
CATEGORIES = ("books", "food", "garden", "music", "toys")


@dataclass
class Tour:
    """A page, the shop behind it, and what was spent until now; `tell` says what each step did."""

    page: Page
    shop: Shop
    pictures: Path
    spent: Spent = field(init=False)
    begun: float = field(init=False)
    traffic: Traffic = field(init=False)

    def __post_init__(self) -> None:
        self.pictures.mkdir(parents=True, exist_ok=True)
        self.spent, self.begun, self.traffic = self.shop.spent(), time.monotonic(), Traffic(self.page)
        print(f"{'step':<40}{'charges':>8}{'ρ charged':>12}{'ρ in all':>11}{'seconds':>9}  seen", flush=True)

    def tell(self, step: str, charges: int, said: str) -> None:
        """Compare the ledger with what the step may charge, and print a line."""
        now, clock = self.shop.spent(), time.monotonic()
        made, cost = now.charges - self.spent.charges, now.rho - self.spent.rho
        print(f"{step:<40}{made:>8}{cost:>12.6f}{now.rho:>11.6f}{clock - self.begun:>9.1f}  {said}", flush=True)
        assert made == charges and (cost > 0) == (charges > 0), f"{step}: {charges} charges were expected"
        self.spent, self.begun = now, time.monotonic()

    def rest(self) -> None:
        """Wait until the page stands still, with the mouse where no menu opens under it."""
        self.page.mouse.move(5, 895)
        self.traffic.ended()

    def picture(self, name: str) -> None:
        """What is on the screen now, once it stands still."""
        self.rest()
        self.page.screenshot(path=self.pictures / f"superset_{name}.png")


def whole(tour: Tour) -> None:
    """All steps, in order."""
    _test_connection(tour)
    _wrong_password(tour)
    _connect(tour)
    _browse(tour)
    _ask(tour)
    _ask_again(tour)
    _list_rows(tour)
    dataset = _dataset(tour)
    charts = [_chart(tour, dataset, each) for each in (tiles.MONTHS, tiles.CATEGORIES)]
    _ranges(tour, dataset)
    dashboard = _dashboard(tour, dataset, charts)
    _refresh(tour)
    _filter(tour)
    _over_budget(tour, dataset, dashboard, charts)


# the connection -------------------------------------------------------------------------------------------------------


def _form(tour: Tour) -> None:
    page = tour.page
    page.goto("/databaseview/list")
    page.get_by_role("button", name="Database").last.click()
    page.get_by_text("PostgreSQL").first.click()
    seen(page, "Enter the required PostgreSQL credentials")


def _test_connection(tour: Tour) -> None:
    """The button that tries an address before it is saved."""
    _form(tour)
    page, words = tour.page, tour.shop.words
    page.get_by_text("Connect this database with a SQLAlchemy URI string instead").click()
    where = "{username}:{password}@{host}:{port}/{database}?sslmode=require".format_map(words)
    page.get_by_test_id("database-name-input").fill(NAME)
    page.get_by_test_id("sqlalchemy-uri-input").fill(f"postgresql+psycopg2://{where}")
    page.get_by_role("button", name="Test connection").click()
    seen(page, "Connection looks good!")
    tour.tell("test of the connection", 0, "Connection looks good!")


def _fill(tour: Tour, **changed: str) -> None:
    """Fill the form; Superset tries the connection whenever a field is left, and takes no click meanwhile."""
    page = tour.page
    page.locator("[role=dialog] [role=switch]").click()
    for name, value in {"database_name": NAME, **tour.shop.words, **changed}.items():
        page.fill(f"[role=dialog] input[name={name}]", value)
    page.get_by_text("Enter the required PostgreSQL credentials").click()
    tour.traffic.ended()


def _press_connect(tour: Tour) -> None:
    button = tour.page.locator("[role=dialog]").get_by_role("button", name="Connect", exact=True)
    expect(button).to_be_enabled()
    button.click()
    tour.traffic.ended()


def _wrong_password(tour: Tour) -> None:
    """Superset shows it beside the fields."""
    _form(tour)
    _fill(tour, password="not the password")
    _press_connect(tour)
    said = 'The password provided for username "superset" is incorrect.'
    seen(tour.page, said)
    tour.tell("a wrong password", 0, said)


def _connect(tour: Tour) -> None:
    _form(tour)
    page = tour.page
    _fill(tour)
    page.locator("[role=dialog] input[name=host]").scroll_into_view_if_needed()
    tour.picture("connection")
    _press_connect(tour)
    seen(page, "Database connected")
    page.get_by_role("button", name="Finish", exact=True).click()
    expect(page.get_by_role("row").filter(has_text=NAME)).to_be_visible()
    tour.tell("connection", 0, "Database connected")


# SQL Lab --------------------------------------------------------------------------------------------------------------


def _browse(tour: Tour) -> None:
    """The tree of schemas, tables and columns."""
    page = tour.page
    page.goto("/sqllab/")
    page.get_by_text("Add a new tab", exact=True).click()
    page.get_by_text("public", exact=True).click()
    seen(page, *TABLES)
    page.get_by_text("orders", exact=True).first.click()
    seen(page, *COLUMNS, *set(COLUMNS.values()))
    tour.picture("schema")
    tour.tell("schema browser", 0, f"{len(TABLES)} tables; orders: {', '.join(COLUMNS)}")


def _run(tour: Tour, sql: str) -> None:
    page = tour.page
    page.locator(".ace_editor").first.click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(sql)
    tour.traffic.ended()
    page.get_by_role("button", name="Run").first.click()
    tour.traffic.ended()


def _results(tour: Tour, rows: int) -> list[str]:
    seen(tour.page, f"{rows} rows", "north")
    return tour.page.get_by_role("gridcell").all_inner_texts()


def _ask(tour: Tour) -> None:
    _run(tour, QUESTION)
    found = _results(tour, 5)
    assert {"north", "south", "east", "west"} <= set(found)
    tour.picture("sql_lab")
    tour.tell("SQL Lab: a query", 1, "5 rows: " + " ".join(found))


def _ask_again(tour: Tour) -> None:
    """The same once more: the same numbers, free."""
    before = _results(tour, 5)
    _run(tour, QUESTION)
    assert _results(tour, 5) == before
    tour.tell("SQL Lab: the same again", 0, "the same 5 rows")


def _list_rows(tour: Tour) -> None:
    _run(tour, "SELECT * FROM orders")
    seen(tour.page, "this query would list rows of orders, which are private", "ask for an aggregate")
    tour.picture("refusal")
    tour.tell("SQL Lab: rows of a table", 0, "this query would list rows of orders, which are private")


# a dataset, charts, a dashboard ---------------------------------------------------------------------------------------


def _dataset(tour: Tour) -> int:
    """By the form, which reads the table's columns."""
    page = tour.page
    page.goto("/dataset/add/")
    for label, word in (
        ("Select database or type to search databases", NAME),
        ("Select schema", "public"),
        ("Select table or type to search tables", "orders"),
    ):
        box = page.get_by_role("combobox", name=label)
        expect(box).to_be_enabled()
        box.click()
        page.keyboard.type(word)
        page.locator(".ant-select-item-option").filter(has_text=word).first.click()
    seen(page, "Table columns", *COLUMNS)
    with page.expect_response("**/api/v1/dataset/") as answer:
        page.get_by_role("button", name="Create and explore dataset").click()
    seen(page, "Create a new chart")
    tour.tell("a dataset", 0, "Table columns: " + ", ".join(COLUMNS))
    made: int = answer.value.json()["id"]
    return made


def _chart(tour: Tour, dataset: int, tile: tiles.Tile) -> int:
    """Made as the page makes it, then opened, and its numbers read in the pane of results: the same query again."""
    page = tour.page
    number: int = rest(page, "POST", "chart/", tile.chart(dataset))["id"]
    page.evaluate("localStorage.clear()")  # where Superset remembers that the pane was open
    page.goto(f"/explore/?slice_id={number}")
    seen(page, f"{tile.rows} rows")
    expect(page.locator(tile.drawn).first).to_be_visible()
    page.get_by_role("tab", name="Results").click()
    seen(page, *tile.words)
    tour.picture(tile.picture)
    tour.tell(f"chart: {tile.title}", 1, f"{tile.rows} rows, drawn; in its results: {' '.join(tile.words)}")
    return number


def _ranges(tour: Tour, dataset: int) -> None:
    """What range pickers ask: the bounds of a date, from the policy."""
    found = rest(tour.page, "POST", "chart/data", tiles.ends_of(dataset, "placed"))["result"][0]["data"]
    tour.tell("ends of a range picker", 0, str(found))


def _dashboard(tour: Tour, dataset: int, charts: list[int]) -> int:
    page = tour.page
    number: int = rest(page, "POST", "dashboard/", tiles.dashboard(dataset, charts))["id"]
    for each in charts:
        rest(page, "PUT", f"chart/{each}", {"dashboards": [number]})
    page.goto(f"/superset/dashboard/{number}/")
    _drawn(tour)
    tour.picture("dashboard")
    tour.tell("dashboard", 0, "both tiles drawn, from what the charts released")
    return number


def _drawn(tour: Tour) -> list[str]:
    """Both tiles are there; the cells of the table."""
    page = tour.page
    seen(page, tiles.TITLE, tiles.MONTHS.title, tiles.CATEGORIES.title, "books")
    expect(page.locator(f".dashboard {tiles.MONTHS.drawn}").first).to_be_visible()
    return page.locator(".dashboard td").all_inner_texts()


def _refresh(tour: Tour) -> None:
    """By the menu, which goes past Superset's own cache; the server sees every tile again, and the ledger nothing."""
    page, queries, replays = (
        tour.page,
        tour.shop.counted("dpsql_queries_total"),
        tour.shop.counted("dpsql_replays_total"),
    )
    before = _drawn(tour)
    for _ in range(3):
        tour.rest()
        page.get_by_test_id("actions-trigger").first.click()
        with page.expect_response(lambda answer: "chart/data" in answer.url and "force=true" in answer.url):
            page.get_by_text("Refresh dashboard").click()
        tour.traffic.ended()
        assert _drawn(tour) == before
    page.reload()
    assert _drawn(tour) == before
    tour.traffic.ended()
    asked = tour.shop.counted("dpsql_queries_total") - queries
    assert asked >= 6 and tour.shop.counted("dpsql_replays_total") - replays == asked
    tour.tell("dashboard refreshed 3 times", 0, f"the same numbers; {asked} queries reached dpsql, all were free")


def _filter(tour: Tour) -> None:
    """A filter's list is free, and so is what it chooses of groups that were released; the rest is a new question."""
    page = tour.page
    before = _drawn(tour)
    page.get_by_role("combobox", name=tiles.FILTER).click()
    for each in CATEGORIES:
        expect(page.locator(".ant-select-item-option").filter(has_text=each)).to_be_visible()
    tour.picture("filter")
    tour.tell("the list of a filter", 0, " ".join(CATEGORIES))
    page.locator(".ant-select-item-option").filter(has_text="music").click()
    page.get_by_role("button", name="Apply filters").click()
    expect(page.locator(".dashboard td").filter(has_text="books")).to_have_count(0)
    tour.traffic.ended()
    tour.tell("a filter applied", 1, "music only: its months are new, its row of the table was released before")
    page.get_by_role("button", name="Clear all").click()
    expect(page.locator(".dashboard td").filter(has_text="books")).to_have_count(1)
    tour.traffic.ended()
    assert _drawn(tour) == before
    tour.tell("the filter cleared", 0, "the same numbers as before")


def _over_budget(tour: Tour, dataset: int, dashboard: int, charts: list[int]) -> None:
    """A third tile, for which nothing is left: it says so, and the others go on."""
    page = tour.page
    number: int = rest(page, "POST", "chart/", tiles.STATUS.chart(dataset) | {"dashboards": [dashboard]})["id"]
    rest(page, "PUT", f"dashboard/{dashboard}", tiles.dashboard(dataset, [*charts, number]))
    page.goto(f"/superset/dashboard/{dashboard}/")
    _drawn(tour)
    tile = page.get_by_test_id("dashboard-component-chart-holder").filter(has_text=tiles.STATUS.title)
    expect(tile).to_contain_text("over the privacy budget: this query costs")
    expect(tile).to_contain_text("left for dashboards")
    seen(page, "Data error")
    tour.picture("over_budget")
    tour.tell("a tile over budget", 0, " ".join(tile.inner_text().split()))
