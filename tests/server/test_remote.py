"""The Python door to a server: the same values, error bars, prices and refusals as the door to the file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal

import pandas as pd
import pytest
from served import PASSWORD, Served

import dpsql
from dpsql.interfaces.client.connection import RemoteConnection
from dpsql.interfaces.client.json_codec import pack, unpack

SQL = "SELECT region, count(*) AS n, avg(age) AS a, count(*) / 7 AS r FROM customers GROUP BY region ORDER BY region"


@pytest.fixture
def far(served: Served) -> Iterator[RemoteConnection]:
    address = f"dpsql://ana@127.0.0.1:{served.port}/shop"
    with dpsql.connect(address, password=PASSWORD, certificate=served.folder / "server.crt") as db:
        yield db


@pytest.fixture
def near(served: Served) -> Iterator[dpsql.Connection]:
    folder = served.folder
    with dpsql.connect(folder / "shop.duckdb", policy=folder / "policy.yaml", analyst="ana") as db:
        yield db


def test_both_doors_give_the_same_answer(far: RemoteConnection, near: dpsql.Connection) -> None:
    one, two = far.query(SQL), near.query(SQL)
    assert two.replayed
    assert (one.columns, one.types, one.fetchall()) == (two.columns, two.types, two.fetchall())
    assert [type(v) for row in one.fetchall() for v in row] == [type(v) for row in two.fetchall() for v in row]
    pd.testing.assert_frame_equal(one.df(), two.df())
    pd.testing.assert_frame_equal(one.quality, two.quality)
    exact = ["n_low", "n_high", "a_low", "a_high"]
    pd.testing.assert_frame_equal(one.intervals(0.9)[exact], two.intervals(0.9)[exact])
    assert list(one.intervals().columns) == list(two.intervals().columns)
    assert one.intervals(0.99, simultaneous=True)["n_high"][0] >= one.intervals(0.9)["n_high"][0]
    assert far.query(SQL).replayed and far.query(SQL).cost.epsilon == 0
    assert "±" in one._repr_html_()


def test_dates_decimals_and_parameters(far: RemoteConnection, near: dpsql.Connection) -> None:
    sql = "SELECT DISTINCT opened FROM stores ORDER BY 1" if "opened" in str(far.tables()) else "SELECT * FROM stores"
    assert far.query(sql).fetchall() == near.query(sql).fetchall()
    counted = far.query("SELECT count(*) AS n FROM orders WHERE placed >= ? AND status = ?", (date(2024, 6, 1), "paid"))
    named = "SELECT count(*) AS n FROM orders WHERE placed >= :day AND status = :status"
    again = near.query(named, {"day": date(2024, 6, 1), "status": "paid"})
    assert counted.fetchall() == again.fetchall() and again.replayed
    assert far.query(named, {"day": date(2024, 6, 1), "status": "paid"}).replayed


def test_the_text_arrives_as_it_was_written(far: RemoteConnection) -> None:
    text = 'it\'s \\ a "q" $1 -- ü 漢 \U0001f600 \n\t; end'
    assert far.query("SELECT ? AS x", (text,)).fetchall() == [(text,)]


def test_price_accuracy_explain_and_budget(far: RemoteConnection, near: dpsql.Connection) -> None:
    sql = "SELECT store_id, count(*) AS n FROM visits GROUP BY store_id"
    explained = far.explain(sql, epsilon=0.25)
    assert str(explained) == str(near.explain(sql, epsilon=0.25)) and explained.cost.epsilon == 0.25
    assert "laplace" in explained.alternatives and explained.sql
    before = far.budget()
    assert before == near.budget()
    assert far.query(sql, epsilon=0.25).cost.epsilon == 0.25
    assert far.budget() == near.budget() != before
    assert far.query(sql, accuracy=dpsql.Within(500)).notes is not None
    assert far.settle("SET dpsql.epsilon = 0.125")
    assert far.explain("SELECT count(*) FROM visits").cost.epsilon == 0.125
    with pytest.raises(dpsql.PolicyError, match="up to"):
        far.settle("SET dpsql.epsilon = 99")
    assert far.explain("SELECT count(*) FROM visits").cost.epsilon == 0.125


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT status, count(*) AS n, sum(amount) AS s, avg(amount) AS a FROM orders GROUP BY status",
        "SELECT city, count(*) AS n FROM customers GROUP BY city",
        "SELECT median(age) AS m, max(age) AS x FROM customers",
        "SELECT count(*) AS n FROM orders WHERE amount > (SELECT avg(amount) FROM orders)",
        "SELECT placed, count(*) AS n FROM orders GROUP BY placed",
        "SELECT count(*) AS n FROM stores",
    ],
)
@pytest.mark.parametrize("price", [{"epsilon": 0.25}, {"mechanism": "laplace"}])
def test_an_explanation_is_the_same_object(
    far: RemoteConnection, near: dpsql.Connection, sql: str, price: dict[str, float]
) -> None:
    """Releases with keys, statistics, bounds and origins, expected errors and alternatives; nothing is spent."""
    before = near.budget()
    one, two = far.explain(sql, **price), near.explain(sql, **price)
    assert (str(one), one.cost, one.sql, one.columns, one.nested) == (
        str(two),
        two.cost,
        two.sql,
        two.columns,
        two.nested,
    )
    assert one._repr_html_() == two._repr_html_()
    for mine, theirs in zip((one, *one.alternatives.values()), (two, *two.alternatives.values()), strict=True):
        assert mine.expected_error(0.9, n=500) == theirs.expected_error(0.9, n=500)
        for here, there in zip(mine.releases, theirs.releases, strict=True):
            assert (here.keys, here.statistics, here.aggregates, here.trees) == (
                there.keys, there.statistics, there.aggregates, there.trees,
            )  # fmt: skip
            for place in ("statistics", "choices"):
                pairs = zip(getattr(here, place), getattr(there, place), strict=True)
                assert all(a.expected_error(0.99) == b.expected_error(0.99) for a, b in pairs)
    assert near.budget() == before


def test_words_of_a_call_that_make_no_sense_are_refused_in_words(far: RemoteConnection, near: dpsql.Connection) -> None:
    before, told = far.budget(), far.explain("SELECT avg(age) FROM customers")
    for n in (1e300, -1, float("nan")):
        for explained in (told, near.explain("SELECT avg(age) FROM customers")):
            with pytest.raises(dpsql.InterfaceError, match="no expected error"):
                explained.expected_error(0.95, n=n)
    for text in ('{"decimal": "1e999999999"}', '{"decimal": "1e-999999999"}', '{"decimal": "sNaN"}', "[]", '"x"'):
        for word in ("epsilon", "accuracy", "parameters"):
            sql = "SELECT count(*) FROM customers WHERE age > ?"
            with pytest.raises(dpsql.Error) as refused:
                far._line.ask(f'SELECT dpsql.query(\'{{"sql": "{sql}", "{word}": {text}}}\')')
            assert "unexpectedly" not in str(refused.value), (word, text)
    assert far.budget() == before


def test_a_refusal_is_the_same_error_with_its_caret(far: RemoteConnection, near: dpsql.Connection) -> None:
    for sql in (
        "SELECT avg(tip)\nFROM nowhere",
        "SELECT * FROM orders",
        "SELECT nope FROM orders",
        "SELECT count(* FROM orders",
    ):
        said = []
        for db in (far, near):
            with pytest.raises(dpsql.Error) as refused:
                db.query(sql)
            said.append((type(refused.value), refused.value.message, refused.value.hint, refused.value.line))
        assert said[0] == said[1]
    with pytest.raises(dpsql.PolicyError):
        far.query(SQL, epsilon=99)


def test_a_cursor(far: RemoteConnection) -> None:
    cursor = far.cursor()
    cursor.execute("SET dpsql.epsilon = 0.5")
    cursor.execute(SQL)
    assert [row[0] for row in cursor.fetchall()] == ["east", "north", "south", "west"]
    assert cursor.description is not None and cursor.description[1][0] == "n"
    far.close()
    with pytest.raises(dpsql.InterfaceError, match="closed"):
        far.query(SQL)


def test_who_may_not_come_in(served: Served) -> None:
    at = f"@127.0.0.1:{served.port}"
    for user, dataset, word in (("ana", "shop", "wrong"), ("nobody", "shop", "wrong")):
        with pytest.raises(dpsql.OperationalError, match=word):
            dpsql.connect(f"dpsql://{user}{at}/{dataset}", password="not this one")
    with pytest.raises(dpsql.OperationalError, match='database "other" does not exist'):
        dpsql.connect(f"dpsql://ana{at}/other", password=PASSWORD)
    with pytest.raises(dpsql.OperationalError, match="no server"):
        dpsql.connect("dpsql://ana@127.0.0.1:1/shop", password=PASSWORD)
    with pytest.raises(dpsql.InterfaceError, match="not the address") as refused:
        dpsql.connect("dpsql://ana:secret@/shop", password=PASSWORD)
    assert "secret" not in str(refused.value)
    with pytest.raises(dpsql.InterfaceError, match="its own policy"):
        dpsql.connect(f"dpsql://ana{at}/shop", policy="policy.yaml")


def test_a_call_that_is_none_is_refused_and_free(far: RemoteConnection) -> None:
    before = far.budget()
    for text in (
        "",
        "{}",
        "[]",
        "nonsense",
        '{"sql": 3}',
        '{"sql": "SELECT 1", "parameters": {"bad": 1}}',
        '{"number": 7}',
        '{"sql": null, "mechanism": {"decimal": "NaN"}}',
        '{"sql": "SELECT count(*) FROM customers", "dialect": 1e308}',
        '{"sql": "SELECT count(*) FROM customers", "delta": {"map": []}}',
        '{"sql": "SELECT count(*) FROM customers", "asked": {"tuple": [null, null, 1]}}',
    ):
        for call in ("query", "explain", "intervals"):
            with pytest.raises(dpsql.Error) as refused:
                far._line.ask(f"SELECT dpsql.{call}('{text}')")
            assert "fault of dpsql" not in str(refused.value), text
    assert far.budget() == before


VALUES = [None, True, 3, -(2**100), "é'\"", 1.5, float("inf"), Decimal("1.50"), date(2024, 1, 1), datetime(2024, 1, 1, 1, 2, 3, 4),
          time(1, 2), timedelta(days=3, microseconds=5), b"\0\xff", [1, [date(2024, 1, 1)]], (1, "a"), {"a": Decimal(1)}]  # fmt: skip


def test_values_survive_the_way() -> None:
    import json

    for value in VALUES:
        again = unpack(json.loads(json.dumps(pack(value))))
        assert again == value and type(again) is type(value)
    for hostile in ({"x": 1}, {}, {"date": 3}, {"decimal": "x"}, {"map": 3}, {"within": []}):
        with pytest.raises((ValueError, dpsql.Error)):
            unpack(hostile)
