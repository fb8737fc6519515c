"""Real clients against a real server, over TLS and with SCRAM: each asks, prepares, fetches and is refused in its way."""

from __future__ import annotations

import asyncio
import re
import shutil
import ssl
import subprocess
from datetime import date
from typing import Any

import asyncpg
import pandas as pd
import pg8000.dbapi
import psycopg
import psycopg2
import pytest
import sqlalchemy as sa
from served import PASSWORD, Served

BY_REGION = "SELECT region, count(*) AS n, avg(age) AS age FROM customers GROUP BY region ORDER BY region"
OLDER = "SELECT count(*) AS n FROM customers WHERE age > %s AND region = %s"


def _regions(rows: Any) -> list[str | None]:
    assert all(isinstance(n, int) and isinstance(age, float | None) for _, n, age in rows)
    return [row[0] for row in rows]


def test_psycopg_asks_in_text_and_binary_and_gets_the_same(served: Served) -> None:
    with psycopg.connect(served.dsn()) as db:
        assert db.pgconn.ssl_in_use
        text = db.execute(BY_REGION).fetchall()
        binary = db.execute(BY_REGION, binary=True).fetchall()
        assert text == binary
        assert _regions(text) == ["east", "north", "south", "west"]


def test_psycopg_prepares_with_parameters(served: Served) -> None:
    with psycopg.connect(served.dsn(), prepare_threshold=1) as db:
        answers = {db.execute(OLDER, (40, "north")).fetchone() for _ in range(7)}
        assert len(answers) == 1
        assert db.execute("SELECT count(*) FROM orders WHERE placed >= %s", (date(2025, 1, 1),), binary=True).fetchone()


def test_psycopg_points_at_the_clause(served: Served) -> None:
    with psycopg.connect(served.dsn(), autocommit=True) as db:
        with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
            db.execute("SELECT avg(CAST(city AS DOUBLE PRECISION)) FROM customers")
        assert refused.value.diag.statement_position == "17"
        assert "least(greatest(" in (refused.value.diag.message_hint or "")
        with pytest.raises(psycopg.errors.UndefinedColumn):
            db.execute("SELECT sum(nope) FROM orders")
        with pytest.raises(psycopg.errors.UndefinedTable):
            db.execute("SELECT count(*) FROM nope")
        with pytest.raises(psycopg.errors.FeatureNotSupported), db.cursor().copy("COPY customers TO STDOUT") as copy:
            copy.read()
        assert db.execute("SELECT 1").fetchone() == (1,)


def test_psycopg_transactions_end_as_they_should(served: Served) -> None:
    with psycopg.connect(served.dsn()) as db:
        with pytest.raises(psycopg.Error), db.transaction():
            db.execute("SELECT nope FROM customers")
        assert db.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        with db.transaction():
            assert db.execute("SELECT count(*) FROM customers").fetchone()
        with pytest.raises(psycopg.Error):
            db.execute("SELECT nope FROM customers")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            db.execute("SELECT 1")
        db.rollback()
        assert db.execute("SELECT 1").fetchone() == (1,)


def test_psycopg_async_and_a_server_side_cursor_of_rows(served: Served) -> None:
    async def ask() -> list[Any]:
        async with await psycopg.AsyncConnection.connect(served.dsn()) as db:
            return await (await db.execute(BY_REGION)).fetchall()

    assert _regions(asyncio.run(ask()))


def test_cost_comes_as_a_notice_and_a_repetition_is_free(served: Served) -> None:
    said: list[str] = []
    with psycopg.connect(served.dsn(), autocommit=True) as db:
        db.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
        db.execute("SET dpsql.epsilon = 0.125")
        sql = "SELECT status, count(*) FROM orders GROUP BY status"
        one = db.execute(sql).fetchall()
        assert re.fullmatch(r"cost: [0-9.]+% of your budget; left: [0-9.]+%", said[0])
        said.clear()
        assert db.execute(sql).fetchall() == one
        assert said[0] == "replayed: free"


def test_over_budget_a_client_reads_a_clear_message(served: Served) -> None:
    with psycopg.connect(served.dsn("bob"), autocommit=True) as db:
        db.execute("SET dpsql.epsilon = 0.8")
        db.execute("SELECT count(*) FROM visits")
        with pytest.raises(
            psycopg.errors.ConfigurationLimitExceeded, match=r"over the privacy budget: .* left for bob"
        ):
            db.execute("SELECT avg(minutes) FROM visits")


def test_psycopg2(served: Served) -> None:
    with psycopg2.connect(served.dsn()) as db, db.cursor() as cursor:
        cursor.execute(OLDER, (40, "north"))
        assert isinstance(cursor.fetchone()[0], int)
        cursor.execute(BY_REGION)
        assert _regions(cursor.fetchall())


