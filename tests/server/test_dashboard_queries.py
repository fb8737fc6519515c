"""What Superset 6.1 sends for its pages, as it was recorded: each is answered, and what should be free is.

`tests/superset` drives Superset itself; this keeps its queries in the ordinary run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg2
import pytest
from served import Served

MONTHS = (
    "SELECT\n  DATE_TRUNC('MONTH', placed) AS placed,\n  COUNT(*) AS count\nFROM public.orders\n"
    "GROUP BY\n  DATE_TRUNC('MONTH', placed)\nORDER BY\n  count DESC\nLIMIT 10000"
)
CATEGORIES = (
    'SELECT\n  category AS category,\n  COUNT(*) AS count,\n  AVG(amount) AS "AVG(amount)"\nFROM public.orders\n'
    "GROUP BY\n  category\nORDER BY\n  count DESC\nLIMIT 1000"
)
PERIOD = (
    "SELECT\n  status AS status,\n  COUNT(*) AS count\nFROM public.orders\nWHERE\n"
    "  placed >= TO_DATE('2024-03-01', 'YYYY-MM-DD')\n  AND placed < TO_DATE('2024-06-01', 'YYYY-MM-DD')\n"
    "  AND category IN ('books', 'food')\n  AND amount >= 10\nGROUP BY\n  status\nLIMIT 10000"
)
VIRTUAL = (
    "SELECT\n  region AS region,\n  SUM(n) AS total\nFROM (\n  SELECT\n    region,\n    COUNT(*) AS n\n  FROM customers\n"
    "  GROUP BY\n    region\n) AS virtual_table\nGROUP BY\n  region\nORDER BY\n  total DESC\nLIMIT 1000"
)
SERIES = (
    "SELECT\n  category AS category,\n  DATE_TRUNC('MONTH', placed) AS placed,\n  COUNT(*) AS count\nFROM public.orders\n"
    "JOIN (\n  SELECT\n    category AS category__,\n    COUNT(*) AS mme_inner__\n  FROM public.orders\n  GROUP BY\n"
    "    category\n  ORDER BY\n    COUNT(*) DESC\n  LIMIT 3\n) AS series_limit\n  ON category = category__\nGROUP BY\n"
    "  category,\n  DATE_TRUNC('MONTH', placed)\nORDER BY\n  count DESC\nLIMIT 1000"
)
ROW_COUNT = f"SELECT\n  COUNT(*) AS rowcount\nFROM (\n{CATEGORIES}\n) AS rowcount_qry"
LIST = "SELECT\n  category AS category\nFROM public.orders\nGROUP BY\n  category\nORDER BY\n  category ASC\nLIMIT 1000"
ROWS = "SELECT\n  category AS category,\n  amount AS amount\nFROM public.orders\nLIMIT 1000"


@pytest.fixture
def db(served: Served) -> Iterator[Any]:
    """A connection as Superset makes one: psycopg2, and a search path before each query."""
    connection = psycopg2.connect(served.dsn())
    connection.cursor().execute('set search_path = "public"')
    yield connection
    connection.close()


def ask(db: Any, sql: str) -> list[tuple[Any, ...]]:
    with db.cursor() as cursor:
        cursor.execute(sql)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def free(db: Any) -> bool:
    """Did the last statement say that it was free?"""
    said = next(line for line in reversed(db.notices) if "free" in line or "cost:" in line)
    return "cost:" not in said


@pytest.mark.parametrize(("sql", "rows"), [(MONTHS, 12), (CATEGORIES, 5), (PERIOD, 3), (VIRTUAL, 4), (SERIES, 36)])
def test_a_chart_is_answered_and_its_refresh_is_free(db: Any, sql: str, rows: int) -> None:
    first = ask(db, sql)
    assert len(first) == rows
    del db.notices[:]
    assert ask(db, sql) == first
    assert free(db)


def test_the_count_of_a_charts_rows_is_charged_once(db: Any) -> None:
    """The chart lists all categories; only those that exist are counted, and that is another release."""
    ask(db, CATEGORIES)
    assert ask(db, ROW_COUNT) == [(5,)]
    del db.notices[:]
    assert ask(db, ROW_COUNT) == [(5,)]
    assert free(db)


def test_the_list_of_a_filter_is_free(db: Any) -> None:
    assert [row[0] for row in ask(db, LIST)] == ["books", "food", "garden", "music", "toys"]
    assert free(db)


def test_a_filter_on_a_group_that_was_drawn_is_free(db: Any) -> None:
    drawn = {row[0]: row for row in ask(db, CATEGORIES)}
    del db.notices[:]
    filtered = CATEGORIES.replace("GROUP BY", "WHERE\n  category IN ('music')\nGROUP BY")
    assert ask(db, filtered) == [drawn["music"]]
    assert free(db)


def test_the_pane_of_samples_is_refused_in_words(db: Any) -> None:
    with pytest.raises(psycopg2.errors.FeatureNotSupported, match="would list rows of orders, which are private"):
        ask(db, ROWS)


def test_what_superset_asks_about_its_own_connection(db: Any) -> None:
    assert isinstance(ask(db, "SELECT pg_backend_pid()")[0][0], int)
    assert ("shop",) in ask(db, "SELECT datname FROM pg_database WHERE datistemplate = false;")


def test_the_stop_button_ends_nobodys_connection(db: Any) -> None:
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        ask(db, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid='1'")
