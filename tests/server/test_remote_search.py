"""A server whose policy searches: every door explains and answers as the one to the file, before a search and after."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import psycopg
import pytest
import sqlalchemy as sa
from served import PASSWORD, Served, run, start, stop

import dpsql
from dpsql.answers.explain import Explanation
from dpsql.interfaces.cli.demo import make_shop
from dpsql.interfaces.client.connection import RemoteConnection, RemoteExplanation

QUERIES = {
    "clip": "SELECT status, count(*) AS n, sum(amount) AS s FROM orders GROUP BY status ORDER BY status",
    "centre": "SELECT store_id, avg(minutes) AS a, sum(minutes) AS s FROM visits GROUP BY store_id ORDER BY store_id",
    "bounds": "SELECT sum(tip) AS s, avg(tip) AS a FROM orders",
    "private keys": "SELECT city, count(*) AS n FROM customers GROUP BY city ORDER BY city",
    "distinct": "SELECT count(DISTINCT customer_id) AS c, count(DISTINCT category) AS d FROM orders",
    "levels": "SELECT status, category, count(*) AS n FROM orders GROUP BY ROLLUP (status, category) ORDER BY ALL",
    "nested": "SELECT count(*) AS n FROM orders WHERE amount > (SELECT avg(amount) FROM orders)",
    "chosen": "SELECT median(age) AS m, max(age) AS x, count(*) AS n FROM customers",
}


SURE = 1.0
"""At this price each search sees the shop's customers: the noise of the server's process is not seeded."""


@pytest.fixture(scope="module")
def searching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("searching")
    make_shop(folder)
    policy = folder / "policy.yaml"
    text = policy.read_text().replace("analysts: {demo: {epsilon: 5}, ana: {epsilon: 5}}", "analysts: {ana: {}}")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("search:"))
    policy.write_text(text.replace("epsilon: 10 ", "epsilon: 10000 ") + "\nsearch: true\n")
    run(folder, "user", "add", "ana", "--password-stdin", stdin=PASSWORD + "\n")
    served = start(folder)
    yield served
    stop(served)


@pytest.fixture
def far(searching: Served) -> Iterator[RemoteConnection]:
    address = f"dpsql://ana@127.0.0.1:{searching.port}/shop"
    with dpsql.connect(address, password=PASSWORD, certificate=searching.folder / "server.crt") as db:
        yield db


@pytest.fixture
def near(searching: Served) -> Iterator[dpsql.Connection]:
    folder = searching.folder
    with dpsql.connect(folder / "shop.duckdb", policy=folder / "policy.yaml", analyst="ana") as db:
        yield db


def explained(far: RemoteConnection, near: dpsql.Connection, sql: str, **price: Any) -> RemoteExplanation:
    """The remote explanation, after it was compared with the local one; nothing is spent."""
    before = near.budget()
    one, two = far.explain(sql, **price), near.explain(sql, **price)
    compare(one, two)
    assert list(one.alternatives) == list(two.alternatives)
    for name, other in one.alternatives.items():
        compare(other, two.alternatives[name])
    assert near.budget() == before == far.budget()
    return one


def compare(one: Explanation, two: Explanation) -> None:
    assert (str(one), one._repr_html_(), one.sql) == (str(two), two._repr_html_(), two.sql)
    assert (one.cost, one.mechanism, one.columns, one.types) == (two.cost, two.mechanism, two.columns, two.types)
    assert (one.notes, one.remark, one.nested, one.finishing) == (two.notes, two.remark, two.nested, two.finishing)
    for words in ({}, {"confidence": 0.9, "n": 500}):
        assert one.expected_error(**words) == two.expected_error(**words)
    for here, there in zip(one.releases, two.releases, strict=True):
        assert (here.clips, here.keys, here.statistics, here.aggregates, here.trees) == (
            there.clips, there.keys, there.statistics, there.aggregates, there.trees,
        )  # fmt: skip
        assert (here.table, here.rule, here.rows_per_unit, here.groups, here.threshold, here.stage, here.apart) == (
            there.table, there.rule, there.rows_per_unit, there.groups, there.threshold, there.stage, there.apart,
        )  # fmt: skip
        for place in ("statistics", "choices"):
            pairs = zip(getattr(here, place), getattr(there, place), strict=True)
            assert all(a.expected_error(0.99) == b.expected_error(0.99) for a, b in pairs)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("name", QUERIES)
def test_explanations_and_answers_are_the_same_before_a_search_and_after(
    far: RemoteConnection, near: dpsql.Connection, name: str, mechanism: str
) -> None:
    sql, price = QUERIES[name], {"mechanism": mechanism, "epsilon": SURE}
    before = explained(far, near, sql, **price)
    one = far.query(sql, **price)
    two = near.query(sql, **price)
    assert not one.replayed and two.replayed and one.cost.rho <= before.cost.rho
    assert (one.columns, one.types, one.notes) == (two.columns, two.types, two.notes)
    pd.testing.assert_frame_equal(one.df(), two.df())
    pd.testing.assert_frame_equal(one.intervals(0.9), two.intervals(0.9))
    after = explained(far, near, sql, **price)
    assert "first a private search" not in str(after)
    clips = [clip for release in after.releases for clip in release.clips]
    if clips:  # a level of a ROLLUP that an earlier release answers needs no search
        assert any(clip.units is not None for clip in clips)
        assert "first a private search" in str(before)
        assert "found by a private search" in after._repr_html_()
    assert far.query(sql, **price).replayed


def test_other_doors_see_the_same_search(searching: Served, far: RemoteConnection, near: dpsql.Connection) -> None:
    sql, folder = "SELECT category, sum(amount) AS s FROM orders GROUP BY category ORDER BY category", searching.folder
    answer = far.query(sql)
    text, rows = str(near.explain(sql)), answer.fetchall()
    assert "found by a private search" in text
    cursor = far.cursor()
    cursor.execute(sql)
    assert cursor.fetchall() == rows
    with psycopg.connect(searching.dsn()) as raw:
        assert "\n".join(line for (line,) in raw.execute(f"EXPLAIN {sql}")) == text
        assert [(key, float(s)) for key, s in raw.execute(sql)] == rows
    engine = sa.create_engine(f"dpsql:///{folder}/shop.duckdb?analyst=ana")
    with engine.connect() as db:
        assert [tuple(row) for row in db.execute(sa.text(sql))] == rows
    assert run(folder, "explain", "shop.duckdb", sql, "--analyst", "ana").rstrip("\n") == text
    said = json.loads(run(folder, "query", "shop.duckdb", sql, "--analyst", "ana", "--format", "json"))
    assert said["replayed"] and [tuple(row) for row in said["rows"]] == rows and tuple(said["notes"]) == answer.notes


def test_the_steward_sees_what_was_searched(searching: Served, far: RemoteConnection) -> None:
    far.query(QUERIES["bounds"])
    far.query(QUERIES["centre"])
    folder: Path = searching.folder
    said = run(folder, "bounds", "shop.duckdb").splitlines()
    assert any(line.startswith("tables.orders.columns.tip: {min: 0, max: ") for line in said), said
    assert any(line.startswith("# tables.visits.columns.minutes: most values lie in 0 to ") for line in said), said
    place = said.index(f"# a search for the best clip of: {QUERIES['bounds']}")
    assert said[place + 1].startswith("#   the clip was found by a private search: of about ")