def test_asyncpg_prepares_introspects_and_fetches_binary(served: Served) -> None:
    async def ask() -> None:
        context = ssl.create_default_context(cafile=str(served.folder / "server.crt"))
        context.check_hostname = False
        db = await asyncpg.connect(
            host="127.0.0.1", port=served.port, user="ana", password=PASSWORD, database="shop", ssl=context
        )
        try:
            assert _regions([tuple(row) for row in await db.fetch(BY_REGION)])
            statement = await db.prepare("SELECT count(*) AS n FROM customers WHERE age > $1 AND region = $2")
            assert [p.name for p in statement.get_parameters()] == ["int4", "text"]
            assert [a.name for a in statement.get_attributes()] == ["n"]
            assert isinstance(await statement.fetchval(40, "north"), int)
            async with db.transaction():
                rows = [row async for row in db.cursor(BY_REGION, prefetch=2)]
            assert len(rows) == 4
            with pytest.raises(asyncpg.FeatureNotSupportedError):
                await db.fetch("SELECT * FROM customers")
        finally:
            await db.close()

    asyncio.run(ask())


def test_pg8000(served: Served) -> None:
    context = ssl.create_default_context(cafile=str(served.folder / "server.crt"))
    context.check_hostname = False
    with pg8000.dbapi.connect(
        "ana", host="127.0.0.1", port=served.port, database="shop", password=PASSWORD, ssl_context=context
    ) as db:
        cursor = db.cursor()
        cursor.execute(OLDER, (40, "north"))
        assert isinstance(cursor.fetchone()[0], int)
        cursor.execute(BY_REGION)
        assert _regions(cursor.fetchall())


def test_sqlalchemy_reflects_and_pandas_reads(served: Served) -> None:
    engine = sa.create_engine(
        f"postgresql+psycopg://ana:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{served.port}/shop?sslmode=require"
    )
    inspector = sa.inspect(engine)
    assert set(inspector.get_table_names()) == {"customers", "orders", "visits", "stores"}
    assert {c["name"] for c in inspector.get_columns("orders")} >= {"customer_id", "amount", "placed"}
    assert inspector.get_pk_constraint("orders")["constrained_columns"] == []
    orders = sa.Table("orders", sa.MetaData(), autoload_with=engine)
    chosen = sa.select(orders.c.status, sa.func.count().label("n"), sa.func.sum(orders.c.amount)).group_by(
        orders.c.status
    )
    frame = pd.read_sql(chosen, engine)
    assert list(frame.columns)[:2] == ["status", "n"] and len(frame) == 3
    engine.dispose()


def _psql(served: Served, command: str) -> subprocess.CompletedProcess[str]:
    words = ["psql", served.dsn(), "-X", "-c", command]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed (Debian: postgresql-client)")
@pytest.mark.parametrize(
    ("command", "words"),
    [
        (BY_REGION, "north"), ("\\d", "customers"), ("\\dt", "orders"), ("\\d orders", "amount"), ("\\d+ orders", "the unit"),
        ("\\dn", "public"), ("\\df", "Name"), ("\\l", "shop"), ("\\conninfo", "shop"), ("\\du", "analyst"), ("\\dv", ""),
        ("\\di", ""), ("\\dt+", "private"), ("EXPLAIN SELECT count(*) FROM orders", "cost"),
        ("SELECT version()", "PostgreSQL"), ("SHOW server_version", "16"), ("BEGIN; SELECT 1; COMMIT", "1"),
    ],
)  # fmt: skip
def test_psql(served: Served, command: str, words: str) -> None:
    done = _psql(served, command)
    assert done.returncode == 0, done.stderr
    assert words in done.stdout


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed (Debian: postgresql-client)")
def test_psql_shows_where_and_what_to_do(served: Served) -> None:
    done = _psql(served, "SELECT avg(CAST(city AS DOUBLE PRECISION))\nFROM customers")
    assert done.returncode == 1
    assert "LINE 1: SELECT avg(CAST(city AS DOUBLE PRECISION))\n                        ^" in done.stderr
    assert "HINT:" in done.stderr


def test_a_wrong_password_and_an_unknown_user_look_the_same(served: Served) -> None:
    said = []
    for user, password in (("ana", "wrong password"), ("nobody", "wrong password")):
        with pytest.raises(psycopg.OperationalError) as refused:
            psycopg.connect(served.dsn(user, password=password))
        said.append(str(refused.value).partition("FATAL")[2].replace(user, "NAME"))
    assert said[0] == said[1]
    assert 'password authentication failed for user "NAME"' in said[0]
    assert "the name or the password is wrong" in said[0]
