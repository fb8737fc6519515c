"""`now()` and its relatives: bound once for each question, and part of what is stored and replayed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import duckdb
import pytest

import dpsql
from dpsql.plan.clock import MOMENT_NOTE

NOON = datetime(2026, 7, 15, 12, 34, 56, 789)
POLICY = {
    "dataset": "d",
    "budget": {"epsilon": 1e9},
    "limits": {"epsilon": 1e8},
    "tables": {"t": {"unit": "u", "unique": True, "columns": {"at": {"min": "2026-01-01", "max": "2026-12-31"}}}},
    "views": {"recent": "SELECT u FROM t WHERE at >= current_date - INTERVAL 7 DAY"},
}
EPSILON = 1e6


@pytest.fixture(name="db")
def _db() -> Iterator[dpsql.Connection]:
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.execute(
        "CREATE TABLE t AS SELECT i AS u, TIMESTAMP '2026-01-01' + INTERVAL (i) HOUR AS at FROM range(8000) r(i)"
    )
    con.execute("INSERT INTO t VALUES (9000, NULL), (NULL, TIMESTAMP '2026-07-15')")
    with dpsql.connect(con, policy=POLICY, ledger=":memory:") as opened:
        opened.clock = lambda: NOON
        yield opened


@pytest.mark.parametrize(
    ("clock", "since"),
    [
        ("now() - INTERVAL 30 DAY", NOON - timedelta(days=30)),
        ("current_timestamp", NOON),
        ("localtimestamp - INTERVAL '1 day 2 hours'", NOON - timedelta(hours=26)),
        ("now() AT TIME ZONE 'UTC'", NOON),
        ("current_date", datetime(2026, 7, 15)),
        ("today() - 7", datetime(2026, 7, 8)),
        ("date_trunc('month', now()) - INTERVAL 1 MONTH", datetime(2026, 6, 1)),
        ("CAST((NOW() + INTERVAL '-30 day') AS date)", datetime(2026, 6, 15)),
        ("transaction_timestamp() - 2 * INTERVAL 1 WEEK", NOON - timedelta(days=14)),
    ],
)
def test_the_clock_is_a_constant_of_the_question(db: dpsql.Connection, clock: str, since: datetime) -> None:
    wanted = db.query(f"SELECT count(*) FROM t WHERE at >= TIMESTAMP '{since}'", epsilon=EPSILON).fetchall()
    plain = [(pytest.approx(8000 - -(-(since - datetime(2026, 1, 1)) // timedelta(hours=1)), abs=1),)]
    got = db.query(f"SELECT count(*) FROM t WHERE at >= {clock}", epsilon=EPSILON).fetchall()
    assert got == plain and wanted == plain


def test_columns_keep_their_names(db: dpsql.Connection) -> None:
    result = db.query("SELECT current_date, count(*), now() FROM t", epsilon=EPSILON)
    assert result.columns == ("CURRENT_DATE", "count(*)", "now()")
    assert result.fetchall()[0][::2] == (NOON.date(), NOON)


def test_the_moment_is_part_of_what_is_replayed(db: dpsql.Connection) -> None:
    def replayed(clock: str) -> bool:
        return db.query(f"SELECT count(*) FROM t WHERE at < {clock}", epsilon=EPSILON).replayed

    assert [replayed("now()"), replayed("now()")] == [False, True]
    assert [replayed("current_date"), replayed("TIMESTAMP '2026-07-15 12:34:56.000789'")] == [False, True]
    db.clock = lambda: NOON + timedelta(hours=1)
    assert [replayed("now()"), replayed("current_date")] == [False, True]
    db.clock = lambda: NOON + timedelta(days=1)
    assert not replayed("current_date")


def test_one_question_has_one_moment_however_often_it_is_planned(db: dpsql.Connection) -> None:
    ticks = iter(range(10**6))
    db.clock = lambda: NOON + timedelta(hours=next(ticks))
    db.query("SELECT count(*) FROM t WHERE at BETWEEN now() AND now()", epsilon=EPSILON)
    assert next(ticks) == 1


def test_a_note_says_that_now_is_another_question_each_time(db: dpsql.Connection) -> None:
    def noted(clock: str) -> bool:
        return MOMENT_NOTE in db.query(f"SELECT count(*) FROM t WHERE at < {clock}", epsilon=EPSILON).notes

    assert noted("now()") and noted("now() - INTERVAL 1 DAY")
    assert not noted("current_date") and not noted("date_trunc('day', now() - INTERVAL 1 DAY)")


def test_a_view_reads_the_clock_of_the_question(db: dpsql.Connection) -> None:
    [(week,)] = db.query("SELECT count(*) FROM recent", epsilon=EPSILON).fetchall()
    db.clock = lambda: NOON + timedelta(days=90)
    [(later,)] = db.query("SELECT count(*) FROM recent", epsilon=EPSILON).fetchall()
    assert (week, later) == (pytest.approx(8000 - 188 * 24, abs=1), pytest.approx(8000 - 278 * 24, abs=1))


@pytest.mark.parametrize("clock", ["random()", "current_time", "clock_timestamp()", "current_timestamp(3)"])
def test_what_is_not_known_of_the_clock_is_refused(db: dpsql.Connection, clock: str) -> None:
    with pytest.raises(dpsql.UnsupportedQuery):
        db.explain(f"SELECT count(*) FROM t WHERE {clock} IS NOT NULL")
